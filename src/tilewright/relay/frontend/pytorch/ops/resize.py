"""Converters of resampling: upsample, interpolate, grid_sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.value import TorchCall, aten
from tilewright.support.errors import OpNotImplemented

AXES = {
    "nearest1d": 1,
    "nearest2d": 2,
    "nearest3d": 3,
    "linear1d": 1,
    "bilinear2d": 2,
    "trilinear3d": 3,
    "bicubic2d": 2,
}


def resize(
    c: TorchCall, x: Value, sizes: Sequence[Any] | None, scales: Sequence[float | None] | None, method: str, align: bool,
    exact: bool = False, antialias: bool = False,
) -> Value:  # fmt: skip
    """The last axes of x (batch, channels, ...) resampled to `sizes`, or by scales."""
    n = x.ndim - 2
    extents = x.shape[2:]
    given = list(scales) if scales else [None] * n
    if sizes is None:
        sizes = [_scaled(e, s) for e, s in zip(extents, given, strict=True)]
    sizes = list(sizes)
    plain = all(
        [
            s is None or not isinstance(e, int) or abs(e * s - t) < 1e-6
            for e, s, t in zip(extents, given, sizes, strict=True)
        ]
    )
    if plain and not antialias:
        mode = (
            "align_corners" if align else "asymmetric" if method == "nearest_neighbor" and not exact else "half_pixel"
        )
        rounding = ("round_prefer_ceil" if exact else "floor") if method == "nearest_neighbor" else ""
        return c.call(
            f"image.resize{n}d", x, size=tuple(sizes), method=method, coordinate_transformation_mode=mode,
            rounding_method=rounding, cubic_alpha=-0.75,
        )  # fmt: skip
    c.static([*extents, *sizes], "the extents that it resizes")
    for k in range(n):
        x = _along(c, x, k + 2, int(sizes[k]), given[k], method, align, exact, antialias)
    return x


def _scaled(extent: Dim, scale: float | None) -> Any:
    if isinstance(extent, int):
        return math.floor(extent * float(scale or 1))
    whole = round(float(scale or 1))
    if whole != scale:
        raise OpNotImplemented(f"it scales a dynamic extent by {scale}; integers are supported")
    return extent * whole


def _along(
    c: TorchCall,
    x: Value,
    axis: int,
    target: int,
    scale: float | None,
    method: str,
    align: bool,
    exact: bool,
    antialias: bool,
) -> Value:
    """One axis resampled by a table: a product with a matrix of weights, or the indices of the nearest elements."""
    extent = x.known_extent(axis)
    step = 1 / scale if scale else extent / target
    if align:
        step = (extent - 1) / (target - 1) if target > 1 else 0.0
    at = np.arange(target)
    if method == "nearest_neighbor":
        places = (
            np.floor((at.astype(np.float32) + np.float32(0.5)) * np.float32(step))
            if exact
            else np.floor(at.astype(np.float32) * np.float32(step))
        )
        return c.call("take", x, Value(array=np.clip(places, 0, extent - 1).astype(np.int64)), axis=axis)
    matrix = _weights(at, extent, step, method == "cubic", align, antialias)
    order = [k for k in range(x.ndim) if k != axis] + [axis]
    out = c.call("nn.dense", c.transpose(x, order), Value(array=matrix.astype(x.dtype)))
    return c.transpose(out, [order.index(k) for k in range(x.ndim)])


def _weights(at: np.ndarray, extent: int, step: float, cubic: bool, align: bool, antialias: bool) -> np.ndarray:
    """Matrix (target, extent) of a linear or cubic interpolation. With antialias the kernel is as wide as its step."""
    matrix = np.zeros((len(at), extent))
    if antialias:
        wide = max(step, 1.0)
        reach = (2.0 if cubic else 1.0) * wide
        # Aligned corners change only the step: PyTorch still uses the centres of pixels.
        for i, middle in enumerate((at + 0.5) * step):
            low, high = max(int(middle - reach + 0.5), 0), min(int(middle + reach + 0.5), extent)
            j = np.arange(low, high)
            w = _kernel((j - middle + 0.5) / wide, cubic, -0.5)
            matrix[i, low:high] = w / w.sum()
        return matrix
    places = at * step if align else (at + 0.5) * step - 0.5
    if not cubic and not align:
        places = np.maximum(places, 0)
    first = np.floor(places).astype(np.int64)
    for neighbour in range(-1, 3) if cubic else range(2):
        w = _kernel(places - first - neighbour, cubic, -0.75)
        np.add.at(matrix, (np.arange(len(at)), np.clip(first + neighbour, 0, extent - 1)), w)
    return matrix


def _kernel(d: np.ndarray, cubic: bool, alpha: float) -> np.ndarray:
    d = np.abs(d)
    if not cubic:
        return np.asarray(np.maximum(1 - d, 0))
    near = ((alpha + 2) * d - (alpha + 3)) * d * d + 1
    far = ((alpha * d - 5 * alpha) * d + 8 * alpha) * d - 4 * alpha
    return np.asarray(np.where(d <= 1, near, np.where(d < 2, far, 0)))


def _method(name: str) -> str:
    return "nearest_neighbor" if "nearest" in name else "cubic" if "cubic" in name else "linear"


def _single(name: str, exact: bool, antialias: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    method = _method(name)

    def vec(c: TorchCall, x: Value, sizes: Any, *rest: Any) -> Value:
        align, scales = (False, *rest) if method == "nearest_neighbor" else rest
        return resize(c, x, sizes, scales, method, bool(align), exact, antialias)

    def default(c: TorchCall, x: Value, sizes: Any, *rest: Any) -> Value:
        align, scales = (False, rest) if method == "nearest_neighbor" else (rest[0], rest[1:])
        given = list(scales) + [None] * (x.ndim - 2 - len(scales))
        return resize(c, x, sizes, given if any(given) else None, method, bool(align), exact, antialias)

    return vec, default


for _name in AXES:
    for _prefix, _exact in (("upsample_", False), ("_upsample_nearest_exact", True)):
        if _exact and "nearest" not in _name:
            continue
        _full = f"upsample_{_name}" if not _exact else f"_upsample_nearest_exact{_name.removeprefix('nearest')}"
        _vec, _default = _single(_name, _exact, False)
        aten(f"{_full}.vec")(_vec)
        aten(_full)(_default)
for _name in ("bilinear2d", "bicubic2d"):
    _vec, _default = _single(_name, False, True)
    aten(f"_upsample_{_name}_aa.vec")(_vec)
    aten(f"_upsample_{_name}_aa")(_default)


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid_sample(c: TorchCall, x: Value, grid: Value, mode: int = 0, padding: int = 0, align: bool = False) -> Value:
    if x.dtype in ("float16", "bfloat16"):
        # Positions need more digits than these types have.
        wide = [c.cast(v, "float32") for v in (x, grid)]
        return c.cast(_grid_sample(c, wide[0], wide[1], mode, padding, align), x.dtype)
    last = grid.ndim - 1
    turned = c.transpose(grid, [0, last, *range(1, last)])
    return c.call(
        "image.grid_sample", x, turned, method=("bilinear", "nearest", "bicubic")[mode], layout="NCHW" if x.ndim == 4 else "NCDHW",
        padding_mode=("zeros", "border", "reflection")[padding], align_corners=bool(align),
    )  # fmt: skip


@aten("affine_grid_generator")
def _affine_grid(c: TorchCall, theta: Value, size: Sequence[int], align: bool = False) -> Value:
    axes = []
    for extent in [int(s) for s in size[2:]]:
        places = np.linspace(-1, 1, extent) if extent > 1 else np.zeros(1)
        axes.append(places if align else places * (extent - 1) / extent)
    mesh = np.meshgrid(*axes, indexing="ij")
    base = np.stack([*mesh[::-1], np.ones_like(mesh[0])], -1).reshape(-1, len(axes) + 1)
    grid = c.call("nn.batch_matmul", Value(array=base[None].astype(theta.dtype)), theta)
    return c.reshape(grid, [size[0], *size[2:], len(axes)])
