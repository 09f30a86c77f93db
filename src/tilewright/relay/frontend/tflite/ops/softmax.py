"""Softmax and L2 normalisation of quantised numbers, in the fixed-point steps of TFLite's reference kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.relay.frontend.tflite.node import Node, Value
from tilewright.relay.frontend.tflite.ops.fixed import Whole, divided, high_product
from tilewright.relay.frontend.tflite.ops.quantized import limits, multiplier, need_single, out_quant


def exp_of_negative(x: Whole) -> Whole:
    """exp of non-positive fixed-point numbers with five integer bits; the results have none (x / 2**26 -> y / 2**31)."""
    quarter = 1 << 24
    remainder = (x & (quarter - 1)) - quarter
    y = _exp_of_quarter(remainder << 5)
    rest = remainder - x
    for exponent, factor in zip(
        range(-2, 5), (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242), strict=True
    ):
        y = np.where(rest & (1 << (26 + exponent)), high_product(y, factor), y)
    return np.where(x == 0, (1 << 31) - 1, y)


def _exp_of_quarter(a: Whole) -> Whole:
    """exp of fixed-point numbers in [-1/4, 0), by its series around -1/8."""
    one_eighth = 1 << 28
    x = a + one_eighth
    x2 = high_product(x, x)
    x3 = high_product(x2, x)
    x4 = high_product(x2, x2)
    x4_by_4 = divided(x4, 2)
    third = 715827883
    inner = divided(high_product(x4_by_4 + x3, third) + x2, 1)
    return 1895147668 + high_product(1895147668, x + inner)


def softmax8(node: Node, x: Value, beta: float) -> Value:
    """Softmax of bytes along the last axis."""
    (source,) = need_single(node, x)
    real = min(beta * source.step * (1 << 26), float((1 << 31) - 1))
    q, left = multiplier(real)
    reach = math.floor(((1 << 5) - 1) * math.ldexp(1.0, 31 - 5) / math.ldexp(1.0, left))
    differences = np.arange(-255, 1, dtype=np.int64)
    kept = differences >= -reach
    exps = np.where(kept, exp_of_negative(high_product(differences << max(left, 0), q)), 0)
    addends = np.where(kept, divided(exps, 12), 0)
    wide = node.cast(x, "int32")
    place = node.call("add", node.call("subtract", wide, node.call("max", wide, axis=(-1,), keepdims=True)), 255)
    place = node.cast(place, "int32")
    sums = node.call(
        "sum",
        node.call("take", Value(array=addends.astype(np.int32)), place, axis=0, mode="clip"),
        axis=(-1,),
        keepdims=True,
    )
    scale, bits = reciprocal(node, sums)
    each = node.cast(node.call("take", Value(array=exps.astype(np.int32)), place, axis=0, mode="clip"), "int64")
    product = node.call("right_shift", node.call("add", node.call("multiply", each, scale), 1 << 30), 31)
    width = 16 if node.out.dtype == "int16" else 8
    right = node.call("add", bits, 31 - width)
    half = node.call("left_shift", node.number(1, "int64"), node.call("subtract", right, 1))
    whole = node.call("right_shift", node.call("add", product, half), right)
    low, high = limits(node.out.dtype)
    return node.cast(
        node.call("clip", node.call("add", whole, low), a_min=float(low), a_max=float(high)), node.out.dtype
    )


def reciprocal(node: Node, x: Value) -> tuple[Value, Value]:
    """(1 / x as a fixed-point number of 31 bits, number of bits to shift it by) for positive sums of int32 with 12 integer bits."""
    powers = np.left_shift(np.int32(1), np.arange(31, dtype=np.int32))
    length = node.call(
        "sum",
        node.cast(node.call("greater_equal", node.reshape(x, [*x.shape, 1]), Value(array=powers)), "int32"),
        axis=(-1,),
    )  # the number of bits of x
    x = node.cast(x, "int64")
    zeros = node.call("subtract", node.number(32, "int64"), node.cast(length, "int64"))
    bits = node.call("subtract", node.number(12, "int64"), zeros)
    half = node.call("subtract", node.call("left_shift", x, zeros), 1 << 31)
    # 1 / (1 + a) for a in [0, 1], by three steps of Newton's iteration on half of 1 + a
    half_denominator = node.call("right_shift", node.call("add", half, (1 << 31) - 1 + 1), 1)
    y = node.call("add", product(node, half_denominator, node.number(-1010580540, "int64")), 1515870810)
    for _ in range(3):
        error = node.call("subtract", node.number(1 << 29, "int64"), product(node, half_denominator, y))
        step = node.call("left_shift", product(node, y, error), 2)
        limit = float((1 << 31) - 1)
        y = node.call("add", y, node.call("clip", step, a_min=-limit - 1, a_max=limit))
    doubled = node.call("left_shift", y, 1)
    return node.call("minimum", doubled, (1 << 31) - 1), bits


def product(node: Node, a: Value, b: Any) -> Value:
    """a * b / 2**31, rounded to the nearest."""
    return node.call("right_shift", node.call("add", node.call("multiply", a, b), 1 << 30), 31)


def softmax16(node: Node, x: Value, beta: float) -> Value:
    """Softmax of words along the last axis: linear interpolation in tables of 513 values of exp and of 1 / (1 + x)."""
    (source,) = need_single(node, x)
    exps = _places(lambda v: math.exp(v), -10.0, 0.0)
    inverses = _places(lambda v: 1.0 / (1.0 + v), 0.0, 1.0)
    q, left = multiplier(beta * source.step * 65535.0 / 10.0)
    wide = node.cast(x, "int64")
    difference = node.call("subtract", wide, node.call("max", wide, axis=(-1,), keepdims=True))

    moved = node.call("multiply", difference, q << max(left, 0))
    moved = node.call("right_shift", node.call("add", moved, 1 << 30), 31)
    if left < 0:
        from tilewright.relay.frontend.tflite.ops.quantized import shifted

        moved = shifted(node, moved, [-left], lambda v: node.number(v[0], "int64"))
    place = node.call("clip", node.call("add", moved, 32767), a_min=-32768.0, a_max=32767.0)
    each = lookup(node, place, exps)
    sums = node.call("sum", each, axis=(-1,), keepdims=True)
    powers = np.left_shift(np.int64(1), np.arange(31, dtype=np.int64))
    length = node.call(
        "sum",
        node.cast(node.call("greater_equal", node.reshape(sums, [*sums.shape, 1]), Value(array=powers)), "int64"),
        axis=(-1,),
    )
    zeros = node.call("subtract", node.number(32, "int64"), length)
    # The sum as a 16-bit number in [1, 2), minus 1
    rounded = node.call("left_shift", sums, zeros)
    top = node.call("right_shift", node.call("add", rounded, 1 << 14), 15)
    centre = node.call("clip", node.call("subtract", top, 65536 + 32768), a_min=-32768.0, a_max=32767.0)
    inverse = lookup(node, centre, inverses)
    right = node.call("add", node.call("subtract", node.number(31, "int64"), zeros), 0)
    half = node.call("left_shift", node.number(1, "int64"), node.call("subtract", right, 1))
    made = node.call("right_shift", node.call("add", node.call("multiply", each, inverse), half), right)
    return node.cast(node.call("clip", made, a_min=0.0, a_max=32767.0), "int16")


def _places(f: Any, least: float, most: float) -> np.ndarray:
    """513 values of a function in 16 bits, corrected by the error at the midpoints."""
    step = (most - least) / 512

    def away(v: float) -> float:
        return math.floor(v + 0.5) if v >= 0 else math.ceil(v - 0.5)

    made = []
    for i in range(512):
        here = away(f(least + i * step) * 32768.0)
        middle = away((f(least + (i + 1) * step) * 32768.0 + here) / 2)
        error = middle - away(f(least + i * step + step / 2) * 32768.0)
        made.append(min(max(here - away(error / 2.0), -32768), 32767))
    made.append(min(max(away(f(most) * 32768.0), -32768), 32767))
    return np.array(made, np.int64)


def lookup(node: Node, x: Value, places: np.ndarray) -> Value:
    """A 16-bit function by linear interpolation in its 513 values."""
    index = node.cast(node.call("add", node.call("right_shift", x, 7), 256), "int32")
    offset = node.call("bitwise_and", x, 0x7F)
    base = node.call("take", Value(array=places[:-1]), index, axis=0, mode="clip")
    slope = node.call("take", Value(array=np.diff(places)), index, axis=0, mode="clip")
    rise = node.call("right_shift", node.call("add", node.call("multiply", slope, offset), 64), 7)
    return node.call("add", base, rise)


def l2_normal(node: Node, x: Value) -> Value:
    """x / |x| along the last axis, with a scale of 1/128: computed in float64 from integer sums, and rounded."""
    (source,), target = need_single(node, x), out_quant(node)
    wide = node.cast(x, "int32")
    centre = node.call("subtract", wide, source.offset) if source.offset else wide
    size = node.call(
        "sqrt", node.cast(node.call("sum", node.call("multiply", centre, centre), axis=(-1,), keepdims=True), "float64")
    )
    units = node.call(
        "divide", node.call("multiply", node.cast(centre, "float64"), 128.0), node.call("maximum", size, 1e-6)
    )
    whole = node.call("floor", node.call("add", units, 0.5))
    low, high = limits(node.out.dtype)
    return node.cast(
        node.call("clip", node.call("add", whole, float(target.offset)), a_min=float(low), a_max=float(high)),
        node.out.dtype,
    )
