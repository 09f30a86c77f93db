"""A rule that computes partial results of reductions with few points."""

from __future__ import annotations

from tilewright.meta_schedule.blocks import fuse_reduction_loops, is_root, needs_parallel_reduction
from tilewright.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import BlockRV, Schedule

NO_LIMIT = 2**31 - 1


class AddRFactor(ScheduleRule):
    """Factors a reduction whose points are too few for all cores: the schedule as it is, and one for each part of the split reduction.

    max_jobs_per_core: points for each core that are enough; -1: no number is. max_innermost_factor: of the split; None: no limit.
    """

    def __init__(self, max_jobs_per_core: int = 16, max_innermost_factor: int | None = None) -> None:
        self.max_jobs_per_core, self.max_innermost_factor = max_jobs_per_core, max_innermost_factor

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if is_root(sch, block) or self.context is None:
            return [sch]
        most = self.max_jobs_per_core * self.context.num_threads if self.max_jobs_per_core >= 0 else NO_LIMIT
        if not needs_parallel_reduction(sch, block, most):
            return [sch]
        base = sch.copy()
        try:
            fused, axis = fuse_reduction_loops(base, block)
            factors = base.sample_perfect_tile(fused, 2, self.max_innermost_factor or NO_LIMIT)
            parts = base.split(fused, [*factors])
        except ScheduleError:
            return [sch]
        made = [sch]
        for part in parts:
            tried = base.copy()
            try:
                partial = tried.rfactor(part, axis)
            except ScheduleError:
                continue
            tried.annotate(block, "meta_schedule.random_compute_producer", 1)
            if tried.get(partial).name_hint != tried.get(block).name_hint:
                made.append(tried)
        return made
