"""Functions of quantised numbers in the integer arithmetic of TFLite's kernels, as tables made at import.

A function of one 8-bit or 16-bit tensor is a table of all its values. NumPy fills it by the kernel's own steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.frontend.tflite.node import Node, Value
from tilewright.relay.frontend.tflite.ops.quantized import limits, multiplier, need_single, out_quant

Whole = np.ndarray[Any, np.dtype[np.int64]]


def table(node: Node, x: Value, f: Callable[[Whole], Whole]) -> Value:
    """A table of a function of 8-bit or 16-bit integers. f takes int64; its results are clamped."""
    low, high = limits(x.dtype)
    with np.errstate(all="ignore"):
        made = np.clip(f(np.arange(low, high + 1, dtype=np.int64)), *limits(node.out.dtype)).astype(node.out.dtype)
    place = node.cast(x, "int32")
    return node.call(
        "take", Value(array=made), node.call("subtract", place, low) if low else place, axis=0, mode="clip"
    )


# ---- the steps of fixed-point arithmetic, on int64 arrays


def high_product(a: Any, b: Any) -> Whole:
    """a * b / 2**31, rounded to the nearest."""
    return np.asarray((np.asarray(a, np.int64) * b + (1 << 30)) >> 31)


def divided(x: Whole, shift: Any) -> Whole:
    """x / 2**shift, rounded to the nearest, halves away from zero."""
    half = np.where(np.asarray(shift) > 0, np.left_shift(1, np.maximum(shift, 1) - 1), 0)
    return np.asarray((x + half - ((x < 0) & (np.asarray(shift) > 0))) >> shift)


def times(x: Whole, real: float) -> Whole:
    """x times a factor, with the kernels' rounding."""
    q, shift = multiplier(real)
    return divided(high_product(x << max(shift, 0), q), max(-shift, 0))


def halved(node: Node, x: Value, shift: int) -> Value:
    """`divided` on a tensor of int32."""
    if shift == 0:
        return x
    negative = node.cast(node.call("less", x, 0), x.dtype)
    moved = node.call("subtract", node.call("add", x, (1 << shift) >> 1), negative)
    return node.call("right_shift", moved, shift)


def to_int16(q: int) -> int:
    """A 31-bit multiplier as a 15-bit one."""
    return 32767 if q >= (1 << 31) - 1 - (1 << 15) else (q + (1 << 15)) >> 16


# ---- functions


def hard_swish(node: Node, x: Value) -> Value:
    """x * relu6(x + 3) / 6 in 16-bit steps."""
    (source,), target = need_single(node, x), out_quant(node)
    fine = np.float32(np.float32(1 / 128) * source.scale[0])
    q_out, shift_out = multiplier(float(fine / target.scale[0]))
    q_gate, shift_gate = multiplier(float(fine / np.float32(3.0 / 32768.0)))

    def saturated(v: Whole) -> Whole:
        return np.clip(v, -32768, 32767)

    def f(q: Whole) -> Whole:
        value = (q - source.offset) * 128
        before = saturated((value * to_int16(q_out) + (1 << 14)) >> 15)
        gate = value
        if shift_gate > 0:
            gate = saturated(gate << (shift_gate - 1))
        gate = saturated((gate * to_int16(q_gate) + (1 << 14)) >> 15)
        if shift_gate > 0:
            gate = saturated(gate << 1)
        if shift_gate < 0:
            gate = divided(gate, -shift_gate)
        gate = (gate + (1 << 15)) >> 1
        product = gate * before
        made = saturated(np.where(product >= 0, product >> 15, -((-product) >> 15)))
        return divided(made, -shift_out) + target.offset

    return table(node, x, f)


UPWARD = [
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49, 50, 54, 62, 63, 64,
    66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
]  # fmt: skip
"""Indices of the kernels' table of the logistic function with an entry one above the nearest integer."""


def curve16(node: Node, x: Value, name: str) -> Value:
    """tanh or the logistic function on 16 bits: linear interpolation in a table of 256 values of the logistic function."""
    (source,) = need_single(node, x)
    significand, exponent = math.frexp(source.step)
    left = 12 + exponent - 1
    if significand == 0.5 and left in (0, 1):
        factor, shift = 3 << left, 0
    else:
        real, shift = source.step * 4096.0 * 3.0, 0
        while real <= 32767.0 / 2.0 and shift <= 30:
            shift += 1
            real *= 2.0
        factor = int(real)
    places = np.floor(65536.0 / (1 + np.exp(-np.arange(256) / 24.0)) + 0.5).astype(np.int64)
    places[UPWARD] += 1
    tanh = name == "TANH"
    fine = 8 if tanh else 9

    def f(q: Whole) -> Whole:
        value = (q * factor + ((1 << (shift - 1)) if shift else 0)) >> shift
        size = np.abs(value)
        whole, part = size >> fine, size & ((1 << fine) - 1)
        a, b = places[np.minimum(whole, 255)], places[np.minimum(whole + 1, 255)]
        last = (0xFFFF << 8) if tanh else (0x7FFF << 10)
        made = np.where(whole >= 255, last, (a << fine) + part * (b - a))
        if tanh:
            up, down = made - (1 << 23) + (1 << 7), -made + (1 << 23) + (1 << 7) - 1
            return np.where(value >= 0, up, down) >> 8
        up, down = made + (1 << 9), (1 << 25) - made + (1 << 9) - 1
        return np.where(value >= 0, up, down) >> 10

    return table(node, x, f)


def interpolated16(node: Node, x: Value, f: Callable[[np.ndarray], np.ndarray]) -> Value:
    """A function on 16 bits: linear interpolation in a table of 513 values, which are corrected by the error at the midpoints."""
    (source,), target = need_single(node, x), out_quant(node)
    one = np.float32
    scale, out = source.scale[0], target.scale[0]
    least, most = scale * one(-32768 - source.offset), scale * one(32767 - source.offset)
    bottom, top = out * one(-32768 - target.offset), out * one(32767 - target.offset)
    step = one(one(most - least) / one(512))
    inverse = one(65536) / one(top - bottom)

    def away(v: Any) -> Any:
        return np.where(v >= 0, np.floor(v + one(0.5)), np.ceil(v - one(0.5))).astype(np.float32)

    with np.errstate(all="ignore"):
        at = least + np.arange(512, dtype=np.float32) * step
        here, middle, after = (
            np.asarray(f(v), np.float32)
            for v in (at, at + step / one(2), least + np.arange(1, 513, dtype=np.float32) * step)
        )
        sample = away(here * inverse)
        error = away((after * inverse + sample) / one(2)) - away(middle * inverse)
        entries = np.append(sample - away(error / one(2)), away(np.asarray(f(np.array([most])), np.float32) * inverse))
        places = np.clip(np.nan_to_num(entries, nan=0.0), -32768, 32767).astype(np.int64)

    def lookup(q: Whole) -> Whole:
        index, offset = 256 + (q >> 7), q & 0x7F
        # The kernel's differences have 16 bits, so a larger jump wraps around.
        slope = (places[index + 1] - places[index]).astype(np.int16).astype(np.int64)
        return np.asarray(places[index] + ((slope * offset + 64) >> 7)).astype(np.int16).astype(np.int64)

    return table(node, x, lookup)


def inverse_root(value: int) -> tuple[int, int]:
    """(q, shift) with 1 / sqrt(value) = q / 2**31 * 2**-shift, by Newton's iteration on fixed points."""
    if value <= 1:
        return (1 << 31) - 1, 0
    shift = 11
    while value >= 1 << 29:
        value //= 4
        shift += 1
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    shift -= pairs
    value <<= 2 * pairs
    # Three integer bits: 1 is 2**28.
    f3 = value >> 1
    half_three = (1 << 28) + (1 << 27)

    def product(a: int, b: int) -> int:
        return (a * b + (1 << 30)) >> 31

    def rounded_half(v: int) -> int:
        return (v + 1 - (v < 0)) >> 1

    half_input = rounded_half(f3)
    x = 1 << 28
    for _ in range(5):
        cubed = product(product(x, x), x)  # six more integer bits
        x3 = max(min(cubed << 6, (1 << 31) - 1), -(1 << 31))
        x = max(min((product(half_three, x) - product(half_input, x3)) << 3, (1 << 31) - 1), -(1 << 31))
    x = product(x, 1518500250)
    if shift < 0:
        x, shift = x << -shift, 0
    return x, shift


def rsqrt(node: Node, x: Value) -> Value:
    """1 / sqrt(x) on 8 bits."""
    (source,), target = need_single(node, x), out_quant(node)
    scale = 1.0 / (np.sqrt(np.float32(source.scale[0])) * target.scale[0])
    q, shift = multiplier(float(scale))

    def by(v: int, factor: int, left: int) -> int:
        return int(divided(high_product(v << max(left, 0), factor), max(-left, 0)))

    def one(v: int) -> int:
        if v <= 0:
            return limits(node.out.dtype)[1]
        inverse, right = inverse_root(v)
        return by(by(1, inverse, 20 - right), q, shift - 20) + target.offset

    return table(node, x, lambda v: np.array([one(int(n) - source.offset) for n in v], np.int64))
