"""Transposed convolutions of packed data, without products of the zeros between them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tilewright import te
from tilewright.autotvm.task.topi_integration import register_topi_compute, register_topi_schedule
from tilewright.topi.nn import packed_conv
from tilewright.topi.utils import get_pad_tuple, shape_of
from tilewright.vta.top.vta_conv2d import pair, scheduled


class _Axis(NamedTuple):
    """Result y is the sum over t of row (y + first) // stride + t of the data behind `before` rows of padding, times kernel offset
    stride - 1 - (y + first) % stride + stride * t: every other kernel offset is at a zero between rows."""

    results: int
    stride: int
    offsets: int
    first: int
    before: int
    rows: int

    def row(self, y: Any, t: Any) -> Any:
        return (y + self.first) // self.stride + t

    def offset(self, y: Any, t: Any) -> Any:
        return t if self.stride == 1 else (self.stride - 1) - (y + self.first) % self.stride + self.stride * t


def _axis(size: int, kernel: int, stride: int, before: int, behind: int, more: int) -> _Axis:
    results, offsets = (size - 1) * stride - before - behind + kernel + more, -(-kernel // stride)
    inner = kernel - 1 - before
    padding = -((stride - 1 - inner) // stride)
    first = stride - 1 - inner + padding * stride
    return _Axis(results, stride, offsets, first, padding, (results - 1 + first) // stride + offsets)


@register_topi_compute("conv2d_transpose_packed.vta")
def conv2d_transpose_packed(
    cfg: Any,
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str,
    output_padding: Any = (0, 0),
) -> te.Tensor:
    """The adjoint of a convolution with these strides: (N / BATCH, O / BLOCK_OUT, OH, OW, BATCH, BLOCK_OUT) of out_dtype, where OH is
    (H - 1) * stride - padding + KH + output_padding. The weights (O / BLOCK_OUT, C / BLOCK_IN, KH, KW, BLOCK_OUT, BLOCK_IN) are turned
    around, their last rows and columns first. padding: numbers, or (top, left, bottom, right), as for the convolution. ValueError where
    there is no result."""
    shape, filters = shape_of(data), shape_of(kernel)
    top, left, bottom, right = (int(p) for p in _four(padding, filters[2:4]))
    steps, more = pair(strides), pair(output_padding)
    axes = [
        _axis(shape[2 + n], filters[2 + n], steps[n], *sides, more[n])
        for n, sides in enumerate(((top, bottom), (left, right)))
    ]
    if min(axes[0].results, axes[1].results) < 1:
        raise ValueError(
            f"conv2d_transpose_packed: the result has {axes[0].results} x {axes[1].results} rows and columns, from"
            f" (size - 1) * stride - padding + kernel + output_padding of data of {shape[2]} x {shape[3]}, strides {steps}, padding"
            f" {(top, left, bottom, right)}, a kernel of {filters[2]} x {filters[3]} and output_padding {more}; use less padding, or a"
            " larger kernel"
        )
    source, weights = _rows(data, axes), _whole_taps(kernel, axes)
    ko, ki = te.reduce_axis((0, shape[1]), "ko"), te.reduce_axis((0, shape[5]), "ki")
    dy, dx = (te.reduce_axis((0, a.offsets), name) for a, name in zip(axes, ("dy", "dx"), strict=True))

    def element(b: Any, o: Any, y: Any, x: Any, r: Any, c: Any) -> Any:
        value = source[b, ko, axes[0].row(y, dy), axes[1].row(x, dx), r, ki].astype(out_dtype)
        weight = weights[o, ko, axes[0].offset(y, dy), axes[1].offset(x, dx), c, ki].astype(out_dtype)
        return te.sum(value * weight, axis=[ko, dy, dx, ki])

    results = (shape[0], filters[0], axes[0].results, axes[1].results, shape[4], filters[4])
    made: te.Tensor = te.compute(results, element, name="res", tag=packed_conv.TAG)
    cfg.add_flop(2 * math.prod([*results, shape[1], shape[5], axes[0].offsets, axes[1].offsets]))
    return made


def _four(padding: Any, kernel: Any) -> tuple[Any, ...]:
    before, behind = get_pad_tuple(padding, kernel)
    return (*before, *behind)


def _rows(data: te.Tensor, axes: list[_Axis]) -> te.Tensor:
    """The rows and columns that results read; zero where there are none."""
    shape = shape_of(data)

    def value(b: Any, k: Any, y: Any, x: Any, r: Any, c: Any) -> Any:
        at = [p - a.before if a.before else p for p, a in zip((y, x), axes, strict=True)]
        limits = [
            limit
            for p, a, extent in zip(at, axes, shape[2:4], strict=True)
            for limit in ([p >= 0] * (a.before > 0) + [p < extent] * (a.rows - a.before > extent))
        ]
        there = data[b, k, *at, r, c]
        return te.if_then_else(te.all(*limits), there, te.const(0, data.dtype)) if limits else there

    made: te.Tensor = te.compute((*shape[:2], axes[0].rows, axes[1].rows, *shape[4:]), value, name="pad_data")
    return made


def _whole_taps(kernel: te.Tensor, axes: list[_Axis]) -> te.Tensor:
    """Weights with as many kernel offsets for each phase of the strides; those behind are zero."""
    shape = shape_of(kernel)
    whole = [a.offsets * a.stride for a in axes]
    if whole == list(shape[2:4]):
        return kernel

    def value(o: Any, k: Any, y: Any, x: Any, c: Any, i: Any) -> Any:
        limits = [p < n for p, n, w in zip((y, x), shape[2:4], whole, strict=True) if w > n]
        return te.if_then_else(te.all(*limits), kernel[o, k, y, x, c, i], te.const(0, kernel.dtype))

    made: te.Tensor = te.compute((*shape[:2], *whole, *shape[4:]), value, name="pad_kernel")
    return made


@register_topi_schedule("conv2d_transpose_packed.vta")
def schedule_conv2d_transpose_packed(cfg: Any, outs: Any) -> te.Schedule:
    """Tiles and knobs of `schedule_conv2d_packed`."""
    return scheduled(cfg, outs)


__all__ = ["conv2d_transpose_packed", "schedule_conv2d_transpose_packed"]
