"""Padding and strides of convolutions, by their arguments and by their tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.topi import utils
from tilewright.topi.utils import as_int, get_const_int

Padding = int | str | Sequence[int]


def get_pad_tuple_generic(padding: Padding, kernel: Sequence[Any]) -> tuple[list[int], list[int]]:
    """(before, after) each spatial axis."""
    return utils.get_pad_tuple(padding, [as_int(k) for k in kernel], len(kernel))


def get_pad_tuple(padding: Padding, kernel: Sequence[Any]) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) padding of images."""
    (top, left), (bottom, right) = get_pad_tuple_generic(padding, kernel)
    return top, left, bottom, right


def get_pad_tuple1d(padding: Padding, kernel: Any) -> tuple[int, int]:
    """(left, right) padding of rows. kernel: the extent of the window, or a sequence of it."""
    (left,), (right,) = get_pad_tuple_generic(padding, [kernel] if not isinstance(kernel, Sequence) else kernel)
    return left, right


def get_pad_tuple3d(padding: Padding, kernel: Sequence[Any]) -> tuple[int, int, int, int, int, int]:
    """(front, top, left, back, bottom, right) padding of volumes."""
    (front, top, left), (back, bottom, right) = get_pad_tuple_generic(padding, kernel)
    return front, top, left, back, bottom, right


def infer_pad(data: te.Tensor, data_pad: te.Tensor | None) -> tuple[int, int]:
    """The padding of an image (N, C, H, W) on each side along (H, W), from its padded form; none without that."""
    if data_pad is None:
        return 0, 0
    (*_, h, w), (*_, padded_h, padded_w) = (map(get_const_int, t.shape) for t in (data, data_pad))
    return (padded_h - h) // 2, (padded_w - w) // 2


def infer_pad3d(data: te.Tensor, data_pad: te.Tensor | None, layout: str) -> tuple[int, int, int]:
    """The padding of a volume along (D, H, W), both sides together, from its padded form; none without that."""
    if data_pad is None:
        return 0, 0, 0
    if sorted(layout) != sorted("NCDHW"):
        raise ValueError(f"infer_pad3d: the layout must be of axes N, C, D, H and W, but is {layout}")
    depth, height, width = [
        get_const_int(data_pad.shape[a]) - get_const_int(data.shape[a]) for a in map(layout.index, "DHW")
    ]
    return depth, height, width


def infer_stride(data: te.Tensor, kernel: te.Tensor, out: te.Tensor) -> tuple[int, int]:
    """The strides of a convolution in NCHW, from its padded data, its weights and its result."""
    found = []
    for axis in (2, 3):
        extent, window, count = (get_const_int(t.shape[axis]) for t in (data, kernel, out))
        found.append(1 if count == 1 else (extent - window) // (count - 1))
    return found[0], found[1]
