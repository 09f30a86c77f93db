"""The rule for products and what becomes one: dense, batched and convolutions, by matrix units where their types have some.

name.warpgroups  [m, n, k, stages, swizzle] of a block whose warpgroups multiply (sm_90a); [] where warps do
name.tile     [m, n, k, warp_m, warp_n, stages] of a block
name.strip    width of the strips in which blocks run over the plane of results: of columns, or of rows if negative
name.iterators  "analytic" or "optimized": whether each step computes addresses and conditions of its copies
name.parts    parts of the sum that are computed apart, where a product has few blocks
"""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.scheduling.gpu.facts import facts_of, mma_shape, unit_type
from tilewright.scheduling.gpu.matrix_form import Product, extent_of_axis, product_of, runs_along
from tilewright.scheduling.gpu.matrix_units import ANALYTIC, ITERATORS, OPTIMIZED, schedule_product
from tilewright.scheduling.gpu.product_tiles import ProductTile, best_tile, cost_of, parts_of, resident_blocks, tiles_of
from tilewright.scheduling.gpu.register_tiles import SIDE, RegisterTile, register_tiles, schedule_in_registers
from tilewright.scheduling.gpu.warpgroups import (
    GROUP_ROWS,
    WarpgroupTile,
    best_warpgroup_tile,
    schedule_on_warpgroups,
    suits_warpgroups,
    warpgroup_tiles,
)
from tilewright.scheduling.gpu.warpgroups import cost_of as cost_of_warpgroups
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.tir import Block
from tilewright.tir.schedule import BlockRV, Fallback, Schedule
from tilewright.tir.tensor_intrin import mma_layouts
from tilewright.tir.warpgroups import SWIZZLES

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
    if product is None or not all([extent_of_axis(block, i) for i in range(len(block.iter_vars))]):
        return False
    kinds = [block.reads[i].buffer.dtype for i in product.places] + [block.writes[0].buffer.dtype]
    _, m, n, k = sides_of(block, product)
    enough = min(m, n, k) >= SIDE and facts_of(target).max_threads_per_block >= SIDE * SIDE
    return enough and all([t.is_float and t.bits <= 32 for t in kinds])


def has_matrix_unit(block: Block, target: Target) -> bool:
    """Whether a block is a product of constant sizes whose types mma has on a target."""
    product = product_of(block) if target.kind.name == "cuda" else None
    if product is None or not all([iv.dom is not None and isinstance(iv.dom.extent, IntImm) for iv in block.iter_vars]):
        return False
    return bool(_instruction(block, product, target)) and any(tiles_of(*_element(block, product), target.gpu))


def _instruction(block: Block, product: Product, target: Target) -> str:
    """The shape of the instructions mma of a product; "" where there are none for its types."""
    dtypes = {str(block.reads[i].buffer.dtype) for i in product.places}
    return mma_shape(target, dtypes.pop(), str(block.writes[0].buffer.dtype)) if len(dtypes) == 1 else ""


def _element(block: Block, product: Product) -> tuple[int, int]:
    """Bytes of an element of the operands, and the elements along k that matrix units multiply at once."""
    dtype = block.reads[product.places[0]].buffer.dtype
    return dtype.bytes, mma_layouts.K_DIMS[dtype.bits]


def _on_warpgroups(view: KernelView, view_of_block: BlockView, target: Target) -> bool:
    """Schedules a product on warpgroups, if that is decided. Whether it was."""
    plan, name, gpu = view.plan, view_of_block.name, target.gpu
    rv, block, product = view_of_block.rv, view_of_block.block, _product(view_of_block.block)
    if not suits_warpgroups(view.sch, rv, product, target):
        return False
    dtype, sums = str(block.reads[product.places[0]].buffer.dtype), str(block.writes[0].buffer.dtype)
    element, k_dim = _element(block, product)
    sides, length = sides_of(block, product), _longest(block, product)
    rate = gpu.matrix_units(unit_type(dtype), sums, "wgmma")[0].multiply_adds
    best = best_warpgroup_tile(sides, element, rate, gpu)
    model: tuple[int, ...] = ()
    if best is not None and min(sides[1:3]) >= GROUP_ROWS and f"{name}.tile" not in plan.given:
        of_warps, parts = best_tile(sides, length, element, k_dim, gpu)
        if cost_of_warpgroups(best, sides, element, rate, gpu) < cost_of(of_warps, sides, parts, element, k_dim, gpu):
            model = tuple(best)
    choices = lambda: [(), *[tuple(t) for t in warpgroup_tiles(element, gpu, tuple(reversed(SWIZZLES)))]]  # noqa: E731
    given = plan.choose(f"{name}.warpgroups", model, choices)
    if not given:
        return False
    tile = WarpgroupTile(*given)
    rows, columns = -(-sides[1] // tile.m), -(-sides[2] // tile.n)
    schedule_on_warpgroups(view.sch, rv, product, tile, _chosen_strip(plan, name, rows, columns))
    return True


def _chosen_strip(plan: KernelPlan, name: str, rows: int, columns: int) -> int:
    """The width of strips of a plane of blocks."""

    def choices() -> list[int]:
        return [s for s in L2_STRIPS if (columns if s > 0 else rows) % abs(s) == 0]

    return plan.choose(f"{name}.strip", _strip(rows, columns), choices)


def _on_matrix_unit(view: KernelView, view_of_block: BlockView, target: Target) -> None:
    if _on_warpgroups(view, view_of_block, target):
        return
    sch, plan, name, gpu = view.sch, view.plan, view_of_block.name, target.gpu
    rv, block, product = view_of_block.rv, view_of_block.block, _product(view_of_block.block)
    instruction = _instruction(block, product, target)
    element, k_dim = _element(block, product)
    sides, length = sides_of(block, product), _longest(block, product)
    trans_a = not runs_along(block, product.places[0], product.k)
    trans_b = runs_along(block, product.places[1], product.k)
    gathered = element == 1 and (trans_a or not trans_b)
    model, divided = best_tile(sides, length, element, k_dim, gpu, gathered)
    choices = lambda: [tuple(t) for t in tiles_of(element, k_dim, gpu, gathered)]  # noqa: E731
    tile = ProductTile(*plan.choose(f"{name}.tile", tuple(model), choices))
    most = parts_of(length, tile)
    parts = plan.choose(f"{name}.parts", divided if divided in most else 1, lambda: most)
    rows, columns = -(-sides[1] // tile.m), -(-sides[2] // tile.n)
    if parts > 1:
        rv = _in_parts(sch, rv, product, parts)
        block = _block(sch, rv)
        product = _product(block)
    strip = _chosen_strip(plan, name, rows, columns)
    iterators = ANALYTIC
    if gpu.has_cp_async:
        # Where a step is a position of a filter, conditions differ from step to step; compilers move addresses of matrices themselves.
        filtered = not trans_a and len([i for i in product.k if extent_of_axis(block, i) > 1]) > 1
        iterators = plan.choose(f"{name}.iterators", OPTIMIZED if filtered else ANALYTIC, lambda: ITERATORS)
    resident = max(resident_blocks(tile, element, gpu), 1)
    schedule_product(
        sch, rv, product, tile, trans_a, trans_b, gpu.has_cp_async, strip, iterators, instruction, resident
    )


def _in_registers(view: KernelView, view_of_block: BlockView, target: Target) -> None:
    block, name = view_of_block.block, view_of_block.name
    product = _product(block)
    fetches = target.kind.name == "cuda" and target.gpu.has_cp_async
    batch, m, n, _ = sides_of(block, product)
    many = max(facts_of(target).multiprocessors, 16)
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
    b, m, n, k = [prod([extent_of_axis(block, i) for i in side]) for side in product[:4]]
    return b, m, n, k


def _longest(block: Block, product: Product) -> int:
    """The extent of the longest axis of the sum."""
    return max([extent_of_axis(block, i) for i in product.k])


def _in_parts(sch: Schedule, rv: BlockRV, product: Product, parts: int) -> BlockRV:
    """Divides the longest axis of a sum. Returns the product of the parts, a batch of them; the old block adds them."""
    block = _block(sch, rv)
    axis = max(product.k, key=lambda i: extent_of_axis(block, i))
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
