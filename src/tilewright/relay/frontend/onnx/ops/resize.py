"""Converters of Resize and Upsample: image.resize2d if it is equivalent, else one axis at a time with tables made at import.

With dynamic extents, `resampling` computes the tables at run time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.ops.resampling import METHODS, resized
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, onnx_op
from tilewright.support.errors import DiagnosticError

MODES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)


def _positions(extent: int, target: int, scale: float, mode: str) -> np.ndarray:
    """The position of each output element in the input.

    In float32, as the operator requires: 1.5 / 0.6 must give 2.5. The double nearest to 0.6 would give another result.
    """
    x = np.arange(target, dtype=np.float32)
    scale = float(np.float32(scale))
    if mode == "align_corners":
        # The requested size may not be an integer.
        length = scale * extent if abs(scale * extent - target) > 1e-4 * target else float(target)
        return x * (extent - 1) / (length - 1) if target > 1 else x * 0
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if mode == "pytorch_half_pixel" and target == 1:
        return x * 0
    if mode == "half_pixel_symmetric":
        adjustment = target / (scale * extent)
        return extent / 2 * (1 - adjustment) + (x + 0.5) / scale - 0.5
    return (x + 0.5) / scale - 0.5


def _nearest(x: np.ndarray, extent: int, rounding: str) -> np.ndarray:
    if rounding == "floor":
        i = np.floor(x)
    elif rounding == "ceil":
        i = np.ceil(x)
    elif rounding == "round_prefer_ceil":
        i = np.floor(x + 0.5)
    else:
        i = np.ceil(x - 0.5)
    return np.asarray(np.clip(i, 0, extent - 1), np.int32)


def _weights(x: np.ndarray, extent: int, method: str, alpha: float, exclude: bool, stretch: float) -> np.ndarray:
    """Matrix (target, extent) of a linear or cubic interpolation, with a filter stretched by `stretch`."""

    def filtered(d: Any) -> Any:
        d = np.abs(d)
        if method == "linear":
            return np.maximum(0, 1 - d)
        near = ((alpha + 2) * d - (alpha + 3)) * d * d + 1
        far = ((alpha * d - 5 * alpha) * d + 8 * alpha) * d - 4 * alpha
        return np.where(d <= 1, near, np.where(d < 2, far, 0))

    first = np.floor(x).astype(np.int64)
    reach = int(np.ceil((1 if method == "linear" else 2) * stretch))
    neighbours = [(first + k, filtered((first + k - x) / stretch)) for k in range(1 - reach, reach + 1)]
    if stretch > 1:
        total = sum([w for _, w in neighbours])
        neighbours = [(i, w / total) for i, w in neighbours]
    matrix = np.zeros((len(x), extent))
    rows = np.arange(len(x))
    for i, w in neighbours:
        inside = (i >= 0) & (i < extent)
        np.add.at(matrix, (rows, np.clip(i, 0, extent - 1)), np.where(inside, w, 0) if exclude else w)
    if exclude:
        matrix /= matrix.sum(1, keepdims=True)
    return matrix.astype(np.float32)


def _cropped(extent: int, target: int, start: float, end: float) -> np.ndarray:
    """The position of each output element in the part of the input from `start` to `end` (fractions): in float32, by ONNX's steps."""
    first, last, length = np.float32(start), np.float32(end), np.float32(extent - 1)
    if target == 1:
        return np.array([np.float32(0.5) * (first + last) * length], np.float32)
    return first * length + np.arange(target, dtype=np.float32) * (last - first) * length / np.float32(target - 1)


def _along(
    node: OnnxNode,
    x: Tensor,
    axis: int,
    rank: int,
    extent: int,
    target: int,
    scale: float,
    method: str,
    places: np.ndarray,
) -> Expr:
    if method == "nearest":
        return node.call(
            "take", x, Value(array=_nearest(places, extent, node.get("nearest_mode", "round_prefer_floor"))), axis=axis
        )
    stretch = max(1.0, 1 / scale) if node.get("antialias", 0) else 1.0
    alpha, exclude = node.get("cubic_coeff_a", -0.75), bool(node.get("exclude_outside", 0))
    matrix = _weights(places, extent, method, alpha, exclude, stretch)
    order = [k for k in range(rank) if k != axis] + [axis]
    moved = node.call("transpose", x, axes=tuple(order)) if axis != rank - 1 else x
    out = node.call("nn.dense", moved, Value(array=matrix))
    back = tuple([order.index(k) for k in range(rank)])
    return node.call("transpose", out, axes=back) if axis != rank - 1 else out


def resize(node: OnnxNode, x: Value, scales: Value | None, sizes: Value | None, roi: list[float] | None = None) -> Any:
    """x resampled to `sizes`, or by scales. `roi`: the starts and ends of the part to sample, as fractions of each axis."""
    mode, method = node.get("coordinate_transformation_mode", "half_pixel"), node.get("mode", "nearest")
    if mode not in MODES:
        raise node.refuse("coordinate_transformation_mode", mode, ", ".join(MODES))
    if method not in METHODS:
        raise node.refuse("mode", method, ", ".join(METHODS))
    compatibility.RESAMPLING.seen(f"{node.name} ({method}, {mode})")
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        raise node.refuse("keep_aspect_ratio_policy", policy, "stretch, not_larger, not_smaller")
    given = scales if sizes is None else sizes
    if given is None:
        raise ValueError("neither scales nor sizes is given")
    if sizes is not None and not sizes.dtype.startswith("int"):
        raise ValueError(f"sizes must be of int64, but is of {sizes.dtype}")
    if not given.is_number and given.ndim != 1:
        raise DiagnosticError(f"its {'scales' if sizes is None else 'sizes'} have {given.ndim} axes, and are a vector")
    if all([isinstance(d, int) for d in x.shape]) and given.is_number and given.array is not None:
        numbers = given.array.reshape(-1).tolist()
        pair = (numbers, None) if sizes is None else (None, numbers)
        return _resized(node, x, pair[0], pair[1], roi, mode, method, policy)
    return resized(node, x, given, sizes is not None, roi, mode)


def _resized(
    node: OnnxNode,
    x: Value,
    scales: list[float] | None,
    sizes: list[int] | None,
    roi: list[float] | None,
    mode: str,
    method: str,
    policy: str,
) -> Any:
    """`resize` if everything is known at import."""
    shape = node.static(x)
    axes = node.places(node.get("axes") or range(len(shape)), len(shape))
    kept: float | None = None
    if sizes and policy != "stretch":
        # One scale for all axes; sizes are rounded half up.
        kept = (min if policy == "not_larger" else max)([n / shape[a] for n, a in zip(sizes, axes, strict=True)])
        sizes = [int(np.floor(kept * shape[a] + 0.5)) for a in axes]
    target, ratio = list(shape), [1.0] * len(shape)
    for k, a in enumerate(axes):
        if sizes:
            target[a], ratio[a] = sizes[k], sizes[k] / shape[a] if kept is None else kept
        else:
            assert scales is not None
            target[a], ratio[a] = int(np.floor(shape[a] * np.float32(scales[k]) + 1e-6)), float(scales[k])
    crop = mode == "tf_crop_and_resize"
    changed = [a for a in range(len(shape)) if target[a] != shape[a] or ratio[a] != 1.0 or crop and a in axes]
    if not changed:
        return x
    # resize2d scales by the extents, which is equivalent if the given scale leads to an integer.
    exact = all(abs(shape[a] * ratio[a] - target[a]) < 1e-4 * target[a] for a in changed)
    plain = mode not in ("half_pixel_symmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize")
    plain = plain and not node.get("antialias", 0)
    if len(shape) == 4 and min(changed) >= 2 and exact and plain:
        return node.call(
            "image.resize2d", x, size=(target[2], target[3]), method=METHODS[method], coordinate_transformation_mode=mode,
            rounding_method=node.get("nearest_mode", "round_prefer_floor") if method == "nearest" else "",
            cubic_alpha=node.get("cubic_coeff_a", -0.75), cubic_exclude=node.get("exclude_outside", 0),
        )  # fmt: skip
    out: Any = x
    outside = np.zeros([1] * len(shape), bool)
    for a in changed:
        if crop:
            k = axes.index(a)
            if roi is None:
                raise ValueError("tf_crop_and_resize needs the input roi")
            places = _cropped(shape[a], target[a], roi[k], roi[k + len(axes)])
            out_here = (places < 0) | (places > shape[a] - 1)
            outside = outside | out_here.reshape([-1 if j == a else 1 for j in range(len(shape))])
        else:
            places = _positions(shape[a], target[a], ratio[a], mode)
        out = _along(node, out, a, len(shape), shape[a], target[a], ratio[a], method, places)
    if outside.any():
        fill = node.scalar(node.get("extrapolation_value", 0.0), x)
        out = node.call("where", Value(array=np.broadcast_to(outside, target).copy()), fill, out)
    return out


@onnx_op("Upsample")
def _upsample_attributes(node: OnnxNode, x: Value) -> Any:
    scales = node.get("scales")
    if scales is None:
        scales = [1.0, 1.0, float(node.get("height_scale")), float(node.get("width_scale"))]
    if node.get("mode") == "bilinear":
        # The mode's name before opset 7.
        node.attrs["mode"] = "linear"
    return _upsample(node, x, Value(array=np.array(scales, np.float32)))


@onnx_op("Upsample", since=9)
def _upsample_inputs(node: OnnxNode, x: Value, scales: Value) -> Any:
    return _upsample(node, x, scales)


@onnx_op("Resize", since=10)
def _resize10(node: OnnxNode, x: Value, scales: Value) -> Any:
    return _upsample(node, x, scales)


def _upsample(node: OnnxNode, x: Value, scales: Value) -> Any:
    # The old operators have one rule: asymmetric positions, rounded down.
    node.attrs.update({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"})
    return resize(node, x, scales, None)


@onnx_op("Resize", since=11)
def _resize11(
    node: OnnxNode, x: Value, roi: Value | None = None, scales: Value | None = None, sizes: Value | None = None
) -> Any:
    crop = node.get("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    part = [float(v) for v in node.numbers(roi, "roi").reshape(-1)] if crop and roi is not None else None
    if sizes is not None and sizes.shape != [0]:
        return resize(node, x, None, sizes, part)
    return resize(node, x, scales, None, part)
