"""Passes in orders that are legal: the pipelines of CPUs and GPUs, with others put in between and some run twice."""

from __future__ import annotations

import random
from collections.abc import Callable

from tilewright.driver.pipeline import lower_phases
from tilewright.ir.transform import Pass, PassContext
from tilewright.tir import transform as T

Make = Callable[[], Pass]

ANYWHERE: list[Make] = [
    T.Simplify, T.RemoveNoOp, T.ConvertSSA, T.RenormalizeSplitPattern, T.RemoveAssume, T.RemoveStoreUndef,
    T.BF16ComputeLegalize, T.FP8ComputeLegalize, T.LowerInitBlock, T.PlanAndUpdateBufferAllocationLocation,
    T.ConvertBlocksToOpaque, T.CompactBufferAllocation, T.LowerMatchBuffer, T.InjectSoftwarePipeline, T.LowerOpaqueBlock,
    T.FlattenBuffer,
]  # fmt: skip
"""Passes that may stand wherever what they need is given."""
FLAT: list[Make] = [
    T.HoistIfThenElse, T.CommonSubexprElimTIR, T.NarrowDataType, T.UnrollLoop, T.MarkUnrollLoop, T.LoopPartition,
    T.StorageRewrite, T.VectorizeLoop, T.InstrumentBoundCheckers, T.SkipAssert, T.LowerIntrin, T.InjectVirtualThread,
    T.InjectDoubleBuffer, T.HoistExpression, T.RewriteUnsafeSelect,
]  # fmt: skip
"""Passes for programs that hold no blocks any more."""


def cpu(rng: random.Random) -> list[Pass]:
    """The passes of `lower`; in some with others in between."""
    passes = [p for phase in lower_phases(PassContext()) for p in phase]
    return mixed(rng, passes) if rng.random() < 0.35 else passes


def mixed(rng: random.Random, passes: list[Pass]) -> list[Pass]:
    """The passes with a few others between them, each where what it needs is given."""
    out = list(passes)
    for _ in range(rng.randint(1, 4)):
        make = rng.choice(ANYWHERE + FLAT)
        extra = make()
        needs = {*extra.info.needs, *(["flat_buffers"] if make in FLAT else [])}
        have: set[str] = set()
        places = []
        for k, p in enumerate(out):
            if have.issuperset(needs):
                places.append(k)
            have.update(p.info.gives)
        if have.issuperset(needs):
            places.append(len(out))
        if places:
            out.insert(rng.choice(places), extra)
    return out


def gpu(rng: random.Random) -> list[Pass]:
    """From scheduled programs with threads to device code without intrinsics of threads, as classic TVM orders the passes."""
    early: list[Make] = [T.LowerCrossThreadReduction, T.LowerInitBlock, T.PlanAndUpdateBufferAllocationLocation]
    early += [T.ConvertBlocksToOpaque, T.LiftThreadBinding] if rng.random() < 0.5 else [T.ConvertBlocksToOpaque]
    early += [T.UnifyThreadBinding, T.CompactBufferAllocation, T.LowerMatchBuffer, T.InjectSoftwarePipeline]
    late: list[Make] = [T.LowerOpaqueBlock, T.FlattenBuffer, T.Simplify, T.LoopPartition, T.VectorizeLoop]
    late += [T.InjectVirtualThread, T.InjectDoubleBuffer, T.StorageRewrite, T.UnrollLoop, T.RemoveNoOp]
    passes = [make() for make in early + late]
    if rng.random() < 0.3:
        passes = mixed(rng, passes)
    passes += [T.ThreadSync("shared"), T.ThreadSync("shared.dyn"), T.ThreadSync("warp")]
    if rng.random() < 0.5:
        passes.append(T.MergeSharedMemoryAllocations())
    return [*passes, T.LowerThreadAllreduce(), T.LowerWarpMemory(), T.Simplify()]
