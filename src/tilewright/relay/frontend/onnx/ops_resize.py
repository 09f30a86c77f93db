"""Converters of Resize and Upsample: image.resize2d where it says the same, else one axis at a time with tables made at import."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op

MODES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
    "tf_half_pixel_for_nn",
)
METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


def _positions(extent: int, target: int, scale: float, mode: str) -> np.ndarray:
    """Where each output place lies among the input places.

    In float32, as the operator says: a scale of 0.6 is to divide 1.5 to 2.5, which its nearest double does not.
    """
    x = np.arange(target, dtype=np.float32)
    scale = float(np.float32(scale))
    if mode == "align_corners":
        return x * (extent - 1) / (target - 1) if target > 1 else x * 0
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


def _weights(x: np.ndarray, extent: int, method: str, alpha: float, exclude: bool) -> np.ndarray:
    """Matrix (target, extent) of a linear or cubic interpolation."""
    base = np.floor(x)
    t = x - base
    first = base.astype(np.int64)
    if method == "linear":
        taps = [(first, 1 - t), (first + 1, t)]
    else:

        def near(d: Any) -> Any:
            return ((alpha + 2) * d - (alpha + 3)) * d * d + 1

        def far(d: Any) -> Any:
            return ((alpha * d - 5 * alpha) * d + 8 * alpha) * d - 4 * alpha

        taps = [(first - 1, far(t + 1)), (first, near(t)), (first + 1, near(1 - t)), (first + 2, far(2 - t))]
    matrix = np.zeros((len(x), extent))
    rows = np.arange(len(x))
    for i, w in taps:
        inside = (i >= 0) & (i < extent)
        np.add.at(matrix, (rows, np.clip(i, 0, extent - 1)), np.where(inside, w, 0) if exclude else w)
    if exclude:
        matrix /= matrix.sum(1, keepdims=True)
    return matrix.astype(np.float32)


def _along(node: OnnxNode, x: Any, axis: int, rank: int, extent: int, target: int, scale: float, method: str) -> Any:
    mode = node.get("coordinate_transformation_mode", "half_pixel")
    places = _positions(extent, target, scale, mode)
    if method == "nearest":
        return node.call(
            "take", x, Value(array=_nearest(places, extent, node.get("nearest_mode", "round_prefer_floor"))), axis=axis
        )
    matrix = _weights(places, extent, method, node.get("cubic_coeff_a", -0.75), bool(node.get("exclude_outside", 0)))
    order = [k for k in range(rank) if k != axis] + [axis]
    moved = node.call("transpose", x, axes=tuple(order)) if axis != rank - 1 else x
    out = node.call("nn.dense", moved, Value(array=matrix))
    back = tuple([order.index(k) for k in range(rank)])
    return node.call("transpose", out, axes=back) if axis != rank - 1 else out


def resize(node: OnnxNode, x: Value, scales: list[float] | None, sizes: list[int] | None) -> Any:
    """x brought to `sizes`, or scaled."""
    mode, method = node.get("coordinate_transformation_mode", "half_pixel"), node.get("mode", "nearest")
    if mode not in MODES:
        raise node.refuse("coordinate_transformation_mode", mode, ", ".join(MODES))
    if method not in METHODS:
        raise node.refuse("mode", method, ", ".join(METHODS))
    if node.get("antialias", 0):
        raise node.refuse("antialias", 1, "0")
    if node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise node.refuse("keep_aspect_ratio_policy", node.get("keep_aspect_ratio_policy"), "stretch")
    shape = node.static(x)
    axes = [a + len(shape) if a < 0 else a for a in node.get("axes") or range(len(shape))]
    target, ratio = list(shape), [1.0] * len(shape)
    for k, a in enumerate(axes):
        if sizes:
            target[a], ratio[a] = sizes[k], sizes[k] / shape[a]
        else:
            assert scales is not None
            target[a], ratio[a] = int(np.floor(shape[a] * np.float32(scales[k]) + 1e-6)), float(scales[k])
    changed = [a for a in range(len(shape)) if target[a] != shape[a] or ratio[a] != 1.0]
    if not changed:
        return x
    # resize2d scales by the extents: the same where the given scale leads to a whole number.
    exact = all(abs(shape[a] * ratio[a] - target[a]) < 1e-4 * target[a] for a in changed)
    if len(shape) == 4 and min(changed) >= 2 and exact and mode not in ("half_pixel_symmetric", "tf_half_pixel_for_nn"):
        return node.call(
            "image.resize2d", x, size=(target[2], target[3]), method=METHODS[method], coordinate_transformation_mode=mode,
            rounding_method=node.get("nearest_mode", "round_prefer_floor") if method == "nearest" else "",
            cubic_alpha=node.get("cubic_coeff_a", -0.75), cubic_exclude=node.get("exclude_outside", 0),
        )  # fmt: skip
    out: Any = x
    for a in changed:
        out = _along(node, out, a, len(shape), shape[a], target[a], ratio[a], method)
    return out


def _floats(node: OnnxNode, scales: Value) -> list[float]:
    return [float(v) for v in node.known(scales, "scales").reshape(-1)]


@onnx_op("Upsample")
def _upsample_attributes(node: OnnxNode, x: Value) -> Any:
    return _upsample(node, x, list(node.get("scales")))


@onnx_op("Upsample", since=9)
def _upsample_inputs(node: OnnxNode, x: Value, scales: Value) -> Any:
    return _upsample(node, x, _floats(node, scales))


@onnx_op("Resize", since=10)
def _resize10(node: OnnxNode, x: Value, scales: Value) -> Any:
    return _upsample(node, x, _floats(node, scales))


def _upsample(node: OnnxNode, x: Value, scales: list[float]) -> Any:
    # The old operators have one rule: asymmetric, rounding down.
    node.attrs.update({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"})
    return resize(node, x, scales, None)


@onnx_op("Resize", since=11)
def _resize11(
    node: OnnxNode, x: Value, roi: Value | None = None, scales: Value | None = None, sizes: Value | None = None
) -> Any:
    if sizes is not None:
        return resize(node, x, None, [int(s) for s in node.ints(sizes, "sizes")])
    if scales is None:
        raise ValueError("neither scales nor sizes is given")
    return resize(node, x, _floats(node, scales), None)
