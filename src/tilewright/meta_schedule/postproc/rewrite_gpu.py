"""Post-processors that bind loops to the threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.meta_schedule.binding import bind_block
from tilewright.meta_schedule.blocks import is_bound, note, root_blocks
from tilewright.meta_schedule.postproc.postproc import Postproc
from tilewright.node import nodes_of
from tilewright.support.errors import ScheduleError, TVMError
from tilewright.tir import Block, For
from tilewright.tir.schedule import BlockRV, Schedule
from tilewright.tir.schedule.facts.leaves import int_extent, leaves, loops_above

KEY = "meta_schedule.cooperative_fetch"
WARP = 32
"""Threads of a warp, where the target does not say it."""


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
    length where it divides the copy. Where warps compute parts of the kernel ("warp_execution"), all threads of the block copy. Refuses
    schedules whose copies the threads cannot share."""

    def apply(self, sch: Schedule) -> bool:
        target = self.context.target if self.context is not None else None
        threads = int(target.attrs.get("thread_warp_size", WARP)) if target is not None else WARP
        for gvar, root in sch.state.roots.items():
            warps = threads if _computes_in_warps(root.stmt) else 0
            for name in _fetches(root.stmt):
                block = sch.get_block(name, gvar.name_hint)
                length = int(note(sch.get(block), KEY))
                sch.unannotate(block, KEY)
                try:
                    self._distribute(sch, block, length, warps)
                except ScheduleError:
                    return False
        return True

    @staticmethod
    def _distribute(sch: Schedule, block: BlockRV, length: int, warps: int) -> None:
        *_, fused = sch.get_loops(block)
        above = [ref.stmt for ref in loops_above(sch.get_sref(fused))]
        axes = _axes(above)
        if warps:
            # All threads copy, those of each warp too, which no loop is bound to yet.
            bound = _axes(nodes_of(above[0], For))
            axes = {tag: bound[tag] for tag in ("threadIdx.z", "threadIdx.y") if tag in bound}
            axes["threadIdx.x"] = warps
        extent = int_extent(sch.get(fused)) or 1
        lanes = length if extent % length == 0 else 1
        counts = list(axes.values())
        if lanes > 1 and not sch.accepts(lambda s: s.vectorize(s.split(fused, [None, *counts, lanes])[-1])):
            lanes = 1
        parts = sch.split(fused, [None, *counts, lanes] if lanes > 1 else [None, *counts])
        if lanes > 1:
            sch.vectorize(parts[-1])
        for part, tag in zip(parts[1:], axes, strict=False):
            sch.bind(part, tag)


def _axes(loops: Sequence[For]) -> dict[str, int]:
    """The thread axes of loops, and their extents."""
    found: dict[str, int] = {}
    for loop in loops:
        if is_bound(loop, "threadIdx") and loop.thread_binding is not None:
            tag, extent = str(loop.thread_binding.thread_tag), int_extent(loop) or 1
            found[tag] = max(extent, found.get(tag, 1))
    return found


def _computes_in_warps(block: Block) -> bool:
    """Whether a block in this one is computed by whole warps, whose threads, threadIdx.x, only share copies."""
    return any([note(leaf.block, "warp_execution") or _computes_in_warps(leaf.block) for leaf in leaves(block.body)])


def _fetches(block: Block) -> list[str]:
    found = []
    for leaf in leaves(block.body):
        if note(leaf.block, KEY) is not None:
            found.append(leaf.block.name_hint)
        found += _fetches(leaf.block)
    return found
