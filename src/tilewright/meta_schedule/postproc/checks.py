"""Post-processors that refuse schedules."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.driver import lower
from tilewright.meta_schedule.blocks import is_bound, note
from tilewright.meta_schedule.postproc.postproc import Postproc
from tilewright.node import nodes_of
from tilewright.support.errors import TVMError
from tilewright.tir import Block, For, IntImm, PrimFunc
from tilewright.tir.analysis import calculate_allocated_bytes, verify_gpu_code
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.facts.leaves import leaves


class DisallowDynamicLoop(Postproc):
    """Refuses schedules with loops whose extent is no constant."""

    def apply(self, sch: Schedule) -> bool:
        return all([isinstance(loop.extent, IntImm) for loop in _of_type(sch, For)])


class VerifyGPUCode(Postproc):
    """Refuses schedules that exceed the limits of the target's GPU, cannot be lowered, or whose number of threads is not in the range that
    their tiled blocks ask for."""

    def apply(self, sch: Schedule) -> bool:
        target = self.context.target if self.context is not None else None
        if target is None:
            raise TVMError("VerifyGPUCode needs a target: give TuneContext one")
        if not all([_threads_fit(block) for block in _of_type(sch, Block)]):
            return False
        names = {
            "max_shared_memory_per_block": "max_shared_memory_per_block",
            "max_local_memory_per_block": "max_local_memory_per_block",
            "max_threads_per_block": "max_threads_per_block",
        }
        limits = {limit: int(target.attrs[name]) for limit, name in names.items() if name in target.attrs}
        limits.setdefault("max_threads_per_block", int(target.attrs.get("max_num_threads", 1024)))
        limits["max_vthread"], limits["max_vector_bytes"] = 8, 16
        try:
            with target:
                lowered = lower(sch.mod)
        except TVMError:
            return False
        functions = [f for f in lowered.functions.values() if isinstance(f, PrimFunc)]
        return all([verify_gpu_code(func, limits) for func in functions])


class VerifyVTCMLimit(Postproc):
    """Refuses schedules that allocate more memory in scope "global.vtcm" than the target has."""

    def apply(self, sch: Schedule) -> bool:
        target = self.context.target if self.context is not None else None
        limit = int(target.attrs.get("vtcm-capacity", 0)) if target is not None else 0
        if limit <= 0:
            return True
        sizes = calculate_allocated_bytes(sch.mod)
        return all([int(by_scope.get("global.vtcm", 0)) <= limit for by_scope in sizes.values()])


def _of_type(sch: Schedule, kind: Any) -> list[Any]:
    functions = [f for f in sch.mod.functions.values() if isinstance(f, PrimFunc)]
    return [node for func in functions for node in nodes_of(func.body, kind)]


def _threads_fit(block: Block) -> bool:
    """Whether the threads below a block are as many as the tiled blocks directly below it ask for."""
    for leaf in leaves(block.body):
        low = note(leaf.block, "meta_schedule.thread_extent_low_inclusive")
        high = note(leaf.block, "meta_schedule.thread_extent_high_inclusive")
        if low is None or high is None:
            continue
        extents = [loop.extent for loop in leaf.loops if is_bound(loop, "threadIdx")]
        threads = prod([e.value for e in extents if isinstance(e, IntImm)])
        if not int(low) <= threads <= int(high):
            return False
    return True
