"""Reductions over leading or middle axes (sums over the rows of a matrix): vectors along the last axis, sums in
registers.

for i, j: for k: C[i, j] += A[i, k, j]
-->
parallel i, strips of columns: init; for k: unrolled, vectorized columns of the strip; epilogue
"""

from __future__ import annotations

from math import prod

from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.cpu.epilogue import attach_epilogue
from tilewright.scheduling.cpu.sharing import shares, useful_threads
from tilewright.target import Target

MORE_COLUMNS = 5
"""The fewest columns that masked vectors run along."""


def is_columns(block: BlockView, target: Target) -> bool:
    """Whether a block reduces one tensor, with static sizes, over whole axes other than the last, and the last holds at
    least two vectors, or more than four elements where lanes have masks.

    Of other tensors it reads one element for each result.
    """
    if not block.reduction or not block.spatial or len(block.block.writes) != 1 or block.block.init is None:
        return False
    reduced = [r for r in block.block.reads if any([v in block.axes_of(r) for v in block.reduction])]
    if len(reduced) != 1 or any([e >= 1 << 20 for e in block.extents]):
        return False
    indices = [r.min for r in reduced[0].region]
    found = [iv for i in indices for iv in block.block.iter_vars if i is iv.var]
    last = block.spatial[-1]
    if not found or found[-1] is not last or any([v not in found for v in block.reduction]):
        return False
    extent, bits = block.extents[block.block.iter_vars.index(last)], block.block.writes[0].buffer.dtype.bits
    return block.is_contiguous(last) and extent >= least_columns(extent, bits, target)


def least_columns(columns: int, bits: int, target: Target) -> int:
    """The fewest columns along which vectors pay. Fewer than a vector, but a whole part of one, are left to the compiler, which takes
    several rows at once."""
    lanes = target.cpu.lanes(bits)
    if not target.cpu.masks(bits):
        return 2 * lanes
    return lanes if lanes % columns == 0 else MORE_COLUMNS


def schedule_columns(view: KernelView, block: BlockView, target: Target) -> None:
    """Schedule one such reduction and its epilogue."""
    sch = view.sch
    by_axis = dict(zip(block.block.iter_vars, view.loops(block), strict=True))
    *outer, column = [by_axis[v] for v in block.spatial]
    reduction = [by_axis[v] for v in block.reduction]
    columns = block.extents[block.block.iter_vars.index(block.spatial[-1])]
    # Few columns are one vector, no wider than it must be.
    lanes = min(target.cpu.lanes(block.block.writes[0].buffer.dtype.bits), 1 << (columns - 1).bit_length())
    vectors = -(-columns // lanes)
    others = prod([e for v, e in zip(block.block.iter_vars, block.extents, strict=True) if v in block.spatial[:-1]])
    # Strips of one width, and at least one for each thread.
    threads = useful_threads(block.iterations, target)
    # Wide strips read long parts of each row; their sums fill most registers. What computes much needs registers itself.
    core = target.cpu.core
    wide = core.registers * 3 // 4 // (2 if block.is_chained else 1)
    share = -(-threads // others)
    model = max(
        -(-vectors // wide), min(vectors, share), min(-(-vectors // core.in_flight), 2 * share if share > 1 else 1)
    )
    strips = view.plan.choose(f"{block.name}.strips", model, lambda: range(max(1, vectors // 32), vectors + 1))
    strip, lane = sch.split(column, [None, -(-vectors // strips) * lanes])
    several, lane = sch.split(lane, [None, lanes])
    sch.reorder(*outer, strip, *reduction, several, lane)
    *_, epilogue = attach_epilogue(view, block, strip)
    init = sch.decompose_reduction(block.rv, reduction[0])
    for each in (block.rv, init):
        *_, several, lane = sch.get_loops(each)
        sch.unroll(several)
        sch.vectorize(lane)
    *_, last = sch.get_loops(epilogue)
    several, lane = sch.split(last, [None, lanes])
    sch.unroll(several)
    sch.vectorize(lane)
    if others * strips > 1 and shares(view, block.name, block.iterations, target):
        sch.parallel(sch.fuse(*outer, strip) if outer else strip)
