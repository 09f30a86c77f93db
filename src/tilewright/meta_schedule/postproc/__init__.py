"""Post-processors: they complete schedules, or refuse them."""

from __future__ import annotations

from tilewright.meta_schedule.postproc.checks import DisallowDynamicLoop, VerifyGPUCode, VerifyVTCMLimit
from tilewright.meta_schedule.postproc.postproc import Postproc, PyPostproc
from tilewright.meta_schedule.postproc.rewrite_gpu import RewriteCooperativeFetch, RewriteUnboundBlock
from tilewright.meta_schedule.postproc.rewrite_parallel_vectorize_unroll import RewriteParallelVectorizeUnroll
from tilewright.meta_schedule.postproc.rewrite_reduction_block import RewriteReductionBlock

__all__ = [
    "DisallowDynamicLoop",
    "Postproc",
    "PyPostproc",
    "RewriteCooperativeFetch",
    "RewriteParallelVectorizeUnroll",
    "RewriteReductionBlock",
    "RewriteUnboundBlock",
    "VerifyGPUCode",
    "VerifyVTCMLimit",
]
