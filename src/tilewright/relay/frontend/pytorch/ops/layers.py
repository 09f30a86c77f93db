"""Converters of convolutions, pooling, padding and patches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value, are_numbers, known_extents
from tilewright.relay.frontend.pytorch.dtypes import is_float
from tilewright.relay.frontend.pytorch.ops.movement import cut
from tilewright.relay.frontend.pytorch.value import PerAxis, Results, TorchCall, aten

LETTERS = ("", "W", "HW", "DHW")


def _tuple(value: Any, n: int, default: Any = 1) -> tuple[int, ...]:
    """A parameter as one number for each of n axes."""
    if value is None or isinstance(value, (list, tuple)) and not len(value):
        value = default
    if isinstance(value, (list, tuple)):
        return tuple([int(v) for v in value]) * (n if len(value) == 1 else 1)
    return (int(value),) * n


def convolve(
    c: TorchCall,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: PerAxis,
    padding: Sequence[int],
    dilation: PerAxis,
    groups: int,
) -> Value:
    """A convolution of a batch. padding: all befores, then all afters."""
    n = weight.ndim - 2
    single = x.ndim == n + 1
    data = c.call("expand_dims", x, axis=0) if single else x
    out = c.call(
        f"nn.conv{n}d", data, weight, strides=_tuple(stride, n), padding=tuple(padding), dilation=_tuple(dilation, n),
        groups=groups, channels=weight.known_extent(0), kernel_size=tuple(known_extents(weight.shape[2:])),
    )  # fmt: skip
    out = out if bias is None else c.call("nn.bias_add", out, bias)
    return c.call("squeeze", out, axis=(0,)) if single else out


@aten("conv1d", "conv2d", "conv3d")
def _conv(
    c: TorchCall, x: Value, weight: Value, bias: Value | None = None, stride: PerAxis = 1,
    padding: PerAxis | str = 0, dilation: PerAxis = 1, groups: int = 1,
) -> Value:  # fmt: skip
    if isinstance(padding, str):
        return _conv_named(c, x, weight, bias, stride, padding, dilation, groups)
    pads = _tuple(padding, weight.ndim - 2, 0)
    return convolve(c, x, weight, bias, stride, [*pads, *pads], dilation, groups)


@aten("conv1d.padding", "conv2d.padding", "conv3d.padding", "_convolution_mode")
def _conv_named(
    c: TorchCall,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: PerAxis,
    padding: str,
    dilation: PerAxis,
    groups: int,
) -> Value:
    n = weight.ndim - 2
    reach = [0] * n
    if padding == "same":
        reach = [d * (k - 1) for d, k in zip(_tuple(dilation, n), known_extents(weight.shape[2:]), strict=True)]
    before = [r // 2 for r in reach]
    after = [r - b for r, b in zip(reach, before, strict=True)]
    return convolve(c, x, weight, bias, stride, [*before, *after], dilation, groups)


def convolve_transposed(
    c: TorchCall,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: PerAxis,
    padding: PerAxis,
    extra: PerAxis,
    groups: int,
    dilation: PerAxis,
) -> Value:
    """The transposed convolution."""
    n = weight.ndim - 2
    single = x.ndim == n + 1
    data = c.call("expand_dims", x, axis=0) if single else x
    pads = _tuple(padding, n, 0)
    out = c.call(
        f"nn.conv{n}d_transpose", data, weight, strides=_tuple(stride, n), padding=(*pads, *pads), dilation=_tuple(dilation, n),
        groups=groups, channels=weight.known_extent(1) * groups, kernel_size=tuple(known_extents(weight.shape[2:])),
        output_padding=_tuple(extra, n, 0),
    )  # fmt: skip
    out = out if bias is None else c.call("nn.bias_add", out, bias)
    return c.call("squeeze", out, axis=(0,)) if single else out


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(
    c: TorchCall, x: Value, weight: Value, bias: Value | None = None, stride: PerAxis = 1, padding: PerAxis = 0, extra: PerAxis = 0,
    groups: int = 1, dilation: PerAxis = 1,
) -> Value:  # fmt: skip
    return convolve_transposed(c, x, weight, bias, stride, padding, extra, groups, dilation)


@aten("convolution", "_convolution", "convolution_overrideable")
def _convolution(
    c: TorchCall, x: Value, weight: Value, bias: Value | None, stride: PerAxis, padding: PerAxis, dilation: PerAxis, transposed: bool,
    extra: PerAxis, groups: int, *rest: object,
) -> Value:  # fmt: skip
    if transposed:
        return convolve_transposed(c, x, weight, bias, stride, padding, extra, groups, dilation)
    return _conv(c, x, weight, bias, stride, padding, dilation, groups)


def _pooled(c: TorchCall, x: Value, key: str, n: int, **attrs: Any) -> Value:
    single = x.ndim == n + 1
    out = c.call(f"nn.{key}{n}d", c.call("expand_dims", x, axis=0) if single else x, **attrs)
    return c.call("squeeze", out, axis=(0,)) if single else out


def _axes_of(c: TorchCall) -> int:
    """The number of spatial axes in an operator's name: 2 in "max_pool2d"."""
    return int(next(ch for ch in c.target.split(".")[0].split("::")[-1] if ch.isdigit()))


class _Pool(NamedTuple):
    """The windows of max pooling, one number for each axis."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool


def _max_pooled(
    c: TorchCall,
    x: Value,
    kernel: PerAxis,
    stride: PerAxis = (),
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> tuple[Value, _Pool]:
    """The largest element of each window, and the windows."""
    n = _axes_of(c)
    p = _Pool(_tuple(kernel, n), _tuple(stride, n, kernel), _tuple(padding, n, 0), _tuple(dilation, n), bool(ceil_mode))
    pooled = _pooled(
        c, x, "max_pool", n, pool_size=p.size, strides=p.strides, dilation=p.dilation, padding=(*p.pads, *p.pads), ceil_mode=p.ceil_mode,
    )  # fmt: skip
    return pooled, p


@aten("max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(c: TorchCall, x: Value, *windows: Any) -> Value:
    return _max_pooled(c, x, *windows)[0]


@aten("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool_with_indices(c: TorchCall, x: Value, *windows: Any) -> Results:
    pooled, p = _max_pooled(c, x, *windows)
    if not c.wants(1):
        return [pooled, None]
    n = len(p.size)
    extents = c.static(x.shape[-n:], "the extents that it pools")
    outs = c.static(pooled.shape[-n:], "the extents that it pools")
    rows = _windows(extents, outs, p.size, p.strides, p.pads, p.dilation)
    return [pooled, _places_of_maxima(c, x, n, rows, pooled.shape)]


def _places_of_maxima(c: TorchCall, x: Value, n: int, rows: np.ndarray, shape: Sequence[Dim]) -> Value:
    """The index of each window's maximum in its image (the last n axes). `rows`: for each window the indices of its elements, -1 for
    the padding."""
    flat = c.reshape(x, [*x.shape[:-n], math.prod(known_extents(x.shape[-n:]))])
    windows = c.call("take", flat, Value(array=np.maximum(rows, 0)), axis=flat.ndim - 1)
    lowest: Any = -np.inf if is_float(x.dtype) else np.iinfo(x.dtype).min
    inside = c.call("where", Value(array=rows >= 0), windows, c.number(lowest, x.dtype))
    best = c.call("argmax", inside, axis=(inside.ndim - 1,), keepdims=True)
    table = c.broadcast(Value(array=np.maximum(rows, 0)), inside.shape)
    place = c.call("gather", table, c.cast(best, "int64"), axis=inside.ndim - 1)
    return c.reshape(place, shape)


def _windows(
    extents: Sequence[int], outs: Sequence[int], kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:  # fmt: skip
    """The flat indices of the elements of each window (a row); -1 in the padding."""
    places = []
    for extent, out, k, s, p, d in zip(extents, outs, kernel, stride, pads, dilation, strict=True):
        at = np.arange(out)[:, None] * s - p + np.arange(k)[None, :] * d
        places.append(np.where(at < extent, at, -1))
    return _flat_places(extents, places)


def _adaptive_windows(extents: Sequence[int], outs: Sequence[int]) -> np.ndarray:
    """The windows of an adaptive pooling: the k-th of n covers the axis from k/n to (k + 1)/n, rounded outwards."""
    places = []
    for extent, out in zip(extents, outs, strict=True):
        k = np.arange(out)[:, None]
        begin, end = k * extent // out, -(-(k + 1) * extent // out)
        at = begin + np.arange(int((end - begin).max(initial=0)))[None, :]
        places.append(np.where(at < end, at, -1))
    return _flat_places(extents, places)


def _flat_places(extents: Sequence[int], places: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of flat indices for windows from their indices along each axis (negative in the padding); -1 in the padding."""
    flat, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for extent, at in zip(extents, places, strict=True):
        flat = (flat[:, None, :, None] * extent + at[None, :, None, :]).reshape(flat.shape[0] * at.shape[0], -1)
        inside = (inside[:, None, :, None] & (at >= 0)[None, :, None, :]).reshape(flat.shape)
    return np.where(inside, flat, -1)


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(
    c: TorchCall, x: Value, kernel: PerAxis, stride: PerAxis = (), padding: PerAxis = 0, ceil_mode: bool = False, include: bool = True,
    divisor: int | None = None,
) -> Value:  # fmt: skip
    if not is_float(x.dtype):
        mean = _avg_pool(c, c.cast(x, "float64"), kernel, stride, padding, ceil_mode, include, divisor)
        # Integer means round towards zero; the small term corrects exact quotients that were rounded down.
        away = c.call("add", mean, c.call("multiply", c.call("sign", mean), 1e-6))
        return c.cast(c.call("trunc", away), x.dtype)
    n = _axes_of(c)
    size, pads, strides = _tuple(kernel, n), _tuple(padding, n, 0), _tuple(stride, n, kernel)
    if divisor and ceil_mode:
        # Means count fewer elements in windows beyond the padding, so the input is padded first.
        x, pads, ceil_mode = _with_whole_windows(c, x, size, strides, pads), (0,) * n, False
    out = _pooled(
        c, x, "avg_pool", n, pool_size=size, strides=strides, padding=(*pads, *pads), ceil_mode=bool(ceil_mode),
        count_include_pad=bool(include or divisor),
    )  # fmt: skip
    return c.call("multiply", out, float(np.prod(size)) / divisor) if divisor else out


def _with_whole_windows(
    c: TorchCall, x: Value, size: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> Value:
    """The padded input, with more zeros for the last window that begins in the input or in the padding before it."""
    n = len(size)
    width = [(0, 0)] * (x.ndim - n)
    for extent, k, s, p in zip(x.shape[-n:], size, strides, pads, strict=True):
        if not isinstance(extent, int):
            raise c.refuse("divisor_override", "a number", "none with ceil_mode where the input's size is dynamic")
        last = -(-(extent + 2 * p - k) // s)
        last -= last * s >= extent + p
        width.append((p, max(p, last * s + k - extent - p)))
    padded: Value = c.call("nn.pad", x, c.number(0, x.dtype), pad_width=tuple(width))
    return padded


def _adaptive(key: str) -> Callable[..., Value]:
    def convert(c: TorchCall, x: Value, size: Any) -> Value:
        n = _axes_of(c)
        sizes = size if isinstance(size, (list, tuple)) else [size] * n
        target = [x.shape[x.ndim - n + k] if s is None else s for k, s in enumerate(sizes)]
        if key == "avg" and n == 2 and x.ndim == 4 and all([t == 1 for t in target]):
            return c.call("nn.global_avg_pool2d", x)
        if all([isinstance(t, int) and t == 1 for t in target]):
            return c.call("mean" if key == "avg" else "max", x, axis=tuple(range(x.ndim - n, x.ndim)), keepdims=True)
        c.static(x.shape[-n:], "the extents that it pools")
        return _pooled(c, x, f"adaptive_{key}_pool", n, output_size=tuple(c.static(target, "its output size")))

    return convert


for _name in (
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
):
    aten(_name)(_adaptive("avg"))


@aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(c: TorchCall, x: Value, size: Any) -> Results:
    pooled = _adaptive("max")(c, x, size)
    if not c.wants(1):
        return [pooled, None]
    n = _axes_of(c)
    extents, outs = (c.static(v.shape[-n:], "the extents that it pools") for v in (x, pooled))
    return [pooled, _places_of_maxima(c, x, n, _adaptive_windows(extents, outs), pooled.shape)]


def pad(c: TorchCall, x: Value, pads: Sequence[int], mode: str = "constant", value: Operand | None = None) -> Value:
    """x padded by pairs of widths, for the last axis first; negative widths crop."""
    rank = x.ndim
    if mode in ("reflect", "replicate") and any([isinstance(v, int) and v < 0 for v in pads]):
        # First all axes are padded, then cropped.
        whole = pad(c, x, [max(v, 0) if isinstance(v, int) else v for v in pads], mode)
        return pad(c, whole, [min(v, 0) if isinstance(v, int) else 0 for v in pads])
    pairs = [(pads[k], pads[k + 1]) for k in range(0, len(pads), 2)]
    width: list[tuple[Any, Any]] = [(0, 0)] * rank
    for k, (before, after) in enumerate(pairs):
        axis = rank - 1 - k
        low, high = (-v if isinstance(v, int) and v < 0 else 0 for v in (before, after))
        if low or high:
            x = cut(c, x, axis, low, x.shape[axis] - high)
        width[axis] = (_at_least_zero(before), _at_least_zero(after))
    if not any([v != 0 if isinstance(v, int) else True for w in width for v in w]):
        return x
    if mode == "circular":
        for axis, (before, after) in enumerate(width):
            extent = x.shape[axis]
            parts = [x]
            parts = [cut(c, x, axis, extent - before, extent), *parts] if before else parts
            parts += [cut(c, x, axis, 0, after)] if after else []
            x = c.call("concatenate", parts, axis=axis) if len(parts) > 1 else x
        return x
    if mode not in ("constant", "reflect", "replicate"):
        raise c.refuse("mode", mode, "constant, reflect, replicate, circular")
    fill = c.tensor(0 if value is None else value, x.dtype)
    how = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}[mode]
    return c.call("nn.pad", x, fill, pad_width=tuple(width), pad_mode=how)


def _at_least_zero(v: Any) -> Any:
    return max(v, 0) if isinstance(v, int) else v


@aten("pad")
def _pad(c: TorchCall, x: Value, pads: Sequence[int], mode: str = "constant", value: Operand | None = None) -> Value:
    return pad(c, x, pads, mode, value)


@aten("constant_pad_nd")
def _constant_pad(c: TorchCall, x: Value, pads: Sequence[int], value: Operand = 0) -> Value:
    return pad(c, x, pads, "constant", value)


for _name, _mode in {"reflection_pad": "reflect", "replication_pad": "replicate"}.items():
    for _rank in (1, 2, 3):

        def _padded_by_mode(c: TorchCall, x: Value, pads: Sequence[int], mode: str = _mode) -> Value:
            return pad(c, x, pads, mode)

        aten(f"{_name}{_rank}d")(_padded_by_mode)


@aten("_pad_circular")
def _pad_circular(c: TorchCall, x: Value, pads: Sequence[int]) -> Value:
    return pad(c, x, pads, "circular")


def _patch_places(
    c: TorchCall, extents: Sequence[int], kernel: PerAxis, dilation: PerAxis, padding: PerAxis, stride: PerAxis
) -> tuple[np.ndarray, list[int]]:
    k, d, p, s = _tuple(kernel, 2), _tuple(dilation, 2), _tuple(padding, 2, 0), _tuple(stride, 2)
    outs = [(e + 2 * q - e2 * (m - 1) - 1) // t + 1 for e, q, e2, m, t in zip(extents, p, d, k, s, strict=True)]
    return _windows(extents, outs, k, s, p, d), outs


@aten("im2col")
def _im2col(c: TorchCall, x: Value, kernel: PerAxis, dilation: PerAxis, padding: PerAxis, stride: PerAxis) -> Value:
    single = x.ndim == 3
    x = c.call("expand_dims", x, axis=0) if single else x
    n, channels, *extents = x.shape
    if not are_numbers(extents):
        out = _patches(c, x, *[_tuple(v, 2) for v in (kernel, dilation, padding, stride)])
        return c.call("squeeze", out, axis=(0,)) if single else out
    places, _ = _patch_places(c, extents, kernel, dilation, padding, stride)
    flat = c.reshape(x, [n, channels, extents[0] * extents[1]])
    rows = places.T
    taken = c.call("take", flat, Value(array=np.maximum(rows, 0)), axis=2)
    if (rows < 0).any():
        taken = c.call("where", Value(array=rows >= 0), taken, c.number(0, x.dtype))
    out = c.reshape(taken, [n, channels * rows.shape[0], rows.shape[1]])
    return c.call("squeeze", out, axis=(0,)) if single else out


def _patches(
    c: TorchCall,
    x: Value,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """Patches of images of dynamic extents: a slice of the image for each kernel offset."""
    n, channels, *extents = x.shape
    wide = c.call("nn.pad", x, c.number(0, x.dtype), pad_width=((0, 0), (0, 0), *[(p, p) for p in padding]))
    counts = [
        (d + 2 * p - r * (k - 1) - 1) // s + 1
        for d, k, r, p, s in zip(extents, kernel, dilation, padding, stride, strict=True)
    ]
    parts = []
    for place in np.ndindex(*kernel):
        part = wide
        for a in range(2):
            begin = int(place[a]) * dilation[a]
            part = cut(c, part, 2 + a, begin, begin + (counts[a] - 1) * stride[a] + 1, stride[a])
        parts.append(c.reshape(part, [n, channels, 1, counts[0] * counts[1]]))
    rows = len(parts)
    return c.reshape(c.call("concatenate", parts, axis=2), [n, channels * rows, counts[0] * counts[1]])


@aten("col2im")
def _col2im(
    c: TorchCall, x: Value, size: Sequence[int], kernel: PerAxis, dilation: PerAxis, padding: PerAxis, stride: PerAxis
) -> Value:
    single = x.ndim == 2
    x = c.call("expand_dims", x, axis=0) if single else x
    places, _ = _patch_places(c, [int(v) for v in size], kernel, dilation, padding, stride)
    n, wide, count = x.shape
    cells = places.shape[1]
    channels = wide // cells
    total = int(size[0]) * int(size[1])
    # Elements of the padding are added to an additional position after the image.
    where = np.where(places.T < 0, total, places.T).reshape(1, -1)
    moved = c.transpose(c.reshape(x, [n * channels, cells * count]), [1, 0])
    start = c.full([total + 1, n * channels], 0, x.dtype)
    summed = c.call("scatter_nd", start, Value(array=where), moved, mode="add")
    image = c.transpose(cut(c, summed, 0, 0, total), [1, 0])
    out = c.reshape(image, [n, channels, int(size[0]), int(size[1])])
    return c.call("squeeze", out, axis=(0,)) if single else out


@aten("max_unpool2d")
def _max_unpool(c: TorchCall, x: Value, indices: Value, size: Sequence[int]) -> Value:
    *lead, h, w = x.shape
    flat = c.full([*lead, int(size[0]) * int(size[1])], 0, x.dtype)
    rows = [c.reshape(v, [*lead, h * w]) for v in (indices, x)]
    written = c.call("scatter_elements", flat, *rows, axis=len(lead))
    return c.reshape(written, [*lead, int(size[0]), int(size[1])])


@aten("fractional_max_pool2d", "fractional_max_pool3d")
def _fractional_max_pool(c: TorchCall, x: Value, kernel: PerAxis, size: Any, samples: Value) -> list[Value]:
    """Max pooling with random windows: a number from 0 to 1 for each axis of each image places them (Graham, 2014)."""
    n = 3 if "3d" in c.target else 2
    lead = list(x.shape[: x.ndim - n])
    extents = c.static(x.shape[-n:], "the extents that it pools")
    kernels, outs = _tuple(kernel, n), _tuple(size, n)
    drawn = c.reshape(samples, [*lead, n])
    at: Value | None = None
    for k, (extent, width, out) in enumerate(zip(extents, kernels, outs, strict=True)):
        # For two axes, the samples are in the order column, row.
        which = n - 1 - k if n == 2 else k
        share = c.call("strided_slice", drawn, begin=(which,), end=(which + 1,), axes=(len(lead),))
        step = (extent - width) / (out - 1) if out > 1 else 0.0
        first = c.call("floor", c.call("multiply", share, step))
        steps = c.call("multiply", c.call("add", share, Value(array=np.arange(out, dtype=x.dtype))), step)
        begins = c.cast(c.call("subtract", c.call("floor", steps), first), "int64")
        begins = c.call("where", Value(array=np.arange(out) == out - 1), c.number(extent - width, "int64"), begins)
        rows = c.call("add", c.call("expand_dims", begins, axis=begins.ndim), Value(array=np.arange(width)))
        if at is None:
            at = rows
            continue
        # All pairs of a window so far and a window of this axis.
        before, inside = at.shape[-2:]
        wide = c.call("multiply", c.reshape(at, [*lead, before, 1, inside, 1]), extent)
        whole = c.call("add", wide, c.reshape(rows, [*lead, 1, out, 1, width]))
        at = c.reshape(whole, [*lead, before * out, inside * width])
    assert at is not None
    windows, inside = at.shape[-2:]
    flat = c.reshape(x, [*lead, int(np.prod(extents))])
    found = c.reshape(
        c.call("gather", flat, c.reshape(at, [*lead, windows * inside]), axis=len(lead)), [*lead, windows, inside]
    )
    best = c.cast(c.call("argmax", found, axis=(len(lead) + 1,), keepdims=True), "int64")
    picked = [c.call("gather", v, best, axis=len(lead) + 1) for v in (found, at)]
    return [c.reshape(v, [*lead, *outs]) for v in picked]
