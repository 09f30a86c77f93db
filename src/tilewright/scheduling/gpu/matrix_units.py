"""Products on matrix units: each warp multiplies tiles in its registers, while the next tiles are copied to shared memory.

for b, m0, n0 over blocks (rasterised):
  for warps along m and n:
    for k0:                                    a pipeline of `stages`
      A_shared = A[tile]; B_shared = B[tile]     cp.async, permuted against bank conflicts
      for k1:
        A_warp = A_shared; B_warp = B_shared     ldmatrix
        C_warp += A_warp * B_warp                mma
    C = epilogue(C_warp)
"""

from __future__ import annotations

from typing import Any

from tilewright.scheduling.gpu.fragments import SCOPE, SIDE, by_lanes, layout_of_sums, load_operand, tensorize_tiles
from tilewright.scheduling.gpu.grids import bind_grid, pipelined, rasterized
from tilewright.scheduling.gpu.matrix_form import Product, as_product, inline_into, padded
from tilewright.scheduling.gpu.product_tiles import ProductTile
from tilewright.scheduling.gpu.tiled_copies import PERMUTED, Threads, copy_by_threads, is_permuted, vector_of
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.tensor_intrin import mma, mma_layouts
from tilewright.tir.transform.function.launch import MIN_BLOCKS
from tilewright.tir.transform.thread.tile_iterators import ITERATORS as TILE_ITERATORS

ANALYTIC, OPTIMIZED = ITERATORS = ("analytic", "optimized")
"""Addresses and conditions of copies: computed in each step, or before all steps (OptimizeTileIterators)."""


def schedule_product(
    sch: Schedule,
    block: BlockRV,
    product: Product,
    tile: ProductTile,
    trans_a: bool,
    trans_b: bool,
    fetches: bool,
    strip: int = 1,
    iterators: str = ANALYTIC,
    instruction: str = "",
    resident: int = 1,
) -> None:
    """Schedules a product, whose types mma has, with what reads its result element by element.

    trans_a, trans_b: operands are (k, m) and (n, k) in shared memory. strip: the width of strips of blocks, as `rasterized` takes it.
    iterators: how the addresses of copies are computed, one of ITERATORS. instruction: the shape of mma; "": the largest.
    fetches: whether the GPU copies to shared memory asynchronously; otherwise a tile is copied when all have used the one before.
    resident: the blocks that shall run on a multiprocessor at once.
    """
    made: Any = sch.get(block)
    dtypes = [str(made.reads[i].buffer.dtype) for i in product.places]
    sums = str(made.writes[0].buffer.dtype)
    k_dim = mma_layouts.K_DIMS[made.reads[product.places[0]].buffer.dtype.bits]
    names = mma.get_mma_intrin_group(SCOPE, "global", dtypes[0], sums, trans_a, trans_b, instruction=instruction)
    staged = as_product(sch, block, product, trans_a, trans_b, with_epilogue=True)
    for copy in staged.operands:
        inline_into(sch, copy)
    staged = padded(sch, block, staged, (tile.m, tile.n, tile.k))
    out = sch.cache_write(block, 0, "warp")
    plane, k0, k1, warps, inner = _tiled(sch, block, tile, k_dim, by_rows=strip < 0)
    sch.reverse_compute_at(out, warps)
    threads = Threads(tile.m // tile.warp_m, tile.n // tile.warp_n, 32)
    sides = list(zip(product.places, "AB", (trans_a, trans_b), staged.operands, strict=True))
    stages = []
    for place, _, _, copy in sides:
        shared, registers = sch.cache_read(block, place, SCOPE, [block]), sch.cache_read(block, place, "warp", [block])
        sch.compute_at(registers, k1)
        sch.compute_at(shared, k0)
        sch.compute_inline(copy)
        stages.append((shared, registers))
    for (_, name, trans, _), (shared, registers) in zip(sides, stages, strict=True):
        side = tile.m if name == "A" else tile.n
        length = side if trans == (name == "A") else tile.k
        permuted = is_permuted(length, made.reads[product.places[0]].buffer.dtype.bytes)
        _to_shared(sch, shared, length, threads, permuted)
        load_operand(sch, registers, name, trans, k_dim, names, permuted)
    layout_of_sums(sch, block)
    start = sch.decompose_reduction(block, k0)
    tensorize_tiles(sch, start, names["init"])
    sch.tensorize(inner, names["compute"])
    by_lanes(sch, out, vectors=True)
    # Last: a group's padded columns would be taken for those of the next group.
    sch.reverse_compute_inline(staged.result)
    rasterized(sch, *plane, strip)
    sch.annotate(warps, MIN_BLOCKS, resident)
    if fetches and tile.stages > 1:
        pipelined(sch, k0, tile.stages, (True, True, False))
        if iterators != ANALYTIC:
            sch.annotate(k0, TILE_ITERATORS, iterators)


def _tiled(
    sch: Schedule, block: BlockRV, tile: ProductTile, k_dim: int, by_rows: bool
) -> tuple[tuple[LoopRV, LoopRV], LoopRV, LoopRV, LoopRV, LoopRV]:
    """The loops of steps of a tile, of steps of an instruction, of the warps of a block, and the outermost one of a tile of an
    instruction."""
    *batch, m, n, k = sch.get_loops(block)
    m0, mw, m1, mi = sch.split(m, [None, tile.m // tile.warp_m, tile.warp_m // SIDE, SIDE])
    n0, nw, n1, ni = sch.split(n, [None, tile.n // tile.warp_n, tile.warp_n // SIDE, SIDE])
    k0, k1, ki = sch.split(k, [None, tile.k // k_dim, k_dim])
    sch.reorder(*batch, *((n0, m0) if by_rows else (m0, n0)), mw, nw, k0, k1, m1, n1, mi, ni, ki)
    bind_grid(sch, batch, m0, n0, by_rows)
    sch.bind(mw, "threadIdx.z")
    sch.bind(nw, "threadIdx.y")
    for loop in (k1, m1, n1):
        sch.unroll(loop)
    return (m0, n0), k0, k1, nw, mi


def _to_shared(sch: Schedule, shared: BlockRV, length: int, threads: Threads, permuted: bool) -> None:
    """The copy of an operand's tile to shared memory. length: of the rows of the tile."""
    made: Any = sch.get(shared)
    copy_by_threads(sch, shared, 2, threads, vector_of(made, made.writes[0].buffer.dtype.bytes, length))
    if permuted:
        sch.annotate(shared, PERMUTED, 1)


__all__ = ["ANALYTIC", "ITERATORS", "OPTIMIZED", "schedule_product"]
