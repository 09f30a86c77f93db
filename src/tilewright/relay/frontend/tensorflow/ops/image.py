"""Converters of colours, contrast, and resizing by areas."""

from __future__ import annotations

import math

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, tf_op
from tilewright.support.errors import OpNotImplemented

MOST_SHARES = 1 << 24
"""The largest number of elements of the matrix that resizes an axis by areas."""


def _shares(extent: int, size: int, align: bool) -> np.ndarray:
    """(size, extent): the weight of each input element in each result element; each row sums to 1. Raises OpNotImplemented."""
    if size * extent > MOST_SHARES:
        raise OpNotImplemented(f"it resizes an axis of {extent} to {size}; their product may be {MOST_SHARES}")
    step = np.float32((extent - 1) / (size - 1) if align and size > 1 else extent / size)
    found = np.zeros((size, extent), np.float32)
    for k in range(size):
        begin, end = np.float32(k) * step, np.float32(k + 1) * step
        for place in range(math.floor(begin), math.ceil(end)):
            part = min(np.float32(place + 1), end) - max(np.float32(place), begin)
            found[k, min(place, extent - 1)] += part / step
    return found


@tf_op("ResizeArea")
def _resize_area(c: NodeCall, x: Value, size: Value) -> Value:
    height, width = (int(v) for v in c.static(c.ints(size, "size"), "the size that it resizes to"))
    extents = c.static(x.shape[1:3], "the size of its images")
    align = bool(c.attr("align_corners", False))
    rows, columns = (Value(array=_shares(e, n, align)) for e, n in zip(extents, (height, width), strict=True))
    tall = c.call("einsum", [rows, c.cast(x, "float32")], equation="ph,nhwc->npwc")
    return c.call("einsum", [columns, tall], equation="qw,npwc->npqc")


def _planes(c: NodeCall, x: Value) -> list[Value]:
    return [c.at(x, x.ndim - 1, k) for k in range(3)]


def _image(c: NodeCall, planes: list[Value]) -> Value:
    return c.call("stack", planes, axis=planes[0].ndim)


def _to_hsv(c: NodeCall, x: Value) -> list[Value]:
    """Hue, saturation and value of the last axis."""
    r, g, b = _planes(c, x)
    value = c.call("maximum", c.call("maximum", r, g), b)
    spread = c.call("subtract", value, c.call("minimum", c.call("minimum", r, g), b))
    none = c.number(0, x.dtype)
    grey, black = c.call("equal", spread, none), c.call("less_equal", value, none)
    one = c.number(1, x.dtype)
    saturation = c.call("where", black, none, c.call("divide", spread, c.call("where", black, one, value)))
    unit = c.call("multiply", c.call("where", grey, one, spread), 6.0)

    def turned(a: Value, b: Value, by: float) -> Value:
        moved: Value = c.call("add", c.call("divide", c.call("subtract", a, b), unit), by)
        return moved

    hue = c.call("where", c.call("equal", g, value), turned(b, r, 2 / 6), turned(r, g, 4 / 6))
    hue = c.call("where", c.call("equal", r, value), turned(g, b, 0.0), hue)
    hue = c.call("where", c.call("less", hue, none), c.call("add", hue, 1.0), hue)
    return [c.call("where", grey, none, hue), saturation, value]


def _of_hue(c: NodeCall, hue: Value) -> list[Value]:
    """The colour of a hue (in turns) at full saturation and value: three numbers from 0 to 1."""
    sixth = c.call("multiply", hue, 6.0)
    planes = []
    for middle, sign, offset in ((3.0, 1.0, -1.0), (2.0, -1.0, 2.0), (4.0, -1.0, 2.0)):
        apart = c.call("multiply", c.call("abs", c.call("subtract", sixth, middle)), sign)
        planes.append(c.call("clip", c.call("add", apart, offset), a_min=0.0, a_max=1.0))
    return planes


def _to_rgb(c: NodeCall, hue: Value, saturation: Value, value: Value) -> Value:
    """Colours of hue (in turns), saturation and value."""

    def plane(part: Value) -> Value:
        kept = c.call("add", c.call("multiply", c.call("subtract", part, 1.0), saturation), 1.0)
        return c.call("multiply", kept, value)

    return _image(c, [plane(p) for p in _of_hue(c, hue)])


@tf_op("RGBToHSV")
def _rgb_to_hsv(c: NodeCall, x: Value) -> Value:
    return _image(c, _to_hsv(c, x))


@tf_op("HSVToRGB")
def _hsv_to_rgb(c: NodeCall, x: Value) -> Value:
    return _to_rgb(c, *_planes(c, x))


@tf_op("AdjustHue")
def _adjust_hue(c: NodeCall, x: Value, delta: Value) -> Value:
    hue, _, most = _to_hsv(c, x)
    r, g, b = _planes(c, x)
    least = c.call("minimum", c.call("minimum", r, g), b)
    spread = c.call("subtract", most, least)
    moved = c.call("floor_mod", c.call("add", hue, c.cast(delta, x.dtype)), c.number(1, x.dtype))
    # The result keeps the minimum and maximum component. Saturation is undefined for negative colours.
    return _image(c, [c.call("add", c.call("multiply", p, spread), least) for p in _of_hue(c, moved)])


@tf_op("AdjustSaturation")
def _adjust_saturation(c: NodeCall, x: Value, scale: Value) -> Value:
    hue, saturation, value = _to_hsv(c, x)
    scaled = c.call("clip", c.call("multiply", saturation, c.cast(scale, x.dtype)), a_min=0.0, a_max=1.0)
    return _to_rgb(c, hue, scaled, value)


@tf_op("AdjustContrastv2")
def _adjust_contrast(c: NodeCall, x: Value, factor: Value) -> Value:
    middle = c.reduce("mean", x, [x.ndim - 3, x.ndim - 2], keepdims=True)
    return c.call("add", c.call("multiply", c.call("subtract", x, middle), c.cast(factor, x.dtype)), middle)
