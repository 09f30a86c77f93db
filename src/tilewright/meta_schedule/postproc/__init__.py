"""Post-processors: they complete schedules, or refuse them."""

from __future__ import annotations

from tilewright.meta_schedule.postproc.checks import (
    DisallowAsyncStridedMemCopy,
    DisallowDynamicLoop,
    VerifyGPUCode,
    VerifyVTCMLimit,
)
from tilewright.meta_schedule.postproc.code_size import VerifyCodeSize
from tilewright.meta_schedule.postproc.postproc import Postproc, PyPostproc
from tilewright.meta_schedule.postproc.rewrite_gpu import RewriteCooperativeFetch, RewriteUnboundBlock
from tilewright.meta_schedule.postproc.rewrite_layout import RewriteLayout
from tilewright.meta_schedule.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from tilewright.meta_schedule.postproc.rewrite_reduction_block import RewriteReductionBlock
from tilewright.meta_schedule.postproc.rewrite_tensorize import RewriteTensorize
from tilewright.support import lazy

__all__ = [
    "DisallowAsyncStridedMemCopy",
    "DisallowDynamicLoop",
    "Postproc",
    "PyPostproc",
    "RewriteCooperativeFetch",
    "RewriteLayout",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "RewriteTensorize",
    "RewriteUnboundBlock",
    "VerifyCodeSize",
    "VerifyGPUCode",
    "VerifyVTCMLimit",
]

# Classic modules of single classes.
lazy.faces(
    __name__,
    {
        "disallow_async_strided_mem_copy": ("tilewright.meta_schedule.postproc.checks:DisallowAsyncStridedMemCopy",),
        "disallow_dynamic_loop": ("tilewright.meta_schedule.postproc.checks:DisallowDynamicLoop",),
        "verify_gpu_code": ("tilewright.meta_schedule.postproc.checks:VerifyGPUCode",),
        "verify_vtcm_limit": ("tilewright.meta_schedule.postproc.checks:VerifyVTCMLimit",),
        "rewrite_cooperative_fetch": ("tilewright.meta_schedule.postproc.rewrite_gpu:RewriteCooperativeFetch",),
        "rewrite_unbound_block": ("tilewright.meta_schedule.postproc.rewrite_gpu:RewriteUnboundBlock",),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
