"""A rule that notes what the post-processor RewriteParallelVectorizeUnroll is to do."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.meta_schedule.blocks import is_root
from tilewright.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tilewright.tir.schedule import BlockRV, Schedule


class ParallelizeVectorizeUnroll(ScheduleRule):
    """Annotates the root block.

    max_jobs_per_core: the number of iterations of parallel loops for each core; -1: no loop is parallel. max_vectorize_extent: the
    greatest number of iterations that become a vector; -1: none. unroll_max_steps: the choices of how long unrolled code may be; empty:
    nothing is unrolled. unroll_explicit: unrolled code is written out, rather than left to the compiler behind.
    """

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        max_vectorize_extent: int = 16,
        unroll_max_steps: Sequence[int] | None = None,
        unroll_explicit: bool = True,
    ) -> None:
        self.max_jobs_per_core, self.max_vectorize_extent = max_jobs_per_core, max_vectorize_extent
        self.unroll_max_steps = list(unroll_max_steps or ())
        self.unroll_explicit = unroll_explicit

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if not is_root(sch, block) or self.context is None:
            return [sch]
        if self.max_jobs_per_core != -1:
            sch.annotate(block, "meta_schedule.parallel", self.max_jobs_per_core * self.context.num_threads)
        if self.max_vectorize_extent != -1:
            sch.annotate(block, "meta_schedule.vectorize", self.max_vectorize_extent)
        if self.unroll_max_steps:
            count = len(self.unroll_max_steps)
            steps = sch.sample_categorical(self.unroll_max_steps, [1.0 / count] * count)
            name = "explicit" if self.unroll_explicit else "implicit"
            sch.annotate(block, f"meta_schedule.unroll_{name}", steps)
        return [sch]
