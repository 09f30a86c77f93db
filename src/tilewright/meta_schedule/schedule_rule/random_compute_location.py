"""A rule that draws the loop under which a block is computed."""

from __future__ import annotations

from tilewright.meta_schedule.blocks import is_root, note
from tilewright.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tilewright.support.errors import ScheduleError
from tilewright.tir import ForKind
from tilewright.tir.schedule import BlockRV, Schedule
from tilewright.tir.schedule.analysis import is_output_block
from tilewright.tir.schedule.facts.block_checks import consumers
from tilewright.tir.schedule.facts.leaves import leaf_of, leaves

KEY = "meta_schedule.random_compute_producer"


class RandomComputeLocation(ScheduleRule):
    """Computes a block under a drawn loop of its consumer, inlines it, or keeps its place. The producers of blocks that are annotated
    "meta_schedule.random_compute_producer" are moved likewise."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if is_root(sch, block):
            return [sch]
        if note(sch.get(block), KEY):
            sch.unannotate(block, KEY)
            for producer in sch.get_producers(block):
                self._move(sch, producer)
            return [sch]
        return [self._move(sch, block)]

    def _move(self, sch: Schedule, block: BlockRV) -> Schedule:
        if not self._is_free(sch, block):
            return sch
        location = sch.sample_compute_location(block)
        try:
            sch.compute_at(block, location, True)
        except ScheduleError:
            if sch.trace is not None:
                sch.trace.pop()
        return sch

    @staticmethod
    def _is_free(sch: Schedule, block: BlockRV) -> bool:
        """Whether a block is alone in plain loops, and is read by others."""
        if is_output_block(sch, block) or not consumers(sch.get_sref(block)):
            return False
        loops = leaf_of(sch.get_sref(block)).loops
        plain = [s.kind == ForKind.SERIAL and not s.annotations and len(leaves(s.body)) == 1 for s in loops]
        return bool(loops) and all(plain)
