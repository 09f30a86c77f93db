"""The passes that lower a scheduled function far enough to compute how much VTCM it allocates."""

from __future__ import annotations

from tilewright.ir.transform import Pass
from tilewright.tir.transform.block.blocks import (
    ConvertBlocksToOpaque,
    LowerInitBlock,
    PlanAndUpdateBufferAllocationLocation,
)
from tilewright.tir.transform.block.compact import CompactBufferAllocation
from tilewright.tir.transform.block.opaque import LowerMatchBuffer, LowerOpaqueBlock
from tilewright.tir.transform.loop.software_pipeline import InjectSoftwarePipeline
from tilewright.tir.transform.loop.vectorize import VectorizeLoop
from tilewright.tir.transform.memory.flatten import FlattenBuffer
from tilewright.tir.transform.memory.storage import StorageRewrite
from tilewright.tir.transform.simplify import Simplify


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
