"""Computes of object detection."""

from __future__ import annotations

from tilewright.support import lazy
from tilewright.topi.classic_modules import declare_modules
from tilewright.topi.vision.boxes import (
    generate_anchor,
    multibox_detection,
    multibox_prior,
    multibox_transform_loc,
    proposal,
    reg_bbox,
    reg_iou,
    reorg,
)
from tilewright.topi.vision.nms import (
    all_class_non_max_suppression,
    get_valid_counts,
    non_max_suppression,
    regular_non_max_suppression,
)
from tilewright.topi.vision.roi import roi_align_nchw, roi_align_nhwc, roi_pool_nchw

declare_modules(__name__, "vision")
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "generate_anchor",
    "reg_bbox",
    "reg_iou",
    "all_class_non_max_suppression",
    "get_valid_counts",
    "multibox_detection",
    "multibox_prior",
    "multibox_transform_loc",
    "non_max_suppression",
    "proposal",
    "regular_non_max_suppression",
    "reorg",
    "roi_align_nchw",
    "roi_align_nhwc",
    "roi_pool_nchw",
]
