"""Convolutions of packed data: blocks of rows and of channels are the innermost axes, as accelerators with an array of multipliers read
them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.topi.nn.pad import pad
from tilewright.topi.utils import get_const_int, get_pad_tuple, numbers, shape_of, window_extent

TAG = "conv2d_packed"
_DATA, _KERNEL = re.compile(r"NCHW(\d+)n(\d+)c"), re.compile(r"OIHW(\d+)o(\d+)i")


def is_packed(data_layout: str, kernel_layout: str) -> bool:
    """Whether layouts are those of `conv2d_packed`, with blocks of any size: NCHW1n16c and OIHW16o16i."""
    return _DATA.fullmatch(data_layout) is not None and _KERNEL.fullmatch(kernel_layout) is not None


def result_layout(data_layout: str, kernel_layout: str) -> str:
    """The layout of what `conv2d_packed` gives for packed layouts."""
    data, kernel = _DATA.fullmatch(data_layout), _KERNEL.fullmatch(kernel_layout)
    assert data is not None and kernel is not None
    return f"NCHW{data[1]}n{kernel[1]}c"


def conv2d_packed(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: int | Sequence[int],
    padding: int | str | Sequence[int],
    groups: int = 1,
    out_dtype: str = "int32",
) -> te.Tensor:
    """The convolution of data (N, C, H, W, n, c) with weights (O, C / groups, KH, KW, o, c): (N, O, OH, OW, n, o) of out_dtype. C and O
    count blocks; groups are of whole blocks. ValueError where the blocks do not fit."""
    shape, filters = shape_of(data), [get_const_int(d) for d in shape_of(kernel)]
    if shape[5] != filters[5] or shape[1] != filters[1] * groups or filters[0] % groups:
        raise ValueError(
            f"conv2d_packed: weights of {filters[0]} x {filters[1]} blocks in {groups} groups, with blocks of {filters[5]} inputs, do not"
            f" fit data of {shape[1]} blocks of {shape[5]}"
        )
    before, behind = get_pad_tuple(padding, filters[2:4])
    steps = numbers(strides, 2)
    kh, kw = filters[2], filters[3]
    rows, columns = (window_extent(shape[2 + n], filters[2 + n], before[n], behind[n], steps[n], 1) for n in range(2))
    if (kh, kw) == (1, 1) and tuple(steps) != (1, 1):
        # Only what is read is copied to the chip.
        padded, steps = _sampled(data, (rows, columns), steps, before), [1, 1]
    elif any((*before, *behind)):
        padded = pad(data, [0, 0, *before, 0, 0], [0, 0, *behind, 0, 0], name="pad_data")
    else:
        padded = data
    ko, ki = te.reduce_axis((0, filters[1]), "ko"), te.reduce_axis((0, filters[5]), "ki")
    dy, dx = te.reduce_axis((0, kh), "dy"), te.reduce_axis((0, kw), "dx")
    per_group = filters[0] // groups

    def element(b: Any, o: Any, y: Any, x: Any, r: Any, c: Any) -> Any:
        at = ko if groups == 1 else o // per_group * filters[1] + ko
        value = padded[b, at, y * steps[0] + dy, x * steps[1] + dx, r, ki].astype(out_dtype)
        return te.sum(value * kernel[o, ko, dy, dx, c, ki].astype(out_dtype), axis=[ko, dy, dx, ki])

    made: te.Tensor = te.compute(
        (shape[0], filters[0], rows, columns, shape[4], filters[4]), element, name="res", tag=TAG
    )
    return made


def _sampled(data: te.Tensor, size: Any, strides: Sequence[int], first: Sequence[int]) -> te.Tensor:
    """Each stride-th row and column of padded data. first: rows and columns of padding before."""
    shape = shape_of(data)

    def value(b: Any, k: Any, y: Any, x: Any, r: Any, c: Any) -> Any:
        at, along = y * strides[0] - first[0], x * strides[1] - first[1]
        found = data[b, k, at, along, r, c]
        if tuple(first) == (0, 0) and (size[0] - 1) * strides[0] < shape[2] and (size[1] - 1) * strides[1] < shape[3]:
            return found
        inside = te.all(at >= 0, at < shape[2], along >= 0, along < shape[3])
        return te.if_then_else(inside, found, te.const(0, data.dtype))

    sampled: te.Tensor = te.compute((*shape[:2], *size, *shape[4:]), value, name="pad_data")
    return sampled


__all__ = ["TAG", "conv2d_packed", "is_packed", "result_layout"]
