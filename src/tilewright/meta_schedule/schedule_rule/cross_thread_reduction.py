"""A rule that distributes the steps of reductions over the threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.meta_schedule.blocks import fuse_reduction_loops, is_root, needs_parallel_reduction
from tilewright.meta_schedule.schedule_rule.auto_bind import threads_of
from tilewright.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import BlockRV, ExprRV, LoopRV, Schedule
from tilewright.tir.schedule.facts.block_checks import consumers
from tilewright.tir.schedule.facts.leaves import leaves
from tilewright.tir.schedule.facts.loop_uses import loop_kinds


class CrossThreadReduction(ScheduleRule):
    """Binds a part of a reduction to threadIdx.x: the schedule as it is, and the one with the reduction across threads, computed in the
    loops of its consumer if there is a single one. thread_extents: the choices of the extent."""

    def __init__(self, thread_extents: Sequence[int]) -> None:
        self.thread_extents = list(thread_extents)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if is_root(sch, block):
            return [sch]
        most = threads_of(self)
        if not needs_parallel_reduction(sch, block, most):
            return [sch]
        choices = [extent for extent in self.thread_extents if extent <= most]
        if not choices:
            return [sch]
        new = sch.copy()
        threads = new.sample_categorical(choices, [1.0 / len(choices)] * len(choices))
        try:
            self._into_consumer(new, block, threads)
            fused, _ = fuse_reduction_loops(new, block)
            _, inner = new.split(fused, [None, threads])
            new.bind(inner, "threadIdx.x")
        except ScheduleError:
            return [sch]
        return [sch, new]

    @staticmethod
    def _into_consumer(sch: Schedule, block: BlockRV, threads: ExprRV) -> None:
        """Computes the reduction in the spatial loops of its only consumer, whose own loops inside of them are bound likewise."""
        spatial = loop_kinds(sch, block).count("S")
        if len(consumers(sch.get_sref(block))) != 1 or spatial < 1:
            return
        (consumer,) = sch.get_consumers(block)
        loops = sch.get_loops(consumer)
        if len(loops) < spatial or any([len(leaves(sch.get(loop).body)) != 1 for loop in loops]):
            return
        tried = sch.copy()
        try:
            _place(tried, block, consumer, loops, spatial, threads)
        except ScheduleError:
            return
        _place(sch, block, consumer, loops, spatial, threads)


def _place(
    sch: Schedule, block: BlockRV, consumer: BlockRV, loops: list[LoopRV], spatial: int, threads: ExprRV
) -> None:
    outer, inner = loops[:spatial], loops[spatial:]
    fused = sch.fuse(*outer) if len(outer) > 1 else outer[0]
    sch.compute_at(block, fused, True)
    sch.set_scope(block, 0, "shared")
    rest = sch.fuse(*inner) if len(inner) > 1 else inner[0] if inner else sch.add_unit_loop(consumer)
    _, bound = sch.split(rest, [None, threads])
    sch.bind(bound, "threadIdx.x")
