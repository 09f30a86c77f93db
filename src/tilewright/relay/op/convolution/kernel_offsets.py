"""Removes kernel offsets of a convolution that read padding only: kernels larger than the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.expr import Call, Expr
from tilewright.relay.op.card import constructor
from tilewright.relay.op.relations import dims, tensor
from tilewright.topi.utils import window_extent


def offsets_on_data(
    extent: int, kernel: int, before: int, after: int, stride: int, dilation: int
) -> tuple[int, int, int, int] | None:
    """The kernel offsets along one axis that read data: (first, one past the last, padding before and after) of the smallest kernel with
    the same results. None if that is the kernel itself, or if no offset reads data."""
    out = window_extent(extent, kernel, before, after, stride, dilation)
    met = [
        t for t in range(kernel)
        if max(0, -((t * dilation - before) // stride)) <= min(out - 1, (extent - 1 + before - t * dilation) // stride)
    ]  # fmt: skip
    if not met:
        return None
    # Padding stays padding: none of it may be less than nothing.
    first, last = min(met[0], before // dilation), met[-1] + 1
    left = before - first * dilation
    while True:
        right = max(0, (out - 1) * stride + (last - first - 1) * dilation + 1 - extent - left)
        if window_extent(extent, last - first, left, right, stride, dilation) == out:
            break
        last += 1
    return (first, last, left, right) if last - first < kernel else None


def without_padded_offsets(
    card: Any, data: Expr, weight: Expr, strides: Sequence[int], dilation: Sequence[int], padding: Any
) -> Expr | None:
    """The convolution without the kernel offsets that read padding only, in plain layouts with channels first; `padding` is (before,
    after). None if there are none, or if a dimension is dynamic."""
    extents, kernel = list(dims(tensor(data.checked_type)))[2:], list(dims(tensor(weight.checked_type)))[2:]
    if not all([isinstance(e, int) for e in (*extents, *kernel)]):
        return None
    axes: Any = zip(extents, kernel, *padding, strides, dilation, strict=True)
    found = [(offsets_on_data(*axis), axis) for axis in axes]
    if not any([f for f, _ in found]):
        return None
    parts = [f or (0, axis[1], axis[2], axis[3]) for f, axis in found]
    begin, end, left, right = ([p[i] for p in parts] for i in range(4))
    n = len(extents)
    cut = constructor("strided_slice")(weight, begin, end, [1] * n, axes=list(range(2, 2 + n)))
    size = tuple([e - b for b, e in zip(begin, end, strict=True)])
    made = card.replace(padding=(*left, *right), kernel_size=size if card.kernel_size is not None else None)
    return Call(card.op, (data, cut), made)


__all__ = ["offsets_on_data", "without_padded_offsets"]
