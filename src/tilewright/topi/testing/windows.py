"""NumPy references of operators at positions that are data, and of adjoints of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.topi.testing.convolutions import Array, conv, each
from tilewright.topi.utils import get_pad_tuple


def _bilinear(image: Array, y: Array, x: Array) -> Array:
    """Elements of an image (C, H, W) at positions that are fractions of an element: (C, *positions). Neighbours outside are zeros."""
    height, width = image.shape[1:]
    low_y, low_x = np.floor(y).astype(int), np.floor(x).astype(int)
    total = np.zeros((image.shape[0], *y.shape), image.dtype)
    for row in (low_y, low_y + 1):
        for column in (low_x, low_x + 1):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            near = image[:, np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
            total += near * (np.maximum(1 - np.abs(y - row), 0) * np.maximum(1 - np.abs(x - column), 0) * inside)
    return total.astype(image.dtype)


def deformable_conv2d_nchw_python(
    a_np: Array,
    offset_np: Array,
    w_np: Array,
    stride: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
) -> Array:
    """a (N, C, H, W), w (O, C / groups, KH, KW), offset (N, 2 * deformable_groups * KH * KW, OH, OW) with y before x."""
    kernel, (steps, spread) = w_np.shape[2:], (each(stride, 2), each(dilation, 2))
    before, _ = get_pad_tuple(padding, [(k - 1) * d + 1 for k, d in zip(kernel, spread, strict=True)])
    batch, channels = a_np.shape[:2]
    oh, ow = offset_np.shape[2:]
    rows, columns = np.mgrid[:oh, :ow]
    offsets = offset_np.reshape(batch, deformable_groups, *kernel, 2, oh, ow)
    # Each window becomes a block of places, so the convolution of them has strides as large as the kernel.
    moved = np.zeros((batch, channels, oh, kernel[0], ow, kernel[1]), a_np.dtype)
    per = channels // deformable_groups
    for n, g, ky, kx in np.ndindex(batch, deformable_groups, *kernel):
        y = rows * steps[0] - before[0] + ky * spread[0] + offsets[n, g, ky, kx, 0]
        x = columns * steps[1] - before[1] + kx * spread[1] + offsets[n, g, ky, kx, 1]
        moved[n, g * per : (g + 1) * per, :, ky, :, kx] = _bilinear(a_np[n, g * per : (g + 1) * per], y, x)
    return conv(moved.reshape(batch, channels, oh * kernel[0], ow * kernel[1]), w_np, list(kernel), 0, 1, groups)


def deformable_conv2d_nhwc_python(
    a_np: Array,
    offset_np: Array,
    w_np: Array,
    stride: Any,
    padding: Any,
    dilation: Any,
    deformable_groups: int,
    groups: int,
) -> Array:
    """a (N, H, W, C), w (KH, KW, C / groups, O), offset (N, OH, OW, 2 * deformable_groups * KH * KW)."""
    data, offset, weights = a_np.transpose(0, 3, 1, 2), offset_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1)
    found = deformable_conv2d_nchw_python(data, offset, weights, stride, padding, dilation, deformable_groups, groups)
    return found.transpose(0, 2, 3, 1)


def correlation_nchw_python(
    data1: Array,
    data2: Array,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Any,
    is_multiply: bool = True,
) -> Array:
    """The mean product (or distance) of windows of two images, of which the second is shifted: (N, shifts, OH, OW)."""
    before, after = get_pad_tuple(padding, [kernel_size] * 2)
    first, second = (np.pad(d, [(0, 0), (0, 0), *zip(before, after, strict=True)]) for d in (data1, data2))
    border = max_displacement + (kernel_size - 1) // 2
    oh, ow = (-(-(d - 2 * border) // stride1) for d in first.shape[2:])
    radius = max_displacement // stride2
    shifts = [(a * stride2, b * stride2) for a in range(-radius, radius + 1) for b in range(-radius, radius + 1)]
    out = np.zeros((data1.shape[0], len(shifts), oh, ow), data1.dtype)
    for q, i, j in np.ndindex(len(shifts), oh, ow):
        y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
        dy, dx = shifts[q]
        a = first[:, :, y : y + kernel_size, x : x + kernel_size]
        b = second[:, :, y + dy : y + dy + kernel_size, x + dx : x + dx + kernel_size]
        out[:, q, i, j] = (a * b if is_multiply else np.abs(a - b)).mean((1, 2, 3))
    return out


def conv2d_backward_weight_python(
    dy_np: Array,
    x_np: Array,
    kernel_size: Sequence[int],
    stride: Any,
    padding: Any,
    layout: str = "NCHW",
    groups: int = 1,
    channels: int | None = None,
) -> Array:
    """The adjoint of a convolution's weights, from that of its result and from its data: (O, I / groups, KH, KW), or (O, KH, KW, I /
    groups) in NHWC. channels: those of the result."""
    if layout == "NHWC":
        grad, data = dy_np.transpose(0, 3, 1, 2), x_np.transpose(0, 3, 1, 2)
        made = conv2d_backward_weight_python(grad, data, kernel_size, stride, padding, "NCHW", groups, channels)
        return made.transpose(0, 2, 3, 1)
    before, after = get_pad_tuple(padding, kernel_size)
    padded = np.pad(x_np, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    steps, (n, o, oh, ow) = each(stride, 2), dy_np.shape
    grads = dy_np.reshape(n, groups, o // groups, oh, ow)
    out = np.zeros((o, x_np.shape[1] // groups, *kernel_size), x_np.dtype)
    for ky, kx in np.ndindex(*kernel_size):
        rows, columns = (slice(k, k + (m - 1) * s + 1, s) for k, m, s in zip((ky, kx), (oh, ow), steps, strict=True))
        part = padded[:, :, rows, columns].reshape(n, groups, -1, oh, ow)
        out[:, :, ky, kx] = np.einsum("ngoyx,ngiyx->goi", grads, part).reshape(o, -1)
    return out


def _pooled_windows(extent: int, out: int) -> list[slice]:
    return [slice(i * extent // out, -(-(i + 1) * extent // out)) for i in range(out)]


def adaptive_pool(np_data: Array, out_size: Any, pool_type: str, layout: str) -> Array:
    """The maximum ("max") or mean ("avg") of out_size windows along each spatial axis, which cover the axis."""
    axes = [a for a, c in enumerate(layout) if c in "DHW"]
    sizes = [out_size] * len(axes) if isinstance(out_size, int) else list(out_size)
    shape, index = list(np_data.shape), [slice(None)] * np_data.ndim
    windows = []
    for a, s in zip(axes, sizes, strict=True):
        windows.append(_pooled_windows(shape[a], s))
        shape[a] = s
    out = np.zeros(shape, np_data.dtype)
    for place in np.ndindex(*sizes):
        source, target = list(index), list(index)
        for a, p, cuts in zip(axes, place, windows, strict=True):
            source[a], target[a] = cuts[p], slice(p, p + 1)
        reduced = (np.max if pool_type == "max" else np.mean)(np_data[tuple(source)], axis=tuple(axes), keepdims=True)
        out[tuple(target)] = reduced
    return out


def pool_grad_nchw(
    a_np: Array,
    out_grad_np: Array,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    pool_type: str,
    ceil_mode: bool,
    count_include_pad: bool = True,
) -> Array:
    """The adjoint of the data of a pooling, from that of its result. padding: (top, left, bottom, right). A maximum that occurs several
    times in a window passes its adjoint to the first place."""
    del ceil_mode
    before, after = padding[:2], padding[2:]
    oh, ow = out_grad_np.shape[2:]
    reach = [(m - 1) * s + k for m, s, k in zip((oh, ow), strides, pool_size, strict=True)]
    more = [max(a, r - d - b) for a, r, d, b in zip(after, reach, a_np.shape[2:], before, strict=True)]
    widths = [(0, 0), (0, 0), *zip(before, more, strict=True)]
    padded = np.pad(a_np, widths, constant_values=-np.inf if pool_type == "max" else 0)
    kept = [(0, 0), (0, 0), *(zip(before, after, strict=True) if count_include_pad else [(0, 0)] * 2)]
    outside = [(w[0] - k[0], w[1] - k[1]) for w, k in zip(widths, kept, strict=True)]
    counted = np.pad(np.pad(np.ones_like(a_np), kept, constant_values=1), outside)
    grad = np.zeros(padded.shape, a_np.dtype)
    for n, c, y, x in np.ndindex(*out_grad_np.shape):
        window = (n, c, *[slice(p * s, p * s + k) for p, s, k in zip((y, x), strides, pool_size, strict=True)])
        if pool_type == "max":
            at = np.unravel_index(np.argmax(padded[window]), padded[window].shape)
            grad[window][at] += out_grad_np[n, c, y, x]
        else:
            grad[window] += out_grad_np[n, c, y, x] / max(counted[window].sum(), 1)
    return grad[:, :, before[0] : before[0] + a_np.shape[2], before[1] : before[1] + a_np.shape[3]]


def roi_align_nchw_python(
    a_np: Array, rois_np: Array, pooled_size: Any, spatial_scale: float, sample_ratio: int, mode: bytes | str = "avg"
) -> Array:
    """a (N, C, H, W), rois (number, 5) of image, x1, y1, x2, y2: (number, C, *pooled_size), the mean or maximum of samples in each bin.
    sample_ratio: samples along a side of a bin; as many as it has elements if not positive."""
    ph, pw = each(pooled_size, 2)
    kind = mode.decode() if isinstance(mode, bytes) else mode
    height, width = a_np.shape[2:]
    out = np.zeros((len(rois_np), a_np.shape[1], ph, pw), a_np.dtype)
    for r, (image, *box) in enumerate(rois_np):
        x1, y1, x2, y2 = [v * spatial_scale for v in box]
        sides = max(y2 - y1, 1.0), max(x2 - x1, 1.0)
        bins = sides[0] / ph, sides[1] / pw
        counts = [sample_ratio if sample_ratio > 0 else int(np.ceil(b)) for b in bins]
        for i, j in np.ndindex(ph, pw):
            ys = y1 + bins[0] * (i + (np.arange(counts[0]) + 0.5) / counts[0])
            xs = x1 + bins[1] * (j + (np.arange(counts[1]) + 0.5) / counts[1])
            y, x = np.meshgrid(ys, xs, indexing="ij")
            inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
            y, x = np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
            values = _bilinear(a_np[int(image)], y, x) * inside
            out[r, :, i, j] = values.mean((1, 2)) if kind == "avg" else values.max((1, 2))
    return out


def roi_align_nhwc_python(
    a_np: Array, rois_np: Array, pooled_size: Any, spatial_scale: float, sample_ratio: int, mode: bytes | str = "avg"
) -> Array:
    """`roi_align_nchw_python` of a (N, H, W, C): (number, *pooled_size, C)."""
    first = a_np.transpose(0, 3, 1, 2)
    return roi_align_nchw_python(first, rois_np, pooled_size, spatial_scale, sample_ratio, mode).transpose(0, 2, 3, 1)


def roi_pool_nchw_python(a_np: Array, rois_np: Array, pooled_size: Any, spatial_scale: float) -> Array:
    """a (N, C, H, W), rois (number, 5) of image, x1, y1, x2, y2: (number, C, *pooled_size), the maximum of each bin; 0 of empty bins."""
    ph, pw = each(pooled_size, 2)
    height, width = a_np.shape[2:]
    out = np.zeros((len(rois_np), a_np.shape[1], ph, pw), a_np.dtype)
    for r, (image, *box) in enumerate(rois_np):
        x1, y1, x2, y2 = [int(np.floor(v * spatial_scale + 0.5)) for v in box]
        bins = max(y2 - y1 + 1, 1) / ph, max(x2 - x1 + 1, 1) / pw
        for i, j in np.ndindex(ph, pw):
            rows = [min(max(f(k * bins[0]) + y1, 0), height) for f, k in ((_floor, i), (_ceil, i + 1))]
            columns = [min(max(f(k * bins[1]) + x1, 0), width) for f, k in ((_floor, j), (_ceil, j + 1))]
            part = a_np[int(image), :, rows[0] : rows[1], columns[0] : columns[1]]
            out[r, :, i, j] = part.max((1, 2)) if part.size else 0
    return out


def _floor(v: float) -> int:
    return int(np.floor(v))


def _ceil(v: float) -> int:
    return int(np.ceil(v))
