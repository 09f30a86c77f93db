"""Templates of AutoTVM for all GPUs under their classic names: products of matrices, and convolutions with channels last."""

from __future__ import annotations

import logging
from typing import Any

from tilewright.support import lazy
from tilewright.topi import nn
from tilewright.topi.classic_modules import declare_modules
from tilewright.topi.declared import template_compute, template_schedule
from tilewright.topi.stage_schedules.gpu import template_gpu

logger = logging.getLogger("topi")

_LAYER = "data weight bias=None out_dtype=None"
TEMPLATES: dict[str, tuple[str, Any]] = {
    "conv2d_nhwc": ("data kernel strides padding dilation out_dtype='float32'", nn.conv2d_nhwc),
    "dense_large_batch": (_LAYER, nn.dense),
    "dense_small_batch": (_LAYER, nn.dense),
    "matmul_default": ("tensor_a tensor_b bias=None out_dtype=None transpose_a=False transpose_b=False", nn.matmul),
}
_DECLARED: dict[str, Any] = {
    **{name: template_compute(name, f"{name}.gpu", words, form) for name, (words, form) in TEMPLATES.items()},
    **{f"schedule_{n}": template_schedule(f"schedule_{n}", f"{n}.gpu", template_gpu) for n in TEMPLATES},
}
globals().update(_DECLARED)

declare_modules(__name__, "gpu")
__getattr__, __dir__ = lazy.late(__name__)

__all__ = ["logger", *_DECLARED]
