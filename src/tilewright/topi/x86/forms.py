"""Computes that the package `topi.x86` has in forms of its own: bytes in blocks for dot products, sparse kernels, and products by
libraries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import te
from tilewright.target import Target
from tilewright.topi import nn
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.sparse import sparse_dense
from tilewright.topi.transform import layout_transform, reshape, transpose
from tilewright.topi.utils import as_int, get_const_int, shape_of

if TYPE_CHECKING:
    from tilewright.tir.expr import Var

GROUP = 4
"""The products of bytes that one instruction adds up."""


class Workload3D(NamedTuple):
    """The numbers that describe a convolution of volumes."""

    in_dtype: str
    out_dtype: str
    depth: int
    height: int
    width: int
    in_filter: int
    groups: int
    out_filter: int
    kernel_d: int
    kernel_h: int
    kernel_w: int
    dpad: int
    hpad: int
    wpad: int
    dstride: int
    hstride: int
    wstride: int


def conv2d_NCHWc_int8(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    layout: str = "NCHW",
    out_layout: str = "NCHW",
    out_dtype: str = "int32",
) -> te.Tensor:
    """Convolution of bytes in blocks of channels, for instructions that add up four products: data (N, C / b, H, W, b) and weights (O /
    o, C / b, KH, KW, b / 4, o, 4), or plain ones in NCHW and OIHW, which are blocked first. The result is in blocks."""
    if len(data.shape) == 4:
        channels, filters = get_const_int(data.shape[1]), get_const_int(kernel.shape[0])
        if channels % GROUP:
            raise ValueError(f"conv2d_NCHWc_int8: the channels must be a multiple of {GROUP}, but are {channels}")
        block, width = math.gcd(channels, 16), math.gcd(filters, 16)
        data = layout_transform(data, "NCHW", f"NCHW{block}c")
        kernel = _grouped_weights(kernel, block, width)
    return nn.conv2d_NCHWc_int8(data, kernel, strides, padding, dilation, layout, out_layout, out_dtype, GROUP)


def _grouped_weights(kernel: te.Tensor, block: int, width: int) -> te.Tensor:
    o, i, kh, kw = [get_const_int(d) for d in kernel.shape]

    def element(chunk: Var, of: Var, y: Var, x: Var, outer: Var, f: Var, g: Var) -> Any:
        return kernel(chunk * width + f, of * block + outer * GROUP + g, y, x)

    shape = [o // width, i // block, kh, kw, block // GROUP, width, GROUP]
    return compute(shape, element, name="kernel_vec", tag="injective")


def dense_int8_compute(X: te.Tensor, packed_w: te.Tensor, bias: te.Tensor | None = None) -> te.Tensor:
    """Bytes X (M, K) times weights in panels (N / 16, K / 4, 16, 4): (M, N) in int32."""
    return nn.dense_pack(X, packed_w, bias, "int32")


def batch_matmul_int8_compute(x: te.Tensor, y: te.Tensor, *_: Any) -> te.Tensor:
    """Bytes x (B, M, K) times the transpose of y (B, N, K): (B, M, N) in int32."""
    return nn.batch_matmul(x, y, None, "int32")


def batch_matmul_by_library(
    tensor_a: te.Tensor, tensor_b: te.Tensor, out_shape: Any, trans_a: bool, trans_b: bool, lib: Any
) -> te.Tensor:
    """A product of matrices in batches; computed here, without the library."""
    del lib
    return nn.batch_matmul(tensor_a, tensor_b, out_shape, None, trans_a, trans_b)


def matmul_by_library(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    bias: te.Tensor | None,
    out_dtype: str | None,
    transpose_a: bool,
    transpose_b: bool,
    lib: Any,
) -> te.Tensor:
    """A product of matrices; computed here, without the library."""
    del lib
    return nn.matmul(tensor_a, tensor_b, bias, out_dtype, transpose_a, transpose_b)


def spconv2d_3x3(layout: str, data: te.Tensor, wdat: te.Tensor, wind: te.Tensor, wptr: te.Tensor) -> te.Tensor:
    """Convolution, with padding and strides of 1, by kernels of 3 by 3 whose weights are a sparse matrix (BSR or CSR): (O, C * 9) of OIHW
    for NCHW, (O, 9 * C) of OHWI for NHWC."""
    first = layout == "NCHW"
    n, *rest = shape_of(data)
    channels, h, w = rest if first else [rest[2], *rest[:2]]
    around = [0, 0, 1, 1] if first else [0, 1, 1, 0]
    padded = pad(data, around, name="data_pad")

    def window(place: Var, k: Var) -> Any:
        column, row = tir.floormod(place, w), tir.floormod(tir.floordiv(place, w), h)
        image = tir.floordiv(place, h * w)
        channel, offset = (
            (tir.floordiv(k, 9), tir.floormod(k, 9))
            if first
            else (tir.floormod(k, channels), tir.floordiv(k, channels))
        )
        y, x = row + tir.floordiv(offset, 3), column + tir.floormod(offset, 3)
        return padded(image, channel, y, x) if first else padded(image, y, x, channel)

    rows = compute([as_int(n * h * w), as_int(channels * 9)], window, name="im2col", tag="injective")
    found = reshape(sparse_dense(rows, wdat, wind, wptr), [n, h, w, _rows_of(wdat, wptr)])
    return transpose(found, (0, 3, 1, 2)) if first else found


def _rows_of(wdat: te.Tensor, wptr: te.Tensor) -> Any:
    blocks = as_int(shape_of(wptr)[0] - 1)
    return blocks * (get_const_int(wdat.shape[1]) if len(wdat.shape) == 3 else 1)


FEATURES = ("avx512vnni", "avxvnni", "avx512bw", "avx2", "ssse3")
"""Features of processors that multiply bytes, each of which suffices."""


def is_int8_hw_support(data_dtype: str, kernel_dtype: str) -> bool:
    """Whether the current target has instructions for sums of products of these types: uint8 by int8."""
    target = Target.current(True)
    return data_dtype == "uint8" and kernel_dtype == "int8" and target is not None and has_feature(target, FEATURES)


def has_feature(target: Target, names: Sequence[str]) -> bool:
    """Whether a target for processors has one of these features."""
    return target.kind.name == "llvm" and any([target.supports_feature(name) for name in names])


def check_int8_applicable(x: te.Tensor, y: te.Tensor, allow_padding: bool = False) -> bool:
    """Whether a product of x (.., K) by y (.., N, K) runs on instructions for bytes: uint8 by int8, with K a multiple of 4 and N of 16
    unless they may be padded."""
    whole = get_const_int(x.shape[-1]) % GROUP == 0 and get_const_int(y.shape[-2]) % 16 == 0
    return is_int8_hw_support(x.dtype, y.dtype) and (allow_padding or whole)
