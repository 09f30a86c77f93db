"""The lowering pipeline, top to bottom: from scheduled TensorIR to what code generation takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.codegen.backend import BLOCKS, LOOPS, VECTORS, back_end_of
from tilewright.ir import IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, Sequential
from tilewright.node import Visitor, on
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import AttrStmt, For, ForKind, PrimFunc
from tilewright.tir.transform import (
    AnnotateDeviceRegions,
    AnnotateEntryFunc,
    BindTarget,
    CompactBufferAllocation,
    CompactThreadMemory,
    ConvertBlocksToOpaque,
    ExposeEntryFunc,
    FlattenBuffer,
    HoistIfThenElse,
    InferFragment,
    InjectDoubleBuffer,
    InjectPermutedLayout,
    InjectPTXAsyncCopy,
    InjectPTXLDG32,
    InjectSoftwarePipeline,
    InjectSoftwarePrefetch,
    InjectVirtualThread,
    InjectWarpSpecialization,
    InstrumentBoundCheckers,
    InstrumentProfileIntrinsics,
    KeepNonzeroSteps,
    LoopPartition,
    LowerAsyncDMA,
    LowerAutoCopy,
    LowerCrossThreadReduction,
    LowerDeviceKernelLaunch,
    LowerDeviceStorageAccessInfo,
    LowerInitBlock,
    LowerIntrin,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    LowerThreadAllreduce,
    LowerWarpMemory,
    MakePackedAPI,
    MakeUnpackedAPI,
    ManifestSharedMemoryLocalStage,
    MarkUnrollLoop,
    MergeSharedMemoryAllocations,
    OptimizeTileIterators,
    PlanAndUpdateBufferAllocationLocation,
    RemoveNoOp,
    Simplify,
    SkipAssert,
    SplitHostDevice,
    StorageRewrite,
    ThreadSync,
    TransformMmaBufferLayout,
    UnifyThreadBinding,
    VectorizeLoop,
    VerifyMemory,
    prim_func_pass,
)
from tilewright.tir.transform.function.device_asserts import LowerDeviceAsserts
from tilewright.tir.transform.function.workspaces import LowerDeviceWorkspaces
from tilewright.tir.transform.loop.scalable import LowerScalableVectors, vector_scale
from tilewright.tir.transform.types.custom_datatypes import LowerCustomDatatypes, is_any_registered

PHASES = ("blocks", "loops", "optimize", "finish")


def lower_phases(
    ctx: PassContext, simple_mode: bool = False, threads: bool | None = None, upto: str = VECTORS
) -> list[list[Pass]]:
    """The passes of `lower`, by phase.

    threads: True: with the passes that only programs with thread axes need. False: without them. None, if this is not known: with
    those that do not change other programs. upto: how far programs are lowered, as in `BackEnd.takes`.
    """
    config = ctx.config
    blocks: list[Pass] = [
        # First, while blocks say what they read.
        InjectSoftwarePrefetch(),
        KeepNonzeroSteps(),
        *([] if threads is False else [LowerCrossThreadReduction()]),
        LowerInitBlock(),
        PlanAndUpdateBufferAllocationLocation(),
        ConvertBlocksToOpaque(),
        *([ManifestSharedMemoryLocalStage()] if threads else []),
        CompactBufferAllocation(),
        *([LowerAutoCopy()] if threads else []),
        *([] if threads is False else [UnifyThreadBinding()]),
        LowerMatchBuffer(),
        *([CompactThreadMemory()] if threads else []),
        *([InjectWarpSpecialization()] if threads else []),
        *([InjectPermutedLayout()] if threads else []),
        InjectSoftwarePipeline(),
        *([TransformMmaBufferLayout()] if threads else []),
        LowerOpaqueBlock(),
        # Before buffers are flat, while each index has a dimension of its own.
        *([InstrumentBoundCheckers()] if config.get("tir.instrument_bound_checkers", False) else []),
    ]
    loops: list[Pass] = [FlattenBuffer(), Simplify()]
    optimize: list[Pass] = [
        *([] if simple_mode else [LoopPartition()]),
        VectorizeLoop(not config.get("tir.disable_vectorize", False)),
        InjectVirtualThread(),
        InjectDoubleBuffer(),
        Simplify(),
        *([] if config.get("tir.disable_storage_rewrite", False) else [StorageRewrite()]),
        *([LowerAsyncDMA()] if config.get("tir.use_async_copy", False) and not threads else []),
        MarkUnrollLoop(),
    ]
    finish: list[Pass] = [
        *([SkipAssert()] if config.get("tir.disable_assert", False) else []),
        RemoveNoOp(),
        HoistIfThenElse("basic"),
        *([InjectPTXLDG32()] if config.get("tir.ptx_ldg32", False) and threads else []),
        *([InstrumentProfileIntrinsics()] if config.get("tir.instr_lwp", False) else []),
    ]
    phases = [blocks, loops, optimize, finish]
    added = _added_passes(config.get("tir.add_lower_pass") or ())
    blocks[:0] = [custom for number, custom in added if number == 0]
    for number, custom in added:
        if number > 0:
            phases[number].append(custom)
    if upto == BLOCKS:
        return [[custom for number, custom in added if number == 0]]
    if upto == LOOPS:
        return [*phases[:2], [custom for number, custom in added if number > 1]]
    return phases


def lower_pipeline(
    ctx: PassContext | None = None, simple_mode: bool = False, threads: bool | None = None, upto: str = VECTORS
) -> Sequential:
    """The passes of `lower` in order."""
    phases = lower_phases(ctx or PassContext.current(), simple_mode, threads, upto)
    return Sequential([p for phase in phases for p in phase], name="tir.lower")


def device_pipeline(target: Any, ctx: PassContext | None = None) -> Sequential:
    """From lowered functions bound to thread axes to host functions that call kernels: barriers, reductions, the split.

    target: of the kernels; its host is what the host functions are for ("llvm" where it names none).
    """
    config = (ctx or PassContext.current()).config
    chosen = target if isinstance(target, Target) else Target(target)
    if chosen.host is None:
        chosen = Target(chosen, "llvm")
    passes: list[Pass] = [
        BindTarget(chosen),
        VerifyMemory(),
        AnnotateEntryFunc(),
        *([ThreadSync("global")] if config.get("tir.detect_global_barrier", False) else []),
        ThreadSync("shared"),
        ThreadSync("shared.dyn"),
        ThreadSync("warp"),
        InferFragment(),
        LowerThreadAllreduce(),
        LowerWarpMemory(),
        *([InjectPTXAsyncCopy()] if config.get("tir.use_async_copy", _copies_asynchronously(chosen)) else []),
        OptimizeTileIterators(),
        AnnotateDeviceRegions(),
        SplitHostDevice(),
        MergeSharedMemoryAllocations(),
        LowerDeviceStorageAccessInfo(),
        Simplify(),
        LowerIntrin(),
    ]
    return Sequential(passes, name="tir.device")


def _copies_asynchronously(target: Target) -> bool:
    """Whether a device has instructions for the copies that a pipeline marks as asynchronous."""
    return target.kind.name == "cuda" and target.gpu.has_cp_async


def host_pipeline(target: Any, unpacked: bool = False) -> Sequential:
    """From lowered functions to what code generation takes: targets, calling convention, intrinsics."""
    convention = [MakeUnpackedAPI()] if unpacked else [AnnotateEntryFunc(), MakePackedAPI(), ExposeEntryFunc()]
    return Sequential([BindTarget(target), *convention, LowerIntrin()], name="tir.host")


def _added_passes(added: Sequence[Any]) -> list[tuple[int, Pass]]:
    """The option "tir.add_lower_pass": pairs (phase, pass).

    Passes of phase 0 run before everything and see blocks; of 1, flat loops; of 2, what loop passes made (vectors, unrolled
    loops, merged storage); of 3, what code generation takes.
    """
    out: list[tuple[int, Pass]] = []
    for item in added:
        if not isinstance(item, (tuple, list)) or len(item) != 2 or item[0] not in range(4):
            raise TVMError(f'"tir.add_lower_pass" takes pairs (phase 0..3, pass), but holds {item!r}')
        number, custom = item
        if not isinstance(custom, Pass):
            if not callable(custom):
                raise TVMError(
                    f'"tir.add_lower_pass" takes passes or functions on PrimFuncs, but phase {number} has {custom!r}'
                )
            custom = prim_func_pass(custom, name=getattr(custom, "__name__", "custom"))
        out.append((number, custom))
    return out


class _Threads(Visitor):
    found = False

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        pass

    @on(For)
    def _for(self, s: For) -> None:
        if s.kind == ForKind.THREAD_BINDING:
            self.found = True
        if not self.found:
            self.visit(s.body)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        self.found |= s.attr_key == "thread_extent"
        self.visit(s.body)


def has_threads(func: PrimFunc) -> bool:
    """Whether a function has loops bound to thread axes."""
    walk = _Threads()
    walk.visit(func.body)
    return walk.found


def lower_module(mod: IRModule, simple_mode: bool = False, upto: str = VECTORS) -> IRModule:
    """The module with every PrimFunc lowered; those that are lowered already stay."""
    todo = {g: f for g, f in mod.functions.items() if isinstance(f, PrimFunc) and not f.attrs.get("tir.is_lowered")}
    threads = any([has_threads(f) for f in todo.values()])
    lowered = lower_pipeline(simple_mode=simple_mode, threads=threads, upto=upto)(mod.with_functions(todo))
    functions = dict(mod.functions)
    for gvar, func in lowered.functions.items():
        functions[gvar] = func.with_attr("tir.is_lowered", True) if upto == VECTORS else func
    return mod.with_functions(functions)


def lower_for(mod: IRModule, target: Target) -> IRModule:
    """The module as the target's code generator takes it."""
    back_end = back_end_of(target)
    lowered = lower_module(LowerScalableVectors(vector_scale(target))(mod), upto=back_end.takes)
    if is_any_registered():
        lowered = Sequential([BindTarget(target), LowerCustomDatatypes()], name="tir.custom_types")(lowered)
    passes = back_end.passes(target)
    if passes:
        lowered = Sequential(passes, name=f"{back_end.kind}.passes")(lowered)
    if not back_end.launches:
        return lowered
    bound = target if target.host is not None else Target(target, back_end.host(target))
    lowered = lowered.with_functions({g: f.with_attr("target", bound) for g, f in lowered.functions.items()})
    launches = [device_pipeline(bound), LowerDeviceWorkspaces(), LowerDeviceKernelLaunch(), LowerDeviceAsserts()]
    return Sequential(launches, name="tir.launches")(lowered)
