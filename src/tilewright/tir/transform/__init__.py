"""The passes of tir, as values: each is called on an IRModule by itself, or put into a Sequential."""

from tilewright.ir.transform import register_pass as _register_pass
from tilewright.tir.transform.allreduce import LowerCrossThreadReduction, LowerThreadAllreduce
from tilewright.tir.transform.base import prim_func_pass
from tilewright.tir.transform.blocks import ConvertBlocksToOpaque, LowerInitBlock, PlanAndUpdateBufferAllocationLocation
from tilewright.tir.transform.cleanup import (
    CommonSubexprElimTIR,
    RemoveAssume,
    RemoveStoreUndef,
    RenormalizeSplitPattern,
)
from tilewright.tir.transform.compact import CompactBufferAllocation
from tilewright.tir.transform.device import AnnotateDeviceRegions, DecorateDeviceScope, SplitHostDevice
from tilewright.tir.transform.double_buffer import InjectDoubleBuffer
from tilewright.tir.transform.flatten import FlattenBuffer
from tilewright.tir.transform.legalize import BF16ComputeLegalize, BF16StorageLegalize, FP8ComputeLegalize
from tilewright.tir.transform.loops import MarkUnrollLoop, UnrollLoop
from tilewright.tir.transform.merge_shared import MergeSharedMemoryAllocations
from tilewright.tir.transform.misc import (
    AnnotateEntryFunc,
    Apply,
    BindTarget,
    Filter,
    InstrumentBoundCheckers,
    LowerIntrin,
    NarrowDataType,
    SkipAssert,
)
from tilewright.tir.transform.opaque import LowerMatchBuffer, LowerOpaqueBlock
from tilewright.tir.transform.packed import ExposeEntryFunc, MakePackedAPI, MakeUnpackedAPI
from tilewright.tir.transform.partition import LoopPartition
from tilewright.tir.transform.simplify import HoistIfThenElse, RemoveNoOp, Simplify
from tilewright.tir.transform.software_pipeline import InjectSoftwarePipeline
from tilewright.tir.transform.ssa import ConvertSSA
from tilewright.tir.transform.storage import StorageRewrite
from tilewright.tir.transform.thread_binding import ConvertForLoopsToSerial, LiftThreadBinding, UnifyThreadBinding
from tilewright.tir.transform.thread_sync import ThreadSync
from tilewright.tir.transform.vectorize import VectorizeLoop
from tilewright.tir.transform.vthread import InjectVirtualThread
from tilewright.tir.transform.warp import LowerWarpMemory

__all__ = [
    "AnnotateDeviceRegions",
    "AnnotateEntryFunc",
    "Apply",
    "BF16ComputeLegalize",
    "BF16StorageLegalize",
    "BindTarget",
    "CommonSubexprElimTIR",
    "CompactBufferAllocation",
    "ConvertBlocksToOpaque",
    "ConvertForLoopsToSerial",
    "ConvertSSA",
    "DecorateDeviceScope",
    "ExposeEntryFunc",
    "FP8ComputeLegalize",
    "Filter",
    "FlattenBuffer",
    "HoistIfThenElse",
    "InjectDoubleBuffer",
    "InjectSoftwarePipeline",
    "InjectVirtualThread",
    "InstrumentBoundCheckers",
    "LiftThreadBinding",
    "LoopPartition",
    "LowerCrossThreadReduction",
    "LowerInitBlock",
    "LowerIntrin",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "LowerThreadAllreduce",
    "LowerWarpMemory",
    "MakePackedAPI",
    "MakeUnpackedAPI",
    "MarkUnrollLoop",
    "MergeSharedMemoryAllocations",
    "NarrowDataType",
    "PlanAndUpdateBufferAllocationLocation",
    "RemoveAssume",
    "RemoveNoOp",
    "RemoveStoreUndef",
    "RenormalizeSplitPattern",
    "Simplify",
    "SkipAssert",
    "SplitHostDevice",
    "StorageRewrite",
    "ThreadSync",
    "UnifyThreadBinding",
    "UnrollLoop",
    "VectorizeLoop",
    "prim_func_pass",
]

for _name in __all__:
    if _name[0].isupper():
        _register_pass(f"tir.{_name}", globals()[_name])
