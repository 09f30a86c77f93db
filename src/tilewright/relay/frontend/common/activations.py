"""Activation functions of floats as frameworks define them, in forms that do not overflow."""

from __future__ import annotations

import math

from tilewright.relay.frontend.common import near_zero
from tilewright.relay.frontend.common.builder import Builder, Operand
from tilewright.relay.frontend.common.value import Value

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
"""Klambauer et al., Self-Normalizing Neural Networks, 2017."""


def softplus(c: Builder, x: Value) -> Value:
    """log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|))."""
    return c.call("add", c.call("nn.relu", x), near_zero.log1p(c, _decay(c, x)))


def log_sigmoid(c: Builder, x: Value) -> Value:
    """-softplus(-x)."""
    return c.call("subtract", c.call("minimum", x, 0), near_zero.log1p(c, _decay(c, x)))


def _decay(c: Builder, x: Value) -> Value:
    return c.call("exp", c.call("negative", c.call("abs", x)))


def mish(c: Builder, x: Value) -> Value:
    """x tanh(softplus(x)); Misra, Mish, 2019."""
    return c.call("multiply", x, c.call("tanh", softplus(c, x)))


def elu(c: Builder, x: Value, alpha: Operand = 1.0, scale: float = 1.0, steepness: float = 1.0) -> Value:
    """scale x where x > 0, else scale alpha (exp(steepness x) - 1)."""
    below = c.call("minimum", x, 0)
    power = c.call("exp", below if steepness == 1 else c.call("multiply", below, steepness))
    below = c.call("subtract", power, 1)
    below = below if not isinstance(alpha, Value) and alpha == 1 else c.call("multiply", below, alpha)
    out = c.call("where", c.call("greater", x, 0), x, below)
    return out if scale == 1 else c.call("multiply", out, scale)


def selu(c: Builder, x: Value, alpha: float = SELU_ALPHA, scale: float = SELU_SCALE) -> Value:
    """`elu` whose factors keep mean and variance."""
    return elu(c, x, alpha, scale)


def gelu(c: Builder, x: Value, approximate: bool = False) -> Value:
    """x times the normal distribution's integral up to x; approximate: by tanh (Hendrycks and Gimpel, 2016)."""
    if approximate:
        cube = c.call("multiply", c.call("multiply", x, x), x)
        inner = c.call("add", x, c.call("multiply", cube, 0.044715))
        share = c.call("tanh", c.call("multiply", inner, math.sqrt(2 / math.pi)))
    else:
        share = c.call("erf", c.call("multiply", x, math.sqrt(0.5)))
    return c.call("multiply", c.call("multiply", x, 0.5), c.call("add", share, 1))


def silu(c: Builder, x: Value) -> Value:
    """x sigmoid(x)."""
    return c.call("multiply", x, c.call("sigmoid", x))


def softsign(c: Builder, x: Value) -> Value:
    """x / (1 + |x|)."""
    return c.call("divide", x, c.call("add", c.call("abs", x), 1))
