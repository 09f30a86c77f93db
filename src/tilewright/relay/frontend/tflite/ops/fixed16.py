"""Functions of 16-bit fixed-point numbers in the steps of TFLite's LSTM (gemmlowp's), on tensors of int32.

A number with b integer bits is x / 2**(15 - b). Products round to the nearest, halves upwards; sums of the last step saturate.
"""

from __future__ import annotations

from tilewright.relay.frontend.tflite.node import Node, Value
from tilewright.relay.frontend.tflite.ops.fixed import halved

ONE = 32767
EXPONENTS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2**k) for k from -2 to 4, as fractions of 31 bits."""


def of16(fraction: int) -> int:
    """A fraction of 31 bits as one of 15."""
    size = (abs(fraction) + (1 << 15)) >> 16
    return size if fraction >= 0 else -size


def clipped(node: Node, x: Value, low: int = -32768, high: int = ONE) -> Value:
    """x within 16 bits."""
    return node.call("clip", x, a_min=float(low), a_max=float(high))


def product(node: Node, a: Value, b: Value | int) -> Value:
    """a * b / 2**15, rounded to the nearest."""
    return node.call("right_shift", node.call("add", node.call("multiply", a, b), 1 << 14), 15)


def exp_of_negative(node: Node, a: Value, bits: int) -> Value:
    """exp of numbers with so many integer bits that are not positive; the result has none."""
    fraction = 15 - bits
    quarter = 1 << (fraction - 2)
    low = node.call("subtract", node.call("bitwise_and", a, quarter - 1), quarter)
    made = _exp_of_quarter(node, node.call("left_shift", low, bits) if bits else low)
    rest = node.call("subtract", low, a)
    for exponent, factor in enumerate(EXPONENTS, -2):
        if bits > exponent:
            chosen = node.call("not_equal", node.call("bitwise_and", rest, 1 << (fraction + exponent)), 0)
            made = node.call("where", chosen, product(node, made, of16(factor)), made)
    if bits > 5:
        made = node.call("where", node.call("less", a, -(1 << (20 - bits))), node.number(0, "int32"), made)
    return node.call("where", node.call("equal", a, 0), node.number(ONE, "int32"), made)


def _exp_of_quarter(node: Node, a: Value) -> Value:
    """exp of numbers in [-1/4, 0) without integer bits, by its series around -1/8."""
    middle, third = of16(1895147668), of16(715827883)
    x = node.call("add", a, 1 << 12)
    x2 = product(node, x, x)
    x3, x4 = product(node, x2, x), product(node, x2, x2)
    inner = node.call("add", product(node, node.call("add", halved(node, x4, 2), x3), third), x2)
    whole = product(node, node.call("add", x, halved(node, inner, 1)), middle)
    return node.call("minimum", node.call("add", whole, middle), ONE)


def _inverse(node: Node, a: Value) -> Value:
    """2 / (1 + a) for a in [0, 1], with two integer bits, by three steps of Newton's iteration."""
    half = node.call("right_shift", node.call("add", a, ONE + 1), 1)
    x = node.call("add", product(node, half, of16(-1010580540)), of16(1515870810))
    for _ in range(3):
        error = node.call("subtract", node.number(1 << 13, "int32"), product(node, half, x))
        x = node.call("add", x, clipped(node, node.call("left_shift", product(node, x, error), 2)))
    return x


def _negative_size(node: Node, a: Value) -> Value:
    return node.call("minimum", a, node.call("negative", a))


def logistic(node: Node, a: Value) -> Value:
    """1 / (1 + exp(-a)) of numbers with three integer bits; the result has none."""
    inverse = _inverse(node, exp_of_negative(node, _negative_size(node, a), 3))
    up = clipped(node, node.call("left_shift", inverse, 1))
    made = node.call("where", node.call("greater", a, 0), up, node.call("subtract", node.number(ONE, "int32"), up))
    return node.call("where", node.call("equal", a, 0), node.number(1 << 14, "int32"), made)


def tanh(node: Node, a: Value, bits: int) -> Value:
    """tanh of numbers with so many integer bits; the result has none."""
    inverse = _inverse(node, exp_of_negative(node, _negative_size(node, a), bits + 1))
    size = clipped(node, node.call("left_shift", node.call("subtract", inverse, 1 << 13), 2))
    made = node.call("where", node.call("less", a, 0), node.call("negative", size), size)
    return node.call("where", node.call("equal", a, 0), node.number(0, "int32"), made)


__all__ = ["ONE", "clipped", "logistic", "product", "tanh"]
