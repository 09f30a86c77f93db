"""Post-processors that refuse schedules."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.arith import detect_linear_equation
from tilewright.driver import lower
from tilewright.ir.transform import PassContext
from tilewright.meta_schedule.blocks import is_bound, note
from tilewright.meta_schedule.postproc.postproc import Postproc
from tilewright.node import Visitor, nodes_of, on
from tilewright.support.errors import TVMError
from tilewright.tir import AttrStmt, Block, BufferLoad, BufferStore, For, IntImm, PrimExpr, PrimFunc, Ramp
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


class DisallowAsyncStridedMemCopy(Postproc):
    """Refuses schedules whose lowered programs copy what is not one run of elements, in the source or in the destination, where the copy is
    asynchronous: engines for such copies take runs. Refuses schedules that cannot be lowered, too."""

    def apply(self, sch: Schedule) -> bool:
        config = {**PassContext.current().config, "tir.use_async_copy": False}
        try:
            with PassContext(config=config):
                lowered = lower(sch.mod)
        except TVMError:
            return False
        copies = _AsyncCopies()
        for func in lowered.functions.values():
            if isinstance(func, PrimFunc):
                copies.visit(func.body)
        return not copies.strided


class _AsyncCopies(Visitor):
    """Whether an asynchronous copy has strides."""

    def __init__(self) -> None:
        self.strided = False
        self._loops: list[For] | None = None

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        """Copies are statements."""

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        outer = self._loops
        if s.attr_key == "async_commit_queue_scope":
            self._loops = []
        self.visit(s.body)
        self._loops = outer

    @on(For)
    def _for(self, s: For) -> None:
        outer = self._loops
        if outer is not None:
            self._loops = [*outer, s]
        self.visit(s.body)
        self._loops = outer

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        if self._loops is None or not isinstance(s.value, BufferLoad):
            return
        runs = [_is_run(x.indices, self._loops) for x in (s, s.value)]
        self.strided = self.strided or not all(runs)


def _is_run(indices: tuple[PrimExpr, ...], loops: list[For]) -> bool:
    """Whether an access in loops is to one element after the other. indices: of a flat buffer."""
    if len(indices) != 1:
        return False
    (index,), step = indices, 1
    if isinstance(index, Ramp):
        if not (isinstance(index.stride, IntImm) and index.stride.value == 1):
            return False
        index, step = index.base, index.dtype.lanes
    for loop in reversed(loops):
        extent = loop.extent
        if isinstance(extent, IntImm) and extent.value == 1:
            continue
        found = detect_linear_equation(index, [loop.loop_var])
        if not found or not isinstance(found[0], IntImm) or found[0].value != step or not isinstance(extent, IntImm):
            return False
        step *= extent.value
    return True


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
        if note(leaf.block, "warp_execution"):
            threads *= int(low)  # those of a warp
        if not int(low) <= threads <= int(high):
            return False
    return True
