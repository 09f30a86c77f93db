"""Reductions along trailing axes (softmax, layer norm, mean): one row at a time, vectors across it.

    for i: for k: M[i] = max(..);  for i: for k: S[i] += exp(A[i, k] - M[i]);  for i, j: O[i, j] = ..
    -->
    parallel i: (for k: lanes: ..), fold lanes; ...; for j: vectorize lanes: O
"""

from __future__ import annotations

from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir.schedule import BlockRV, LoopRV
from tilewright.topi.schedule.injective import parallelize, schedule_injective
from tilewright.topi.schedule.kernel import BlockView, KernelView, extent_of

ACCUMULATORS = 4
"""Vectors that a long reduction is spread over, so that additions need not wait for each other."""


def schedule_rows(view: KernelView, target: Target) -> None:
    """Brings all blocks that share the outer axes of the last one under its row loop."""
    sch = view.sch
    blocks = view.blocks()
    last = blocks[-1]
    row_axes = shared_axes(blocks)
    if last.is_opaque or row_axes == 0:
        for block in blocks:
            if block.reduction:
                vectorize_reduction(view, block.rv, target)
        return
    work = max([b.iterations for b in blocks])
    loops = view.loops(last)[:row_axes]
    row = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    for block in reversed(blocks[:-1]):
        try:
            sch.compute_at(block.rv, row)
        except ScheduleError:
            # What this row needs is not one row of that block: it stays a stage of its own.
            continue
    for block in [b for b in blocks if b.reduction]:
        vectorize_reduction(view, block.rv, target, row)
    for block in blocks:
        if block.is_injective:
            vectorize_last(view, block.rv, target, row)
    parallelize(sch, [row], work, target)


def shared_axes(blocks: list[BlockView]) -> int:
    """How many leading spatial axes all blocks have in common, reduced ones never counted."""
    last = blocks[-1]
    count = len(last.spatial)
    for block in blocks:
        if block.is_opaque:
            return 0
        if block.reduction:
            first = block.block.iter_vars.index(block.reduction[0])
            same = 0
            for mine, theirs in zip(block.extents[:first], last.extents, strict=False):
                if mine != theirs:
                    break
                same += 1
            count = min(count, same)
    return count


def vectorize_reduction(view: KernelView, block: BlockRV, target: Target, row: LoopRV | None = None) -> None:
    """Spreads a reduction over the lanes of vectors, when its last axis is contiguous and wide enough."""
    sch = view.sch
    now = BlockView(sch, block)
    if len(now.block.writes) != 1:
        return
    loops = view.loops(block)
    lanes = target.cpu.lanes(now.block.writes[0].buffer.dtype.bits)
    reduced = loops[-1]
    extent = extent_of(sch.get(reduced))
    width = lanes * ACCUMULATORS if extent % (lanes * ACCUMULATORS) == 0 else lanes
    if extent < 2 * lanes or extent % width:
        return
    _, inner = sch.split(reduced, [None, width])
    partial = sch.rfactor(inner, len(now.spatial))
    if row is not None:
        sch.compute_at(partial, row)
    sch.set_scope(partial, 0, "local")
    around = view.loops(partial)
    here = [sch.get(loop) for loop in around]
    start = 0 if row is None else here.index(sch.get(row)) + 1
    lane_loop = next(loop for loop in reversed(around[start:]) if extent_of(sch.get(loop)) == width)
    steps = [loop for loop in around[start:] if loop is not lane_loop]
    sch.reorder(*steps, lane_loop)
    init = sch.decompose_reduction(partial, steps[-1]) if steps else None
    for one in (partial, init):
        if one is not None:
            spread(view, one, lanes, width)
    for loop in view.loops(block)[len(view.loops(block)) - 1 :]:
        sch.unroll(loop)


def spread(view: KernelView, block: BlockRV, lanes: int, width: int) -> None:
    """Vectorises the last loop, several vectors unrolled."""
    last = view.loops(block)[-1]
    if width > lanes:
        several, last = view.sch.split(last, [None, lanes])
        view.sch.unroll(several)
    view.sch.vectorize(last)


def vectorize_last(view: KernelView, block: BlockRV, target: Target, row: LoopRV) -> None:
    """Vectorises the last loop of an element-wise block below the row loop."""
    sch = view.sch
    loops = view.loops(block)
    here = [sch.get(loop) for loop in loops]
    if sch.get(row) not in here:
        schedule_injective(view, BlockView(sch, block), target)
        return
    below = loops[here.index(sch.get(row)) + 1 :]
    lanes = target.cpu.lanes(BlockView(sch, block).block.writes[0].buffer.dtype.bits)
    if below and extent_of(sch.get(below[-1])) >= lanes:
        _, vector = sch.split(below[-1], [None, lanes])
        sch.vectorize(vector)
