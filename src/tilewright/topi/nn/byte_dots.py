"""Convolutions and dense layers of bytes for processors that add the products of two vectors of 16 bytes to a general register (Arm's
Helium), channels last.

The columns and channels that a window reads of a row are neighbours in memory, so vectors run along both. Weights have zeros behind the
end of such a run; what data is there does not matter.

    strip   for each tile of adjacent places and each kernel row, the bytes that it reads, with padding: its runs, which overlap
    sums    for each filter, the sums of a tile of places, in registers

Dense layers and 1 x 1 convolutions whose runs are whole vectors read the data where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.planner import planner
from tilewright.topi.stages import BYTE_DOTS, MATERIALIZE
from tilewright.topi.utils import ceil_div, get_const_int, shape_of

VECTOR = 16
"""Bytes of a vector."""


def conv2d_byte_dots(
    data: te.Tensor, weight: te.Tensor, strides: Sequence[int], padding: Sequence[int], fill: int, kernel_width: int
) -> te.Tensor:
    """int8 data (N, H, W, C) and weights of `paired_weights` with groups of 16 along rows: int32 sums (N, H', W', O). padding: (top, left,
    bottom, right), of the value `fill`."""
    n, height, width, channels = shape_of(data)
    panels, kh, groups, _, filters, _ = [get_const_int(d) for d in weight.shape]
    (down, across), (top, left, bottom, right) = strides, padding
    rows, places = (height + top + bottom - kh) // down + 1, (width + left + right - kernel_width) // across + 1
    tile = planner().paired_places(places, filters, "conv2d_byte_dots")
    computed = ceil_div(places, tile) * tile
    in_place = kernel_width == 1 and channels % VECTOR == 0 and computed == places and not any(padding)
    step, run = across * channels, groups * VECTOR
    # Bytes that are within the data, or not, together.
    pixel = gcd(channels, VECTOR)

    def strip_element(nn: Any, y: Any, t: Any, r: Any, b: Any) -> Any:
        start = t * (tile * step) - left * channels
        line, unit = (
            y * down + r - top,
            t * (tile * step // pixel) + (tir.floordiv(b, pixel) - left * channels // pixel),
        )
        inside = []
        if top or (rows - 1) * down + kh - top > height:
            inside += [line >= 0, line < height]
        if left or (computed - 1) * step + run - left * channels > width * channels:
            inside += [unit >= 0, unit < width * channels // pixel]
        at = start + b
        read = data(nn, line, tir.floordiv(at, channels), tir.floormod(at, channels))
        return tir.if_then_else(tir.all(*inside), read, tir.const(fill, "int8")) if inside else read

    if not in_place:
        shape = [n, rows, computed // tile, kh, (tile - 1) * step + run]
        strip = compute(shape, strip_element, name="byte_strip", tag="injective", attrs={MATERIALIZE: pixel})
    r, q = te.reduce_axis((0, kh), name="r"), te.reduce_axis((0, groups), name="q")
    k = te.reduce_axis((0, VECTOR), name="k")

    def summed(nn: Any, y: Any, x: Any, o: Any) -> Any:
        if in_place:
            left_ = data(nn, y * down + r.var, x * across, q.var * VECTOR + k.var)
        else:
            at = tir.floormod(x, tile) * step + q.var * VECTOR + k.var
            left_ = strip(nn, y, tir.floordiv(x, tile), r.var, at)
        right_ = weight(tir.floordiv(o, filters), r.var, q.var, 0, tir.floormod(o, filters), k.var)
        return te.sum(left_.astype("int32") * right_.astype("int32"), axis=[r, q, k])

    name = "conv2d_byte_dots"
    sums = compute([n, rows, computed, panels * filters], summed, name=name, tag=name, attrs={BYTE_DOTS: tile})
    if computed == places:
        return sums
    return compute([n, rows, places, panels * filters], lambda *i: sums(*i), name=f"{name}_places", tag="injective")


def dense_byte_dots(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """int8 data (M, K) and weights (N / filters, groups, filters, 16): int32 sums (M, N)."""
    rows, inner = shape_of(data)
    panels, groups, filters, _ = [get_const_int(d) for d in weight.shape]
    tile = planner().paired_places(rows, filters, "dense_byte_dots")
    computed = ceil_div(rows, tile) * tile
    given = data
    if computed > rows or inner % VECTOR:

        def element(m: Any, b: Any) -> Any:
            inside = ([b < inner] if inner % VECTOR else []) + ([m < rows] if computed > rows else [])
            return tir.if_then_else(tir.all(*inside), data(m, b), tir.const(0, "int8"))

        attrs = {MATERIALIZE: gcd(inner, VECTOR)}
        given = compute([computed, groups * VECTOR], element, name="byte_strip", tag="injective", attrs=attrs)
    q, k = te.reduce_axis((0, groups), name="q"), te.reduce_axis((0, VECTOR), name="k")

    def summed(m: Any, o: Any) -> Any:
        right = weight(tir.floordiv(o, filters), q.var, tir.floormod(o, filters), k.var)
        return te.sum(given(m, q.var * VECTOR + k.var).astype("int32") * right.astype("int32"), axis=[q, k])

    name = "dense_byte_dots"
    sums = compute([computed, panels * filters], summed, name=name, tag=name, attrs={BYTE_DOTS: tile})
    if computed == rows:
        return sums
    return compute([rows, panels * filters], lambda *i: sums(*i), name=f"{name}_rows", tag="injective")


__all__ = ["VECTOR", "conv2d_byte_dots", "dense_byte_dots"]
