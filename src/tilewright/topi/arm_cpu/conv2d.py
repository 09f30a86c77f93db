"""Templates of convolutions of images (N, C, H, W): tiles that are packed, and Winograd's minimal filtering."""

from __future__ import annotations

from tilewright.topi.arm_cpu.conv2d_spatial_pack import conv2d_nchw_spatial_pack, schedule_conv2d_nchw_spatial_pack
from tilewright.topi.arm_cpu.conv2d_winograd import conv2d_nchw_winograd, schedule_conv2d_nchw_winograd
from tilewright.topi.classic_modules import elsewhere

__getattr__, __dir__ = elsewhere(__name__)


__all__ = [
    "conv2d_nchw_spatial_pack", "conv2d_nchw_winograd", "schedule_conv2d_nchw_spatial_pack",
    "schedule_conv2d_nchw_winograd",
]  # fmt: skip
