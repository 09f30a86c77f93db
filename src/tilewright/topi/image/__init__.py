"""Computes on images."""

from __future__ import annotations

from tilewright.support import lazy
from tilewright.topi.classic_modules import declare_modules
from tilewright.topi.image.pixels import (
    can_convert_multiply_to_intdiv,
    get_1d_indices,
    get_1d_pixel,
    get_2d_indices,
    get_2d_pixel,
    get_3d_indices,
    get_3d_pixel,
    get_closest_index,
    get_inx,
)
from tilewright.topi.image.resize import resize1d, resize2d, resize3d
from tilewright.topi.image.sample import (
    affine_grid,
    crop_and_resize,
    dilation2d,
    dilation2d_nchw,
    dilation2d_nhwc,
    grid_sample,
)

declare_modules(__name__, "image")
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "can_convert_multiply_to_intdiv",
    "get_1d_indices",
    "get_1d_pixel",
    "get_2d_indices",
    "get_2d_pixel",
    "get_3d_indices",
    "get_3d_pixel",
    "get_closest_index",
    "get_inx",
    "affine_grid",
    "crop_and_resize",
    "dilation2d",
    "dilation2d_nchw",
    "dilation2d_nhwc",
    "grid_sample",
    "resize1d",
    "resize2d",
    "resize3d",
]
