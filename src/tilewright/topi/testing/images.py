"""NumPy references of images that are sampled at computed positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from tilewright.topi.testing.convolutions import Array

_CUBIC = -0.5
"""Keys' parameter, by which resizing weighs four neighbours."""


def cubic_weights(t: float, a: float) -> list[float]:
    """The weights of the neighbours at -1, 0, 1 and 2 of a position t beyond the second of them."""

    def near(d: float) -> float:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: float) -> float:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _position(i: int, extent: int, target: int, mode: str) -> float:
    if mode == "align_corners":
        return i * (extent - 1) / (target - 1) if target > 1 else 0.0
    if mode == "asymmetric":
        return i * extent / target
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return 0.0 if mode == "pytorch_half_pixel" and target == 1 else (i + 0.5) * extent / target - 0.5
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) * extent / target
    raise ValueError(f"there is no reference of the coordinate_transformation_mode {mode!r}")


def _neighbours(x: float, extent: int, method: str, mode: str) -> list[tuple[int, float]]:
    """(place, weight) of the elements that a position is made of."""
    if method == "nearest_neighbor":
        # Positions are fractions, so that halves must not depend on rounding errors.
        place = int(np.floor(x + 0.5 - 1e-6)) if mode == "align_corners" else int(np.floor(x + 1e-5))
        return [(int(np.clip(place, 0, extent - 1)), 1.0)]
    base = int(np.floor(x))
    t = x - base
    weights = [1 - t, t] if method in ("linear", "bilinear", "trilinear") else cubic_weights(t, _CUBIC)
    first = base if len(weights) == 2 else base - 1
    return [(int(np.clip(first + k, 0, extent - 1)), w) for k, w in enumerate(weights)]


def _resize(letters: str) -> Callable[..., Array]:
    def resize(
        data: Array,
        scale: float | Sequence[float],
        layout: str = f"NC{letters}",
        method: str = "nearest_neighbor",
        coordinate_transformation_mode: str = "align_corners",
    ) -> Array:
        scales = [scale] * len(letters) if isinstance(scale, (int, float)) else list(scale)
        out: Array = data
        for letter, factor in zip(letters, scales, strict=True):
            axis = layout.index(letter)
            extent, target = data.shape[axis], int(np.round(data.shape[axis] * factor))
            rows = []
            for i in range(target):
                x = _position(i, extent, target, coordinate_transformation_mode)
                near = _neighbours(x, extent, method, coordinate_transformation_mode)
                rows.append(sum([np.take(out, place, axis) * weight for place, weight in near]))
            out = np.stack(rows, axis)
        return out.astype(data.dtype)

    resize.__name__ = resize.__qualname__ = f"resize{len(letters)}d_python"
    resize.__doc__ = f"data with {', '.join(letters)} scaled. method: nearest_neighbor, linear or cubic."
    return resize


resize1d_python, resize2d_python, resize3d_python = _resize("W"), _resize("HW"), _resize("DHW")


def crop_and_resize_python(
    image: Array,
    boxes: Array,
    box_indices: Array,
    crop_size: Sequence[int],
    layout: str,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Array:
    """Parts of images (y1, x1, y2, x2 in fractions), resized to crop_size; `extrapolation_value` outside of the image."""
    data = image if layout == "NCHW" else image.transpose(0, 3, 1, 2)
    height, width = data.shape[2:]
    out = np.full((len(boxes), data.shape[1], *crop_size), extrapolation_value, image.dtype)
    for b, (box, of) in enumerate(zip(boxes, box_indices, strict=True)):
        for i, j in np.ndindex(*crop_size):
            place = []
            for k, low, high, extent, count in (
                (i, box[0], box[2], height, crop_size[0]),
                (j, box[1], box[3], width, crop_size[1]),
            ):
                last = extent - 1
                place.append(
                    low * last + k * (high - low) * last / (count - 1) if count > 1 else (low + high) / 2 * last
                )
            if not (0 <= place[0] <= height - 1 and 0 <= place[1] <= width - 1):
                continue
            if method == "bilinear":
                pairs = product(*[_neighbours(p, e, "linear", "") for p, e in zip(place, (height, width), strict=True)])
                out[b, :, i, j] = sum([data[of, :, y, x] * (wy * wx) for (y, wy), (x, wx) in pairs])
            else:
                out[b, :, i, j] = data[of, :, int(np.floor(place[0] + 0.5)), int(np.floor(place[1] + 0.5))]
    return out if layout == "NCHW" else out.transpose(0, 2, 3, 1)


def affine_grid_python(data: Array, target_shape: Sequence[int]) -> Array:
    """The positions (x, y) to which each affine map (batch, 2, 3) sends the regular grid over [-1, 1]: (batch, 2, *target_shape)."""
    height, width = target_shape
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    regular = np.stack([x, y, np.ones_like(x)]).astype(data.dtype)
    return np.asarray(np.einsum("bij,jhw->bihw", data, regular))


def grid_sample_python(
    data: Array,
    grid: Array,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Array:
    """data (N, C, spatial...) at the positions grid (N, dims, out...), whose channels are x, y (and z) over [-1, 1]."""
    del layout
    extents = data.shape[2:]
    out = np.zeros((*data.shape[:2], *grid.shape[2:]), np.float64)

    def reflected(x: float, extent: int) -> float:
        low, span = (0.0, extent - 1.0) if align_corners else (-0.5, float(extent))
        if span <= 0:
            return 0.0
        away = abs(x - low) % (2 * span)
        return float(np.clip(low + min(away, 2 * span - away), 0, extent - 1))

    def settled(x: float, extent: int) -> float:
        if padding_mode == "border":
            return float(np.clip(x, 0, extent - 1))
        return reflected(x, extent) if padding_mode == "reflection" else x

    for n, *at in np.ndindex(data.shape[0], *grid.shape[2:]):
        ways = []
        for axis, extent in enumerate(extents):
            g = float(grid[(n, len(extents) - 1 - axis, *at)])
            x = (g + 1) / 2 * (extent - 1) if align_corners else ((g + 1) * extent - 1) / 2
            if method == "bicubic":
                base = int(np.floor(x))
                near = [(base + k - 1, w) for k, w in enumerate(cubic_weights(x - base, -0.75))]
                ways.append([(int(settled(p, extent)), w) for p, w in near])
                continue
            x = settled(x, extent)
            base = int(np.floor(x))
            ways.append(
                [(int(np.round(x)), 1.0)] if method == "nearest" else [(base, 1 - (x - base)), (base + 1, x - base)]
            )
        total = np.zeros(data.shape[1])
        for combination in product(*ways):
            place = [p for p, _ in combination]
            if padding_mode == "zeros" and not all([0 <= p < e for p, e in zip(place, extents, strict=True)]):
                continue
            held = tuple([int(np.clip(p, 0, e - 1)) for p, e in zip(place, extents, strict=True)])
            total = total + data[(n, slice(None), *held)] * np.prod([w for _, w in combination])
        out[(n, slice(None), *at)] = total
    return out.astype(data.dtype)


__all__ = [
    "affine_grid_python", "crop_and_resize_python", "grid_sample_python", "resize1d_python", "resize2d_python", "resize3d_python",
]  # fmt: skip
