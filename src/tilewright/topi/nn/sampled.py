"""Convolutions at positions that are data, correlation of two images, and the adjoint of a convolution's weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.transform import transpose
from tilewright.topi.utils import ceil_div, get_const_int, get_pad_tuple, pair, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


def deformable_conv2d_nchw(
    data: te.Tensor,
    offset: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution whose positions are shifted by `offset`, in elements. Data is interpolated, and zero outside of the image.
    data (N, C, H, W), weights (O, C / groups, KH, KW), offset (N, 2 * deformable_groups * KH * KW, OH, OW) with y before x."""
    dtype = out_dtype or data.dtype
    n, _, height, width = shape_of(data)
    o, per_group, kh, kw = [get_const_int(d) for d in kernel.shape]
    channels = per_group * groups
    (sh, sw), (dh, dw) = pair(strides), pair(dilation)
    before, _ = get_pad_tuple(padding, [(kh - 1) * dh + 1, (kw - 1) * dw + 1])
    oh, ow = shape_of(offset)[2:]
    per_deformed = channels // deformable_groups
    real = data.dtype

    def c(v: float) -> Any:
        return tir.const(v, real)

    def sampled(b: Var, ch: Var, ky: Var, kx: Var, oy: Var, ox: Var) -> Any:
        at = ((tir.floordiv(ch, per_deformed) * kh + ky) * kw + kx) * 2
        y = to(oy * sh - before[0] + ky * dh, real) + to(offset(b, at, oy, ox), real)
        x = to(ox * sw - before[1] + kx * dw, real) + to(offset(b, at + 1, oy, ox), real)
        base_y, base_x = tir.floor(y), tir.floor(x)
        ty, tx = y - base_y, x - base_x

        def element(row: PrimExpr, column: PrimExpr) -> Any:
            inside = tir.all(row >= 0, row < to(height, "int32"), column >= 0, column < to(width, "int32"))
            safe_y = tir.max(tir.min(row, to(height, "int32") - 1), 0)
            safe_x = tir.max(tir.min(column, to(width, "int32") - 1), 0)
            return tir.Select(inside, data(b, ch, safe_y, safe_x), c(0))

        a, d = to(base_y, "int32"), to(base_x, "int32")
        top = element(a, d) * (c(1) - tx) + element(a, d + 1) * tx
        bottom = element(a + 1, d) * (c(1) - tx) + element(a + 1, d + 1) * tx
        return top * (c(1) - ty) + bottom * ty

    moved = compute([n, channels, kh, kw, oh, ow], sampled, name="data_deform", tag="injective")
    rc = te.reduce_axis((0, per_group), name="rc")
    ry, rx = te.reduce_axis((0, kh), name="ry"), te.reduce_axis((0, kw), name="rx")

    def element(b: Var, f: Var, y: Var, x: Var) -> Any:
        ch = rc.var if groups == 1 else tir.floordiv(f, o // groups) * per_group + rc.var
        value = to(moved(b, ch, ry.var, rx.var, y, x), dtype) * to(kernel(f, rc.var, ry.var, rx.var), dtype)
        return te.sum(value, axis=[rc, ry, rx])

    return compute([n, o, oh, ow], element, name="deformable_conv2d_nchw", tag="deformable_conv2d_nchw")


def deformable_conv2d_nhwc(
    data: te.Tensor,
    offset: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
    out_dtype: str | None = None,
) -> te.Tensor:
    """`deformable_conv2d_nchw` with channels last: data (N, H, W, C), weights (KH, KW, C / groups, O), offset (N, OH, OW, 2 *
    deformable_groups * KH * KW)."""
    plain = deformable_conv2d_nchw(
        transpose(data, (0, 3, 1, 2)), transpose(offset, (0, 3, 1, 2)), transpose(kernel, (3, 2, 0, 1)), strides, padding, dilation,
        deformable_groups, groups, out_dtype,
    )  # fmt: skip
    return transpose(plain, (0, 2, 3, 1))


def correlation_nchw(
    data1: te.Tensor,
    data2: te.Tensor,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Any,
    is_multiply: bool,
) -> te.Tensor:
    """FlowNet's correlation: the mean product (or distance) of windows of two images, where the second is shifted by up to
    max_displacement in steps of stride2: (N, displacements squared, OH, OW)."""
    n, channels, h, w = shape_of(data1)
    before, after = get_pad_tuple(padding, [kernel_size, kernel_size])
    first, second = [pad(d, [0, 0, *before], [0, 0, *after], name=f"padded{i}") for i, d in enumerate((data1, data2))]
    border = max_displacement + (kernel_size - 1) // 2
    oh = ceil_div(h + before[0] + after[0] - 2 * border, stride1)
    ow = ceil_div(w + before[1] + after[1] - 2 * border, stride1)
    radius = max_displacement // stride2
    size = 2 * radius + 1
    rc = te.reduce_axis((0, channels), name="rc")
    ry, rx = te.reduce_axis((0, kernel_size), name="ry"), te.reduce_axis((0, kernel_size), name="rx")
    dtype = data1.dtype
    count = to(channels * (kernel_size * kernel_size), dtype)

    def element(b: Var, q: Var, i: Var, j: Var) -> Any:
        y, x = i * stride1 + max_displacement + ry.var, j * stride1 + max_displacement + rx.var
        moved_y = y + (tir.floordiv(q, size) - radius) * stride2
        moved_x = x + (tir.floormod(q, size) - radius) * stride2
        a, d = first(b, rc.var, y, x), second(b, rc.var, moved_y, moved_x)
        return te.sum((a * d if is_multiply else tir.abs(a - d)) / count, axis=[rc, ry, rx])

    return compute([n, size * size, oh, ow], element, name="correlation_nchw", tag="correlation_nchw")


def conv2d_backward_weight_nchw(
    grad: te.Tensor,
    data: te.Tensor,
    kernel_size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """The adjoint of conv2d's weights (O, C / groups, KH, KW), from the adjoint `grad` (N, O, OH, OW) of its result."""
    dtype = out_dtype or grad.dtype
    n, o, oh, ow = shape_of(grad)
    channels = get_const_int(shape_of(data)[1])
    kh, kw = pair(kernel_size)
    (sh, sw), (dh, dw) = pair(strides), pair(dilation)
    before, after = get_pad_tuple(padding, [(kh - 1) * dh + 1, (kw - 1) * dw + 1])
    padded = pad(data, [0, 0, *before], [0, 0, *after], name="pad_temp")
    rn, ry, rx = (te.reduce_axis((0, d), name=name) for d, name in ((n, "rn"), (oh, "ry"), (ow, "rx")))
    per_in, per_out = channels // groups, get_const_int(o) // groups

    def element(f: Var, i: Var, y: Var, x: Var) -> Any:
        ch = i if groups == 1 else tir.floordiv(f, per_out) * per_in + i
        value = padded(rn.var, ch, ry.var * sh + y * dh, rx.var * sw + x * dw)
        return te.sum(to(grad(rn.var, f, ry.var, rx.var), dtype) * to(value, dtype), axis=[rn, ry, rx])

    return compute([o, per_in, kh, kw], element, name="conv2d_backward_weight", tag="conv2d_backward_weight")


__all__ = ["conv2d_backward_weight_nchw", "correlation_nchw", "deformable_conv2d_nchw", "deformable_conv2d_nhwc"]
