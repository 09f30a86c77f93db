"""Converters of layers that preprocess data: scaling, normalising, resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.keras.value import LayerCall, keras_layer
from tilewright.support.errors import OpNotImplemented

METHODS = {
    "nearest": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic", "linear": "linear", "trilinear": "linear",
    "cubic": "cubic",
}  # fmt: skip
RESIZE_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def resized(
    c: LayerCall, x: Value, size: Sequence[Any], how: str, first: bool = False, antialias: bool = False
) -> Value:
    """Images (batch, .., channels) resized; pixels are areas (half-pixel centres)."""
    if how not in METHODS:
        raise OpNotImplemented(f"its interpolation is {how!r}; supported: {', '.join(METHODS)}")
    n = x.ndim - 2
    if antialias and how != "nearest":
        start = 2 if first else 1
        for k, target in enumerate(size):
            x = _along(c, x, start + k, int(target), how == "bicubic")
        return x
    return c.call(
        f"image.resize{n}d", x, size=tuple(size), layout=RESIZE_LAYOUTS[n][0 if first else 1], method=METHODS[how],
        coordinate_transformation_mode="half_pixel", rounding_method="round_prefer_ceil" if how == "nearest" else "",
        cubic_alpha=-0.5, cubic_exclude=1 if how in ("bicubic", "cubic") else 0,
    )  # fmt: skip


def _along(c: LayerCall, x: Value, axis: int, target: int, cubic: bool) -> Value:
    """One axis resampled by a table of weights with a kernel as wide as its step."""
    (extent,) = c.static([x.shape[axis]], "the extent that it resizes")
    small([extent, target], "its table of weights")
    step = extent / target
    wide = max(step, 1.0)
    middle = (np.arange(target) + 0.5) * step - 0.5
    d = np.abs(np.arange(extent)[None, :] - middle[:, None]) / wide
    if cubic:
        near, far = (1.5 * d - 2.5) * d * d + 1, ((-0.5 * d + 2.5) * d - 4) * d + 2
        w = np.where(d <= 1, near, np.where(d < 2, far, 0))
    else:
        w = np.maximum(1 - d, 0)
    w = w / w.sum(1, keepdims=True)
    order = [k for k in range(x.ndim) if k != axis] + [axis]
    out = c.call("nn.dense", c.transpose(x, order), Value(array=w.astype(x.dtype)))
    return c.transpose(out, [order.index(k) for k in range(x.ndim)])


@keras_layer("Rescaling")
def _rescaling(c: LayerCall, x: Value) -> Value:
    x = c.cast(x, c.compute_dtype)
    scale, offset = (np.asarray(c.get(n, v), np.float32) for n, v in (("scale", 1.0), ("offset", 0.0)))
    first = c.get("data_format", "channels_last") == "channels_first"
    shaped = [
        v.reshape([-1, *[1] * (x.ndim - 2)]) if first and v.ndim == 1 and x.ndim > 2 else v for v in (scale, offset)
    ]
    factor, shift = [Value(array=v.astype(x.dtype)) for v in shaped]
    return c.call("add", c.call("multiply", x, factor), shift)


@keras_layer("Normalization")
def _normalization(c: LayerCall, x: Value) -> Value:
    x = c.cast(x, c.compute_dtype)
    axis = c.config.get("axis", -1)
    given: Sequence[Any] = (c.config.get("mean"), c.config.get("variance"))
    if any([v is None for v in given]):
        given = c.arrays("mean", "variance")
    mean, variance = (np.asarray(v, np.float32) for v in given)
    axes = [] if axis is None else sorted(c.axes(axis, x.ndim))
    if mean.size > 1 or axes:
        shape = c.static([x.shape[k] if k in axes else 1 for k in range(x.ndim)], "the axis that it normalises")
        mean, variance = (np.broadcast_to(v.reshape(-1), (math.prod(shape),)).reshape(shape) for v in (mean, variance))
    spread = np.maximum(np.sqrt(variance), 1e-7).astype(x.dtype)
    mean = mean.astype(x.dtype)
    if c.get("invert", False):
        return c.call("add", c.call("multiply", x, Value(array=spread)), Value(array=mean))
    return c.call("divide", c.call("subtract", x, Value(array=mean)), Value(array=spread))


def _window(c: LayerCall, x: Value, first: int, height: int, width: int) -> Value:
    """The central crop of images."""
    h, w = c.static(x.shape[first : first + 2], "the size of its images")
    top, left = (h - height) // 2, (w - width) // 2
    return c.cut(c.cut(x, first, top, top + height), first + 1, left, left + width)


def _images(c: LayerCall, x: Value) -> tuple[Value, bool, int]:
    """(a batch of images, whether the input was a single image, the index of its first spatial axis)."""
    single = x.ndim == 3
    batch = c.call("expand_dims", x, axis=0) if single else x
    return batch, single, 2 if c.get("data_format", "channels_last") == "channels_first" else 1


@keras_layer("Resizing")
def _resizing(c: LayerCall, x: Value) -> Value:
    size = [int(c.config["height"]), int(c.config["width"])]
    batch, single, first = _images(c, c.cast(x, c.compute_dtype) if x.dtype.startswith(("int", "uint")) else x)
    if c.get("pad_to_aspect_ratio", False):
        raise c.refuse("pad_to_aspect_ratio", True, "False; crop_to_aspect_ratio or plain resizing")
    if c.get("crop_to_aspect_ratio", False):
        h, w = c.static(batch.shape[first : first + 2], "the size of its images")
        batch = _window(c, batch, first, min(h, int(w * size[0] / size[1])), min(w, int(h * size[1] / size[0])))
    out = resized(c, batch, size, str(c.get("interpolation", "bilinear")), first == 2, bool(c.get("antialias", False)))
    return c.call("squeeze", out, axis=(0,)) if single else out


@keras_layer("CenterCrop", "RandomCrop")
def _center_crop(c: LayerCall, x: Value) -> Value:
    height, width = int(c.config["height"]), int(c.config["width"])
    batch, single, first = _images(c, x)
    h, w = c.static(batch.shape[first : first + 2], "the size of its images")
    if h >= height and w >= width:
        out = _window(c, batch, first, height, width)
    else:
        kept = _window(c, batch, first, min(h, int(w * height / width)), min(w, int(h * width / height)))
        out = resized(c, kept, [height, width], "bilinear", first == 2)
    return c.call("squeeze", out, axis=(0,)) if single else out
