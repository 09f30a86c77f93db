"""Converters of torchvision's operators: suppression of boxes, regions of interest, deformable convolutions."""

from __future__ import annotations

import numpy as np

from tilewright.relay.frontend.common.value import Value, known_extents
from tilewright.relay.frontend.pytorch.ops.movement import cut
from tilewright.relay.frontend.pytorch.value import TorchCall, aten


@aten("torchvision::nms")
def _nms(c: TorchCall, boxes: Value, scores: Value, threshold: float) -> Value:
    """The boxes (n, 4) that no better one overlaps by more than the threshold, best scores first. Corners may come in either order, as in
    ONNX; torchvision takes a box whose second corner is the lower one for empty."""
    most, limits = c.number(np.iinfo(np.int64).max, "int64"), [c.number(v, "float32") for v in (threshold, -np.inf)]
    one = [c.call("expand_dims", boxes, axis=0), c.call("expand_dims", scores, axis=0, num_newaxis=2)]
    rows, number = c.counted_parts("vision.all_class_non_max_suppression", *one, most, *limits, output_format="onnx")
    places = c.call("squeeze", cut(c, rows, 1, 2, 3), axis=(1,))
    return c.counted("dyn.prefix", places, number)


@aten("torchvision::roi_align")
def _roi_align(
    c: TorchCall, x: Value, rois: Value, scale: float, height: int, width: int, ratio: int = -1, aligned: bool = False
) -> Value:
    return c.call(
        "vision.roi_align", x, rois, pooled_size=(height, width), spatial_scale=scale, sample_ratio=ratio if ratio > 0 else -1,
        aligned=aligned,
    )  # fmt: skip


@aten("torchvision::deform_conv2d")
def _deformable(
    c: TorchCall, x: Value, weight: Value, offset: Value, mask: Value, bias: Value, sh: int, sw: int, ph: int, pw: int,
    dh: int, dw: int, groups: int, offset_groups: int, use_mask: bool,
) -> Value:  # fmt: skip
    if use_mask:
        raise c.refuse("mask", "a tensor", "None")
    out = c.call(
        "nn.deformable_conv2d", x, offset, weight, strides=(sh, sw), padding=(ph, pw, ph, pw), dilation=(dh, dw), groups=groups,
        deformable_groups=offset_groups, channels=weight.known_extent(0), kernel_size=tuple(known_extents(weight.shape[2:])),
    )  # fmt: skip
    return c.call("nn.bias_add", out, bias)
