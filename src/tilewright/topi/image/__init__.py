"""Computes on images."""

from __future__ import annotations

from tilewright.support import lazy
from tilewright.topi.classic_modules import declare_modules
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
