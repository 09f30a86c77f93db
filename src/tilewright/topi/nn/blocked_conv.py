"""Convolutions of images on channel blocks.

Every form is padding (a stage of its own), then one reduction. Blocked data is [n, c // b, h, w, c % b], blocked weights [o // bo,
i // bi, kh, kw, bi, bo], so the innermost axis is contiguous and as long as a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.planner import Columns, planner
from tilewright.topi.stages import IN_TILES
from tilewright.topi.utils import Dim, get_const_int, get_pad_tuple, moved, pair, shape_of, to, window_extent

if TYPE_CHECKING:
    from tilewright.tir.expr import Var


Two = int | Sequence[int]


def _extents(
    height: Dim, width: Dim, kernel: tuple[int, int], strides: Two, padding: Any, dilation: Two
) -> tuple[tuple[int, int], tuple[int, int], list[int], list[int], Dim, Dim]:
    (sh, sw), (dh, dw) = pair(strides), pair(dilation)
    reach = [(kernel[0] - 1) * dh + 1, (kernel[1] - 1) * dw + 1]
    before, after = get_pad_tuple(padding, reach)
    oh = window_extent(height, kernel[0], before[0], after[0], sh, dh)
    ow = window_extent(width, kernel[1], before[1], after[1], sw, dw)
    return (sh, sw), (dh, dw), before, after, oh, ow


def conv2d_NCHWc(
    data: te.Tensor,
    kernel: te.Tensor,
    stride: Two,
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
            f"conv2d_NCHWc: data in blocks of {block_in} channels do not fit weights in blocks of {prod([ki, *at_once])}"
        )
    (sh, sw), (dh, dw), before, after, oh, ow = _extents(h, w, (kh, kw), stride, padding, dilation)
    per_group = o_outer // groups
    tiled = None
    if at_once and isinstance(oh, int) and isinstance(ow, int):
        tiled = planner().tiled_rows(ow, (data.dtype, kernel.dtype, dtype), ki, "conv2d_NCHWc.columns")
    # Tile registers load neighbouring columns, so padded work reads padding.
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

    def element(nn: Var, oc: Var, yy: Var, xx: Var, ob: Var) -> Any:
        chunk = ic.var if groups == 1 else tir.floordiv(oc, per_group) * i_outer + ic.var
        places = [axis.var for axis in inside]
        channel = ib.var * at_once[0] + places[0] if at_once else ib.var
        value = padded(nn, chunk, moved(yy, sh, ry.var, dh), moved(column(xx), sw, rx.var, dw), channel)
        weight = kernel(oc, ic.var, ry.var, rx.var, ib.var, ob, *places)
        return te.sum(to(value, dtype) * to(weight, dtype), axis=[ic, ry, rx, ib, *inside])

    return _cut_columns([n, o_outer, oh, columns, block_out], element, ow)


Operand = tuple[tuple[int, ...], str]
"""(static shape, dtype) of an operand."""


def reads_only_padding(
    data: Operand, kernel: Operand, strides: Two, padding: Any, dilation: Two, groups: int, dtype: str
) -> bool:
    """Whether conv2d_NCHWc reads only the given padding, because it computes no columns as padded work."""
    (_, _, h, w, _), kind = data
    (filters, _, kh, kw, inner, _, *at_once), weights = kernel
    _, _, before, after, _, columns = _extents(h, w, (kh, kw), strides, padding, dilation)
    tiled = planner().tiled_rows(columns, (kind, weights, dtype), inner, "conv2d_NCHWc.columns") if at_once else None
    if tiled is not None:
        return bool(tiled == columns)
    padded = any([*before, *after])
    return bool(planner().image_columns(columns, filters // groups, padded, "conv2d_NCHWc").count == columns)


Column = Callable[[Any], Any]


def _read_columns(columns: Columns, width: Any, stride: int) -> tuple[int, Column, int]:
    """(columns to compute, f(column) -> the column to read, padding on the right that padded work reads) for results of `width` columns."""
    if isinstance(columns.count, int) and (columns.count == width or columns.from_padding):
        return columns.count, lambda x: x, (columns.count - width) * stride
    if columns.count is width:
        return width, lambda x: x, 0
    return columns.count, lambda x: tir.min(x, width - 1), 0


def _cut_columns(shape: list[Any], element: Any, width: Any, name: str = "conv2d_NCHWc") -> te.Tensor:
    """The convolution on blocks (N, O/bo, OH, columns, bo), cut to `width` columns."""
    columns = shape[3]
    attrs = {} if isinstance(columns, int) else {IN_TILES: 1}
    out = compute(shape, element, name=name, tag=name, attrs=attrs)
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

    def element(nn: Var, oc: Var, yy: Var, xx: Var, ob: Var) -> Any:
        value = padded(nn, ic.var, moved(yy, sh, ry.var, dh), moved(column(xx), sw, rx.var, dw))
        weight = kernel(oc, ic.var, ry.var, rx.var, ob)
        return te.sum(to(value, dtype) * to(weight, dtype), axis=[ic, ry, rx])

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

    def element(nn: Var, oc: Var, yy: Var, xx: Var, ob: Var) -> Any:
        column = (xx if sw == 1 else xx * sw) + rx.var * group + inside.var
        value = padded(nn, ic.var, moved(yy, sh, ry.var, dh), column)
        weight = kernel(oc, ic.var, ry.var, rx.var, ob, inside.var)
        # ry is inside rx: the data that neighbouring columns of the kernel read overlaps, and would take too many registers.
        return te.sum(to(value, dtype) * to(weight, dtype), axis=[ic, rx, ry, inside])

    return compute([n, o_outer, oh, ow, block_out], element, name="conv2d_NCHWc", tag="conv2d_NCHWc")


def conv2d_NCHWc_int8(
    data: te.Tensor,
    kernel: te.Tensor,
    stride: Two,
    padding: Any,
    dilation: Two,
    layout: str = "",
    out_layout: str = "",
    out_dtype: str = "int32",
    n_elems: int = 4,
) -> te.Tensor:
    """`conv2d_NCHWc` of bytes for instructions that add up n_elems products: data (N, I/bi, H, W, bi), weights (O/bo, I/groups/bi, KH, KW,
    bi/n_elems, bo, n_elems)."""
    shape = [get_const_int(d) for d in kernel.shape]
    if len(shape) != 7 or shape[-1] != n_elems:
        raise ValueError(
            f"conv2d_NCHWc_int8: weights must be (O/bo, I/bi, KH, KW, bi/{n_elems}, bo, {n_elems}), but their shape is {shape}"
        )
    groups = get_const_int(data.shape[1]) // shape[1]
    return conv2d_NCHWc(data, kernel, stride, padding, dilation, layout, out_layout, out_dtype, groups)


def depthwise_conv2d_NCHWc(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Two,
    padding: Any,
    dilation: Two,
    layout: str = "",
    out_layout: str = "",
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, C/b, H, W, b), weights (C/b, 1, KH, KW, 1, b): (N, C/b, OH, OW, b)."""
    dtype = out_dtype or Input.dtype
    n, outer, h, w, block = shape_of(Input)
    kh, kw = get_const_int(Filter.shape[2]), get_const_int(Filter.shape[3])
    (sh, sw), (dh, dw), before, after, oh, ow = _extents(h, w, (kh, kw), stride, padding, dilation)
    name = "depthwise_conv2d_NCHWc"
    found = planner().depthwise_columns(ow, kh * kw, dw, any([*before, *after]), name)
    columns, column, right = _read_columns(found, ow, sw)
    padded = pad(Input, [0, 0, *before, 0], [0, 0, after[0], after[1] + right, 0], name="data_pad")
    ry = te.reduce_axis((0, kh), name="kh")
    rx = te.reduce_axis((0, kw), name="kw")

    def element(nn: Var, co: Var, yy: Var, xx: Var, cb: Var) -> Any:
        value = padded(nn, co, moved(yy, sh, ry.var, dh), moved(column(xx), sw, rx.var, dw), cb)
        return te.sum(to(value, dtype) * to(Filter(co, 0, ry.var, rx.var, 0, cb), dtype), axis=[ry, rx])

    return _cut_columns([n, outer, oh, columns, block], element, ow, name)
