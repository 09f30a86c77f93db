"""The rule for products and what becomes one: dense, batched and convolutions, by matrix units where their types have some.

name.tile     [m, n, k, warp_m, warp_n, stages] of a block
name.strip    width of the strips in which blocks run over the plane of results: of columns, or of rows if negative
name.parts    parts of the sum that are computed apart, where a product has few blocks
"""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.gpu.matrix_form import Product, product_of, runs_along
from tilewright.scheduling.gpu.matrix_units import schedule_product
from tilewright.scheduling.gpu.product_tiles import ProductTile, best_tile, parts_of, tiles_of
from tilewright.scheduling.gpu.register_tiles import SIDE, RegisterTile, register_tiles, schedule_in_registers
from tilewright.target import Target
from tilewright.tir import Block
from tilewright.tir.schedule import BlockRV, Fallback, Schedule
from tilewright.tir.tensor_intrin import mma, mma_layouts

KNOWN = ("cuda", "nvptx", "opencl", "metal")
"""Kinds of targets of whose GPUs there are facts."""
L2_STRIPS = (1, 2, 4, 8, -2, -4, -8)
"""Widths of strips to choose from."""


def schedule_products(view: KernelView, target: Target) -> bool:
    """Schedules the products of a kernel. Whether there were any."""
    found = [b for b in view.blocks() if is_product(b.block, target)]
    for block in found:
        rule = _on_matrix_unit if has_matrix_unit(block.block, target) else _in_registers

        def steps(_: Schedule, rule: Any = rule, block: BlockView = block) -> None:
            rule(view, block, target)

        if view.plan.given:
            steps(view.sch)  # a refusal is told of what is given
        elif not view.sch.attempt(steps):
            view.sch.fallbacks.append(
                Fallback(f"tiles of the product {block.name}", "a step of its schedule was refused")
            )
    return bool(found)


def is_product(block: Block, target: Target) -> bool:
    """Whether a block is a product that the rule takes."""
    return has_matrix_unit(block, target) or has_register_tiles(block, target)


def has_register_tiles(block: Block, target: Target) -> bool:
    """Whether a block is a product of constant sizes that fills tiles in the registers of threads."""
    product = product_of(block)
    if product is None or not all([_extent(block, i) for i in range(len(block.iter_vars))]):
        return False
    kinds = [block.reads[i].buffer.dtype for i in product.places] + [block.writes[0].buffer.dtype]
    _, m, n, k = sides_of(block, product)
    threads = int(target.attrs.get("max_num_threads", 256))
    return (
        min(m, n) >= SIDE and k >= SIDE and threads >= SIDE * SIDE and all([t.is_float and t.bits <= 32 for t in kinds])
    )


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


def _on_matrix_unit(view: KernelView, view_of_block: BlockView, target: Target) -> None:
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


def _in_registers(view: KernelView, view_of_block: BlockView, target: Target) -> None:
    block, name = view_of_block.block, view_of_block.name
    product = _product(block)
    fetches = target.kind.name == "cuda" and target.gpu.has_cp_async
    batch, m, n, _ = sides_of(block, product)
    many = max(target.gpu.multiprocessors, 16) if target.kind.name in KNOWN else 16
    choices = register_tiles(fetches)

    def blocks(tile: RegisterTile) -> int:
        return batch * -(-m // (SIDE * tile.m)) * -(-n // (SIDE * tile.n))

    model = next((t for t in choices if blocks(t) >= many), choices[-3 if fetches else -1])
    tile = RegisterTile(*view.plan.choose(f"{name}.tile", tuple(model), lambda: [tuple(t) for t in choices]))
    rows, columns = -(-m // (SIDE * tile.m)), -(-n // (SIDE * tile.n))
    widths = [s for s in L2_STRIPS if s > 0 and columns % s == 0]
    strip = view.plan.choose(f"{name}.strip", max(_strip(rows, columns), 1), lambda: widths)
    schedule_in_registers(view.sch, view_of_block.rv, product, tile, strip)


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


__all__ = ["has_matrix_unit", "is_product", "schedule_products", "sides_of"]
