"""Strassen's products: groups of rows stay in the caches from the data to the result.

for row, column: out = ..
-->
for groups of rows:
  for rows, columns: the left sides of the seven factors
  for panels of columns:
    for factors, tiles: a register tile of the product, the whole reduction around it
    for rows: the blocks of the result, and the element-wise operators after them

Threads share the rows of the left sides, and the panels.
"""

from __future__ import annotations

from math import prod

from tilewright.scheduling.block_views import BlockView, KernelView, divisor_of
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.cpu.factors import last_stage, schedule_factors, straight
from tilewright.scheduling.cpu.injective import vector_width
from tilewright.target import Target
from tilewright.tir.schedule import BlockRV, LoopRV
from tilewright.topi.stages import CHANNEL_BLOCKS, STRASSEN

GROUP = 100
"""Pairs of rows of a group, about: each group reads all weights, and its left sides are read for each panel. Groups of 98 to 196 took
0.88 to 0.90 of the time of the plain product, of 56 and fewer, or 392 and more, 0.95 to 1.1 (AMD EPYC with AVX-512)."""


def strassen_product(view: KernelView) -> BlockView | None:
    """The products of Strassen's algorithm, if the kernel has them."""
    return next((b for b in view.blocks() if STRASSEN in b.block.annotations), None)


def schedule_strassen(view: KernelView, product: BlockView, target: Target) -> None:
    """Schedule all stages of a product, and the element-wise operators after it."""
    sch, cpu = view.sch, target.cpu
    panel = divisor_of(product.block.reads[1].buffer.shape[-1])
    left = view.producer(product, 0)
    (result,) = view.consumers(product)
    last = last_stage(view, result)
    lanes, (_, rows, _, _) = min(cpu.lanes(32), panel), product.extents
    blocks = product.block.annotations[STRASSEN] == CHANNEL_BLOCKS
    lines = result.extents[2:4] if blocks else result.extents[:-1]
    # A group is whole lines, or an equal part of one.
    line = 1 if max(lines) == prod(lines) else lines[-1]
    groups = [g for g in divisors(rows, rows) if 2 * g % line == 0 or line % (2 * g) == 0]
    model = min(groups, key=lambda g: max(g, GROUP) / min(g, GROUP))
    group = view.plan.choose(f"{product.name}.group", model, lambda: groups[-8:])
    row, column = _rows_and_columns(view, last, blocks)
    g, r, pair = sch.split(row, [None, group, 2])
    half, p, wide, lane = sch.split(column, [2, None, panel // lanes, lanes])
    sch.reorder(g, p, r, pair, half, wide, lane)
    straight(view, last, 4)
    schedule_factors(view, product.rv, p, panel, target)
    sch.compute_at(left.rv, g, True)
    f, r, c = sch.get_loops(left.rv)[-3:]
    co, cl = sch.split(c, [None, vector_width(divisor_of(sch.get(c).extent), lanes)])
    sch.reorder(r, co, f, cl)
    straight(view, left.rv, 2)
    if cpu.threads > 1:
        sch.parallel(r)
        sch.parallel(p)


def _rows_and_columns(view: KernelView, last: BlockRV, blocks: bool) -> tuple[LoopRV, LoopRV]:
    """The loops over rows and over columns of the block that writes the result. In channel blocks, places are rows, and filters columns."""
    sch, loops = view.sch, view.loops(last)
    if blocks:
        image, fo, y, x, fb = loops
        sch.reorder(image, y, x, fo, fb)
        return sch.fuse(image, y, x), sch.fuse(fo, fb)
    *rows, column = loops
    return (sch.fuse(*rows) if len(rows) > 1 else rows[0]), column
