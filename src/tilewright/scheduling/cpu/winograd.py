"""Winograd convolutions: groups of tiles stay in the caches from the data to the result.

for n, fo, y, x, fb: out = ..
-->
for groups of tiles:
  for tiles, channels: a tile and its two transformations, in registers
  for places, panels of filters, tiles: a register tile of the products, the whole reduction around it
  for tiles, filters: the two transformations back in registers, and the element-wise operators after them

Threads share groups if there are enough of them; otherwise they share each of the three steps. With a dynamic number of
images, a group is part of an image, or several whole images, of which the last group can have fewer.
"""

from __future__ import annotations

from tilewright.ir import IntImm
from tilewright.scheduling.block_views import BlockView, KernelView, divisor_of
from tilewright.scheduling.cost import divisors
from tilewright.scheduling.cpu.factors import last_stage, schedule_factors, straight
from tilewright.scheduling.winograd import winograd_plan
from tilewright.target import Target
from tilewright.tir.schedule import LoopRV
from tilewright.topi.stages import WINOGRAD_TILE


def winograd_product(view: KernelView) -> BlockView | None:
    """The product of a Winograd convolution whose number of tiles is static, if the kernel has one."""
    found = next((b for b in view.blocks() if WINOGRAD_TILE in b.block.annotations), None)
    tiles = found.block.iter_vars[2].dom if found is not None else None
    return found if tiles is not None and isinstance(tiles.extent, IntImm) else None


def schedule_winograd(view: KernelView, product: BlockView, target: Target) -> None:
    """Schedule all stages of a Winograd convolution, and the element-wise operators after it."""
    sch, cpu = view.sch, target.cpu
    weights = product.block.reads[1].buffer
    panel, m = divisor_of(weights.shape[-1]), int(product.block.annotations[WINOGRAD_TILE])
    (back,) = view.consumers(product)
    (inverse,) = view.consumers(back)
    (result,) = view.consumers(inverse)
    _, images, tiles, filters, channels = product.extents
    lanes = cpu.lanes(32)
    last = last_stage(view, result)
    image, fo, y, x, fb = sch.get_loops(last)
    _, _, rows, columns, _ = [-(-e // m) for e in result.extents]
    each = rows * columns
    known = tiles // each if images == 1 else None
    plan = winograd_plan(channels, filters, (known, rows, columns), m, lanes, cpu.core, cpu.threads, cpu.l2_bytes)
    group = view.plan.choose(
        f"{product.name}.group",
        plan.group if plan is not None else tiles,
        lambda: [g for g in divisors(tiles, tiles) if all([g % n == 0 or n % g == 0 for n in (columns, each)])],
    )
    yo, yi = sch.split(y, [None, m])
    xo, xi = sch.split(x, [None, m])
    if known:
        sch.reorder(image, yo, xo, fo, yi, xi, fb)
        g, t = sch.split(sch.fuse(image, yo, xo), [None, group])
        inner = fo
    else:
        several, inner = sch.split(image, [None, max(1, group // each)])
        group = min(group, each)
        sch.reorder(several, yo, xo, fo, inner, yi, xi, fb)
        g, t = sch.split(sch.fuse(yo, xo), [None, group])
    straight(view, last, 3)
    for stage in (inverse, back):
        sch.compute_at(stage.rv, inner)
        sch.set_scope(stage.rv, 0, "local")
        straight(view, stage.rv, 3)
    by_group = (plan is not None and plan.by_group) if known else tiles // group > 1
    by_step = cpu.threads > 1 and _shares_steps(view, product, by_group)
    if by_step:
        sch.parallel(sch.fuse(t, fo))
    data = view.producer(product, 0)
    loops = schedule_factors(view, product.rv, g, panel, target)
    if by_step:
        sch.parallel(sch.fuse(loops.factors, loops.panels))
    _schedule_data(view, data, g, by_step)
    if cpu.threads > 1 and not by_step:
        sch.parallel(sch.fuse(several, g) if known is None else g)


def _shares_steps(view: KernelView, product: BlockView, by_group: bool) -> bool:
    """Whether threads share the steps of each group of tiles, or the groups, as the model says."""
    choices = ("groups", "steps")
    return view.plan.choose(f"{product.name}.shared", choices[0 if by_group else 1], lambda: choices) == "steps"


def _schedule_data(view: KernelView, data: BlockView, at: LoopRV, parallel: bool) -> None:
    sch = view.sch
    (columns,) = view.producers(data)
    (tile,) = view.producers(columns)
    sch.compute_at(data.rv, at, True)
    place, image, t, c = sch.get_loops(data.rv)[-4:]
    co, cb = sch.split(c, [None, tile.extents[-1]])
    sch.reorder(t, co, image, place, cb)
    straight(view, data.rv, 2)
    for stage in (columns, tile):
        sch.compute_at(stage.rv, image)
        sch.set_scope(stage.rv, 0, "local")
        straight(view, stage.rv, 3)
    if parallel:
        sch.parallel(sch.fuse(t, co))
