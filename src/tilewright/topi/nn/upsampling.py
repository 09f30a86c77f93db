"""Images and volumes scaled by factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.topi.image.resize import resize2d, resize3d
from tilewright.topi.transform import spatial_axes
from tilewright.topi.utils import get_const_int, shape_of

METHODS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def _sizes(data: te.Tensor, layout: str, letters: str, scales: Sequence[float], output_shape: Any) -> list[int]:
    shape = shape_of(data)
    axes = spatial_axes(layout, letters)
    if output_shape is not None:
        return [get_const_int(output_shape[a]) for a in axes]
    return [math.floor(get_const_int(shape[a]) * s + 0.5) for a, s in zip(axes, scales, strict=True)]


def upsampling(
    data: te.Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Sequence[int] | None = None,
) -> te.Tensor:
    """data with H and W scaled, to sizes rounded to the nearest. method: nearest_neighbor, bilinear or bicubic. output_shape: the shape
    of the result instead of that by the scales."""
    size = _sizes(data, layout, "HW", (scale_h, scale_w), output_shape)
    mode = "align_corners" if align_corners else "asymmetric"
    return resize2d(data, None, size, layout, METHODS.get(method, method), mode)


def upsampling3d(
    data: te.Tensor,
    scale_d: float,
    scale_h: float,
    scale_w: float,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Sequence[int] | None = None,
) -> te.Tensor:
    """data with D, H and W scaled, to sizes rounded to the nearest. method: nearest_neighbor or trilinear."""
    size = _sizes(data, layout, "DHW", (scale_d, scale_h, scale_w), output_shape)
    return resize3d(data, None, size, layout, METHODS.get(method, method), coordinate_transformation_mode)
