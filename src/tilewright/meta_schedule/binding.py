"""Binding the loops of a block to the threads of a GPU."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.meta_schedule.blocks import is_bound
from tilewright.support.errors import ScheduleError
from tilewright.tir import For, ForKind
from tilewright.tir.schedule import BlockRV, ExprRV, Schedule
from tilewright.tir.schedule.facts.leaves import int_extent, leaf_of
from tilewright.tir.schedule.facts.loop_uses import loop_kinds


def bind_block(
    sch: Schedule, block: BlockRV, max_blocks: int, max_threads: int, threads: Callable[[], ExprRV | int]
) -> bool:
    """Binds the outer spatial loops of a block to blockIdx.x and threadIdx.x, those that are not bound yet. Whether it did.

    max_blocks: the greatest extent of blockIdx.x. threads: draws the extent of threadIdx.x.
    """
    stmts = leaf_of(sch.get_sref(block)).loops
    has_blocks = any([is_bound(s, "blockIdx") for s in stmts])
    has_threads = any([is_bound(s, "threadIdx") for s in stmts])
    if has_blocks:
        return False
    loops = sch.get_loops(block)
    spatial = loops[: _outer_spatial(sch, block)]
    if not spatial:
        spatial = [sch.add_unit_loop(loops[0] if loops else block)]
    fused = sch.fuse(*spatial) if len(spatial) > 1 else spatial[0]
    if has_threads:
        sch.bind(fused, "blockIdx.x")
        return True
    extent = int_extent(sch.get(fused))
    factor = threads()
    if extent is None or extent <= max_blocks * max_threads:
        outer, inner = sch.split(fused, [None, factor])
    else:
        rest, outer, inner = sch.split(fused, [None, max_blocks, factor])
        sch.reorder(outer, inner, rest)
    try:
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
    except ScheduleError:
        return False
    return True


def _outer_spatial(sch: Schedule, block: BlockRV) -> int:
    """How many of the outermost loops of a block are serial and spatial, up to the first one that holds more than the next."""
    count = 0
    for loop, kind in zip(leaf_of(sch.get_sref(block)).loops, loop_kinds(sch, block), strict=True):
        if kind != "S" or loop.kind != ForKind.SERIAL:
            break
        count += 1
        if not isinstance(loop.body, For):
            break
    return count
