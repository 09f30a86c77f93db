"""Convolutions and dense layers of bytes for processors that multiply pairs of 16-bit numbers in one register (Arm's DSP
extension), channels last.

The processor turns four bytes in a register into two pairs by one instruction each: the bytes 0 and 2, the bytes 1 and 3. So data
is widened once, in that order, for all filters; weights stay bytes in memory, and are widened where they are used.

    strip   the widened data of a tile of adjacent places: for each kernel row and group of four channels, the columns that the tile reads
    sums    for each filter, the sums of a tile of places, in registers

Data of less than four channels is taken as rows without channels (`kernel_width`): a group then has four neighbours of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.byte_dots import VECTOR, conv2d_byte_dots, dense_byte_dots
from tilewright.topi.planner import planner
from tilewright.topi.stages import LINES, MATERIALIZE, PAIRED, PAIRED_CHANNELS, WIDENED_APART
from tilewright.topi.utils import ceil_div, get_const_int, shape_of

GROUP = 4
"""Bytes that are widened from one register."""
MOST_LINES = 4
"""Lines of a depthwise convolution whose data is widened at once, at most."""


def paired_weights(weight: np.ndarray, filters: int, runs: bool, group: int = GROUP) -> np.ndarray:
    """int8 (KH, KW, C, O) as (O / filters, KH, groups, columns, filters, group), channels filled up with zeros. runs: whether groups run
    along the columns and channels of a row, which then has one column."""
    panels, kh, groups, columns, *_ = packed_shape(weight.shape, filters, runs, group)
    rows = weight.reshape(kh, columns, -1, weight.shape[3])
    row, o = rows.shape[2:]
    filled = np.zeros((kh, columns, groups * group, o), weight.dtype)
    filled[:, :, :row] = rows
    split = filled.reshape(kh, columns, groups, group, panels, filters)
    return np.ascontiguousarray(split.transpose(4, 0, 2, 1, 5, 3))


def packed_shape(plain: Sequence[int], filters: int, runs: bool, group: int = GROUP) -> tuple[int, ...]:
    """The shape of `paired_weights` of weights (KH, KW, C, O)."""
    kh, kw, c, o = plain
    columns, row = (1, kw * c) if runs else (kw, c)
    return o // filters, kh, ceil_div(row, group), columns, filters, group


def plain_weights(weight: np.ndarray, channels: int, kernel_width: int) -> np.ndarray:
    """The weights of `paired_weights` as (KH, KW, C, O)."""
    panels, kh, groups, columns, filters, group = weight.shape
    rows = weight.transpose(1, 3, 2, 5, 0, 4).reshape(kh, columns, groups * group, panels * filters)
    if kernel_width:
        return rows[:, 0, : kernel_width * channels].reshape(kh, kernel_width, channels, -1)
    return rows[:, :, :channels]


def conv2d_pairs(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    fill: int = 0,
    kernel_width: int = 0,
) -> te.Tensor:
    """int8 data (N, H, W, C) and weights of `paired_weights`: int32 sums (N, H', W', O). padding: (top, left, bottom, right), of the value
    `fill`. kernel_width: that of weights whose groups run along rows; 0 for groups of channels. Groups of 16 are those of
    `conv2d_byte_dots`."""
    if get_const_int(weight.shape[-1]) == VECTOR:
        return conv2d_byte_dots(data, weight, strides, padding, fill, kernel_width)
    n, height, width, channels = shape_of(data)
    panels, kh, groups, columns, filters, _ = [get_const_int(d) for d in weight.shape]
    (down, across), (top, left, bottom, right) = strides, padding
    kw = kernel_width or columns
    rows, places = (height + top + bottom - kh) // down + 1, (width + left + right - kw) // across + 1
    tile = planner().paired_places(places, filters, "conv2d_pairs")
    computed = ceil_div(places, tile) * tile
    value = tir.const(fill, "int8")

    def read_from(nn: Any, y: Any, r: Any, q: Any, x: Any, j: Any) -> Any:
        at = q * GROUP + j
        # With runs, a column of the strip is a place, whose bytes are counted along the row; else a column of the padded data.
        byte = (x * across - left) * channels + at
        place, channel = (
            (tir.floordiv(byte, channels), tir.floormod(byte, channels)) if kernel_width else (x - left, at)
        )
        line = y * down + r - top
        inside = []
        if top or (rows - 1) * down + kh - top > height:
            inside += [line >= 0, line < height]
        if left or reach - left > width:
            inside += [byte >= 0, byte < width * channels] if kernel_width else [place >= 0, place < width]
        if not kernel_width and channels % GROUP:
            inside.append(channel < channels)
        read = data(nn, line, place, channel)
        return tir.if_then_else(tir.all(*inside), read, value) if inside else read

    row = kw * channels if kernel_width else 0
    reach = (
        (computed - 1) * across + (ceil_div(row, GROUP) * GROUP - 1) // channels + 1
        if kernel_width
        else (computed - 1) * across + kw
    )
    steps = computed if kernel_width else reach
    strip = _widened([n, rows, kh, groups, steps], read_from)
    r, q = te.reduce_axis((0, kh), name="r"), te.reduce_axis((0, groups), name="q")
    c = te.reduce_axis((0, columns), name="c")
    half, k = te.reduce_axis((0, 2), name="half"), te.reduce_axis((0, 2), name="k")

    def summed(nn: Any, y: Any, x: Any, o: Any) -> Any:
        column = x if kernel_width else x * across + c.var
        left_ = strip(nn, y, r.var, q.var, column, half.var * 2 + k.var).astype("int32")
        right_ = weight(tir.floordiv(o, filters), r.var, q.var, c.var, tir.floormod(o, filters), k.var * 2 + half.var)
        return te.sum(left_ * right_.astype("int32"), axis=[r, q, c, half, k])

    attrs = {PAIRED: tile, LINES: (down, top, 1)}
    sums = compute([n, rows, computed, panels * filters], summed, name="conv2d_pairs", tag="conv2d_pairs", attrs=attrs)
    if computed == places:
        return sums
    return compute(
        [n, rows, places, panels * filters], lambda *i: sums(*i), name="conv2d_pairs_places", tag="injective"
    )


def depthwise_conv2d_pairs(
    data: te.Tensor, weight: te.Tensor, strides: Sequence[int], padding: Sequence[int], fill: int = 0
) -> te.Tensor:
    """int8 data (N, H, W, C) and weights (C / 4, KH, KW, 4): int32 sums (N, H', W', C). padding: (top, left, bottom, right), of the value
    `fill`."""
    n, height, width, channels = shape_of(data)
    groups, kh, kw, _ = [get_const_int(d) for d in weight.shape]
    (down, across), (top, left, bottom, right) = strides, padding
    rows, places = (height + top + bottom - kh) // down + 1, (width + left + right - kw) // across + 1
    tile = planner().paired_channels(places, "depthwise_conv2d_pairs")
    computed = ceil_div(places, tile) * tile
    lines, reach = (rows - 1) * down + kh, (computed - 1) * across + kw

    def read_from(nn: Any, q: Any, y: Any, x: Any, j: Any) -> Any:
        line, place = y - top, x - left
        inside = []
        if top or lines - top > height:
            inside += [line >= 0, line < height]
        if left or reach - left > width:
            inside += [place >= 0, place < width]
        read = data(nn, line, place, q * GROUP + j)
        return tir.if_then_else(tir.all(*inside), read, tir.const(fill, "int8")) if inside else read

    strip = _widened([n, groups, lines, reach], read_from)
    r, c = te.reduce_axis((0, kh), name="r"), te.reduce_axis((0, kw), name="c")
    # An instruction adds one product to a sum: its part of the reduction.
    step = te.reduce_axis((0, 1), name="step")

    def summed(nn: Any, y: Any, x: Any, channel: Any) -> Any:
        q, half, k = (
            tir.floordiv(channel, GROUP),
            tir.floormod(channel, 2),
            tir.floordiv(tir.floormod(channel, GROUP), 2),
        )
        left_ = strip(nn, q, y * down + r.var, x * across + c.var, half * 2 + k).astype("int32")
        right_ = weight(q, r.var, c.var, tir.floormod(channel, GROUP)).astype("int32")
        return te.sum(left_ * right_, axis=[r, c, step])

    name, attrs = "depthwise_conv2d_pairs", {PAIRED_CHANNELS: tile, LINES: (down, top, MOST_LINES)}
    sums = compute([n, rows, computed, channels], summed, name=name, tag=name, attrs=attrs)
    if computed == places:
        return sums
    return compute([n, rows, places, channels], lambda *i: sums(*i), name=f"{name}_places", tag="injective")


def _widened(shape: Sequence[int], read: Callable[..., Any]) -> te.Tensor:
    """Groups of four bytes as two pairs, the bytes 0 and 2, 1 and 3: int16 (*shape, 4). read(*index, j): byte j of a group."""
    attrs = {MATERIALIZE: 1}
    groups = compute([*shape, GROUP], read, name="paired_bytes", tag="injective", attrs=attrs)

    def element(*i: Any) -> Any:
        *at, j = i
        return groups(*at, tir.floormod(j, 2) * 2 + tir.floordiv(j, 2)).astype("int16")

    return compute([*shape, GROUP], element, name="paired_strip", tag="injective", attrs=attrs)


def is_widened_apart(rows: int, inner: int) -> bool:
    """Whether the data of a dense layer is widened for each tile of filters, which takes no memory: that of one row, in whole groups."""
    return rows == 1 and inner % GROUP == 0


def dense_pairs(data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    """int8 data (M, K) and weights (N / filters, groups, filters, 4 or 16): int32 sums (M, N)."""
    if get_const_int(weight.shape[-1]) == VECTOR:
        return dense_byte_dots(data, weight)
    rows, inner = shape_of(data)
    panels, groups, filters, _ = [get_const_int(d) for d in weight.shape]
    tile = planner().paired_places(rows, filters, "dense_pairs")
    computed = ceil_div(rows, tile) * tile

    def read_from(q: Any, m: Any, j: Any) -> Any:
        at = q * GROUP + j
        inside = ([at < inner] if inner % GROUP else []) + ([m < rows] if computed > rows else [])
        read = data(m, at)
        return tir.if_then_else(tir.all(*inside), read, tir.const(0, "int8")) if inside else read

    strip = _widened([groups, computed], read_from)
    q = te.reduce_axis((0, groups), name="q")
    half, k = te.reduce_axis((0, 2), name="half"), te.reduce_axis((0, 2), name="k")

    def summed(m: Any, o: Any) -> Any:
        right = weight(tir.floordiv(o, filters), q.var, tir.floormod(o, filters), k.var * 2 + half.var)
        return te.sum(strip(q.var, m, half.var * 2 + k.var).astype("int32") * right.astype("int32"), axis=[q, half, k])

    attrs = {PAIRED: tile, **({WIDENED_APART: 1} if is_widened_apart(rows, inner) else {})}
    sums = compute([computed, panels * filters], summed, name="dense_pairs", tag="dense_pairs", attrs=attrs)
    if computed == rows:
        return sums
    return compute([rows, panels * filters], lambda *i: sums(*i), name="dense_pairs_rows", tag="injective")


__all__ = [
    "GROUP",
    "MOST_LINES",
    "conv2d_pairs",
    "dense_pairs",
    "depthwise_conv2d_pairs",
    "is_widened_apart",
    "packed_shape",
    "paired_weights",
    "plain_weights",
]
