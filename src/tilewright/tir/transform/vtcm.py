"""What lowers a scheduled function as far as is needed to see how much VTCM it takes."""

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
    """The passes after which calculate_allocated_bytes tells the "global.vtcm" that a scheduled module takes."""
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
