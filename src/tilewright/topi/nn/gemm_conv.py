"""Convolution as a matrix product of rows, which are patches of the data, and weights in tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.utils import as_int, get_const_int, get_pad_tuple, shape_of, to, window_extent

if TYPE_CHECKING:
    from tilewright.tir.expr import Var


def conv2d_gemm_weight_transform(
    kernel: te.Tensor, tile_N: int, tile_K: int, use_scalable_vectors: bool = False, use_sme: bool = False
) -> te.Tensor:
    """Weights (KH, KW, I, O) as (O / tile_N, KH * KW * I / tile_K, tile_N, tile_K), padded with zeros. Raises ValueError for tiles whose
    size only the processor knows."""
    if use_scalable_vectors or use_sme:
        raise ValueError(
            "conv2d_gemm_weight_transform: the extents of tiles must be known when the weights are transformed"
        )
    tile_n, tile_k = tile_N, tile_K
    kh, kw, channels, o = [get_const_int(d) for d in kernel.shape]
    rows = kh * kw * channels

    def element(n: Var, k: Var, y: Var, x: Var) -> Any:
        row, column = k * tile_k + x, n * tile_n + y
        value = kernel(
            tir.floordiv(row, kw * channels),
            tir.floormod(tir.floordiv(row, channels), kw),
            tir.floormod(row, channels),
            column,
        )
        if rows % tile_k == 0 and o % tile_n == 0:
            return value
        return tir.if_then_else(tir.all(row < rows, column < o), value, tir.const(0, kernel.dtype))

    shape = [-(-o // tile_n), -(-rows // tile_k), tile_n, tile_k]
    return compute(shape, element, name="weight_tiles", tag="injective,conv2d_gemm_weight_transform")


def conv2d_gemm_without_weight_transform(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Sequence[int],
    padding: Any,
    dilation: Sequence[int],
    kernel_size: Sequence[int],
    channels: int,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution of data (N, H, W, C) with weights from `conv2d_gemm_weight_transform`; `kernel_size` and `channels` are those of
    the original weights."""
    dtype = out_dtype or data.dtype
    n, height, width, c = shape_of(data)
    kh, kw = kernel_size
    (sh, sw), (dh, dw) = [(v[0], v[-1]) for v in (strides, dilation)]
    before, after = get_pad_tuple(padding, [kh, kw])
    oh, ow = (
        window_extent(height, kh, before[0], after[0], sh, dh),
        window_extent(width, kw, before[1], after[1], sw, dw),
    )
    padded = pad(data, [0, *before, 0], [0, *after, 0], name="data_pad") if any((*before, *after)) else data
    tile_n, tile_k = [get_const_int(d) for d in weight.shape[2:]]
    rows = as_int(kh * kw * c)
    r = te.reduce_axis((0, rows), name="k")

    def element(b: Var, y: Var, x: Var, f: Var) -> Any:
        ky, kx, ci = tir.floordiv(r.var, kw * c), tir.floormod(tir.floordiv(r.var, c), kw), tir.floormod(r.var, c)
        value = to(padded(b, y * sh + ky * dh, x * sw + kx * dw, ci), dtype)
        tile = weight(
            tir.floordiv(f, tile_n), tir.floordiv(r.var, tile_k), tir.floormod(f, tile_n), tir.floormod(r.var, tile_k)
        )
        return te.sum(value * to(tile, dtype), axis=[r])

    return compute([n, oh, ow, channels], element, name="conv2d_gemm", tag="conv2d_gemm")
