"""A rule that binds the loops of blocks to the threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.meta_schedule.binding import bind_block
from tilewright.meta_schedule.blocks import is_root
from tilewright.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tilewright.tir.schedule import BlockRV, ExprRV, Schedule

THREAD_EXTENTS = (32, 64, 128, 256, 512, 1024)


class AutoBind(ScheduleRule):
    """Fuses the spatial loops of blocks that are not bound, and splits them over blocks of threads and threads.

    max_threadblocks: the greatest extent of blockIdx.x; threads loop over the rest. thread_extents: the choices of the extent of
    threadIdx.x. max_threads_per_block: None takes the target's.
    """

    def __init__(
        self,
        max_threadblocks: int = 256,
        thread_extents: Sequence[int] | None = None,
        max_threads_per_block: int | None = None,
    ) -> None:
        self.max_threadblocks = max_threadblocks
        self.thread_extents = list(thread_extents or THREAD_EXTENTS)
        self.max_threads_per_block = max_threads_per_block

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if is_root(sch, block):
            return [sch]
        most = self.max_threads_per_block or threads_of(self)

        def threads() -> ExprRV:
            choices = [extent for extent in self.thread_extents if extent <= most] or [most]
            return sch.sample_categorical(choices, [1.0 / len(choices)] * len(choices))

        bind_block(sch, block, self.max_threadblocks, most, threads)
        return [sch]


def threads_of(rule: ScheduleRule) -> int:
    """The number of threads that a block of threads of the rule's target may have."""
    target = rule.context.target if rule.context is not None else None
    attrs = target.attrs if target is not None else {}
    return int(attrs.get("max_threads_per_block", attrs.get("max_num_threads", 1024)))
