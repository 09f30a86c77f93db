"""Converters of resampling: RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

import numpy as np

from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.tflite.node import Node, Value, tflite_op
from tilewright.support.errors import OpNotImplemented

FINE = 1 << 10
"""The number of steps between two elements, for integers."""


def positive(size: list[int]) -> None:
    """Raises OpNotImplemented for a size that TFLite also refuses."""
    if min(size, default=1) < 1:
        raise OpNotImplemented(f"its size is {tuple(size)}; it must be positive")


@tflite_op("RESIZE_BILINEAR")
def _bilinear(node: Node, x: Value, size: Value) -> Value:
    height, width = [int(n) for n in node.whole(size, "size").reshape(-1)]
    align, half = bool(node.get("align_corners", False)), bool(node.get("half_pixel_centers", False))
    positive([height, width])
    if x.dtype in ("int8", "int16", "uint8"):
        return _whole(node, x, (height, width), align, half)
    mode = "align_corners" if align else "half_pixel" if half else "asymmetric"
    turned = node.transpose(x, (0, 3, 1, 2))
    made = node.call(
        "image.resize2d", turned, size=(height, width), method="linear", coordinate_transformation_mode=mode
    )
    return node.transpose(made, (0, 2, 3, 1))


def _whole(node: Node, x: Value, sizes: tuple[int, int], align: bool, half: bool) -> Value:
    """Interpolation with weights of ten bits along each axis."""
    wide = node.cast(x, "int64")
    small([sum(sizes)], "its result")
    for axis, (n, m) in enumerate(
        zip(node.extents(x, (1, 2), "the height and width that it resizes"), sizes, strict=True), 1
    ):
        step = (FINE * n + m // 2) // m
        if align and m > 1:
            step = (FINE * (n - 1) + (m - 1) // 2) // (m - 1)
        at = np.arange(m, dtype=np.int64) * step
        if half:
            at = at + step // 2 - FINE // 2
        low = np.maximum(np.trunc(at / FINE).astype(np.int64), 0)
        high = np.minimum(np.trunc((at + FINE - 1) / FINE).astype(np.int64), n - 1)
        part = (at - FINE * low).reshape([-1, *[1] * (3 - axis)])
        a = node.call("take", wide, low.astype(np.int32), axis=axis, mode="clip")
        b = node.call("take", wide, high.astype(np.int32), axis=axis, mode="clip")
        wide = node.call("add", node.call("multiply", a, FINE - part), node.call("multiply", b, part))
    half_step = node.call(
        "where", node.call("greater", wide, 0), node.number(1 << 19, "int64"), node.number(-(1 << 19), "int64")
    )
    return node.cast(node.call("trunc_divide", node.call("add", wide, half_step), 1 << 20), x.dtype)


@tflite_op("RESIZE_NEAREST_NEIGHBOR")
def _nearest(node: Node, x: Value, size: Value) -> Value:
    align, half = bool(node.get("align_corners", False)), bool(node.get("half_pixel_centers", False))
    wanted = [int(n) for n in node.whole(size, "size").reshape(-1)]
    positive(wanted)
    for axis, m in enumerate(wanted, 1):
        small([m], "its result")
        (n,) = node.extents(x, (axis,), "the height and width that it resizes")
        scale = np.float32((n - 1) / np.float32(m - 1)) if align and m > 1 else np.float32(n / np.float32(m))
        at = (np.arange(m, dtype=np.float32) + np.float32(0.5 if half else 0.0)) * scale
        place = np.floor(at + np.float32(0.5)) if align else np.floor(at)
        place = np.clip(place, 0, n - 1).astype(np.int32)
        if n == m and (place == np.arange(n)).all():
            continue
        if m % n == 0 and (place == np.repeat(np.arange(n), m // n)).all():
            x = node.call("repeat", x, repeats=m // n, axis=axis)
        else:
            x = node.call("take", x, place, axis=axis, mode="clip")
    return x
