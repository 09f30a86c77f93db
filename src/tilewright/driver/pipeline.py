"""The lowering pipeline, top to bottom: from scheduled TensorIR to what code generation takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass, PassContext, Sequential
from tilewright.support.errors import TVMError
from tilewright.tir import PrimFunc
from tilewright.tir.transform import (
    AnnotateEntryFunc,
    BindTarget,
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    ExposeEntryFunc,
    FlattenBuffer,
    HoistIfThenElse,
    InjectDoubleBuffer,
    InjectSoftwarePipeline,
    InjectVirtualThread,
    InstrumentBoundCheckers,
    LoopPartition,
    LowerCrossThreadReduction,
    LowerInitBlock,
    LowerIntrin,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    MakePackedAPI,
    MakeUnpackedAPI,
    MarkUnrollLoop,
    PlanAndUpdateBufferAllocationLocation,
    RemoveNoOp,
    Simplify,
    SkipAssert,
    StorageRewrite,
    UnifyThreadBinding,
    VectorizeLoop,
    prim_func_pass,
)

PHASES = ("blocks", "loops", "optimize", "finish")


def lower_phases(ctx: PassContext, simple_mode: bool = False) -> list[list[Pass]]:
    """The passes of `lower`, by phase."""
    config = ctx.config
    blocks: list[Pass] = [
        LowerCrossThreadReduction(),
        LowerInitBlock(),
        PlanAndUpdateBufferAllocationLocation(),
        ConvertBlocksToOpaque(),
        CompactBufferAllocation(),
        UnifyThreadBinding(),
        LowerMatchBuffer(),
        InjectSoftwarePipeline(),
        LowerOpaqueBlock(),
    ]
    loops: list[Pass] = [FlattenBuffer(), Simplify()]
    optimize: list[Pass] = [
        *([] if simple_mode else [LoopPartition()]),
        VectorizeLoop(not config.get("tir.disable_vectorize", False)),
        InjectVirtualThread(),
        InjectDoubleBuffer(),
        Simplify(),
        *([] if config.get("tir.disable_storage_rewrite", False) else [StorageRewrite()]),
        MarkUnrollLoop(),
    ]
    finish: list[Pass] = [
        *([SkipAssert()] if config.get("tir.disable_assert", False) else []),
        RemoveNoOp(),
        HoistIfThenElse(),
        *([InstrumentBoundCheckers()] if config.get("tir.instrument_bound_checkers", False) else []),
    ]
    phases = [blocks, loops, optimize, finish]
    added = _added_passes(config.get("tir.add_lower_pass") or ())
    blocks[:0] = [custom for number, custom in added if number == 0]
    for number, custom in added:
        if number > 0:
            phases[number].append(custom)
    return phases


def lower_pipeline(ctx: PassContext | None = None, simple_mode: bool = False) -> Sequential:
    """The passes of `lower` in order."""
    phases = lower_phases(ctx or PassContext.current(), simple_mode)
    return Sequential([p for phase in phases for p in phase], name="tir.lower")


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


def lower_module(mod: IRModule, simple_mode: bool = False) -> IRModule:
    """The module with every PrimFunc lowered; those that are lowered already stay."""
    todo = {g: f for g, f in mod.functions.items() if isinstance(f, PrimFunc) and not f.attrs.get("tir.is_lowered")}
    lowered = lower_pipeline(simple_mode=simple_mode)(mod.with_functions(todo))
    functions = dict(mod.functions)
    for gvar, func in lowered.functions.items():
        functions[gvar] = func.with_attr("tir.is_lowered", True)
    return mod.with_functions(functions)
