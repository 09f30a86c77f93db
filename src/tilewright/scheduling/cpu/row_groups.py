"""Reductions along short rows, several rows at a time: what is one number of a row is computed for all rows of a group in vectors.

for i: fold 16 lanes of M[i];  for i: for j: O[i, j] = exp(A[i, j] - M[i]) / S[i]
-->
parallel group: for i in group: vectors along the row;  fold lanes of all rows of the group;  for i in group: ...

A row by itself waits for its folds, one dependent instruction after the other, and its division or logarithm fills one lane of a vector.
"""

from __future__ import annotations

from math import prod

from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.cpu.injective import vector_width
from tilewright.scheduling.cpu.prefetch import mark_next_row
from tilewright.scheduling.cpu.sharing import parallelize
from tilewright.target import Target
from tilewright.tir.schedule import BlockRV, LoopRV

MOST_VECTORS = 16
"""The longest rows, in vectors, that are computed in groups: in longer ones there is enough to do while a fold is waited for."""

LEAST_ROWS = 4
"""The smallest group."""


def rows_of_group(view: KernelView, blocks: list[BlockView], row_axes: int, target: Target) -> int:
    """How many rows are computed at a time; 1: each by itself."""
    lanes, last = target.cpu.lanes(32), blocks[-1]
    if lanes < 8 or row_axes != 1 or len(blocks) < 2 or last.reduction:
        return 1
    rows = last.extents[0]
    if not all([is_row_by_row(b, rows, lanes) for b in blocks]):
        return 1
    length = max([e for b in blocks for e in b.extents[1:]])
    held = 1 + sum([len(b.spatial) == 2 for b in blocks])
    choices = [g for g in divisors(rows, lanes) if g >= LEAST_ROWS and 2 * g <= rows]
    # The data's rows of a group, and what is computed of them, stay in the first cache.
    fits = [g for g in choices if g * length * held * 4 <= target.cpu.l1_bytes // 2]
    model = fits[-1] if fits and length <= MOST_VECTORS * lanes else 1
    return view.plan.choose(f"{last.name}.group", model, lambda: [1, *choices])


def is_row_by_row(block: BlockView, rows: int, lanes: int) -> bool:
    """Whether a block computes rows of 32-bit elements, or numbers of rows from at least one vector of each, in static sizes."""
    if block.is_opaque or len(block.block.writes) != 1 or block.block.writes[0].buffer.dtype.bits != 32:
        return False
    if not block.extents or block.extents[0] != rows or len(block.extents) > 2 or max(block.extents) >= 1 << 20:
        return False
    # Rows along the last axis are whole vectors: beyond their end, their reduction goes on over neutral elements.
    return not block.reduction or (
        len(block.spatial) == 1 and len(block.extents) == 2 and block.extents[1] % lanes == 0
    )


def schedule_row_groups(view: KernelView, rows: int, target: Target) -> None:
    """Schedule all blocks of a kernel in groups of so many rows."""
    sch, lanes = view.sch, target.cpu.lanes(32)
    work = max([b.iterations for b in view.blocks()])
    for block in [b for b in view.blocks() if b.reduction]:
        fold_by_halves(view, block, lanes)
    blocks = view.blocks()
    group, _ = sch.split(view.loops(blocks[-1])[0], [None, rows])
    along = [is_along_row(block, lanes) for block in blocks]
    for block in reversed(blocks[:-1]):
        # Refused where a row needs other rows of the block: it stays a stage of its own.
        with sch.tried(f"{block.name} in groups of rows with {blocks[-1].name}"):
            sch.compute_at(block.rv, group)
    parallelize(view, blocks[-1].name, [group], work, target)
    for n, (block, alone) in enumerate(zip(blocks, along, strict=True)):
        if not alone:
            over_rows(view, block.rv, lanes)
            continue
        vectors = along_row(view, block.rv, lanes)
        if block.is_injective and sch.get(group) in [sch.get(loop) for loop in view.loops(block)]:
            mark_next_row(view, group, vectors, BlockView(sch, block.rv), blocks[:n])


def fold_by_halves(view: KernelView, block: BlockView, lanes: int) -> None:
    """Reduce a row to one vector, and that by halves to one number."""
    sch, width = view.sch, lanes
    while width > 1:
        # Whole vectors, so that no predicate is left.
        _, inner = sch.split(view.loops(block)[-1], [None, width], disable_predication=True)
        sch.set_scope(sch.rfactor(inner, 1), 0, "local")
        width //= 2


def is_along_row(block: BlockView, lanes: int) -> bool:
    """Whether vectors run along each row, not over what is left of all: all but numbers of rows and halves of vectors."""
    return len(block.spatial) == 2 and (block.is_injective or block.extents[0] == lanes)


def along_row(view: KernelView, rv: BlockRV, lanes: int) -> LoopRV:
    """Vectors along each row of a group: all of an element-wise block, or the one that a reduction fills. Returns the loop around them."""
    sch, block = view.sch, BlockView(view.sch, rv)
    by_axis = view.loops_of_axes(block)
    if block.is_injective:
        vectors, vector = sch.split(by_axis[block.spatial[-1]], [None, lanes])
        sch.vectorize(vector)
        return vectors
    lane, row = (by_axis[axis] for axis in block.spatial)
    steps = [by_axis[axis] for axis in block.reduction if axis in by_axis]
    sch.reorder(row, *steps, lane)
    parts = [rv]
    if steps:
        parts.append(sch.decompose_reduction(rv, steps[0]))
        sch.unroll(steps[0])
    for part in parts:
        sch.vectorize(sch.get_loops(part)[-1])
    return row


def over_rows(view: KernelView, rv: BlockRV, lanes: int) -> None:
    """Vectors over the rows of a group: halves of vectors are reduced, and numbers of rows computed."""
    sch, block = view.sch, BlockView(view.sch, rv)
    by_axis = view.loops_of_axes(block)
    steps = [by_axis[axis] for axis in block.reduction if axis in by_axis]
    # Factoring puts the axis of the lanes first.
    spatial = [by_axis[axis] for axis in reversed(block.spatial)]
    sch.reorder(*steps, *spatial)
    parts = [rv]
    if steps:
        parts.append(sch.decompose_reduction(rv, steps[0]))
        sch.unroll(steps[0])
    for part in parts:
        own = sch.get_loops(part)[-len(spatial) :]
        count = prod(view.extents(own))
        # Whole vectors, so that none begins within a row; numbers of rows fill one.
        several, vector = sch.split(sch.fuse(*own), [None, count if count <= lanes else vector_width(count, lanes)])
        sch.unroll(several)
        sch.vectorize(vector)
