"""Which loops of a scheduled block can be parallel, and which a vector."""

from __future__ import annotations

from typing import Any

from tilewright.meta_schedule.blocks import root_blocks
from tilewright.tir import For, ForKind
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.leaves import DATA_PAR, Leaf, int_extent, leaf_of, leaves, loops_above
from tilewright.tir.stmt_functor import used_vars


def parallel_loops(sch: Schedule, block: BlockRV, most: int) -> list[LoopRV]:
    """The outermost loops of a block, each holding only the next one, that are spatial for all blocks below and have at most so many
    iterations together."""
    found: list[LoopRV] = []
    extent = 1
    for loop in sch.get_loops(block):
        stmt = sch.get(loop)
        count = int_extent(stmt)
        if stmt.kind != ForKind.SERIAL or stmt.annotations or count is None or extent * count > most:
            break
        if not _is_spatial(sch, loop):
            break
        found.append(loop)
        extent *= count
        if not isinstance(stmt.body, For):
            break
    return found


def parallel_extents(sch: Schedule) -> set[int]:
    """The numbers of iterations that parallel loops of the blocks below the root blocks could have."""
    sch = sch.copy()
    found: set[int] = set()
    for root in root_blocks(sch):
        for block in sch.get_child_blocks(root):
            extent = 1
            for loop in parallel_loops(sch, block, 2**31 - 1):
                extent *= int_extent(sch.get(loop)) or 1
                found.add(extent)
    return found


def vector_loops(sch: Schedule, block: BlockRV, most: int) -> list[LoopRV]:
    """The innermost loops of a block that run along the last dimension of its output, or only once, and have at most so many iterations
    together. None for a block that contains blocks."""
    if leaves(sch.get(block).body):
        return []
    loops = sch.get_loops(block)
    along = _contiguous(sch, block)
    found: list[LoopRV] = []
    extent = 1
    for loop in reversed(loops):
        stmt = sch.get(loop)
        count = int_extent(stmt)
        if stmt.kind != ForKind.SERIAL or stmt.annotations or count is None or extent * count > most:
            break
        if len(leaves(stmt.body)) != 1 or not _is_spatial(sch, loop) or (count > 1 and stmt.loop_var not in along):
            break
        found.insert(0, loop)
        extent *= count
    return found if extent > 1 else []


def _is_spatial(sch: Schedule, loop: LoopRV) -> bool:
    """Whether all blocks below a loop depend on it by spatial variables only, or it runs once."""
    ref = sch.get_sref(loop)
    outer = (*[r.stmt for r in loops_above(ref)], ref.stmt)
    for leaf in leaves(ref.stmt.body):
        full = Leaf(leaf.realize, outer + leaf.loops, leaf.conditional)
        uses = binding_of(sch.state, full).uses.get(ref.stmt.loop_var, set())
        if uses != {DATA_PAR} and not (not uses and int_extent(ref.stmt) == 1):
            return False
    return True


def _contiguous(sch: Schedule, block: BlockRV) -> set[Any]:
    """The loop variables on which the last index of the output of a block depends."""
    leaf = leaf_of(sch.get_sref(block))
    bound = {iv.var: value for iv, value in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True)}
    found: set[Any] = set()
    for write in leaf.block.writes:
        for v in used_vars(write.region[-1].min) if write.region else ():
            found |= set(used_vars(bound[v])) if v in bound else set()
    return found
