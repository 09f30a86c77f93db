"""Convolutions over two spatial axes (and one), in plain layouts and on channel blocks.

Every form is padding (a stage of its own), then one reduction. Blocked data is [n, c // b, h, w, c % b], blocked weights [o // bo,
i // bi, kh, kw, bi, bo], so the innermost axis is contiguous and as long as a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.columns import computed_columns, first_columns, window_columns
from tilewright.topi.nn.pad import dilate, pad
from tilewright.topi.nn.plain_conv import plain_conv
from tilewright.topi.planner import Columns, planner
from tilewright.topi.problems import Windows
from tilewright.topi.stages import IN_TILES
from tilewright.topi.utils import Dim, as_int, get_const_int, get_pad_tuple, pair, shape_of, window_extent

Two = int | Sequence[int]


def _to(v: Any, dtype: str) -> Any:
    return v if v.dtype == dtype else tir.Cast(dtype, v)


def _extents(
    height: Dim, width: Dim, kernel: tuple[int, int], strides: Two, padding: Any, dilation: Two
) -> tuple[tuple[int, int], tuple[int, int], list[int], list[int], Dim, Dim]:
    (sh, sw), (dh, dw) = pair(strides), pair(dilation)
    reach = [(kernel[0] - 1) * dh + 1, (kernel[1] - 1) * dw + 1]
    before, after = get_pad_tuple(padding, reach)
    oh = window_extent(height, kernel[0], before[0], after[0], sh, dh)
    ow = window_extent(width, kernel[1], before[1], after[1], sw, dw)
    return (sh, sw), (dh, dw), before, after, oh, ow


def _at(o: Any, stride: int, k: Any, dilation: int) -> Any:
    base = o if stride == 1 else o * stride
    return base + (k if dilation == 1 else k * dilation)


def conv2d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Two = 1,
    padding: Any = 0,
    dilation: Two = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
    groups: int = 1,
) -> te.Tensor:
    """Convolution (cross-correlation) in NCHW with OIHW weights, or NHWC with HWIO; grouped where groups > 1."""
    if data_layout == "NCHW" and kernel_layout in ("", "OIHW"):
        return group_conv2d_nchw(data, kernel, strides, padding, dilation, groups, out_dtype)
    if data_layout == "NHWC" and kernel_layout in ("", "HWIO"):
        return conv2d_nhwc(data, kernel, strides, padding, dilation, groups, out_dtype)
    raise ValueError(
        f"conv2d has no compute for data in {data_layout} with weights in {kernel_layout}: use NCHW with OIHW, or NHWC with HWIO"
    )


def plain_conv2d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Two,
    padding: Any,
    dilation: Two,
    groups: int,
    dtype: str,
    name: str,
    tag: str,
) -> te.Tensor | None:
    """A convolution in NCHW whose vectors run along the image, if there is a target and sizes are known."""
    kernel_size = get_const_int(kernel.shape[2]), get_const_int(kernel.shape[3])
    _, _, h, w = shape_of(data)
    steps, spread, before, after, _, _ = _extents(h, w, kernel_size, strides, padding, dilation)
    return plain_conv(Windows(data, kernel, steps, before, after, spread, groups, dtype), name, tag)


def conv2d_nchw(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Two = 1,
    padding: Any = 0,
    dilation: Two = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, I, H, W), weights (O, I, KH, KW): (N, O, OH, OW)."""
    return group_conv2d_nchw(data, kernel, strides, padding, dilation, 1, out_dtype)


def group_conv2d_nchw(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Two,
    padding: Any,
    dilation: Two,
    groups: int,
    out_dtype: str | None = None,
) -> te.Tensor:
    """As conv2d_nchw; output channel o reads the input channels of group o // (O / groups) only; weights (O, I / groups, KH, KW)."""
    dtype = out_dtype or data.dtype
    n, channels, h, w = shape_of(data)
    o, per_group, kh, kw = (get_const_int(d) for d in kernel.shape)
    if groups == channels and per_group == 1:
        return depthwise_conv2d_nchw(data, kernel, strides, padding, dilation, out_dtype)
    name = "conv2d_nchw" if groups == 1 else "group_conv2d_nchw"
    if (found := plain_conv2d(data, kernel, strides, padding, dilation, groups, dtype, name, name)) is not None:
        return found
    (sh, sw), (dh, dw), before, after, oh, ow = _extents(h, w, (kh, kw), strides, padding, dilation)
    columns = computed_columns(ow, dtype)
    read = window_columns(data, [0, 0, *before], [0, 0, *after], columns, kw, sw, dw)
    rc = te.reduce_axis((0, per_group), name="rc")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    axes = [rc, ry, rx]

    if groups == 1:

        def element(nn: Any, ff: Any, yy: Any, xx: Any) -> Any:
            value = read((nn, rc.var, _at(yy, sh, ry.var, dh)), xx, rx.var)
            return te.sum(_to(value, dtype) * _to(kernel(ff, rc.var, ry.var, rx.var), dtype), axis=axes)

        out = compute([n, o, oh, columns], element, name="conv2d_nchw", tag="conv2d_nchw")
        return first_columns(out, ow)

    # The group is an axis of its own, so that its filters share what they read.
    filters = o // groups

    def grouped(nn: Any, gg: Any, ff: Any, yy: Any, xx: Any) -> Any:
        value = read((nn, gg * per_group + rc.var, _at(yy, sh, ry.var, dh)), xx, rx.var)
        return te.sum(_to(value, dtype) * _to(kernel(gg * filters + ff, rc.var, ry.var, rx.var), dtype), axis=axes)

    by_group = compute([n, groups, filters, oh, columns], grouped, name="group_conv2d_nchw", tag="group_conv2d_nchw")
    return compute(
        [n, o, oh, ow],
        lambda nn, ff, yy, xx: by_group(nn, tir.floordiv(ff, filters), tir.floormod(ff, filters), yy, xx),
        name="T_groups",
        tag="injective",
    )


def depthwise_conv2d_nchw(
    data: te.Tensor, kernel: te.Tensor, strides: Two, padding: Any, dilation: Two, out_dtype: str | None = None
) -> te.Tensor:
    """Depthwise convolution: each input channel has its own filters. Weights (C * M, 1, KH, KW) or (C, M, KH, KW), result (N, C *
    M, OH, OW)."""
    dtype = out_dtype or data.dtype
    n, channels, h, w = shape_of(data)
    first, second, kh, kw = (get_const_int(d) for d in kernel.shape)
    o = first * second
    times = o // get_const_int(channels)
    if second == 1:
        names = "DepthwiseConv2d", "depthwise_nchw"
        found = plain_conv2d(data, kernel, strides, padding, dilation, get_const_int(channels), dtype, *names)
        if found is not None:
            return found
    (sh, sw), (dh, dw), before, after, oh, ow = _extents(h, w, (kh, kw), strides, padding, dilation)
    columns = computed_columns(ow, dtype)
    read = window_columns(data, [0, 0, *before], [0, 0, *after], columns, kw, sw, dw)
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")

    def element(nn: Any, ff: Any, yy: Any, xx: Any) -> Any:
        channel = ff if times == 1 else tir.floordiv(ff, times)
        value = read((nn, channel, _at(yy, sh, ry.var, dh)), xx, rx.var)
        weight = (
            kernel(ff, 0, ry.var, rx.var) if second == 1 else kernel(channel, tir.floormod(ff, times), ry.var, rx.var)
        )
        return te.sum(_to(value, dtype) * _to(weight, dtype), axis=[ry, rx])

    out = compute([n, o, oh, columns], element, name="DepthwiseConv2d", tag="depthwise_nchw")
    return first_columns(out, ow)


def conv2d_nhwc(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Two,
    padding: Any,
    dilation: Two,
    groups: int = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, H, W, I), weights (KH, KW, I / groups, O): (N, OH, OW, O)."""
    dtype = out_dtype or data.dtype
    n, h, w, _ = shape_of(data)
    kh, kw, per_group, o = (get_const_int(d) for d in kernel.shape)
    (sh, sw), (dh, dw), before, after, oh, ow = _extents(h, w, (kh, kw), strides, padding, dilation)
    padded = pad(data, [0, *before, 0], [0, *after, 0], name="pad_temp")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    rc = te.reduce_axis((0, per_group), name="rc")

    def element(nn: Any, yy: Any, xx: Any, ff: Any) -> Any:
        channel = rc.var if groups == 1 else tir.floordiv(ff, o // groups) * per_group + rc.var
        value = padded(nn, _at(yy, sh, ry.var, dh), _at(xx, sw, rx.var, dw), channel)
        return te.sum(_to(value, dtype) * _to(kernel(ry.var, rx.var, rc.var, ff), dtype), axis=[ry, rx, rc])

    return compute([n, oh, ow, o], element, name="conv2d_nhwc", tag="conv2d_nhwc")


def conv2d_NCHWc(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Two,
    padding: Any,
    dilation: Two,
    layout: str = "",
    out_layout: str = "",
    out_dtype: str | None = None,
    groups: int = 1,
) -> te.Tensor:
    """data (N, I/bi, H, W, bi), weights (O/bo, I/groups/bi, KH, KW, bi, bo): (N, O/bo, OH, OW, bo).

    Weights (.., bi/g, bo, g) are for instructions that add up g products. A channel block must not contain channels of two groups.
    """
    dtype = out_dtype or data.dtype
    n, _, h, w, block_in = shape_of(data)
    o_outer, i_outer, kh, kw, ki, block_out, *at_once = (get_const_int(d) for d in kernel.shape)
    if prod([ki, *at_once]) != block_in:
        raise ValueError(
            f"conv2d_NCHWc: data in blocks of {block_in} channels cannot meet weights in blocks of {prod([ki, *at_once])}"
        )
    (sh, sw), (dh, dw), before, after, oh, ow = _extents(h, w, (kh, kw), strides, padding, dilation)
    per_group = o_outer // groups
    tiled = None
    if at_once and isinstance(oh, int) and isinstance(ow, int):
        tiled = planner().tiled_rows(ow, (data.dtype, kernel.dtype, dtype), ki)
    # Registers of tiles load neighbouring columns: padded work reads padding.
    found = (
        Columns(tiled, True)
        if tiled
        else planner().image_columns(ow, per_group, any([*before, *after]), "conv2d_NCHWc")
    )
    columns, column, right = _read_columns(found, ow, sw)
    padded = pad(data, [0, 0, *before, 0], [0, 0, after[0], after[1] + right, 0], name="data_pad")
    ic = te.reduce_axis((0, i_outer), name="ic_outer")
    ry = te.reduce_axis((0, kh), name="kh")
    rx = te.reduce_axis((0, kw), name="kw")
    ib = te.reduce_axis((0, ki), name="ic_inner")
    inside = [te.reduce_axis((0, g), name="ic_group") for g in at_once]

    def element(nn: Any, oc: Any, yy: Any, xx: Any, ob: Any) -> Any:
        chunk = ic.var if groups == 1 else tir.floordiv(oc, per_group) * i_outer + ic.var
        places = [axis.var for axis in inside]
        channel = ib.var * at_once[0] + places[0] if at_once else ib.var
        value = padded(nn, chunk, _at(yy, sh, ry.var, dh), _at(column(xx), sw, rx.var, dw), channel)
        weight = kernel(oc, ic.var, ry.var, rx.var, ib.var, ob, *places)
        return te.sum(_to(value, dtype) * _to(weight, dtype), axis=[ic, ry, rx, ib, *inside])

    return _cut_columns([n, o_outer, oh, columns, block_out], element, ow)


Operand = tuple[tuple[int, ...], str]
"""A known shape, and a type."""


def reads_only_padding(
    data: Operand, kernel: Operand, strides: Two, padding: Any, dilation: Two, groups: int, dtype: str
) -> bool:
    """Whether conv2d_NCHWc reads nothing outside the padding that it is given, because no columns are padded work."""
    (_, _, h, w, _), kind = data
    (filters, _, kh, kw, inner, _, *at_once), weights = kernel
    _, _, before, after, _, columns = _extents(h, w, (kh, kw), strides, padding, dilation)
    tiled = planner().tiled_rows(columns, (kind, weights, dtype), inner) if at_once else None
    if tiled is not None:
        return bool(tiled == columns)
    padded = any([*before, *after])
    return bool(planner().image_columns(columns, filters // groups, padded, "conv2d_NCHWc").count == columns)


Column = Callable[[Any], Any]


def _read_columns(columns: Columns, width: Any, stride: int) -> tuple[Any, Column, int]:
    """(columns to compute, f(column) -> the one to read, padding on the right that padded work reads) for results of a width."""
    if isinstance(columns.count, int) and (columns.count == width or columns.from_padding):
        return columns.count, lambda x: x, (columns.count - width) * stride
    if columns.count is width:
        return width, lambda x: x, 0
    return columns.count, lambda x: tir.min(x, width - 1), 0


def _cut_columns(shape: list[Any], element: Any, width: Any) -> te.Tensor:
    """The convolution on blocks (N, O/bo, OH, columns, bo), cut off where fewer columns are wanted."""
    columns = shape[3]
    attrs = {} if isinstance(columns, int) else {IN_TILES: 1}
    out = compute(shape, element, name="conv2d_NCHWc", tag="conv2d_NCHWc", attrs=attrs)
    if columns is width or (isinstance(width, int) and columns == width):
        return out
    wanted = [*shape[:3], width, shape[4]]
    return compute(wanted, lambda *i: out(*i), name="T_columns", tag="injective")


def conv2d_plain_NCHWc(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Two,
    padding: Any,
    dilation: Two,
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, I, H, W), weights (O/bo, I, KH, KW, bo): (N, O/bo, OH, OW, bo). For data of few channels, which is read in its plain
    layout."""
    dtype = out_dtype or data.dtype
    n, channels, h, w = shape_of(data)
    o_outer, _, kh, kw, block_out = (get_const_int(d) for d in kernel.shape)
    (sh, sw), (dh, dw), before, after, oh, ow = _extents(h, w, (kh, kw), strides, padding, dilation)
    found = planner().image_columns(ow, o_outer, any([*before, *after]), "conv2d_NCHWc")
    columns, column, right = _read_columns(found, ow, sw)
    padded = pad(data, [0, 0, *before], [0, 0, after[0], after[1] + right], name="data_pad")
    ic = te.reduce_axis((0, get_const_int(channels)), name="ic")
    ry = te.reduce_axis((0, kh), name="kh")
    rx = te.reduce_axis((0, kw), name="kw")

    def element(nn: Any, oc: Any, yy: Any, xx: Any, ob: Any) -> Any:
        value = padded(nn, ic.var, _at(yy, sh, ry.var, dh), _at(column(xx), sw, rx.var, dw))
        weight = kernel(oc, ic.var, ry.var, rx.var, ob)
        return te.sum(_to(value, dtype) * _to(weight, dtype), axis=[ic, ry, rx])

    return _cut_columns([n, o_outer, oh, columns, block_out], element, ow)


def conv2d_rows_NCHWc(
    data: te.Tensor,
    kernel: te.Tensor,
    width: int,
    strides: Two,
    padding: Any,
    dilation: Two,
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, I, H, W), weights (O/bo, I, KH, KW/g, bo, g): (N, O/bo, OH, OW, bo), for instructions that add up g products.

    The g products are adjacent in a row of the image, so data of few channels is read in its plain layout. width: the width of the
    kernel. Weights beyond it, which complete the last group, are zeros. The dilation along rows must be 1.
    """
    dtype = out_dtype or data.dtype
    n, channels, h, w = shape_of(data)
    o_outer, _, kh, pieces, block_out, group = (get_const_int(d) for d in kernel.shape)
    (sh, sw), (dh, dw), before, after, oh, ow = _extents(h, w, (kh, width), strides, padding, dilation)
    if dw != 1:
        raise ValueError(f"conv2d_rows_NCHWc: kernels in groups along rows have no dilation there, but it is {dw}")
    after = [after[0], after[1] + pieces * group - width]
    padded = pad(data, [0, 0, *before], [0, 0, *after], name="data_pad")
    ic = te.reduce_axis((0, get_const_int(channels)), name="ic")
    ry = te.reduce_axis((0, kh), name="kh")
    rx = te.reduce_axis((0, pieces), name="kw")
    inside = te.reduce_axis((0, group), name="kw_group")

    def element(nn: Any, oc: Any, yy: Any, xx: Any, ob: Any) -> Any:
        column = (xx if sw == 1 else xx * sw) + rx.var * group + inside.var
        value = padded(nn, ic.var, _at(yy, sh, ry.var, dh), column)
        weight = kernel(oc, ic.var, ry.var, rx.var, ob, inside.var)
        # Rows last: what neighbouring columns of the kernel read of the data overlaps, and would fill the registers.
        return te.sum(_to(value, dtype) * _to(weight, dtype), axis=[ic, rx, ry, inside])

    return compute([n, o_outer, oh, ow, block_out], element, name="conv2d_NCHWc", tag="conv2d_NCHWc")


def depthwise_conv2d_NCHWc(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Two,
    padding: Any,
    dilation: Two,
    layout: str = "",
    out_layout: str = "",
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, C/b, H, W, b), weights (C/b, 1, KH, KW, 1, b): (N, C/b, OH, OW, b)."""
    dtype = out_dtype or data.dtype
    n, outer, h, w, block = shape_of(data)
    kh, kw = get_const_int(kernel.shape[2]), get_const_int(kernel.shape[3])
    (sh, sw), (dh, dw), before, after, oh, ow = _extents(h, w, (kh, kw), strides, padding, dilation)
    padded = pad(data, [0, 0, *before, 0], [0, 0, *after, 0], name="data_pad")
    ry = te.reduce_axis((0, kh), name="kh")
    rx = te.reduce_axis((0, kw), name="kw")

    def element(nn: Any, co: Any, yy: Any, xx: Any, cb: Any) -> Any:
        value = padded(nn, co, _at(yy, sh, ry.var, dh), _at(xx, sw, rx.var, dw), cb)
        return te.sum(_to(value, dtype) * _to(kernel(co, 0, ry.var, rx.var, 0, cb), dtype), axis=[ry, rx])

    return compute([n, outer, oh, ow, block], element, name="depthwise_conv2d_NCHWc", tag="depthwise_conv2d_NCHWc")


def conv1d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, I, W), weights (O, I / groups, K): (N, O, OW)."""
    dtype = out_dtype or data.dtype
    n, _, w = shape_of(data)
    o, per_group, kw = (get_const_int(d) for d in kernel.shape)
    s, d = (v if isinstance(v, int) else get_const_int(v[0]) for v in (strides, dilation))
    before, after = get_pad_tuple(padding, [(kw - 1) * d + 1], 1)
    found = plain_conv(Windows(data, kernel, [s], before, after, [d], groups, dtype), "conv1d_ncw", "conv1d_ncw")
    if found is not None:
        return found
    padded = pad(data, [0, 0, *before], [0, 0, *after], name="pad_temp")
    rc = te.reduce_axis((0, per_group), name="rc")
    rx = te.reduce_axis((0, kw), name="rx")

    def element(nn: Any, ff: Any, xx: Any) -> Any:
        channel = rc.var if groups == 1 else tir.floordiv(ff, o // groups) * per_group + rc.var
        return te.sum(
            _to(padded(nn, channel, _at(xx, s, rx.var, d)), dtype) * _to(kernel(ff, rc.var, rx.var), dtype),
            axis=[rc, rx],
        )

    return compute(
        [n, o, window_extent(w, kw, before[0], after[0], s, d)], element, name="conv1d_ncw", tag="conv1d_ncw"
    )


def conv2d_transpose_nchw(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Two,
    padding: Any,
    out_dtype: str | None = None,
    output_padding: Two = 0,
    groups: int = 1,
    dilation: Two = 1,
) -> te.Tensor:
    """The adjoint of conv2d: data (N, I, H, W), weights (I, O / groups, KH, KW): (N, O, (H-1)*s - pads + reach + output_padding,
    ..).

    If the stride equals the kernel size, windows do not overlap, and each output element has one term per input channel. Otherwise
    the data is dilated and padded, and convolved with the mirrored kernel.
    """
    dtype = out_dtype or data.dtype
    n, channels, h, w = shape_of(data)
    _, per_out, kh, kw = (get_const_int(d) for d in kernel.shape)
    (sh, sw), (dh, dw), (ph, pw) = pair(strides), pair(dilation), pair(output_padding)
    reach = [(kh - 1) * dh + 1, (kw - 1) * dw + 1]
    before, after = get_pad_tuple(padding, reach)
    o = per_out * groups
    per_in = as_int(channels) // groups
    oh = as_int((h - 1) * sh + (reach[0] - before[0] - after[0] + ph))
    ow = as_int((w - 1) * sw + (reach[1] - before[1] - after[1] + pw))
    rc = te.reduce_axis((0, per_in), name="dc")

    def channel(ff: Any) -> Any:
        return rc.var if groups == 1 else tir.floordiv(ff, per_out) * per_in + rc.var

    def out_channel(ff: Any) -> Any:
        return ff if groups == 1 else tir.floormod(ff, per_out)

    if (kh, kw) == (sh, sw) and not any(before) and not any(after) and (dh, dw, ph, pw) == (1, 1, 0, 0):
        # One product for each kernel offset, side by side in the input's own grid, then interleaved.
        columns = computed_columns(w, dtype)
        read = window_columns(data, [0] * 4, [0] * 4, columns, 1, 1, 1)

        def product(nn: Any, ff: Any, ky: Any, kx: Any, yy: Any, xx: Any) -> Any:
            weight = kernel(channel(ff), out_channel(ff), ky, kx)
            return te.sum(_to(read((nn, channel(ff), yy), xx, 0), dtype) * _to(weight, dtype), axis=[rc])

        products = compute(
            [n, o, kh, kw, h, columns], product, name="conv2d_transpose_nchw", tag="conv2d_transpose_nchw"
        )

        def interleaved(nn: Any, ff: Any, yy: Any, xx: Any) -> Any:
            return products(
                nn, ff, tir.floormod(yy, sh), tir.floormod(xx, sw), tir.floordiv(yy, sh), tir.floordiv(xx, sw)
            )

        return compute([n, o, oh, ow], interleaved, name="T_interleave", tag="injective")

    spread = dilate(data, [1, 1, sh, sw], name="data_dilate")
    lead = [reach[0] - 1 - before[0], reach[1] - 1 - before[1]]
    tail = [reach[0] - 1 - after[0] + ph, reach[1] - 1 - after[1] + pw]
    padded = pad(spread, [0, 0, *lead], [0, 0, *tail], name="data_pad")
    ry = te.reduce_axis((0, kh), name="dh")
    rx = te.reduce_axis((0, kw), name="dw")

    def element(nn: Any, ff: Any, yy: Any, xx: Any) -> Any:
        value = padded(nn, channel(ff), _at(yy, 1, ry.var, dh), _at(xx, 1, rx.var, dw))
        weight = kernel(channel(ff), out_channel(ff), kh - 1 - ry.var, kw - 1 - rx.var)
        return te.sum(_to(value, dtype) * _to(weight, dtype), axis=[rc, ry, rx])

    return compute([n, o, oh, ow], element, name="conv2d_transpose_nchw", tag="conv2d_transpose_nchw")
