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
from tilewright.scheduling.cost import MAX_ROWS, divisors, register_tile, unroll_factor
from tilewright.scheduling.cpu.contraction import tile_widths
from tilewright.scheduling.winograd import winograd_plan
from tilewright.target import Target
from tilewright.tir.schedule import BlockRV, LoopRV
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
    last = _last(view, result)
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
    _straight(view, last, 3)
    for stage in (inverse, back):
        sch.compute_at(stage.rv, inner)
        sch.set_scope(stage.rv, 0, "local")
        _straight(view, stage.rv, 3)
    by_group = (plan is not None and plan.by_group) if known else tiles // group > 1
    by_step = cpu.threads > 1 and _shares_steps(view, product, by_group)
    if by_step:
        sch.parallel(sch.fuse(t, fo))
    data = view.producer(product, 0)
    _schedule_product(view, product.rv, g, panel, target, by_step)
    _schedule_data(view, data, g, by_step)
    if cpu.threads > 1 and not by_step:
        sch.parallel(sch.fuse(several, g) if known is None else g)


def _shares_steps(view: KernelView, product: BlockView, by_group: bool) -> bool:
    """Whether threads share the steps of each group of tiles, or the groups, as the model says."""
    choices = ("groups", "steps")
    return view.plan.choose(f"{product.name}.shared", choices[0 if by_group else 1], lambda: choices) == "steps"


def _last(view: KernelView, result: BlockView) -> BlockRV:
    """The block that writes the tiles of results: the element-wise operators after it, or the result itself."""
    consumers = view.consumers(result)
    if len(consumers) == 1 and consumers[0].is_injective and len(view.loops(consumers[0])) == 5:
        reader = consumers[0]
        (read,) = [r for r in reader.block.reads if r.buffer is result.block.writes[0].buffer][:1]
        axes = [v.var for v in reader.block.iter_vars]
        if [r.min for r in read.region] == axes and reader.extents == result.extents:
            view.sch.compute_inline(result.rv)
            return reader.rv
    return result.rv


def _straight(view: KernelView, block: BlockRV, count: int) -> None:
    """Unroll the innermost `count` loops of a block, with the last one as a vector."""
    *outer, last = view.loops(block)[-count:]
    for loop in outer:
        view.sch.unroll(loop)
    view.sch.vectorize(last)


def _schedule_product(view: KernelView, block: BlockRV, at: LoopRV, panel: int, target: Target, parallel: bool) -> None:
    sch, lanes = view.sch, min(target.cpu.lanes(32), panel)
    copy = sch.cache_write(block, 0, "local")
    sch.compute_at(copy, at, True)
    place, image, t, f = sch.get_loops(copy)[-4:]
    height, core = divisor_of(sch.get(t).extent), target.cpu.core
    rows, columns = view.plan.choose(
        f"{sch.get(block).name_hint}.tile",
        register_tile(height, panel // lanes, core),
        lambda: [(r, c) for r in divisors(height, MAX_ROWS) for c in tile_widths(r, panel // lanes, core)],
    )
    fo, fv, fl = sch.split(f, [None, columns, lanes])
    to, ti = sch.split(t, [None, rows])
    sch.reorder(place, fo, image, to, ti, fv, fl)
    sch.compute_at(block, to, True)
    _straight(view, copy, 3)
    ti, f, rc = sch.get_loops(block)[-3:]
    fv, fl = sch.split(f, [None, lanes])
    steps = divisor_of(sch.get(rc).extent)
    model = unroll_factor(steps, rows * columns, core.long_body)
    unrolled = view.plan.choose(f"{sch.get(block).name_hint}.unroll", model, lambda: divisors(steps, 16))
    ro, ri = sch.split(rc, [None, unrolled])
    sch.reorder(ro, ri, ti, fv, fl)
    _straight(view, sch.decompose_reduction(block, ro), 3)
    _straight(view, block, 4)
    if parallel:
        sch.parallel(sch.fuse(place, fo))


def _schedule_data(view: KernelView, data: BlockView, at: LoopRV, parallel: bool) -> None:
    sch = view.sch
    (columns,) = view.producers(data)
    (tile,) = view.producers(columns)
    sch.compute_at(data.rv, at, True)
    place, image, t, c = sch.get_loops(data.rv)[-4:]
    co, cb = sch.split(c, [None, tile.extents[-1]])
    sch.reorder(t, co, image, place, cb)
    _straight(view, data.rv, 2)
    for stage in (columns, tile):
        sch.compute_at(stage.rv, image)
        sch.set_scope(stage.rv, 0, "local")
        _straight(view, stage.rv, 3)
    if parallel:
        sch.parallel(sch.fuse(t, co))
