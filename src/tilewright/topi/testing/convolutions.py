"""NumPy references of convolutions, computed as one product for each kernel offset, and of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.topi.utils import get_pad_tuple

Array = np.ndarray[Any, Any]


def each(value: Any, count: int) -> list[int]:
    """One number for each spatial axis."""
    return [value] * count if isinstance(value, int) else list(value) * count if len(value) == 1 else list(value)


def conv(data: Array, weight: Array, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    """data (N, I, ...), weight (O, I / groups, ...)."""
    n = data.ndim - 2
    steps, spread = each(stride, n), each(dilation, n)
    kernel = weight.shape[2:]
    before, after = get_pad_tuple(padding, [(k - 1) * d + 1 for k, d in zip(kernel, spread, strict=True)], n)
    padded = np.pad(data, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    out = [(d - (k - 1) * t - 1) // s + 1 for d, k, s, t in zip(padded.shape[2:], kernel, steps, spread, strict=True)]
    batch, o = data.shape[0], weight.shape[0]
    total = np.zeros((batch, groups, o // groups, *out), np.result_type(data, weight))
    filters = weight.reshape(groups, o // groups, *weight.shape[1:])
    for place in np.ndindex(*kernel):
        index = [slice(k * t, k * t + (m - 1) * s + 1, s) for k, t, m, s in zip(place, spread, out, steps, strict=True)]
        part = padded[(slice(None), slice(None), *index)].reshape(batch, groups, weight.shape[1], *out)
        total += np.einsum("goi,bgi...->bgo...", filters[(..., *place)], part)
    return total.reshape(batch, o, *out)


def conv_transpose(data: Array, weight: Array, stride: Any, padding: Any, extra: Any, groups: int) -> Array:
    """data (N, I, ...), weight (I, O / groups, ...)."""
    n = data.ndim - 2
    steps, more = each(stride, n), each(extra, n)
    batch, channels, *extents = data.shape
    per, *kernel = weight.shape[1:]
    before, after = get_pad_tuple(padding, kernel, n)
    full = [(e - 1) * s + k + p for e, s, k, p in zip(extents, steps, kernel, more, strict=True)]
    total = np.zeros((batch, groups, per, *full), np.result_type(data, weight))
    parts = data.reshape(batch, groups, channels // groups, *extents)
    filters = weight.reshape(groups, channels // groups, per, *kernel)
    for place in np.ndindex(*kernel):
        index: list[Any] = [slice(k, k + (e - 1) * s + 1, s) for k, e, s in zip(place, extents, steps, strict=True)]
        total[(slice(None), slice(None), slice(None), *index)] += np.einsum(
            "gio,bgi...->bgo...", filters[(..., *place)], parts
        )
    cut = [slice(b, f - a) for b, a, f in zip(before, after, full, strict=True)]
    return total.reshape(batch, groups * per, *full)[(slice(None), slice(None), *cut)]


def conv1d_ncw_python(a_np: Array, w_np: Array, stride: Any, padding: Any, dilation: Any = 1, groups: int = 1) -> Array:
    """a (N, I, W), w (O, I / groups, K)."""
    return conv(a_np, w_np, stride, padding, dilation, groups)


def group_conv1d_ncw_python(a_np: Array, w_np: Array, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    """a (N, I, W), w (O, I / groups, K)."""
    return conv(a_np, w_np, stride, padding, dilation, groups)


def conv2d_nchw_python(a_np: Array, w_np: Array, stride: Any, padding: Any, groups: int = 1) -> Array:
    """a (N, I, H, W), w (O, I / groups, KH, KW)."""
    return conv(a_np, w_np, stride, padding, 1, groups)


def conv2d_nhwc_python(a_np: Array, w_np: Array, stride: Any, padding: Any, groups: int = 1) -> Array:
    """a (N, H, W, I), w (KH, KW, I / groups, O)."""
    found = conv(a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1), stride, padding, 1, groups)
    return found.transpose(0, 2, 3, 1)


def conv2d_hwcn_python(a_np: Array, w_np: Array, stride: Any, padding: Any) -> Array:
    """a (H, W, I, N), w (KH, KW, I, O)."""
    found = conv(a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1), stride, padding, 1, 1)
    return found.transpose(2, 3, 1, 0)


def conv3d_ncdhw_python(a_np: Array, w_np: Array, stride: Any, padding: Any, groups: int = 1) -> Array:
    """a (N, I, D, H, W), w (O, I / groups, KD, KH, KW)."""
    return conv(a_np, w_np, stride, padding, 1, groups)


def conv3d_ndhwc_python(a_np: Array, w_np: Array, stride: Any, padding: Any, groups: int = 1) -> Array:
    """a (N, D, H, W, I), w (KD, KH, KW, I / groups, O)."""
    found = conv(a_np.transpose(0, 4, 1, 2, 3), w_np.transpose(4, 3, 0, 1, 2), stride, padding, 1, groups)
    return found.transpose(0, 2, 3, 4, 1)


def conv1d_transpose_ncw_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, output_padding: Any = (0,)
) -> Array:
    """a (N, I, W), w (I, O, K)."""
    return conv_transpose(a_np, w_np, stride, padding, output_padding, 1)


def group_conv1d_transpose_ncw_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, output_padding: Any, groups: int = 1
) -> Array:
    """a (N, I, W), w (I, O / groups, K)."""
    return conv_transpose(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nchw_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, output_padding: Any = (0, 0), groups: int = 1
) -> Array:
    """a (N, I, H, W), w (I, O / groups, KH, KW)."""
    return conv_transpose(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nhwc_python(
    a_nhwc: Array, weight: Array, weight_format: str, stride: Any, padding: Any, output_padding: Any = (0, 0)
) -> Array:
    """a (N, H, W, I), weights whose letters `weight_format` orders (HWIO, HWOI, OIHW or IOHW, where I are the channels of a)."""
    filters = weight.transpose([weight_format.index(c) for c in "IOHW"])
    found = conv_transpose(a_nhwc.transpose(0, 3, 1, 2), filters, stride, padding, output_padding, 1)
    return found.transpose(0, 2, 3, 1)


def conv3d_transpose_ncdhw_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, output_padding: Any = (0, 0, 0), groups: int = 1
) -> Array:
    """a (N, I, D, H, W), w (I, O / groups, KD, KH, KW)."""
    return conv_transpose(a_np, w_np, stride, padding, output_padding, groups)


def depthwise_conv2d_python_nchw(input_np: Array, filter_np: Array, stride: Any, padding: Any) -> Array:
    """input (N, C, H, W), filter (C, M, KH, KW): (N, C * M, OH, OW)."""
    c, m, kh, kw = filter_np.shape
    return conv(input_np, filter_np.reshape(c * m, 1, kh, kw), stride, padding, 1, c)


def depthwise_conv2d_python_nhwc(input_np: Array, filter_np: Array, stride: Any, padding: Any) -> Array:
    """input (N, H, W, C), filter (KH, KW, C, M): (N, OH, OW, C * M)."""
    found = depthwise_conv2d_python_nchw(
        input_np.transpose(0, 3, 1, 2), filter_np.transpose(2, 3, 0, 1), stride, padding
    )
    return found.transpose(0, 2, 3, 1)


def depthwise_conv2d_python_nchwc(input_np: Array, filter_np: Array, stride: Any, padding: Any) -> Array:
    """input (N, C / b, H, W, b), filter (C / b, 1, KH, KW, 1, b): (N, C / b, OH, OW, b)."""
    n, chunks, h, w, b = input_np.shape
    plain = input_np.transpose(0, 1, 4, 2, 3).reshape(n, chunks * b, h, w)
    weights = filter_np[:, 0, :, :, 0].transpose(0, 3, 1, 2).reshape(chunks * b, 1, *filter_np.shape[2:4])
    found = conv(plain, weights, stride, padding, 1, chunks * b)
    return found.reshape(n, chunks, b, *found.shape[2:]).transpose(0, 1, 3, 4, 2)


def dilate_python(
    input_np: Array, strides: Sequence[int], dilation_value: float = 0.0, out_dtype: str | None = None
) -> Array:
    """The input with elements of `dilation_value` inserted between neighbours."""
    shape = [(d - 1) * s + 1 for d, s in zip(input_np.shape, strides, strict=True)]
    out = np.full(shape, dilation_value, out_dtype or input_np.dtype)
    out[tuple([slice(None, None, s) for s in strides])] = input_np
    return out


def poolnd_python(
    np_data: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding_before: Sequence[int],
    padding_after: Sequence[int],
    pool_type: str,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Array:
    """The maximum ("max") or mean ("avg") of every window over the spatial axes."""
    axes = [i for i, c in enumerate(layout) if c not in "NC"]
    widths, out, index = [(0, 0)] * np_data.ndim, list(np_data.shape), [slice(None)] * np_data.ndim
    for j, a in enumerate(axes):
        room = np_data.shape[a] + padding_before[j] + padding_after[j] - (kernel[j] - 1) * dilation[j] - 1
        out[a] = (-(-room // strides[j]) if ceil_mode else room // strides[j]) + 1
        reach = (out[a] - 1) * strides[j] + (kernel[j] - 1) * dilation[j] + 1
        widths[a] = (padding_before[j], max(padding_after[j], reach - np_data.shape[a] - padding_before[j]))
    lowest = np.finfo(dtype).min if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min
    padded = np.pad(np_data, widths, constant_values=lowest if pool_type == "max" else 0)
    inner = [(0, 0)] * np_data.ndim
    if count_include_pad:
        for j, a in enumerate(axes):
            inner[a] = (padding_before[j], padding_after[j])
    ones = np.pad(np.ones([d + sum(w) for d, w in zip(np_data.shape, inner, strict=True)], dtype),
                  [(w[0] - i[0], w[1] - i[1]) for w, i in zip(widths, inner, strict=True)])  # fmt: skip
    parts, counts = [], []
    for place in np.ndindex(*kernel):
        for j, a in enumerate(axes):
            start = place[j] * dilation[j]
            index[a] = slice(start, start + (out[a] - 1) * strides[j] + 1, strides[j])
        parts.append(padded[tuple(index)])
        counts.append(ones[tuple(index)])
    if pool_type == "max":
        return np.max(parts, 0).astype(dtype)  # type: ignore[no-any-return]
    return (np.sum(parts, 0) / np.maximum(np.sum(counts, 0), 1)).astype(dtype)  # type: ignore[no-any-return]
