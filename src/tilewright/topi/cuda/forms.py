"""Computes that the package `topi.cuda` has in forms of its own: blocks of bytes, scans and sorts with their classic arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import te
from tilewright.topi import nn
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.nn.winograd3d import (
    conv3d_winograd_ncdhw_without_weight_transform,
    conv3d_winograd_weight_transform,
)
from tilewright.topi.scan import scanop
from tilewright.topi.sort import first
from tilewright.topi.transform import layout_transform, transpose
from tilewright.topi.utils import (
    as_int,
    get_const_int,
    get_pad_tuple,
    moved,
    normalize_axis,
    pair,
    shape_of,
    to,
    window_extent,
)

if TYPE_CHECKING:
    from tilewright.tir.expr import Var

BLOCK = 4
"""Channels of a block: as many bytes as an instruction multiplies at once."""


def conv2d_blocks_of_bytes(
    data: te.Tensor, kernel: te.Tensor, stride: Any, padding: Any, dilation: Any, groups: int, out_dtype: str
) -> te.Tensor:
    """Convolution of data (N, C / 4, H, W, 4) with weights (O / 4, C / groups / 4, KH, KW, 4, 4 of C), or of data (N, C, H, W) with weights
    (O, C / groups, KH, KW), which are blocked first: (N, O / 4, OH, OW, 4)."""
    if len(data.shape) == 4:
        data = layout_transform(data, "NCHW", "NCHW4c")
        kernel = layout_transform(kernel, "OIHW", "OIHW4o4i")
    n, _, h, w, block = shape_of(data)
    chunks, inner, kh, kw, outputs, _ = (get_const_int(d) for d in kernel.shape)
    (sh, sw), (dh, dw) = pair(stride), pair(dilation)
    before, after = get_pad_tuple(padding, [(kh - 1) * dh + 1, (kw - 1) * dw + 1])
    padded = pad(data, [0, 0, *before, 0], [0, 0, *after, 0], name="pad_data")
    ic, ry, rx, ib = (
        te.reduce_axis((0, d), name=name) for d, name in ((inner, "ic"), (kh, "kh"), (kw, "kw"), (block, "icb"))
    )
    per_group = chunks // groups

    def element(b: Var, o: Var, y: Var, x: Var, ob: Var) -> Any:
        chunk = ic.var if groups == 1 else tir.floordiv(o, per_group) * inner + ic.var
        value = padded(b, chunk, moved(y, sh, ry.var, dh), moved(x, sw, rx.var, dw), ib.var)
        weight = kernel(o, ic.var, ry.var, rx.var, ob, ib.var)
        return te.sum(to(value, out_dtype) * to(weight, out_dtype), axis=[ic, ry, rx, ib])

    out = [window_extent(h, kh, before[0], after[0], sh, dh), window_extent(w, kw, before[1], after[1], sw, dw)]
    return compute([n, chunks, *out, outputs], element, name="conv2d_NCHWc_int8", tag="conv2d_NCHWc_int8")


def conv2d_nhwc_winograd_of_transformed(
    data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: str | None = None
) -> te.Tensor:
    """Convolution of data (N, H, W, I) with stride 1 and weights (tile, tile, I, O) from `conv2d_winograd_weight_transform`."""
    weights = transpose(kernel, (0, 1, 3, 2))
    return nn.conv2d_winograd_nhwc_without_weight_transform(data, weights, strides, padding, dilation, out_dtype)


def conv2d_hwnc(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    in_dtype: str,
    out_dtype: str = "int32",
) -> te.Tensor:
    """Convolution of data (H, W, N, C) with weights (KH, KW, O, C): (OH, OW, N, O)."""
    del in_dtype
    return nn.conv(data, kernel, strides, padding, dilation, 1, "HWNC", "HWOI", out_dtype)


def unpack_HWNCnc_to_hwnc(packed_out: te.Tensor, out_dtype: str) -> te.Tensor:
    """Images in blocks (H, W, N, C, n, c) as (H, W, N * n, C * c), in out_dtype."""
    h, w, n, c, rows, columns = shape_of(packed_out)
    return compute(
        [h, w, n * rows, c * columns],
        lambda y, x, i, j: to(packed_out(y, x, i // rows, j // columns, i % rows, j % columns), out_dtype),
        name="output_unpack",
        tag="injective,unpack_hwncc",
    )


def conv3d_winograd(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution of volumes by Winograd's form, with strides of 1 and one group."""
    _plain(strides, dilation, groups)
    depth, tile = get_const_int(kernel.shape[2]), 2
    weights = conv3d_winograd_weight_transform(kernel, tile)
    return conv3d_winograd_ncdhw_without_weight_transform(data, weights, padding, depth, tile, out_dtype)


def conv3d_winograd_of_transformed(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str | None = None,
) -> te.Tensor:
    """`conv3d_winograd` of weights from `conv3d_winograd_weight_transform` with tiles of two results, of kernels of extent 3."""
    _plain(strides, dilation, groups)
    return conv3d_winograd_ncdhw_without_weight_transform(data, kernel, padding, 3, 2, out_dtype)


def winograd(
    data: te.Tensor, kernel: te.Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: str, pre_computed: bool
) -> te.Tensor:
    """Winograd's form of images or of volumes, by the axes of the data."""
    if len(data.shape) == 4:
        return nn.conv2d_winograd_nchw(data, kernel, strides, padding, dilation, out_dtype, pre_computed)
    form = conv3d_winograd_of_transformed if pre_computed else conv3d_winograd
    return form(data, kernel, strides, padding, dilation, 1, out_dtype)


def _plain(strides: Any, dilation: Any, groups: int) -> None:
    steps = {
        *([strides] if isinstance(strides, int) else strides),
        *([dilation] if isinstance(dilation, int) else dilation),
    }
    if steps != {1} or groups != 1:
        raise ValueError(
            f"Winograd's form has strides and dilations of 1 and one group, but they are {strides}, {dilation} and {groups}"
        )


def argsort(
    data: te.Tensor, axis: int = -1, is_ascend: bool = True, dtype: str = "float32", ret_type: str = "indices"
) -> Any:
    """The positions of the elements in sorted order along `axis`; with ret_type "both", [values, positions]."""
    at = normalize_axis(axis, len(data.shape))
    values, places = first(data, at, bool(is_ascend), shape_of(data)[at], dtype)
    return [values, places] if ret_type == "both" else places


def sort_by_key(keys: te.Tensor, values: te.Tensor, axis: int = -1, is_ascend: bool = True) -> list[te.Tensor]:
    """[keys in sorted order along `axis`, values in the order of their keys]. Equal keys keep their order."""
    at = normalize_axis(axis, len(keys.shape))
    in_order, places = first(keys, at, bool(is_ascend), shape_of(keys)[at], "int32")
    moved_values = compute(
        values.shape,
        lambda *i: values(*i[:at], places(*i), *i[at + 1 :]),
        name="values_by_key",
        tag="injective",
    )
    return [in_order, moved_values]


def stable_sort_by_key(keys: te.Tensor, values: te.Tensor, for_scatter: bool = False) -> list[te.Tensor]:
    """`sort_by_key` along the last axis. for_scatter: negative keys count from the end."""
    count = to(shape_of(keys)[-1], keys.dtype)
    if for_scatter:
        given = keys
        keys = compute(
            given.shape, lambda *i: tir.Select(given(*i) < 0, given(*i) + count, given(*i)), "from_start", "injective"
        )
    return sort_by_key(keys, values)


WARP = 32
"""Threads that run together."""


def is_valid_for_sparse_dense_padded(data: Any, weight_data: Any) -> bool:
    """Whether the rows of relay's data are enough for the threads of a warp, in blocks as high as those of the weights."""
    columns, blocks = data.checked_type.shape[1], weight_data.checked_type.shape
    height = 1 if len(blocks) == 1 else get_const_int(blocks[1])
    return get_const_int(columns) // height >= WARP


def pad_sparse_matrix(matrix: Any, blocksize: int) -> Any:
    """A matrix of SciPy (CSR or BSR) whose rows have a multiple of `blocksize` elements or blocks: zeros are added, in column 0."""
    counts = np.diff(matrix.indptr)
    padded = -(-counts // blocksize) * blocksize
    indptr = np.concatenate([[0], np.cumsum(padded)]).astype(matrix.indptr.dtype)
    data = np.zeros((int(indptr[-1]), *matrix.data.shape[1:]), matrix.data.dtype)
    indices = np.zeros(int(indptr[-1]), matrix.indices.dtype)
    places = np.arange(len(matrix.indices)) + np.repeat(indptr[:-1] - matrix.indptr[:-1], counts)
    data[places], indices[places] = matrix.data, matrix.indices
    return type(matrix)((data, indices, indptr), shape=matrix.shape)


Binop = Callable[[Any, Any], Any]


def scan(
    data: te.Tensor,
    axis: int | None,
    dtype: str | None,
    binop: Binop | None,
    identity_value: Any,
    exclusive: bool | None,
) -> te.Tensor:
    """binop (addition if None) of all elements up to each one along `axis` (of the flattened data if None); exclusive: without the element
    itself."""
    return scanop(data, binop or tir.Add, identity_value, "T_scan", axis, dtype, exclusive)


def exclusive_scan(
    data: te.Tensor,
    axis: int,
    return_reduction: bool,
    output_dtype: str | None,
    binop: Binop | None,
    identity_value: Any,
) -> Any:
    """binop of all elements before each one along `axis`. return_reduction: [this, binop of all elements]."""
    found = scan(data, axis, output_dtype, binop, identity_value, True)
    return [found, get_reduction_from_exclusive_scan(data, found, binop, axis)] if return_reduction else found


def get_reduction_from_exclusive_scan(
    data: te.Tensor, ex_scan_output: te.Tensor, binop: Binop | None = None, axis: int = -1
) -> te.Tensor:
    """binop of all elements along the axis (the last one) of an exclusive scan, which its last element and that of the data give."""
    at = normalize_axis(axis, len(data.shape))
    shape = shape_of(data)
    dtype = ex_scan_output.dtype
    combine = binop or tir.Add

    def element(*i: Var) -> Any:
        place = (*i[:at], as_int(shape[at] - 1), *i[at:])
        return combine(ex_scan_output(*place), to(data(*place), dtype))

    return compute([*shape[:at], *shape[at + 1 :]], element, name="reduction", tag="injective")
