"""Matrix products and convolutions under the names of DNNL (`contrib.libraries`)."""

from __future__ import annotations

from typing import Any

from tilewright.contrib.libraries import matmul_by
from tilewright.topi import nn

matmul = matmul_by("dnnl")


def dnnl_conv2d(
    src: Any,
    weights: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    channel_last: bool = False,
    out_dtype: str = "float32",
    **kwargs: Any,
) -> Any:
    """Convolution of images (N, C, H, W) with weights OIHW, or of (N, H, W, C) with weights HWIO if `channel_last`."""
    del kwargs
    layout, kernel_layout = ("NHWC", "HWIO") if channel_last else ("NCHW", "OIHW")
    return nn.conv(src, weights, stride, padding, dilation, groups, layout, kernel_layout, out_dtype)
