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

from tilewright.scheduling.gpu.matrix_form import Product, as_product, padded
from tilewright.scheduling.gpu.product_tiles import ProductTile
from tilewright.scheduling.gpu.tiled_copies import PERMUTED, Threads, copy_by_threads, vector_of
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.tensor_intrin import mma, mma_layouts

SCOPE = "shared.dyn"


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

    trans_a, trans_b: operands are (k, m) and (n, k) in shared memory. strip: the width of strips of blocks, as `over_blocks` takes it.
    fetches: whether the GPU copies to shared memory asynchronously; otherwise a tile is copied when all have used the one before.
    """
    made: Any = sch.get(block)
    dtypes = [str(made.reads[i].buffer.dtype) for i in product.places]
    sums = str(made.writes[0].buffer.dtype)
    k_dim = mma_layouts.K_DIMS[made.reads[product.places[0]].buffer.dtype.bits]
    names = mma.get_mma_intrin_group(SCOPE, "global", dtypes[0], sums, trans_a, trans_b)
    staged = as_product(sch, block, product, trans_a, trans_b)
    staged = padded(sch, block, staged, (tile.m, tile.n, tile.k))
    inline_epilogue(sch, staged.result)
    out = sch.cache_write(block, 0, "warp")
    k0, k1, warps, inner = _tiled(sch, block, tile, k_dim, strip)
    sch.reverse_compute_at(out, warps)
    sch.reverse_compute_inline(staged.result)
    threads = Threads(tile.m // tile.warp_m, tile.n // tile.warp_n, 32)
    copies = []
    for place, name, trans, copy in zip(product.places, "AB", (trans_a, trans_b), staged.operands, strict=True):
        copies.append(_operand(sch, block, place, name, trans, copy, tile, threads, k0, k1, k_dim, names))
    _layout_of_sums(sch, block)
    _stored(sch, out, names)
    start = sch.decompose_reduction(block, k0)
    _instruction(sch, start, names["init"])
    sch.tensorize(inner, names["compute"])
    if fetches and tile.stages > 1:
        sch.annotate(k0, "software_pipeline_stage", [0, 0, tile.stages - 1])
        sch.annotate(k0, "software_pipeline_order", [0, 1, 2])
        sch.annotate(k0, "software_pipeline_async_stages", [0])


def inline_epilogue(sch: Schedule, result: BlockRV) -> None:
    """Computes what reads a result element by element where the result is copied to its place."""
    while True:
        consumers = sch.get_consumers(result)
        if len(consumers) != 1:
            return
        with sch.tried("the consumer of a product computed where the product is stored") as step:
            sch.reverse_compute_inline(consumers[0])
        if step.refused:
            return


def _tiled(
    sch: Schedule, block: BlockRV, tile: ProductTile, k_dim: int, strip: int
) -> tuple[LoopRV, LoopRV, LoopRV, LoopRV]:
    """The loops of steps of a tile, of steps of an instruction, of the warps of a block, and the outermost one of a tile of an
    instruction."""
    *batch, m, n, k = sch.get_loops(block)
    m0, mw, m1, mi = sch.split(m, [None, tile.m // tile.warp_m, tile.warp_m // 16, 16])
    n0, nw, n1, ni = sch.split(n, [None, tile.n // tile.warp_n, tile.warp_n // 16, 16])
    k0, k1, ki = sch.split(k, [None, tile.k // k_dim, k_dim])
    sch.reorder(*batch, m0, n0, mw, nw, k0, k1, m1, n1, mi, ni, ki)
    if batch:
        sch.bind(sch.fuse(*batch) if len(batch) > 1 else batch[0], "blockIdx.z")
    over_blocks(sch, m0, n0, strip)
    sch.bind(mw, "threadIdx.z")
    sch.bind(nw, "threadIdx.y")
    for loop in (k1, m1, n1):
        sch.unroll(loop)
    return k0, k1, nw, mi


def over_blocks(sch: Schedule, m0: LoopRV, n0: LoopRV, strip: int) -> None:
    """Blocks of a plane, in strips of columns; of rows, if the strip is negative."""
    outer, inner = (m0, n0) if strip > 0 else (n0, m0)
    if strip < 0:
        sch.reorder(n0, m0)
    if abs(strip) > 1:
        outer, inner = sch.rasterize(outer, inner, abs(strip))
    sch.bind(outer, "blockIdx.y")
    sch.bind(inner, "blockIdx.x")


def _operand(
    sch: Schedule, block: BlockRV, place: int, name: str, trans: bool, copy: BlockRV, tile: ProductTile, threads: Threads,
    k0: LoopRV, k1: LoopRV, k_dim: int, names: dict[str, str],
) -> BlockRV:  # fmt: skip
    """Stages an operand in shared memory and in registers. Returns the block that copies it to shared memory."""
    shared = sch.cache_read(block, place, SCOPE, [block])
    registers = sch.cache_read(block, place, "warp", [block])
    sch.compute_at(registers, k1)
    sch.compute_at(shared, k0)
    sch.compute_inline(copy)
    side = tile.m if name == "A" else tile.n
    length = side if trans == (name == "A") else tile.k
    made: Any = sch.get(shared)
    size = made.writes[0].buffer.dtype.bytes
    copy_by_threads(sch, shared, 2, threads, vector_of(made, size, length))
    sch.annotate(shared, PERMUTED, 1)
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
    sch.annotate(loaded, PERMUTED, 1)
    sch.tensorize(loaded, names[f"load_{name.lower()}"])
    return shared


def _layout_of_sums(sch: Schedule, block: BlockRV) -> None:
    def layout(*at: Any) -> list[Any]:
        *batch, i, j = at
        return [*batch, i // 16, j // 16, *mma_layouts.shared_16x16_to_ldmatrix_32x8_layout(i % 16, j % 16)]

    sch.transform_layout(block, ("write", 0), layout)


def _stored(sch: Schedule, out: BlockRV, names: dict[str, str]) -> None:
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
