"""Post-processors that bind loops to the threads of a GPU."""

from __future__ import annotations

from tilewright.meta_schedule.binding import bind_block
from tilewright.meta_schedule.blocks import is_bound, note, root_blocks
from tilewright.meta_schedule.postproc.postproc import Postproc
from tilewright.support.errors import ScheduleError, TVMError
from tilewright.tir import Block
from tilewright.tir.schedule import BlockRV, Schedule
from tilewright.tir.schedule.facts.leaves import int_extent, leaves, loops_above

KEY = "meta_schedule.cooperative_fetch"


class RewriteUnboundBlock(Postproc):
    """Binds the blocks that no rule bound. max_threadblocks: the greatest extent of blockIdx.x."""

    def __init__(self, max_threadblocks: int = 256) -> None:
        self.max_threadblocks = max_threadblocks

    def apply(self, sch: Schedule) -> bool:
        target = self.context.target if self.context is not None else None
        if target is None:
            raise TVMError("RewriteUnboundBlock needs a target: give TuneContext one")
        most = int(target.attrs.get("max_threads_per_block", target.attrs.get("max_num_threads", 1024)))
        for root in root_blocks(sch):
            for block in sch.get_child_blocks(root):
                bind_block(sch, block, self.max_threadblocks, most, lambda: most)
        return True


class RewriteCooperativeFetch(Postproc):
    """Distributes the copies that are annotated "meta_schedule.cooperative_fetch" over the threads around them, in vectors of the noted
    length where it divides the copy. Refuses schedules whose copies the threads cannot share."""

    def apply(self, sch: Schedule) -> bool:
        for gvar, root in sch.state.roots.items():
            for name in _fetches(root.stmt):
                block = sch.get_block(name, gvar.name_hint)
                length = int(note(sch.get(block), KEY))
                sch.unannotate(block, KEY)
                try:
                    self._distribute(sch, block, length)
                except ScheduleError:
                    return False
        return True

    @staticmethod
    def _distribute(sch: Schedule, block: BlockRV, length: int) -> None:
        *_, fused = sch.get_loops(block)
        above = [ref.stmt for ref in loops_above(sch.get_sref(fused))]
        axes = [loop for loop in above if is_bound(loop, "threadIdx")]
        extent = int_extent(sch.get(fused)) or 1
        lanes = length if extent % length == 0 else 1
        counts = [int_extent(loop) for loop in axes]
        if lanes > 1 and not sch.accepts(lambda s: s.vectorize(s.split(fused, [None, *counts, lanes])[-1])):
            lanes = 1
        parts = sch.split(fused, [None, *counts, lanes] if lanes > 1 else [None, *counts])
        if lanes > 1:
            sch.vectorize(parts[-1])
        for part, loop in zip(parts[1:], axes, strict=False):
            assert loop.thread_binding is not None
            sch.bind(part, str(loop.thread_binding.thread_tag))


def _fetches(block: Block) -> list[str]:
    found = []
    for leaf in leaves(block.body):
        if note(leaf.block, KEY) is not None:
            found.append(leaf.block.name_hint)
        found += _fetches(leaf.block)
    return found
