"""exp(x) - 1 and log(1 + x) of floats, in forms that keep their digits near zero, where the plain differences cancel."""

from __future__ import annotations

from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.value import Value


def expm1(c: Builder, x: Value) -> Value:
    """exp(x) - 1; near zero 2 sinh(x/2) exp(x/2), which does not cancel."""
    half = c.call("multiply", x, 0.5)
    near = c.call("multiply", c.call("multiply", c.call("sinh", half), 2), c.call("exp", half))
    return c.call("where", c.call("less", c.call("abs", x), 0.5), near, c.call("subtract", c.call("exp", x), 1))


def log1p(c: Builder, x: Value) -> Value:
    """log(1 + x): log(1 + x) * x / ((1 + x) - 1) with a rounded divisor (Goldberg, 1991, theorem 4); x if it is 0; the plain form for
    large x."""
    whole = c.call("add", x, 1)
    kept = c.call("subtract", whole, 1)
    plain = c.call("log", whole)
    nothing = c.call("equal", kept, 0)
    safe = c.call("where", nothing, c.number(1, x.dtype), kept)
    exact = c.call("where", nothing, x, c.call("multiply", plain, c.call("divide", x, safe)))
    return c.call("where", c.call("less", c.call("abs", x), 1), exact, plain)
