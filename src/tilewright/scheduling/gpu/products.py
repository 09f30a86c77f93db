"""The rule for products and what becomes one: dense, batched and convolutions, by matrix units where their types have some.

name.tile     [m, n, k, warp_m, warp_n, stages] of a block
name.strip    width of the strips in which blocks run over the plane of results: of columns, or of rows if negative
name.parts    parts of the sum that are computed apart, where a product has few blocks
"""

from __future__ import annotations

from math import prod

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.gpu.matrix_form import Product, product_of, runs_along
from tilewright.scheduling.gpu.matrix_units import schedule_product
from tilewright.scheduling.gpu.product_tiles import ProductTile, best_tile, parts_of, tiles_of
from tilewright.target import Target
from tilewright.tir import Block
from tilewright.tir.schedule import BlockRV, Schedule
from tilewright.tir.tensor_intrin import mma, mma_layouts

L2_STRIPS = (1, 2, 4, 8, -2, -4, -8)
"""Widths of strips to choose from."""


def schedule_products(view: KernelView, target: Target) -> bool:
    """Schedules the products of a kernel that matrix units can compute. Whether there were any."""
    found = [b for b in view.blocks() if has_matrix_unit(b.block, target)]
    for block in found:
        _schedule(view, block, target)
    return bool(found)


def has_matrix_unit(block: Block, target: Target) -> bool:
    """Whether a block is a product of constant sizes whose types mma has on a target."""
    if target.kind.name != "cuda" or not target.gpu.has_ldmatrix:
        return False
    product = product_of(block)
    if product is None or not all([iv.dom is not None and isinstance(iv.dom.extent, IntImm) for iv in block.iter_vars]):
        return False
    dtypes = {str(block.reads[i].buffer.dtype) for i in product.places}
    sums = str(block.writes[0].buffer.dtype)
    dtype = dtypes.pop()
    if dtypes or dtype not in mma.KINDS or dtype == "float32" or sums not in mma.SUMS_OF.get(dtype, ("float32",)):
        return False
    k_dim = mma_layouts.K_DIMS[block.reads[0].buffer.dtype.bits]
    return any([(16, 8, k_dim) in unit.shapes for unit in target.gpu.matrix_units(dtype, sums, "mma")])


def _schedule(view: KernelView, view_of_block: BlockView, target: Target) -> None:
    sch, plan, name, gpu = view.sch, view.plan, view_of_block.name, target.gpu
    rv, block, product = view_of_block.rv, view_of_block.block, _product(view_of_block.block)
    element = block.reads[product.places[0]].buffer.dtype.bytes
    k_dim = mma_layouts.K_DIMS[element * 8]
    sides, length = sides_of(block, product), _longest(block, product)
    model, divided = best_tile(sides, length, element, k_dim, gpu)
    choices = lambda: [tuple(t) for t in tiles_of(element, k_dim, gpu)]  # noqa: E731
    tile = ProductTile(*plan.choose(f"{name}.tile", tuple(model), choices))
    most = parts_of(length, tile)
    parts = plan.choose(f"{name}.parts", divided if divided in most else 1, lambda: most)
    rows, columns = -(-sides[1] // tile.m), -(-sides[2] // tile.n)
    if parts > 1:
        rv = _in_parts(sch, rv, product, parts)
        block = _block(sch, rv)
        product = _product(block)
    strip = plan.choose(
        f"{name}.strip",
        _strip(rows, columns),
        lambda: [s for s in L2_STRIPS if (columns if s > 0 else rows) % abs(s) == 0],
    )
    trans_a = not runs_along(block, product.places[0], product.k)
    trans_b = runs_along(block, product.places[1], product.k)
    schedule_product(sch, rv, product, tile, trans_a, trans_b, gpu.has_cp_async, strip)


def _block(sch: Schedule, rv: BlockRV) -> Block:
    found = sch.get(rv)
    assert isinstance(found, Block)
    return found


def _product(block: Block) -> Product:
    found = product_of(block)
    assert found is not None
    return found


def sides_of(block: Block, product: Product) -> tuple[int, int, int, int]:
    """The extents of the batch, of the rows, of the columns and of the sum."""
    b, m, n, k = [prod([_extent(block, i) for i in side]) for side in product[:4]]
    return b, m, n, k


def _longest(block: Block, product: Product) -> int:
    """The extent of the longest axis of the sum."""
    return max([_extent(block, i) for i in product.k])


def _extent(block: Block, axis: int) -> int:
    dom = block.iter_vars[axis].dom
    return dom.extent.value if dom is not None and isinstance(dom.extent, IntImm) else 0


def _in_parts(sch: Schedule, rv: BlockRV, product: Product, parts: int) -> BlockRV:
    """Divides the longest axis of a sum. Returns the product of the parts, a batch of them; the old block adds them."""
    block = _block(sch, rv)
    axis = max(product.k, key=lambda i: _extent(block, i))
    outer, _ = sch.split(sch.get_loops(rv)[axis], [parts, None])
    return sch.rfactor(outer, 0)


def _strip(rows: int, columns: int) -> int:
    """Strips of up to eight columns, or rows, of a plane of blocks that is larger than that in both directions."""
    if min(rows, columns) < 4:
        return 1
    for width in (8, 4, 2):
        if columns % width == 0 and columns > width:
            return width
        if rows % width == 0 and rows > width:
            return -width
    return 1


__all__ = ["has_matrix_unit", "schedule_products", "sides_of"]
