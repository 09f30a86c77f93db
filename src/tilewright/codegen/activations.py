"""Activations in float32 that cost less as a whole than by their parts, as facts for code generators: GELU, 1 + erf(x), 1 + tanh(x),
x * sigmoid(x) (SiLU).

The sum's rounding hides what an exact erf or tanh would take pains over.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from tilewright.ir import FloatImm, PrimExpr
from tilewright.tir import Add, Broadcast, Call, Div, Mul


class OnePlus(NamedTuple):
    """1 + function(argument / divisor); function: "erf" or "tanh"."""

    function: str
    argument: PrimExpr
    divisor: float


class Gelu(NamedTuple):
    """A product of 1 + erf(x / sqrt(2)) and other factors: expressions, and the product of the constants."""

    x: PrimExpr
    others: list[PrimExpr]
    constant: float


class TimesSigmoid(NamedTuple):
    """factor * sigmoid(argument); call: the sigmoid."""

    factor: PrimExpr
    argument: PrimExpr
    call: Call


def one_plus(e: Any) -> OnePlus | None:
    """An addition of 1 and erf or tanh."""
    if (angle := _beside_one(e, "tanh")) is not None:
        return OnePlus("tanh", angle, 1.0)
    x = _beside_one(e, "erf")
    if x is None:
        return None
    by = _constant(x.b) if type(x) is Div else None
    # An ulp of the argument is less than one of the sum.
    return OnePlus("erf", x.a, by) if by else OnePlus("erf", x, 1.0)


def gelu(e: Any) -> Gelu | None:
    """A product of which one factor is that of GELU; whether another is its argument is for those to say who know what is equal."""
    factors = _factors(e)
    sums = [f for f in factors if _beside_one(f, "erf") is not None]
    x = _over_root_of_two(_beside_one(sums[0], "erf")) if len(sums) == 1 else None
    if x is None:
        return None
    rest = [(f, _constant(f)) for f in factors if f is not sums[0]]
    return Gelu(x, [f for f, c in rest if c is None], prod([c for _, c in rest if c is not None]))


def times_sigmoid(e: Any) -> TimesSigmoid | None:
    """A product of which one factor is a sigmoid."""
    for call, other in ((e.a, e.b), (e.b, e.a)):
        if type(call) is Call and call.intrinsic == "sigmoid":
            return TimesSigmoid(other, call.args[0], call)
    return None


def _constant(e: PrimExpr) -> float | None:
    value = e.value if isinstance(e, Broadcast) else e
    return value.value if isinstance(value, FloatImm) else None


def _factors(e: Any) -> list[Any]:
    return [*_factors(e.a), *_factors(e.b)] if type(e) is Mul else [e]


def _beside_one(e: Any, function: str) -> Any:
    """The argument of a function in a sum of it and 1; None for other expressions."""
    if type(e) is Add:
        for call, other in ((e.a, e.b), (e.b, e.a)):
            if type(call) is Call and call.intrinsic == function and _constant(other) == 1.0:
                return call.args[0]
    return None


def _over_root_of_two(e: Any) -> Any:
    """What is divided by the root of two, as exact as a float is; None for other expressions."""
    by = _constant(e.b) if type(e) in (Mul, Div) else None
    if by and abs((by if type(e) is Div else 1 / by) - 2**0.5) < 2e-7:
        return e.a
    return None


__all__ = ["Gelu", "OnePlus", "TimesSigmoid", "gelu", "one_plus", "times_sigmoid"]
