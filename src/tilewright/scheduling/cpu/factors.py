"""Products of several pairs of matrices by register tiles, as a step of a kernel: those of Winograd's and of Strassen's forms.

for factor, rows, columns, r: product += left * right
-->
for factor, panels, tiles: a register tile, the whole reduction around it
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.scheduling.block_views import BlockView, KernelView, divisor_of
from tilewright.scheduling.cost import MAX_ROWS, divisors, register_tile, unroll_factor
from tilewright.scheduling.cpu.contraction import tile_widths
from tilewright.target import Target
from tilewright.tir.schedule import BlockRV, LoopRV


class Factors(NamedTuple):
    """The loops around register tiles, outermost first: over factors, panels of columns, tiles of rows, and steps of the reduction."""

    factors: LoopRV
    panels: LoopRV
    tiles: LoopRV
    steps: LoopRV


def schedule_factors(view: KernelView, block: BlockRV, at: LoopRV, panel: int, target: Target) -> Factors:
    """Computes the products (factor, .., rows, columns) that the body of a loop needs there, by panels of columns."""
    sch, lanes = view.sch, min(target.cpu.lanes(32), panel)
    copy = sch.cache_write(block, 0, "local")
    sch.compute_at(copy, at, True)
    axes = len(sch.get(copy).iter_vars)
    place, *others, t, f = sch.get_loops(copy)[-axes:]
    height, core = divisor_of(sch.get(t).extent), target.cpu.core
    rows, columns = view.plan.choose(
        f"{sch.get(block).name_hint}.tile",
        register_tile(height, panel // lanes, core),
        lambda: [(r, c) for r in divisors(height, MAX_ROWS) for c in tile_widths(r, panel // lanes, core)],
    )
    fo, fv, fl = sch.split(f, [None, columns, lanes])
    to, ti = sch.split(t, [None, rows])
    sch.reorder(place, fo, *others, to, ti, fv, fl)
    sch.compute_at(block, to, True)
    straight(view, copy, 3)
    ti, f, rc = sch.get_loops(block)[-3:]
    fv, fl = sch.split(f, [None, lanes])
    steps = divisor_of(sch.get(rc).extent)
    model = unroll_factor(steps, rows * columns, core.long_body)
    unrolled = view.plan.choose(f"{sch.get(block).name_hint}.unroll", model, lambda: divisors(steps, 16))
    ro, ri = sch.split(rc, [None, unrolled])
    sch.reorder(ro, ri, ti, fv, fl)
    straight(view, sch.decompose_reduction(block, ro), 3)
    straight(view, block, 4)
    return Factors(place, fo, to, ro)


def straight(view: KernelView, block: BlockRV, count: int) -> None:
    """Unroll the innermost `count` loops of a block, with the last one as a vector."""
    *outer, last = view.loops(block)[-count:]
    for loop in outer:
        view.sch.unroll(loop)
    view.sch.vectorize(last)


def last_stage(view: KernelView, result: BlockView) -> BlockRV:
    """The block that writes the result: the element-wise operators after it, or the block of the result itself."""
    consumers = view.consumers(result)
    if len(consumers) == 1 and consumers[0].is_injective and len(view.loops(consumers[0])) == len(result.extents):
        reader = consumers[0]
        (read,) = [r for r in reader.block.reads if r.buffer is result.block.writes[0].buffer][:1]
        axes = [v.var for v in reader.block.iter_vars]
        if [r.min for r in read.region] == axes and reader.extents == result.extents:
            view.sch.compute_inline(result.rv)
            return reader.rv
    return result.rv
