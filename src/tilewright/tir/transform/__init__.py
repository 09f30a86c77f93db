"""The passes of tir. A pass is a value that can be called on an IRModule or put into a Sequential."""

from tilewright.ir.transform import register_pass as _register_pass
from tilewright.support import lazy as _lazy
from tilewright.tir.transform.activations import FuseActivations
from tilewright.tir.transform.base import PrimFuncPass, prim_func_pass
from tilewright.tir.transform.block.blocks import (
    ConvertBlocksToOpaque,
    LowerInitBlock,
    PlanAndUpdateBufferAllocationLocation,
)
from tilewright.tir.transform.block.compact import CompactBufferAllocation
from tilewright.tir.transform.block.nonzero_steps import KeepNonzeroSteps
from tilewright.tir.transform.block.opaque import LowerMatchBuffer, LowerOpaqueBlock
from tilewright.tir.transform.cleanup import (
    CommonSubexprElimTIR,
    RemoveAssume,
    RemoveStoreUndef,
    RenormalizeSplitPattern,
)
from tilewright.tir.transform.function.bound_checks import InstrumentBoundCheckers
from tilewright.tir.transform.function.device import AnnotateDeviceRegions, DecorateDeviceScope, SplitHostDevice
from tilewright.tir.transform.function.intrinsics import LowerIntrin
from tilewright.tir.transform.function.launch import (
    LowerDeviceKernelLaunch,
    LowerDeviceStorageAccessInfo,
    LowerVtcmAlloc,
)
from tilewright.tir.transform.function.marks import AnnotateEntryFunc, Apply, BindTarget, Filter, SkipAssert
from tilewright.tir.transform.function.modules import (
    AnnotateIrregularLoop,
    ApplyLayoutTransforms,
    ExtractPrimFuncConstants,
    InlinePrivateFunctions,
    RemoveWeightLayoutRewriteBlock,
    VerifyGPUCode,
    VerifyMemory,
    VerifySSA,
    VerifyVTCMLimit,
)
from tilewright.tir.transform.function.packed import ExposeEntryFunc, MakePackedAPI, MakeUnpackedAPI
from tilewright.tir.transform.function.packed_calls import LegalizePackedCalls, LowerTVMBuiltin
from tilewright.tir.transform.function.profile import InstrumentProfileIntrinsics
from tilewright.tir.transform.loop.choices import (
    ReduceBranchingThroughOvercompute,
    RewriteUnsafeSelect,
    UseAssumeToReduceBranches,
)
from tilewright.tir.transform.loop.double_buffer import InjectDoubleBuffer
from tilewright.tir.transform.loop.hoist import HoistedConditionals, HoistedLetBindings, HoistExpression
from tilewright.tir.transform.loop.partition import LoopPartition
from tilewright.tir.transform.loop.scalable import LowerScalableVectors
from tilewright.tir.transform.loop.software_pipeline import InjectSoftwarePipeline
from tilewright.tir.transform.loop.unroll import MarkUnrollLoop, UnrollLoop
from tilewright.tir.transform.loop.vectorize import VectorizeLoop
from tilewright.tir.transform.memory.flatten import FlattenBuffer
from tilewright.tir.transform.memory.merge_shared import MergeSharedMemoryAllocations
from tilewright.tir.transform.memory.realize import (
    InjectPrefetch,
    InjectRollingBuffer,
    PointerValueTypeRewrite,
    StorageFlatten,
    TextureFlatten,
)
from tilewright.tir.transform.memory.software_prefetch import InjectSoftwarePrefetch
from tilewright.tir.transform.memory.storage import StorageRewrite
from tilewright.tir.transform.simplify import HoistIfThenElse, RemoveNoOp, Simplify
from tilewright.tir.transform.ssa import ConvertSSA
from tilewright.tir.transform.thread.allreduce import LowerCrossThreadReduction, LowerThreadAllreduce
from tilewright.tir.transform.thread.own_memory import CompactThreadMemory
from tilewright.tir.transform.thread.ptx import (
    InjectPermutedLayout,
    InjectPTXAsyncCopy,
    InjectPTXLDG32,
    TransformMmaBufferLayout,
)
from tilewright.tir.transform.thread.scopes import CombineContextCall, CoProcSync, InferFragment, LiftAttrScope
from tilewright.tir.transform.thread.staging import (
    InjectCopyIntrin,
    LowerAsyncDMA,
    LowerAutoCopy,
    ManifestSharedMemoryLocalStage,
)
from tilewright.tir.transform.thread.thread_binding import (
    ConvertForLoopsToSerial,
    LiftThreadBinding,
    UnifyThreadBinding,
)
from tilewright.tir.transform.thread.thread_sync import ThreadSync
from tilewright.tir.transform.thread.tile_iterators import OptimizeTileIterators
from tilewright.tir.transform.thread.vthread import InjectVirtualThread
from tilewright.tir.transform.thread.warp import LowerWarpMemory
from tilewright.tir.transform.thread.warp_specialization import InjectWarpSpecialization
from tilewright.tir.transform.types.custom_datatypes import LowerCustomDatatypes
from tilewright.tir.transform.types.index_types import ForceNarrowIndexToInt32
from tilewright.tir.transform.types.legalize import (
    BF16ComputeLegalize,
    BF16StorageLegalize,
    FP8ComputeLegalize,
    FP8StorageLegalize,
)
from tilewright.tir.transform.types.narrow import NarrowDataType

__all__ = [
    "AnnotateDeviceRegions",
    "AnnotateEntryFunc",
    "AnnotateIrregularLoop",
    "Apply",
    "ApplyLayoutTransforms",
    "BF16ComputeLegalize",
    "BF16StorageLegalize",
    "BindTarget",
    "CoProcSync",
    "CombineContextCall",
    "CommonSubexprElimTIR",
    "CompactBufferAllocation",
    "CompactThreadMemory",
    "ConvertBlocksToOpaque",
    "ConvertForLoopsToSerial",
    "ConvertSSA",
    "DecorateDeviceScope",
    "ExposeEntryFunc",
    "ExtractPrimFuncConstants",
    "FP8ComputeLegalize",
    "FP8StorageLegalize",
    "Filter",
    "FlattenBuffer",
    "ForceNarrowIndexToInt32",
    "FuseActivations",
    "HoistExpression",
    "HoistIfThenElse",
    "HoistedConditionals",
    "HoistedLetBindings",
    "InferFragment",
    "InjectCopyIntrin",
    "InjectDoubleBuffer",
    "InjectPTXAsyncCopy",
    "InjectPTXLDG32",
    "InjectPermutedLayout",
    "InjectPrefetch",
    "InjectRollingBuffer",
    "InjectSoftwarePipeline",
    "InjectSoftwarePrefetch",
    "InjectVirtualThread",
    "InjectWarpSpecialization",
    "InlinePrivateFunctions",
    "InstrumentBoundCheckers",
    "InstrumentProfileIntrinsics",
    "KeepNonzeroSteps",
    "LegalizePackedCalls",
    "LiftAttrScope",
    "LiftThreadBinding",
    "LoopPartition",
    "LowerAsyncDMA",
    "LowerAutoCopy",
    "LowerCrossThreadReduction",
    "LowerCustomDatatypes",
    "LowerDeviceKernelLaunch",
    "LowerDeviceStorageAccessInfo",
    "LowerInitBlock",
    "LowerIntrin",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "LowerScalableVectors",
    "LowerTVMBuiltin",
    "LowerThreadAllreduce",
    "LowerVtcmAlloc",
    "LowerWarpMemory",
    "MakePackedAPI",
    "MakeUnpackedAPI",
    "ManifestSharedMemoryLocalStage",
    "MarkUnrollLoop",
    "MergeSharedMemoryAllocations",
    "NarrowDataType",
    "OptimizeTileIterators",
    "PlanAndUpdateBufferAllocationLocation",
    "PointerValueTypeRewrite",
    "ReduceBranchingThroughOvercompute",
    "PrimFuncPass",
    "RemoveAssume",
    "RemoveNoOp",
    "RemoveStoreUndef",
    "RemoveWeightLayoutRewriteBlock",
    "RenormalizeSplitPattern",
    "RewriteUnsafeSelect",
    "Simplify",
    "SkipAssert",
    "SplitHostDevice",
    "StorageFlatten",
    "StorageRewrite",
    "TextureFlatten",
    "ThreadSync",
    "TransformMmaBufferLayout",
    "UnifyThreadBinding",
    "UnrollLoop",
    "UseAssumeToReduceBranches",
    "VectorizeLoop",
    "VerifyGPUCode",
    "VerifyMemory",
    "VerifySSA",
    "VerifyVTCMLimit",
    "prim_func_pass",
]

for _name in __all__:
    if _name[0].isupper() and not _name.startswith(("Hoisted", "PrimFuncPass")):
        _register_pass(f"tir.{_name}", globals()[_name])

# Passes that schedule are in a higher layer.
_lazy.faces(__name__, {"transform": (), "function_pass": ("PrimFuncPass", "prim_func_pass")})
__getattr__, __dir__ = _lazy.late(__name__)
