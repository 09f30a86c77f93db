"""The passes that lower a scheduled function far enough to compute how much VTCM it allocates."""

from __future__ import annotations

from tilewright.ir.transform import Pass
from tilewright.tir.transform.blocks import ConvertBlocksToOpaque, LowerInitBlock, PlanAndUpdateBufferAllocationLocation
from tilewright.tir.transform.compact import CompactBufferAllocation
from tilewright.tir.transform.flatten import FlattenBuffer
from tilewright.tir.transform.opaque import LowerMatchBuffer, LowerOpaqueBlock
from tilewright.tir.transform.simplify import Simplify
from tilewright.tir.transform.software_pipeline import InjectSoftwarePipeline
from tilewright.tir.transform.storage import StorageRewrite
from tilewright.tir.transform.vectorize import VectorizeLoop


def get_vtcm_compaction_passes() -> list[Pass]:
    """The passes to run before calculate_allocated_bytes computes the "global.vtcm" of a scheduled module."""
    return [
        LowerInitBlock(),
        PlanAndUpdateBufferAllocationLocation(),
        ConvertBlocksToOpaque(),
        CompactBufferAllocation(),
        LowerMatchBuffer(),
        InjectSoftwarePipeline(),
        LowerOpaqueBlock(),
        FlattenBuffer(),
        Simplify(),
        VectorizeLoop(),
        StorageRewrite(),
    ]
