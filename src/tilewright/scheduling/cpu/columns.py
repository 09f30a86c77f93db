"""Reductions over leading or middle axes (sums over the rows of a matrix): vectors along the last axis, sums in
registers.

for i, j: for k: C[i, j] += A[i, k, j]
-->
parallel i, strips of columns: init; for k: unrolled, vectorized columns of the strip; epilogue
"""

from __future__ import annotations

from math import prod

from tilewright.scheduling.block_views import BlockView, KernelView, extent_of
from tilewright.scheduling.cpu.epilogue import attach_epilogue
from tilewright.scheduling.cpu.sharing import shares, useful_threads
from tilewright.target import Target
from tilewright.target.core import Core
from tilewright.tir.schedule import BlockRV, LoopRV

LEAST_STEPS = 8
"""The fewest steps of the reduction for each of several sums of a column."""

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
    work = block.iterations
    threads = useful_threads(work, target)
    # Wide strips read long parts of each row; their sums fill most registers. What computes much needs registers itself.
    core = target.cpu.core
    wide = core.registers * 3 // 4 // (2 if block.is_chained else 1)
    share = -(-threads // others)
    model = max(
        -(-vectors // wide), min(vectors, share), min(-(-vectors // core.in_flight), 2 * share if share > 1 else 1)
    )
    strips = view.plan.choose(f"{block.name}.strips", model, lambda: range(max(1, vectors // 32), vectors + 1))
    partial = partial_sums(view, block, reduction, -(-vectors // strips), lanes, core)
    if partial is not None:
        block = BlockView(sch, block.rv)
        by_axis = view.loops_of_axes(block)
        *outer, column = [by_axis[v] for v in block.spatial]
        reduction = [by_axis[v] for v in block.reduction]
    strip, lane = sch.split(column, [None, -(-vectors // strips) * lanes])
    several, lane = sch.split(lane, [None, lanes])
    sch.reorder(*outer, strip, *reduction, several, lane)
    *_, epilogue = attach_epilogue(view, block, strip)
    if partial is not None:
        sch.compute_at(partial, strip)
        schedule_partial(view, partial, lanes)
        sch.unroll(reduction[0])
    init = sch.decompose_reduction(block.rv, reduction[0])
    for each in (block.rv, init):
        *_, several, lane = sch.get_loops(each)
        sch.unroll(several)
        sch.vectorize(lane)
    *_, last = sch.get_loops(epilogue)
    several, lane = sch.split(last, [None, lanes])
    sch.unroll(several)
    sch.vectorize(lane)
    if others * strips > 1 and shares(view, block.name, work, target):
        sch.parallel(sch.fuse(*outer, strip) if outer else strip)


def partial_sums(
    view: KernelView, block: BlockView, reduction: list[LoopRV], vectors: int, lanes: int, core: Core
) -> BlockRV | None:
    """The block of several sums for each column, where the vectors of a strip are too few to keep the adders busy: each would wait for
    itself. They are added up at the end."""
    extent = extent_of(view.sch.get(reduction[-1]))
    fits = [n for n in (8, 4, 2) if extent % n == 0 and extent >= LEAST_STEPS * n]
    model = next((n for n in fits if n * vectors <= core.in_flight), 1) if 2 * vectors <= core.in_flight else 1
    number = view.plan.choose(f"{block.name}.sums", model, lambda: [*reversed(fits), 1])
    if number == 1:
        return None
    _, each = view.sch.split(reduction[-1], [None, number], disable_predication=True)
    partial = view.sch.rfactor(each, 0)
    view.sch.set_scope(partial, 0, "local")
    # Vectors whose last lanes are masked stay in registers only if they have them for themselves.
    view.sch.storage_align(partial, 0, -2, lanes, 0)
    return partial


def schedule_partial(view: KernelView, rv: BlockRV, lanes: int) -> None:
    """All sums of a strip in registers: a step of the reduction adds to each of them."""
    sch, block = view.sch, BlockView(view.sch, rv)
    by_axis = view.loops_of_axes(block)
    several, lane = sch.split(by_axis[block.spatial[-1]], [None, lanes])
    steps = [by_axis[axis] for axis in block.reduction if axis in by_axis]
    sch.reorder(*steps, by_axis[block.spatial[0]], several, lane)
    for each in (rv, sch.decompose_reduction(rv, steps[0])):
        *_, number, several, lane = sch.get_loops(each)
        sch.unroll(number)
        sch.unroll(several)
        sch.vectorize(lane)
