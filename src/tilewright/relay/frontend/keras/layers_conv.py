"""Converters of convolutions, pooling and normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.builder import same_padding
from tilewright.relay.frontend.common.value import Value, known_extents
from tilewright.relay.frontend.keras.activations import activated
from tilewright.relay.frontend.keras.layers_core import kernel_and_bias
from tilewright.relay.frontend.keras.value import LayerCall, axes_of, extents, keras_layer

SPACE = ("", "W", "HW", "DHW")


def is_first(c: LayerCall) -> bool:
    """Whether channels come before the spatial axes."""
    return bool(c.get("data_format", "channels_last") == "channels_first")


def layout(n: int, first: bool) -> str:
    """The layout of the data: NHWC, or NCHW."""
    return f"NC{SPACE[n]}" if first else f"N{SPACE[n]}C"


def window_padding(
    padding: str, sizes: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[Dim, ...]:
    """Padding (all befores, then all afters) for "same", "valid" or "causal"."""
    if padding == "valid":
        return (0,) * (2 * len(kernel))
    if padding == "causal":
        return ((kernel[0] - 1) * dilation[0], 0)
    pairs = [same_padding(*given) for given in zip(sizes, kernel, strides, dilation, strict=True)]
    return (*[p[0] for p in pairs], *[p[1] for p in pairs])


def convolve(
    c: LayerCall, x: Value, kernel: Value, strides: Sequence[int], padding: str, dilation: Sequence[int], groups: int, first: bool
) -> Value:  # fmt: skip
    """A convolution with a kernel (.., in / groups, out)."""
    n = kernel.ndim - 2
    start = 2 if first else 1
    shape = tuple(known_extents(kernel.shape[:n]))
    pads = window_padding(padding, x.shape[start : start + n], shape, strides, dilation)
    if not all([isinstance(p, int) for p in pads]):
        width: list[Any] = [(0, 0)] * x.ndim
        width[start : start + n] = [(pads[k], pads[k + n]) for k in range(n)]
        x, pads = c.pad(x, width), (0,) * (2 * n)
    return c.call(
        f"nn.conv{n}d", x, kernel, strides=tuple(strides), padding=pads, dilation=tuple(dilation), groups=groups,
        channels=kernel.known_extent(-1), kernel_size=shape, data_layout=layout(n, first), kernel_layout=f"{SPACE[n]}IO",
    )  # fmt: skip


def biased(c: LayerCall, x: Value, bias: Value | None) -> Value:
    """x plus a bias for each channel."""
    axis = 1 if is_first(c) else x.ndim - 1
    return x if bias is None else c.call("nn.bias_add", x, bias, axis=axis)


@keras_layer("Conv1D", "Conv2D", "Conv3D")
def _conv(c: LayerCall, x: Value) -> Value:
    n = axes_of(c.kind)
    kernel, bias = kernel_and_bias(c)
    out = convolve(
        c, x, kernel, extents(c.get("strides", 1), n), str(c.get("padding", "valid")), extents(c.get("dilation_rate", 1), n),
        int(c.get("groups", 1)), is_first(c),
    )  # fmt: skip
    return activated(c, biased(c, out, bias))


def depthwise(
    c: LayerCall,
    x: Value,
    kernel: Value,
    strides: Sequence[int],
    padding: str,
    dilation: Sequence[int],
    first: bool,
) -> Value:
    """A convolution of each channel with kernels (.., channels, multiplier)."""
    *window, channels, times = known_extents(kernel.shape)
    grouped = c.reshape(kernel, [*window, 1, channels * times])
    return convolve(c, x, grouped, strides, padding, dilation, channels, first)


@keras_layer("DepthwiseConv1D", "DepthwiseConv2D")
def _depthwise(c: LayerCall, x: Value) -> Value:
    n = axes_of(c.kind)
    # Keras 2 has another name for it.
    kernel, bias = kernel_and_bias(c, "kernel" if c.version >= 3 else "depthwise_kernel")
    out = depthwise(
        c, x, kernel, extents(c.get("strides", 1), n), str(c.get("padding", "valid")), extents(c.get("dilation_rate", 1), n), is_first(c)
    )  # fmt: skip
    return activated(c, biased(c, out, bias))


@keras_layer("SeparableConv1D", "SeparableConv2D")
def _separable(c: LayerCall, x: Value) -> Value:
    n = axes_of(c.kind)
    names = ["depthwise_kernel", "pointwise_kernel", *(["bias"] if c.get("use_bias", True) else [])]
    inner, outer, *bias = c.weights(*names)
    strides, dilation = extents(c.get("strides", 1), n), extents(c.get("dilation_rate", 1), n)
    mid = depthwise(c, x, inner, strides, str(c.get("padding", "valid")), dilation, is_first(c))
    out = convolve(c, mid, outer, (1,) * n, "valid", (1,) * n, 1, is_first(c))
    return activated(c, biased(c, out, bias[0] if bias else None))


@keras_layer("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "Deconvolution2D")
def _transposed(c: LayerCall, x: Value) -> Value:
    n = int(c.kind[4]) if c.kind.startswith("Conv") else 2
    kernel, bias = kernel_and_bias(c)
    strides, dilation = extents(c.get("strides", 1), n), extents(c.get("dilation_rate", 1), n)
    extra = c.config.get("output_padding")
    more = [None] * n if extra is None else list(extents(extra, n))
    same = str(c.get("padding", "valid")) == "same"
    window = known_extents(kernel.shape[:n])
    before, after, added = [], [], []
    for k, s, d, e in zip(window, strides, dilation, more, strict=True):
        reach = (k - 1) * d + 1
        # The result's extent is (extent - 1) * s + `goal`; before cropping it is (extent - 1) * s + reach.
        if e is None:
            goal = s if same else max(reach, s)
        else:
            goal = reach + e - (2 * (reach // 2) if same else 0)
        cut = max(reach - goal, 0)
        first_cut = cut // 2 if same else 0
        before.append(first_cut)
        after.append(cut - first_cut)
        added.append(max(goal - reach, 0))
    late = [a if a >= s else 0 for a, s in zip(added, strides, strict=True)]
    out = c.call(
        f"nn.conv{n}d_transpose", x, kernel, strides=tuple(strides), padding=(*before, *after), dilation=tuple(dilation),
        channels=kernel.known_extent(n), kernel_size=tuple(window), data_layout=layout(n, is_first(c)), kernel_layout=f"{SPACE[n]}OI",
        output_padding=tuple([0 if w else a for a, w in zip(added, late, strict=True)]),
    )  # fmt: skip
    start = 2 if is_first(c) else 1
    width = [(0, 0)] * start + [(0, w) for w in late] + [(0, 0)] * (out.ndim - start - n)
    return activated(c, biased(c, c.pad(out, width), bias))


# ---- pooling


def pool(
    c: LayerCall, x: Value, key: str, size: Sequence[int], strides: Sequence[int], padding: str, first: bool
) -> Value:
    """Maxima or means of windows. Means do not count the padding."""
    n = len(size)
    start = 2 if first else 1
    pads = window_padding(padding, x.shape[start : start + n], size, strides, (1,) * n)
    return c.call(
        f"nn.{key}_pool{n}d", x, pool_size=tuple(size), strides=tuple(strides), padding=pads, layout=layout(n, first)
    )


def _pooling(key: str) -> Callable[..., Value]:
    def convert(c: LayerCall, x: Value) -> Value:
        n = axes_of(c.kind)
        size = extents(c.get("pool_size", 2), n)
        strides = extents(c.get("strides", c.get("pool_size", 2)), n)
        return pool(c, x, key, size, strides, str(c.get("padding", "valid")), is_first(c))

    return convert


def _global(key: str) -> Callable[..., Value]:
    def convert(c: LayerCall, x: Value, mask: Value | None = None) -> Value:
        n = axes_of(c.kind)
        start = 2 if is_first(c) else 1
        axes, keep = list(range(start, start + n)), bool(c.get("keepdims", False))
        mask = mask if mask is not None else c.mask(x)
        if mask is not None and n == 1 and key == "mean":
            share = c.call("expand_dims", c.cast(mask, x.dtype), axis=1 if start == 2 else 2)
            total = c.reduce("sum", c.call("multiply", x, share), axes, keep)
            return c.call("divide", total, c.reduce("sum", share, axes, keep))
        return c.reduce(key, x, axes, keep)

    return convert


def _adaptive(key: str) -> Callable[..., Value]:
    def convert(c: LayerCall, x: Value) -> Value:
        n = axes_of(c.kind)
        sizes = extents(c.config["output_size"], n)
        return c.call(f"nn.adaptive_{key}_pool{n}d", x, output_size=sizes, layout=layout(n, is_first(c)))

    return convert


for _n in (1, 2, 3):
    keras_layer(f"MaxPooling{_n}D", f"MaxPool{_n}D")(_pooling("max"))
    keras_layer(f"AveragePooling{_n}D", f"AvgPool{_n}D")(_pooling("avg"))
    keras_layer(f"GlobalMaxPooling{_n}D", f"GlobalMaxPool{_n}D")(_global("max"))
    keras_layer(f"GlobalAveragePooling{_n}D", f"GlobalAvgPool{_n}D")(_global("mean"))
    keras_layer(f"AdaptiveMaxPooling{_n}D")(_adaptive("max"))
    keras_layer(f"AdaptiveAveragePooling{_n}D")(_adaptive("avg"))


# ---- normalisation


@keras_layer("BatchNormalization", "BatchNormalizationV1", "SyncBatchNormalization")
def _batch_norm(c: LayerCall, x: Value, mask: Value | None = None) -> Value:
    axis = c.get("axis", -1)
    axis = c.axis(int(axis[0] if isinstance(axis, (list, tuple)) else axis), x.ndim)
    names = [*(["gamma"] if c.get("scale", True) else []), *(["beta"] if c.get("center", True) else [])]
    found = dict(
        zip(
            [*names, "moving_mean", "moving_variance"], c.weights(*names, "moving_mean", "moving_variance"), strict=True
        )
    )
    mean = found["moving_mean"]
    gamma, beta = (
        found.get(n, Value(array=np.full(c.static(mean.shape, "its channels"), v, mean.dtype)))
        for n, v in (("gamma", 1), ("beta", 0))
    )
    return c.calls(
        "nn.batch_norm",
        x,
        gamma,
        beta,
        mean,
        found["moving_variance"],
        axis=axis,
        epsilon=float(c.get("epsilon", 1e-3)),
    )[0]


def moments(c: LayerCall, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """(x minus its mean, its variance) over axes, which are kept with extent 1."""
    moved = c.call("subtract", x, c.reduce("mean", x, axes, True))
    return moved, c.reduce("mean", c.call("multiply", moved, moved), axes, True)


def scaled(c: LayerCall, x: Value, axes: Sequence[int], names: Sequence[str]) -> Value:
    """x times gamma plus beta. Both have one number for each position of the axes."""
    if not names:
        return x
    shape = [x.shape[k] if k in axes else 1 for k in range(x.ndim)]
    for name, w in zip(names, c.weights(*names), strict=True):
        x = c.call("add" if name == "beta" else "multiply", x, c.reshape(w, shape))
    return x


@keras_layer("LayerNormalization")
def _layer_norm(c: LayerCall, x: Value) -> Value:
    axes = sorted(c.axes(c.get("axis", -1), x.ndim))
    epsilon = float(c.get("epsilon", 1e-3))
    names = [*(["gamma"] if c.get("scale", True) else []), *(["beta"] if c.get("center", True) else [])]
    if c.get("rms_scaling", False):
        power = moments(c, x, axes)[1]
        x = c.call("multiply", x, c.call("rsqrt", c.call("add", power, epsilon)))
        return scaled(c, x, axes, ["gamma"])
    if axes == [x.ndim - 1] and names == ["gamma", "beta"]:
        return c.call("nn.layer_norm", x, *c.weights(*names), axis=-1, epsilon=epsilon)
    moved, power = moments(c, x, axes)
    return scaled(c, c.call("multiply", moved, c.call("rsqrt", c.call("add", power, epsilon))), axes, names)


@keras_layer("RMSNormalization")
def _rms_norm(c: LayerCall, x: Value) -> Value:
    axes = sorted(c.axes(c.get("axis", -1), x.ndim))
    power = c.reduce("mean", c.call("multiply", x, x), axes, True)
    out = c.call("multiply", x, c.call("rsqrt", c.call("add", power, float(c.get("epsilon", 1e-6)))))
    return scaled(c, out, axes, ["scale"])


@keras_layer("GroupNormalization")
def _group_norm(c: LayerCall, x: Value) -> Value:
    axis = c.axis(int(c.get("axis", -1)), x.ndim)
    (channels,) = c.static([x.shape[axis]], "the number of its channels")
    groups = int(c.get("groups", 32))
    groups = channels if groups == -1 else groups
    order = [0, axis, *[k for k in range(1, x.ndim) if k != axis]]
    turned = c.transpose(x, order)
    apart = c.reshape(turned, [turned.shape[0], groups, channels // groups, *turned.shape[2:]])
    moved, power = moments(c, apart, range(2, apart.ndim))
    out = c.call("multiply", moved, c.call("rsqrt", c.call("add", power, float(c.get("epsilon", 1e-3)))))
    back = c.transpose(c.reshape(out, turned.shape), [order.index(k) for k in range(x.ndim)])
    names = [*(["gamma"] if c.get("scale", True) else []), *(["beta"] if c.get("center", True) else [])]
    return scaled(c, back, [axis], names)
