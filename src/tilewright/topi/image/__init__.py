"""Computes on images."""

from __future__ import annotations

from tilewright.topi.image.resize import resize1d, resize2d, resize3d
from tilewright.topi.image.sample import affine_grid, crop_and_resize, dilation2d, grid_sample

__all__ = ["affine_grid", "crop_and_resize", "dilation2d", "grid_sample", "resize1d", "resize2d", "resize3d"]
