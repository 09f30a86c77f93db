"""Transposed reads: tiles go through shared memory, so that memory is read and written along its rows.

for i: for j: B[i, j] = f(A[j, i])
-->
blockIdx.x over tiles (i0, j0): {A_shared[j, i] = A[j, i] along i;  B[i, j] = f(A_shared[j, i]) along j}

Rows of the tile are one element longer, so that its columns lie in different banks.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, extent_of, uses
from tilewright.scheduling.gpu.facts import facts_of
from tilewright.scheduling.gpu.threads import known, one_loop
from tilewright.tir import BufferStore, IterVar

SIDE = 32
"""The side of a tile: the elements that a warp reads."""
LEAST = 16
"""Shorter axes are read as they are: caches hold what neighbours read."""
LINES = (4, 8, 16)
"""Numbers of warps of a block."""


class Crossing(NamedTuple):
    """A read whose rows run along another axis than those of the result: its number, and that axis."""

    read: int
    axis: int


def crossing_of(view: KernelView, block: BlockView) -> Crossing | None:
    """The transposed read of an element-wise block; None without one."""
    store = block.block.body
    loops = view.loops(block)
    if not isinstance(store, BufferStore) or len(block.block.writes) != 1 or len(loops) != len(block.spatial):
        return None
    axes = block.spatial
    if len(axes) < 2 or store.indices[-1] is not axes[-1].var or known(view, loops) is None or block.has_condition:
        return None
    if facts_of(view.plan.target).max_threads_per_block < SIDE * LINES[0]:
        return None
    found = [c for n in range(len(block.block.reads)) if (c := _crossing(block, n, axes)) is not None]
    return found[0] if found else None


def _crossing(block: BlockView, read: int, axes: list[IterVar]) -> Crossing | None:
    region = block.block.reads[read]
    indices = [r.min for r in region.region]
    if not indices or not all([isinstance(r.extent, IntImm) and r.extent.value == 1 for r in region.region]):
        return None
    variables = [a.var for a in axes]
    inner = [k for k, v in enumerate(variables) if indices[-1] is v]
    last = variables[-1]
    if not inner or inner[0] == len(axes) - 1 or last in uses(indices[-1]).vars:
        return None
    # Both axes of a tile must be indices of their own.
    if sum([last in uses(e).vars for e in indices]) != 1 or not any([e is last for e in indices]):
        return None
    if sum([variables[inner[0]] in uses(e).vars for e in indices]) != 1:
        return None
    if min(block.extents[inner[0]], block.extents[-1]) < LEAST:
        return None
    return Crossing(read, inner[0])


def schedule_crossing(view: KernelView, block: BlockView, crossing: Crossing) -> None:
    """Divide a block into tiles, and copy what each reads across into shared memory first."""
    sch = view.sch
    name = block.name
    lines = view.plan.choose(f"{name}.lines", 8, lambda: LINES)
    tile = sch.cache_read(block.rv, crossing.read, "shared", [block.rv])
    loops = view.loops(block)
    row, column = loops[crossing.axis], loops[-1]
    others = [loop for k, loop in enumerate(loops[:-1]) if k != crossing.axis]
    row, row_in = sch.split(row, [None, SIDE])
    column, column_in = sch.split(column, [None, SIDE])
    several, line = sch.split(row_in, [None, lines])
    sch.reorder(*others, row, column, line, column_in, several)
    grid = sch.fuse(*others, row, column)
    sch.bind(grid, "blockIdx.x")
    sch.bind(line, "threadIdx.y")
    sch.bind(column_in, "threadIdx.x")
    sch.unroll(several)
    sch.compute_at(tile, grid)
    copy = BlockView(sch, tile)
    inside = [loop for loop in view.loops(copy)[1:] if extent_of(sch.get(loop)) > 1]
    # All loops over threads of a kernel have the same extent; beyond a tile they are masked.
    *outer, along = inside
    several, line = sch.split(one_loop(view, copy, outer), [None, lines])
    _, along = sch.split(along, [None, SIDE])
    sch.reorder(line, along, several)
    sch.bind(line, "threadIdx.y")
    sch.bind(along, "threadIdx.x")
    sch.unroll(several)
    rank = len(copy.block.writes[0].buffer.shape)
    if rank > 1:
        sch.storage_align(tile, 0, rank - 2, SIDE, 1)


__all__ = ["Crossing", "crossing_of", "schedule_crossing"]
