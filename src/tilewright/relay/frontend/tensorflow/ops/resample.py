"""Converters of image resampling by filters and by projections."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.host_calls import host_call
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, tf_op
from tilewright.runtime.host_functions.registry import Config
from tilewright.runtime.host_functions.strings import string_host

KERNELS: dict[str, tuple[float, Any]] = {
    "box": (0.5, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))), "triangle": (1.0, lambda x: np.maximum(1 - x, 0)),
    "gaussian": (1.5, lambda x: np.where(x < 1.5, np.exp(-(x**2) / (2 * 0.5**2)), 0.0)),
    **{f"lanczos{r}": (float(r), lambda x, r=r: np.where(x < r, np.sinc(x) * np.sinc(x / r), 0.0)) for r in (1, 3, 5)},
    "keyscubic": (2.0, lambda x: np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0.0))),
    "mitchellcubic": (
        2.0,
        lambda x: np.where(
            x < 1, ((7 * x - 12) * x * x + 16 / 3) / 6, np.where(x < 2, (((-7 / 3 * x + 12) * x - 20) * x + 32 / 3) / 6, 0.0)
        ),
    ),
}  # fmt: skip
"""Filter -> (reach, function from the distance to the weight)."""


def _filter(extent: int, size: int, scale: float, move: float, kind: str, smooth: bool) -> np.ndarray:
    """(size, extent): the weight of each input element in each result element."""
    reach, f = KERNELS[kind]
    # Computed in float32, like in TensorFlow: rounding decides whether elements at the filter's edge count.
    step = np.float32(1) / np.float32(scale)
    wide = np.maximum(step, np.float32(1)) if smooth else np.float32(1)
    out = np.zeros((size, extent), np.float32)
    for k in range(size):
        middle = np.float32(k + 0.5) * step - np.float32(move) * step
        if not 0 <= middle <= extent:
            continue
        first = max(int(np.ceil(middle - reach * wide - 0.5)), 0)
        last = min(int(np.floor(middle + reach * wide - 0.5)), extent - 1)
        at = np.arange(first, last + 1)
        weights = f(np.abs(at.astype(np.float32) + np.float32(0.5) - middle) / wide)
        if weights.size and abs(weights.sum()) > 1000 * np.finfo(np.float32).tiny:
            out[k, at] = weights / weights.sum()
    return out


@tf_op("ScaleAndTranslate")
def _scale_translate(c: NodeCall, x: Value, size: Value, scale: Value, move: Value) -> Value:
    outs = c.static(c.ints(size, "size"), "the size that it resizes to")
    extents = c.static(x.shape[1:3], "the size of its images")
    kind, smooth = str(c.attr("kernel_type", "lanczos3")), bool(c.attr("antialias", True))
    scales, moves = (c.known(v, "scale").reshape(-1).astype(float).tolist() for v in (scale, move))
    rows, columns = (
        Value(array=_filter(e, n, s, t, kind, smooth)) for e, n, s, t in zip(extents, outs, scales, moves, strict=True)
    )
    tall = c.call("einsum", [rows, c.cast(x, "float32")], equation="ph,nhwc->npwc")
    return c.call("einsum", [columns, tall], equation="qw,npwc->npqc")


@tf_op("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _projective(c: NodeCall, x: Value, transforms: Value, size: Value, fill: Value | None = None) -> Value:
    outs = c.ints(size, "output_shape")
    given = [x, transforms] if fill is None else [x, transforms, fill]
    config = {
        "how": c.attr("interpolation"),
        "mode": c.attr("fill_mode", "CONSTANT"),
        "size": [int(v) for v in c.static(outs, "its size")],
    }
    return host_call(c, "tf.projective", given, [x.shape[0], *outs, x.shape[3]], x.dtype, **config)


def _reflected(at: np.ndarray, n: int, mode: str) -> np.ndarray:
    """Coordinates moved into the image by a fill mode."""
    if mode == "REFLECT":
        if n <= 1:
            return np.zeros_like(at)
        at = np.where(at < 0, np.where(at < -n, at + 2 * n * np.floor(-at / (2 * n)), at), at)
        at = np.where(at < 0, np.where(at < -n, at + 2 * n, -at - 1), at)
        at = np.where(at > n - 1, at - 2 * n * np.floor(at / (2 * n)), at)
        return np.clip(np.where(at >= n, 2 * n - at - 1, at), 0, n - 1)
    if mode == "WRAP":
        if n <= 1:
            return np.zeros_like(at)
        # TensorFlow counts periods of n - 1, but moves by n.
        low = at < 0
        at = np.where(low, at + n * (np.floor(-at / (n - 1)) + 1), at)
        return np.clip(np.where(~low & (at > n - 1), at - n * np.floor(at / (n - 1)), at), 0, n - 1)
    return np.clip(at, 0, n - 1) if mode == "NEAREST" else at


@string_host("tf.projective")
def _run_projective(config: Config, x: np.ndarray, transforms: np.ndarray, *fill: np.ndarray) -> np.ndarray:
    height, width = config["size"]
    value = float(fill[0]) if fill else 0.0
    out = np.zeros((len(x), height, width, x.shape[3]), np.float64)
    v, u = np.mgrid[:height, :width].astype(np.float32)
    data = x.astype(np.float64)

    def pixel(image: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        inside = (row >= 0) & (row < image.shape[0]) & (column >= 0) & (column < image.shape[1])
        at = image[np.clip(row, 0, image.shape[0] - 1).astype(int), np.clip(column, 0, image.shape[1] - 1).astype(int)]
        return np.where(inside[..., None], at, value)

    for b, image in enumerate(data):
        t = transforms[b if len(transforms) > 1 else 0].astype(np.float32)
        below = t[6] * u + t[7] * v + 1
        with np.errstate(all="ignore"):
            column, row = (t[0] * u + t[1] * v + t[2]) / below, (t[3] * u + t[4] * v + t[5]) / below
        row, column = (
            _reflected(row, image.shape[0], config["mode"]),
            _reflected(column, image.shape[1], config["mode"]),
        )
        if config["how"] == "NEAREST":
            made = pixel(image, *[np.copysign(np.floor(np.abs(v) + 0.5), v) for v in (row, column)])
        else:
            top, left = np.floor(row), np.floor(column)
            dy, dx = (row - top)[..., None], (column - left)[..., None]
            upper = (1 - dx) * pixel(image, top, left) + dx * pixel(image, top, left + 1)
            lower = (1 - dx) * pixel(image, top + 1, left) + dx * pixel(image, top + 1, left + 1)
            made = (1 - dy) * upper + dy * lower
        out[b] = np.where((below == 0)[..., None], value, made)
    return out
