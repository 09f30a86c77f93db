"""NumPy references of operators that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def gather_python(data: Array, axis: int, indices: Array) -> Array:
    """data at `indices` along `axis`."""
    where: list[Any] = list(np.indices(indices.shape))
    where[axis] = indices
    return data[tuple(where)]  # type: ignore[no-any-return]


def gather_nd_python(a_np: Array, indices_np: Array) -> Array:
    """a at the coordinates along the first axis of `indices`."""
    return a_np[tuple(indices_np.astype(np.int64))]  # type: ignore[no-any-return]


def _slices(
    shape: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None,
    slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> tuple[slice, ...]:
    found = [slice(None)] * len(shape)
    steps = list(strides or []) + [1] * (len(begin) - len(strides or []))
    for k, a in enumerate(axes if axes is not None else range(len(begin))):
        if slice_mode == "size":
            stop = None if end[k] < 0 else begin[k] + end[k]
            found[a] = slice(begin[k], stop)
            continue
        last = end[k]
        # A slice that goes backwards to the first element ends at None in Python.
        found[a] = slice(begin[k], None if steps[k] < 0 and last < -shape[a] else last, steps[k])
    return tuple(found)


def strided_slice_python(
    data: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None,
    slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> Array:
    """data[begin:end:strides]. With slice_mode "size", `end` holds numbers of elements."""
    return data[_slices(data.shape, begin, end, strides, slice_mode, axes)]


def strided_set_python(
    data: Array, v: Array, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None
) -> Array:
    """A copy of data with data[begin:end:strides] replaced by `v`."""
    out = data.copy()
    out[_slices(data.shape, begin, end, strides)] = v
    return out


def slice_axis_python(data: Array, axis: int, begin: int, end: int | None = None) -> Array:
    """data[begin:end] along `axis`."""
    index = [slice(None)] * data.ndim
    index[axis] = slice(begin, end)
    return data[tuple(index)]


def sequence_mask(data: Array, valid_length: Array, mask_value: float, axis: int) -> Array:
    """data with `mask_value` from position valid_length[b] on along `axis`, 0 or 1."""
    out = data.copy()
    steps = np.arange(data.shape[axis])
    outside = steps[:, None] >= valid_length if axis == 0 else steps >= valid_length[:, None]
    out[outside] = mask_value
    return out


def one_hot(indices: Array, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str) -> Array:
    """on_value where the position along the new axis equals the index, else off_value."""
    hit = np.equal.outer(indices, np.arange(depth))
    found = np.where(hit, on_value, off_value).astype(dtype)
    return np.moveaxis(found, -1, axis if axis >= 0 else indices.ndim)


def depth_to_space_python(data: Array, block_size: int, mode: str = "DCR") -> Array:
    """(N, C * b * b, H, W) to (N, C, H * b, W * b)."""
    n, c, h, w = data.shape
    b, depth = block_size, c // block_size**2
    if mode == "DCR":
        x = data.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = data.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(n, depth, h * b, w * b)


def space_to_depth_python(data: Array, block_size: int) -> Array:
    """(N, C, H * b, W * b) to (N, b * b * C, H, W)."""
    n, c, h, w = data.shape
    b = block_size
    return data.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


def space_to_batch_nd_python(
    data: Array, block_shape: Sequence[int], pad_before: Sequence[int], pad_after: Sequence[int], pad_value: float = 0
) -> Array:
    """Pads the spatial axes after the batch, and moves the blocks of these axes into the batch."""
    m = len(block_shape)
    rest = data.ndim - 1 - m
    widths = [(0, 0), *zip(pad_before, pad_after, strict=True), *[(0, 0)] * rest]
    x = np.pad(data, widths, constant_values=pad_value)
    parts = [d for e, b in zip(x.shape[1:], block_shape, strict=False) for d in (e // b, b)]
    x = x.reshape(x.shape[0], *parts, *x.shape[1 + m :])
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, x.ndim)]
    x = x.transpose(order)
    return np.ascontiguousarray(x).reshape(-1, *x.shape[m + 1 :])


def batch_to_space_nd_python(
    data: Array, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Array:
    """Moves blocks from the batch axis into the spatial axes after it, then crops these."""
    m = len(block_shape)
    batch = data.shape[0] // int(np.prod(block_shape))
    x = data.reshape(*block_shape, batch, *data.shape[1:])
    order = [m, *[a for k in range(m) for a in (m + 1 + k, k)], *range(2 * m + 1, x.ndim)]
    shape = [d * b for d, b in zip(data.shape[1:], block_shape, strict=False)]
    x = x.transpose(order).reshape(batch, *shape, *data.shape[1 + m :])
    cut = [slice(b, d - e) for d, b, e in zip(shape, crop_begin_list, crop_end_list, strict=True)]
    return x[(slice(None), *cut)]


def matrix_set_diag(input_np: Array, diagonal: Array, k: Any = 0, align: str = "RIGHT_LEFT") -> Array:
    """Replaces the diagonals k[0] to k[1] of the last two axes."""
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    above, below = [side == "RIGHT" for side in align.split("_")]
    out = input_np.copy()
    rows, columns = out.shape[-2:]
    for d in range(low, high + 1):
        count = min(rows + min(d, 0), columns - max(d, 0))
        values = diagonal if low == high else diagonal[..., high - d, :]
        skip = values.shape[-1] - count if low != high and (above if d >= 0 else below) else 0
        i = np.arange(count)
        out[..., i + max(-d, 0), i + max(d, 0)] = values[..., skip : skip + count]
    return out


def reorg_python(a_np: Array, stride: int) -> Array:
    """Darknet's reorg."""
    n, c, h, w = a_np.shape
    s = stride
    wide = a_np.reshape(n, c // s**2, h, s, w, s).transpose(0, 3, 5, 1, 2, 4)
    return wide.reshape(n, c, h, w).reshape(n, c * s * s, h // s, w // s)


def searchsorted_ref(sorted_sequence: Array, values: Array, right: bool, out_dtype: str) -> Array:
    """The position of each value in the sorted last axis."""
    side: Any = "right" if right else "left"
    if sorted_sequence.ndim == 1:
        return np.searchsorted(sorted_sequence, values, side).astype(out_dtype)
    out = np.zeros(values.shape, out_dtype)
    for i in np.ndindex(*values.shape[:-1]):
        out[i] = np.searchsorted(sorted_sequence[i], values[i], side)
    return out
