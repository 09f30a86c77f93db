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

from tilewright.scheduling.gpu.matrix_form import Product, as_product, inline_into, padded
from tilewright.scheduling.gpu.product_tiles import ProductTile
from tilewright.scheduling.gpu.tiled_copies import PERMUTED, Threads, copy_by_threads, vector_of
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.tensor_intrin import mma, mma_layouts

SCOPE = "shared.dyn"
ROW_BYTES = 64
"""Rows of tiles of a multiple of so many bytes can be permuted."""


def schedule_product(
    sch: Schedule,
    block: BlockRV,
    product: Product,
    tile: ProductTile,
    trans_a: bool,
    trans_b: bool,
    fetches: bool,
    strip: int = 1,
) -> None:
    """Schedules a product, whose types mma has, with what reads its result element by element.

    trans_a, trans_b: operands are (k, m) and (n, k) in shared memory. strip: the width of strips of blocks, as `rasterized` takes it.
    fetches: whether the GPU copies to shared memory asynchronously; otherwise a tile is copied when all have used the one before.
    """
    made: Any = sch.get(block)
    dtypes = [str(made.reads[i].buffer.dtype) for i in product.places]
    sums = str(made.writes[0].buffer.dtype)
    k_dim = mma_layouts.K_DIMS[made.reads[product.places[0]].buffer.dtype.bits]
    names = mma.get_mma_intrin_group(SCOPE, "global", dtypes[0], sums, trans_a, trans_b)
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
        # Chunks of shorter rows cannot change places.
        permuted = length * made.reads[product.places[0]].buffer.dtype.bytes % ROW_BYTES == 0
        _to_shared(sch, shared, length, threads, permuted)
        _to_registers(sch, registers, name, trans, k_dim, names, permuted)
    _layout_of_sums(sch, block)
    start = sch.decompose_reduction(block, k0)
    _instruction(sch, start, names["init"])
    sch.tensorize(inner, names["compute"])
    _stored(sch, out)
    # Last: a group's padded columns would be taken for those of the next group.
    sch.reverse_compute_inline(staged.result)
    rasterized(sch, *plane, strip)
    if fetches and tile.stages > 1:
        sch.annotate(k0, "software_pipeline_stage", [0, 0, tile.stages - 1])
        sch.annotate(k0, "software_pipeline_order", [0, 1, 2])
        sch.annotate(k0, "software_pipeline_async_stages", [0])


def _tiled(
    sch: Schedule, block: BlockRV, tile: ProductTile, k_dim: int, by_rows: bool
) -> tuple[tuple[LoopRV, LoopRV], LoopRV, LoopRV, LoopRV, LoopRV]:
    """The loops of steps of a tile, of steps of an instruction, of the warps of a block, and the outermost one of a tile of an
    instruction."""
    *batch, m, n, k = sch.get_loops(block)
    m0, mw, m1, mi = sch.split(m, [None, tile.m // tile.warp_m, tile.warp_m // 16, 16])
    n0, nw, n1, ni = sch.split(n, [None, tile.n // tile.warp_n, tile.warp_n // 16, 16])
    k0, k1, ki = sch.split(k, [None, tile.k // k_dim, k_dim])
    sch.reorder(*batch, *((n0, m0) if by_rows else (m0, n0)), mw, nw, k0, k1, m1, n1, mi, ni, ki)
    if batch:
        sch.bind(sch.fuse(*batch) if len(batch) > 1 else batch[0], "blockIdx.z")
    sch.bind(m0, "blockIdx.x" if by_rows else "blockIdx.y")
    sch.bind(n0, "blockIdx.y" if by_rows else "blockIdx.x")
    sch.bind(mw, "threadIdx.z")
    sch.bind(nw, "threadIdx.y")
    for loop in (k1, m1, n1):
        sch.unroll(loop)
    return (m0, n0), k0, k1, nw, mi


def rasterized(sch: Schedule, m0: LoopRV, n0: LoopRV, strip: int) -> None:
    """Blocks of a plane, in strips of columns; of rows, if the strip is negative."""
    outer, inner = (m0, n0) if strip > 0 else (n0, m0)
    if abs(strip) > 1:
        sch.rasterize(outer, inner, abs(strip))


def _to_shared(sch: Schedule, shared: BlockRV, length: int, threads: Threads, permuted: bool) -> None:
    """The copy of an operand's tile to shared memory. length: of the rows of the tile."""
    made: Any = sch.get(shared)
    copy_by_threads(sch, shared, 2, threads, vector_of(made, made.writes[0].buffer.dtype.bytes, length))
    if permuted:
        sch.annotate(shared, PERMUTED, 1)


def _to_registers(
    sch: Schedule, registers: BlockRV, name: str, trans: bool, k_dim: int, names: dict[str, str], permuted: bool
) -> None:
    """The load of an operand's tiles from shared memory to registers."""
    rows, columns = mma_layouts.operand_shape(k_dim, name, trans)
    of_lane = mma_layouts.operand_layout(k_dim, name, trans)

    def layout(*at: Any) -> list[Any]:
        *batch, i, j = at
        return [*batch, i // rows, j // columns, *of_lane(i % rows, j % columns)]

    sch.transform_layout(registers, ("write", 0), layout)
    *_, i, j = sch.get_loops(registers)
    (i0, i1), (j0, j1) = sch.split(i, [None, rows]), sch.split(j, [None, columns])
    sch.reorder(i0, j0, i1, j1)
    for loop in (i0, j0):
        sch.unroll(loop)
    loaded = sch.blockize(i1)
    if permuted:
        sch.annotate(loaded, PERMUTED, 1)
    sch.tensorize(loaded, names[f"load_{name.lower()}"])


def _layout_of_sums(sch: Schedule, block: BlockRV) -> None:
    def layout(*at: Any) -> list[Any]:
        *batch, i, j = at
        return [*batch, i // 16, j // 16, *mma_layouts.shared_16x16_to_ldmatrix_32x8_layout(i % 16, j % 16)]

    sch.transform_layout(block, ("write", 0), layout)


def _stored(sch: Schedule, out: BlockRV) -> None:
    """The lanes of a warp store their sums, pairs of neighbours each."""
    *_, i, j = sch.get_loops(out)
    i0, i1, row = sch.split(i, [None, 2, 8])
    j0, j1, column, pair = sch.split(j, [None, 2, 4, 2])
    sch.reorder(i0, j0, i1, j1, row, column, pair)
    sch.bind(sch.fuse(row, column), "threadIdx.x")
    sch.vectorize(pair)
    for loop in (i0, j0, i1, j1):
        sch.unroll(loop)


def _instruction(sch: Schedule, block: BlockRV, name: str) -> None:
    """The last two loops of a block by an intrinsic on tiles of 16 x 16."""
    *_, i, j = sch.get_loops(block)
    for loop in sch.get_loops(block)[-4:-2]:
        sch.unroll(loop)
    sch.tensorize(i, name)
