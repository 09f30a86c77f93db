"""Integer arithmetic of TFLite's kernels: multipliers of 31 bits and a shift, with the reference's rounding.

The reference rounds x * multiplier / 2**31 to the nearest, halves upwards, and then the right shift, halves away from zero
(`scaled`). FULLY_CONNECTED rounds once (`scaled_once`). Sums of 16-bit products round once, with 15-bit multipliers (`scaled_wide`).
These functions give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.frontend.tflite.node import Node, Quant, Value
from tilewright.support.errors import OpNotImplemented


def multiplier(real: float, least: int = -31) -> tuple[int, int]:
    """(q, shift) with real = q / 2**31 * 2**shift and q of 31 bits; 0 for a shift below the minimum."""
    if real == 0:
        return 0, 0
    significand, shift = math.frexp(real)
    q = math.floor(abs(significand) * (1 << 31) + 0.5) * (1 if significand > 0 else -1)
    if abs(q) == 1 << 31:
        q, shift = q // 2, shift + 1
    if shift < least:
        return 0, 0
    if shift > 30:
        return (1 << 31) - 1, 30
    return q, shift


def limits(dtype: str) -> tuple[int, int]:
    """The minimum and the maximum of an integer dtype."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def need_single(node: Node, *values: Value | None) -> list[Quant]:
    """The quantisations of values, each with a single scale. Raises OpNotImplemented."""
    found: list[Quant] = []
    for v in values:
        if v is None or v.quant is None:
            raise OpNotImplemented(f"its tensor {v.name if v else ''!r} of integers has no scale")
        if not v.quant.single:
            raise OpNotImplemented(
                f"its tensor {v.name!r} has {v.quant.scale.size} scales (per channel); one scale is supported there"
            )
        found.append(v.quant)
    return found


def out_quant(node: Node, place: int = 0) -> Quant:
    """The quantisation of a result. Raises OpNotImplemented."""
    quant = node.outputs[place].quant
    if quant is None or not quant.single:
        raise OpNotImplemented(f"its result {node.outputs[place].name!r} has no single scale")
    return quant


def scaled(node: Node, x: Value, factors: Any, axis: int = -1) -> Value:
    """int32 x times a factor, or times one for each index of an axis, with the reference's rounding. The result is int32 if all factors are
    below 1 and either all or none are below 1/2, else int64."""
    pairs = [multiplier(float(f)) for f in np.atleast_1d(np.asarray(factors, np.float64))]

    def along(values: list[int], dtype: str = "int64") -> Value:
        if len(set(values)) == 1:
            return node.number(values[0], dtype)
        return Value(array=np.array(values, dtype).reshape([-1, *[1] * (x.ndim - 1 - axis % x.ndim)]))

    left = [max(s, 0) for _, s in pairs]
    right = [max(-s, 0) for _, s in pairs]
    if x.dtype == "int32" and not any(left) and all(right) == any(right):
        high = node.call("high_product", x, along([q for q, _ in pairs], "int32"))
        if not any(right):
            return high
        # Halves away from zero. |high| is at most 2**31 - 2, so all values fit in 32 bits.
        lower = node.call("add", high, node.call("right_shift", high, 31))
        doubled = node.call("right_shift", lower, along([n - 1 for n in right], "int32")) if max(right) > 1 else lower
        return node.call("right_shift", node.call("add", doubled, 1), 1)
    wide = node.cast(x, "int64")
    product = node.call("multiply", wide, along([q << n for (q, _), n in zip(pairs, left, strict=True)]))
    high = node.call("right_shift", node.call("add", product, 1 << 30), 31)
    if not any(right):
        return high
    return shifted(node, high, right, along)


def alike(node: Node, x: Value, y: Value) -> tuple[Value, Value]:
    """Two results of `scaled` in the same type."""
    if x.dtype == y.dtype:
        return x, y
    return node.cast(x, "int64"), node.cast(y, "int64")


def scaled_once(node: Node, x: Value, factors: Any) -> Value:
    """Sums of FULLY_CONNECTED times factors along the last axis: multipliers of 31 bits, rounded once, halves upwards. The result is int32
    if all factors are below 1 and either all or none are below 1/2, else int64."""
    # 48-bit sums allow smaller factors: down to those that round the largest sum to 0.
    least = -47 if x.dtype == "int64" else -31
    pairs = [multiplier(float(f), least) for f in np.atleast_1d(np.asarray(factors, np.float64))]
    down = np.array([-s for _, s in pairs], np.int32)
    if x.dtype == "int32" and (down >= 0).all() and (down > 0).all() == (down > 0).any():
        fractions = np.array([q for q, _ in pairs], np.int32)
        high = node.call("high_product", x, Value(array=fractions))
        if not down.any():
            return high
        # Removes the rounding of high_product: the highest lost bit, which is also in the 32-bit product.
        lost = node.call("multiply", node.call("cast", x, dtype="uint32"), Value(array=fractions.astype(np.uint32)))
        up = node.call("bitwise_and", node.call("right_shift", lost, 30), 1)
        floor = node.call("subtract", high, node.call("cast", up, dtype="int32"))
        halved = node.call("right_shift", floor, Value(array=down - 1)) if down.max() > 1 else floor
        return node.call("right_shift", node.call("add", halved, 1), 1)
    q, right = (np.array(v, np.int64) for v in ([q for q, _ in pairs], [31 - s for _, s in pairs]))
    if x.dtype == "int64" and right.min() > 16:
        # Each part of the sums (the lower one has 16 bits) gives products of at most 64 bits.
        lower = node.call("multiply", node.call("bitwise_and", x, 0xFFFF), Value(array=q))
        upper = node.call("multiply", node.call("right_shift", x, 16), Value(array=q))
        high = node.call("add", upper, node.call("right_shift", lower, 16))
        half = Value(array=np.left_shift(np.int64(1), right - 17))
        return node.call("right_shift", node.call("add", high, half), Value(array=right - 16))
    half = Value(array=np.left_shift(np.int64(1), right - 1))
    product = node.call("multiply", node.cast(x, "int64"), Value(array=q))
    return node.call("right_shift", node.call("add", product, half), Value(array=right))


def shifted(node: Node, x: Value, right: list[int], along: Callable[[list[int]], Value]) -> Value:
    """int64 x / 2**right, rounded to the nearest, halves away from zero."""
    half = along([(1 << n) >> 1 for n in right])
    negative = node.cast(node.call("less", x, 0), "int64")
    if not all(right):
        # Without a shift nothing is rounded.
        negative = node.call("multiply", negative, along([int(n > 0) for n in right]))
    return node.call("right_shift", node.call("subtract", node.call("add", x, half), negative), along(right))


def scaled_wide(node: Node, x: Value, factors: Any, axis: int = -1) -> Value:
    """int64 x (sums of 16-bit products) times factors: multipliers of 15 bits, rounded once, halves upwards."""
    pairs = [multiplier(float(f)) for f in np.atleast_1d(np.asarray(factors, np.float64))]
    reduced = [((q + (1 << 15)) >> 16) if q < 0x7FFF0000 else 0x7FFF for q, _ in pairs]
    total = [15 - s for _, s in pairs]

    def along(values: list[int]) -> Value:
        if len(set(values)) == 1:
            return node.number(values[0], "int64")
        return Value(array=np.array(values, np.int64).reshape([-1, *[1] * (x.ndim - 1 - axis % x.ndim)]))

    product = node.call("add", node.call("multiply", x, along(reduced)), along([1 << (t - 1) for t in total]))
    return node.call("right_shift", product, along(total))


def stored(node: Node, x: Value, offset: int, low: int, high: int, dtype: str) -> Value:
    """Integers plus a zero point, clamped and cast to a narrow type."""
    moved = node.call("add", x, offset) if offset else x
    return node.cast(node.call("clip", moved, a_min=float(low), a_max=float(high)), dtype)


def activation_range(node: Node, quant: Quant, dtype: str, code: int | None = None) -> tuple[int, int]:
    """The minimum and maximum of a result with its fused activation."""
    low, high = limits(dtype)
    name = node.activation(code)

    def q(real: float) -> int:
        return quant.offset + round_away(np.float32(real) / np.float32(quant.scale[0]))

    if name == "RELU":
        return max(low, q(0.0)), high
    if name == "RELU6":
        return max(low, q(0.0)), min(high, q(6.0))
    if name == "RELU_N1_TO_1":
        return max(low, q(-1.0)), min(high, q(1.0))
    if name != "NONE":
        raise OpNotImplemented(f"its fused activation {name} on integers; supported: NONE, RELU, RELU6, RELU_N1_TO_1")
    return low, high


def round_away(x: Any) -> int:
    """x rounded to the nearest integer, halves away from zero."""
    value = float(x)
    return math.floor(value + 0.5) if value >= 0 else math.ceil(value - 0.5)


def requantized(node: Node, x: Value, source: Quant, target: Quant, dtype: str) -> Value:
    """Integers converted from one scale and zero point to another."""
    if source.same(target) and x.dtype == dtype:
        return x
    centred = node.cast(x, "int32")
    if source.offset:
        centred = node.call("subtract", centred, source.offset)
    low, high = limits(dtype)
    return stored(node, scaled(node, centred, source.step / target.step), target.offset, low, high, dtype)


def real(node: Node, x: Value, quant: Quant | None = None) -> Value:
    """The real values of quantised integers, in float32; floats unchanged."""
    quant = quant or x.quant
    if x.dtype.startswith(("float", "bfloat")):
        return node.cast(x, "float32")
    if quant is None:
        raise OpNotImplemented(f"its tensor {x.name!r} of {x.dtype} has no scale, so its real values are not known")
    return node.call(
        "qnn.dequantize",
        x,
        Value(array=scale_of(quant)),
        Value(array=zero_of(quant)),
        axis=quant.axis if x.ndim else -1,
    )


def scale_of(quant: Quant) -> np.ndarray:
    """The scale in the form for qnn operators."""
    return quant.scale.reshape(()) if quant.single else quant.scale


def zero_of(quant: Quant) -> np.ndarray:
    """The zero point in the form for qnn operators."""
    return quant.zero.reshape(()) if quant.single else quant.zero


def rounded_float(node: Node, x: Value) -> Value:
    """float x rounded to the nearest integer, halves away from zero."""
    whole = node.call("trunc", node.call("add", node.call("abs", x), 0.5))
    return node.call("multiply", node.call("sign", x), whole)


def stored_real(node: Node, x: Value, quant: Quant, dtype: str) -> Value:
    """float32 quantised to integers: divided by the scale, rounded with halves away from zero, plus the zero point, clamped."""
    low, high = limits(dtype)
    units = node.call("divide", x, Value(array=quant.scale.reshape(()).astype(np.float32)))
    if dtype in ("int8", "uint8", "int16", "uint16"):
        moved = node.call("add", rounded_float(node, units), float(quant.offset))
        return node.cast(node.call("clip", moved, a_min=float(low), a_max=float(high)), dtype)
    wide = node.cast(rounded_float(node, node.cast(units, "float64")), "int64")
    return stored(node, wide, quant.offset, low, high, dtype)


def looked_up(node: Node, x: Value, f: Callable[[np.ndarray], np.ndarray]) -> Value:
    """A function of real numbers on bytes, as a table of 256 entries. `f` maps float32 to float32."""
    (source,), target = need_single(node, x), out_quant(node)
    low, high = limits(x.dtype)
    q = np.arange(low, high + 1)
    with np.errstate(all="ignore"):
        reals = (q - source.offset).astype(np.float32) * source.scale[0]
        found = np.asarray(f(reals), np.float32)
        units = np.clip(found * (np.float32(1) / target.scale[0]), -1e9, 1e9).astype(np.float64)
    whole = np.where(units >= 0, np.floor(units + 0.5), np.ceil(units - 0.5)) + target.offset
    # The kernels' tables have 0 for NaN.
    whole = np.nan_to_num(whole, nan=0.0)
    return table_of(node, x, np.clip(whole, *limits(node.out.dtype)).astype(node.out.dtype))


def table_of(node: Node, x: Value, table: np.ndarray) -> Value:
    """The entries of a table of 256 for bytes, in the order of the bytes' values."""
    place = node.cast(x, "int32")
    low, _ = limits(x.dtype)
    if low:
        place = node.call("subtract", place, low)
    return node.call("take", Value(array=table), place, axis=0, mode="clip")
