"""Products of warpgroups (sm_90a): one warp copies tiles to shared memory by tensor maps, warpgroups multiply them there.

for b, m0, n0 over blocks (rasterised):
  for warpgroups along m, and their four warps:
    for k0:                                    a ring of `stages`; InjectWarpSpecialization divides the threads
      A_shared = A[tile]; B_shared = B[tile]     one box of a tensor map each, swizzled
      for k1:
        C_warp += A_shared * B_shared            wgmma m64nNk: N columns, the whole width of the tile
    C = epilogue(C_warp)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr
from tilewright.scheduling.gpu.facts import takes_factors, unit_type
from tilewright.scheduling.gpu.fragments import SCOPE, by_lanes, layout_of_sums
from tilewright.scheduling.gpu.grids import bind_grid, rasterized
from tilewright.scheduling.gpu.matrix_form import Product, as_product, extent_of_axis, padded
from tilewright.scheduling.gpu.product_tiles import BLOCK_CYCLES, L2_BYTES
from tilewright.target import Target
from tilewright.target.gpu import GpuFacts
from tilewright.tir import Block, Var
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.stmt_functor import substitute, used_vars
from tilewright.tir.tensor_intrin.wgmma import Operand, wgmma_intrin_name
from tilewright.tir.transform.thread.boxes import SWIZZLE
from tilewright.tir.transform.thread.warp_specialization import SPECIALIZED
from tilewright.tir.warpgroups import PRODUCTS

GROUP_ROWS, WARP_ROWS = 64, 16
"""Rows of a warpgroup's product, and of a warp's part of it."""


class WarpgroupTile(NamedTuple):
    """The part of a product that a block computes in a step, m x n x k, how many steps are in shared memory, and in which swizzle
    (bytes)."""

    m: int
    n: int
    k: int
    stages: int
    swizzle: int = 128

    def shared_bytes(self, element: int) -> int:
        """Bytes of shared memory with operands of so many bytes an element."""
        return (self.m + self.n) * self.k * element * self.stages


SIDES = ((128, 256), (192, 128), (128, 128), (64, 256), (128, 64), (64, 128), (64, 64))
"""Tiles of blocks, m x n, with one warpgroup for each 64 rows."""
STEP_BYTES = 128
"""Bytes of a row of k: that of the widest swizzle."""
STAGES = (6, 5, 4, 3, 2)
BARRIER_BYTES = 1024
"""Room for barriers, and for the alignment of tiles."""
STEP_CYCLES = 40
"""Cycles of a step outside of its products: a warpgroup waits for its barrier and issues."""


def warpgroup_tiles(element: int, gpu: GpuFacts, swizzles: tuple[int, ...] = (128,)) -> list[WarpgroupTile]:
    """The tiles that a GPU has shared memory for, those of the most stages first. element: bytes of an element."""
    tiles = [
        WarpgroupTile(m, n, STEP_BYTES // element, stages, swizzle)
        for stages in STAGES
        for m, n in SIDES
        for swizzle in swizzles
    ]
    return [t for t in tiles if t.shared_bytes(element) + BARRIER_BYTES <= gpu.shared_memory_per_block_optin]


def cost_of(tile: WarpgroupTile, sides: tuple[int, int, int, int], element: int, rate: int, gpu: GpuFacts) -> float:
    """About how many cycles a product takes, as `product_tiles.cost_of`. One block runs on a multiprocessor at a time. rate:
    multiply-adds of a multiprocessor in a cycle."""
    batch, m, n, k = sides
    blocks, steps = batch * -(-m // tile.m) * -(-n // tile.n), -(-k // tile.k)
    many = max(gpu.multiprocessors, 1)
    # Both operands are read from shared memory, 128 bytes in a cycle: narrow tiles wait for it.
    read = tile.m // GROUP_ROWS * (GROUP_ROWS + tile.n) * tile.k * element / 128
    step = max(tile.m * tile.n * tile.k / rate, read, (tile.m + tile.n) * tile.k * element / L2_BYTES) + STEP_CYCLES
    return -(-blocks // many) * (steps * step + BLOCK_CYCLES)


def best_warpgroup_tile(
    sides: tuple[int, int, int, int], element: int, rate: int, gpu: GpuFacts
) -> WarpgroupTile | None:
    """The tile of the lowest cost; None where a block has too little shared memory for all of them."""
    tiles = warpgroup_tiles(element, gpu)
    return min(tiles, key=lambda t: cost_of(t, sides, element, rate, gpu), default=None)


def suits_warpgroups(sch: Schedule, rv: BlockRV, product: Product, target: Target) -> bool:
    """Whether a product can be computed by warpgroups: its types, and operands that are boxes of tensors in global memory."""
    block: Any = sch.get(rv)
    gpu = target.gpu
    dtypes = [str(block.reads[i].buffer.dtype) for i in product.places]
    found = PRODUCTS.get(dtypes[0])
    sums = str(block.writes[0].buffer.dtype)
    if dtypes[0] != dtypes[1] or found is None or sums not in found.sums or not takes_factors(target, dtypes[0]):
        return False
    shapes = {shape for unit in gpu.matrix_units(unit_type(dtypes[0]), sums, "wgmma") for shape in unit.shapes}
    if (GROUP_ROWS, 64, found.k) not in shapes or not gpu.has_tma or sch.get_producers(rv):
        return False
    long = [[i for i in side if extent_of_axis(block, i) != 1] for side in (product.m, product.n, product.k)]
    if len(long[1]) > 1 or len(long[2]) > 1 or (len(long[0]) > 1 and not _is_numbered(block, product, long[0])):
        return False
    across = _across(block, product)
    return all([_is_box(block, place) for place in product.places]) and (found.transposes or not any(across))


def _is_numbered(block: Block, product: Product, rows: list[int]) -> bool:
    """Whether the rows of a product with several axes (places of images) are the outer dimensions of the first operand, all of them."""
    buffer, region = block.reads[product.places[0]].buffer, block.reads[product.places[0]].region
    outer = [(_single(block, r.min), n) for r, n in zip(region[:-1], buffer.shape[:-1], strict=True)]
    kept = [(e, n.value if isinstance(n, IntImm) else 0) for e, n in outer if not isinstance(e, IntImm)]
    return not product.b and kept == [(block.iter_vars[i].var, extent_of_axis(block, i)) for i in rows]


def _single(block: Block, index: PrimExpr) -> PrimExpr:
    """An index without the variables that have one value only."""
    fixed = {iv.var: IntImm(iv.var.dtype, 0) for i, iv in enumerate(block.iter_vars) if extent_of_axis(block, i) == 1}
    return Analyzer().simplify(substitute(index, fixed))


def _across(block: Block, product: Product) -> tuple[bool, bool]:
    """Of both operands, whether rows run along m or n."""
    last = [block.reads[place].region[-1].min for place in product.places]
    return tuple([not any([block.iter_vars[i].var in used_vars(e) for i in product.k]) for e in last])  # type: ignore[return-value]


def _is_box(block: Block, place: int) -> bool:
    """Whether an operand is a tensor of global memory of two to five dimensions, of which each variable is an index, with rows of a
    multiple of 16 bytes."""
    buffer, region = block.reads[place].buffer, block.reads[place].region
    indices = [_single(block, r.min) for r in region]
    variables = [i for i in indices if isinstance(i, Var)]
    constants = [i for i in indices if isinstance(i, IntImm)]
    sizes = [n.value if isinstance(n, IntImm) else 0 for n in buffer.shape]
    whole = len(variables) + len(constants) == len(indices) and len(set(variables)) == len(variables)
    if not whole or 0 in sizes or buffer.scope() != "global" or buffer.strides or not 2 <= len(sizes) <= 5:
        return False
    return isinstance(indices[-1], Var) and sizes[-1] * buffer.dtype.bytes % 16 == 0


def schedule_on_warpgroups(
    sch: Schedule, block: BlockRV, product: Product, tile: WarpgroupTile, strip: int = 1
) -> None:
    """Schedules a product that suits warpgroups, with what reads its result element by element. strip: as of `rasterized`."""
    made: Any = sch.get(block)
    dtype, sums = str(made.reads[product.places[0]].buffer.dtype), str(made.writes[0].buffer.dtype)
    operands = [Operand(across, tile.swizzle) for across in _across(made, product)]
    k_dim = PRODUCTS[dtype].k
    staged = as_product(sch, block, product, operands[0].across, not operands[1].across, with_epilogue=True)
    staged = padded(sch, block, staged, (tile.m, tile.n, tile.k))
    out = sch.cache_write(block, 0, "warp")
    plane, k0, k1, warp, inner = _tiled(sch, block, tile, k_dim, by_rows=strip < 0)
    sch.reverse_compute_at(out, warp)
    for place, operand, copy in zip(product.places, operands, staged.operands, strict=True):
        shared = sch.cache_read(block, place, SCOPE, [block])
        sch.compute_at(shared, k0)
        sch.compute_inline(copy)
        box_to_shared(sch, shared, operand, dtype)
    layout_of_sums(sch, block, tile.n)
    by_lanes(sch, sch.decompose_reduction(block, k0))
    sch.unroll(k1)
    sch.tensorize(inner, wgmma_intrin_name(dtype, sums, tile.n, operands[0], operands[1]))
    by_lanes(sch, out, vectors=True)
    # Last: a group's padded columns would be taken for those of the next group.
    sch.reverse_compute_inline(staged.result)
    rasterized(sch, *plane, strip)
    sch.annotate(k0, SPECIALIZED, tile.stages)


def _tiled(
    sch: Schedule, block: BlockRV, tile: WarpgroupTile, k_dim: int, by_rows: bool
) -> tuple[tuple[LoopRV, LoopRV], LoopRV, LoopRV, LoopRV, LoopRV]:
    """The loops of blocks, of steps of a tile, of steps of an instruction, of the warps of a warpgroup, and the outermost one of a
    product."""
    *batch, m, n, k = sch.get_loops(block)
    m0, groups, warps, mi = sch.split(m, [None, tile.m // GROUP_ROWS, GROUP_ROWS // WARP_ROWS, WARP_ROWS])
    n0, ni = sch.split(n, [None, tile.n])
    k0, k1, ki = sch.split(k, [None, tile.k // k_dim, k_dim])
    sch.reorder(*batch, *((n0, m0) if by_rows else (m0, n0)), groups, warps, k0, k1, mi, ni, ki)
    bind_grid(sch, batch, m0, n0, by_rows)
    sch.bind(groups, "threadIdx.z")
    sch.bind(warps, "threadIdx.y")
    return (m0, n0), k0, k1, warps, mi


def box_to_shared(sch: Schedule, shared: BlockRV, operand: Operand, dtype: str) -> None:
    """The copy of an operand's tile: rows of a swizzle, one block of rows after the other."""
    row = operand.row(dtype)

    def layout(*at: Any) -> list[Any]:
        *batch, i, j = at
        return [*batch, j // row, i, j % row]

    sch.transform_layout(shared, ("write", 0), layout)
    *_, i, j = sch.get_loops(shared)
    outer, inner = sch.split(j, [None, row])
    sch.reorder(outer, i, inner)
    sch.annotate(shared, SWIZZLE, operand.swizzle)


__all__ = [
    "GROUP_ROWS", "WARP_ROWS", "WarpgroupTile", "best_warpgroup_tile", "box_to_shared", "cost_of", "schedule_on_warpgroups",
    "suits_warpgroups", "warpgroup_tiles",
]  # fmt: skip
