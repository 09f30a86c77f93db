"""Products without matrix units: each thread computes a tile in its registers from tiles in shared memory.

for b, m0, n0 over blocks (rasterised):
  for threads y along m, x along n:
    for k0:
      A_shared[k, m] = A[tile]; B_shared[k, n] = B[tile]
      for k1:
        A_local = A_shared; B_local = B_shared       vectors of four
        C_local += A_local * B_local                 an outer product
    C = epilogue(C_local)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.scheduling.gpu.grids import bind_grid, pipelined, rasterized
from tilewright.scheduling.gpu.matrix_form import Product, as_product, inline_into, padded, runs_along
from tilewright.scheduling.gpu.tiled_copies import Threads, copy_by_threads, vector_of
from tilewright.tir.schedule import BlockRV, Schedule

SIDE = 16
"""Threads of a block along m, and along n."""


class RegisterTile(NamedTuple):
    """The part of a product that a thread computes, m x n, the step k, and how many steps are in shared memory."""

    m: int
    n: int
    k: int
    stages: int


def register_tiles(fetches: bool) -> list[RegisterTile]:
    """The tiles to choose from, the largest first. fetches: whether the GPU copies to shared memory asynchronously."""
    stages = (3, 2, 1) if fetches else (1,)
    return [
        RegisterTile(m, n, k, s)
        for m, n, k in ((8, 8, 8), (8, 8, 16), (8, 4, 16), (4, 8, 16), (4, 4, 16))
        for s in stages
    ]


def schedule_in_registers(sch: Schedule, block: BlockRV, product: Product, tile: RegisterTile, strip: int = 1) -> None:
    """Schedules a product, with what reads its result element by element. strip: the width of strips of blocks, as `rasterize` takes it."""
    made: Any = sch.get(block)
    along_k = [runs_along(made, place, product.k) for place in product.places]
    staged = as_product(sch, block, product, trans_a=True, with_epilogue=True)
    for copy in staged.operands:
        inline_into(sch, copy)
    rows, columns = SIDE * tile.m, SIDE * tile.n
    staged = padded(sch, block, staged, (rows, columns, tile.k))
    out = sch.cache_write(block, 0, "local")
    *batch, m, n, k = sch.get_loops(block)
    (m0, y, m1), (n0, x, n1) = sch.split(m, [None, SIDE, tile.m]), sch.split(n, [None, SIDE, tile.n])
    k0, k1 = sch.split(k, [None, tile.k])
    sch.reorder(*batch, m0, n0, y, x, k0, k1, m1, n1)
    bind_grid(sch, batch, m0, n0)
    for loop, axis in ((y, "threadIdx.y"), (x, "threadIdx.x")):
        sch.bind(loop, axis)
    sch.reverse_compute_at(out, x)
    stages = []
    for place, copy in zip(product.places, staged.operands, strict=True):
        shared, registers = (
            sch.cache_read(block, place, "shared", [block]),
            sch.cache_read(block, place, "local", [block]),
        )
        sch.compute_at(registers, k1)
        sch.compute_at(shared, k0)
        sch.compute_inline(copy)
        stages.append((shared, registers))
    for (shared, registers), swapped, length in zip(stages, along_k, (rows, columns), strict=True):
        _copied(sch, shared, swapped, length, length * tile.k // (SIDE * SIDE))
        sch.vectorize(_of_four(sch, registers))
    _spread(sch, stages[1][0], columns, tile.n)
    for loop in (k1, m1, n1):
        sch.unroll(loop)
    sch.decompose_reduction(block, k0)
    sch.vectorize(_of_four(sch, out))
    sch.reverse_compute_inline(staged.result)
    rasterized(sch, m0, n0, strip)
    if tile.stages > 1:
        pipelined(sch, k0, tile.stages, (True, True, False))


def _copied(sch: Schedule, shared: BlockRV, swapped: bool, length: int, most: int) -> None:
    """The copy of a tile (k, side) to shared memory, in the order of its source: swapped, if that runs along k. most: elements of a
    thread."""
    made: Any = sch.get(shared)
    vector = 1 if swapped else min(vector_of(made, made.writes[0].buffer.dtype.bytes, length), most)
    if swapped:
        *_, k, side = sch.get_loops(shared)
        sch.reorder(side, k)
        # Neighbouring threads write a column: rows begin in different banks.
        sch.storage_align(shared, 0, -2, 32, 4)
    copy_by_threads(sch, shared, 2, Threads(1, SIDE, SIDE), vector)


def _of_four(sch: Schedule, block: BlockRV) -> Any:
    """The innermost loop of a block, of at most four iterations, which are a vector."""
    inner = sch.get_loops(block)[-1]
    extent = sch.get(inner).extent.value
    outer, four = sch.split(inner, [None, min(4, extent)])
    sch.unroll(outer)
    return four


def _spread(sch: Schedule, shared: BlockRV, columns: int, of_thread: int) -> None:
    """The second operand's columns of a thread in groups of four, so that the same group of all threads is one run of memory."""
    if of_thread <= 4:
        return

    def layout(*at: Any) -> list[Any]:
        *lead, j = at
        inside = j % columns
        return [*lead, j // columns, inside % of_thread // 4, inside // of_thread * 4 + inside % 4]

    sch.transform_layout(shared, ("write", 0), layout)


__all__ = ["SIDE", "RegisterTile", "register_tiles", "schedule_in_registers"]
