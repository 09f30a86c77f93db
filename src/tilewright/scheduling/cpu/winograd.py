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

from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from tilewright.ir import IntImm
from tilewright.scheduling.cpu.kernel import BlockView, KernelView, divisor_of
from tilewright.scheduling.cpu.tiles import LONG_BODY, divisors, register_tile, tile_cost, unroll_factor
from tilewright.target import Target
from tilewright.tir.schedule import BlockRV, LoopRV

PRODUCT = "winograd_product"

DIRECT, PRODUCTS = 0.92, 0.85
"""The shares of the multipliers' peak rate that direct convolutions and products of transformed tiles reach (ResNet-50,
AVX-512).
"""

TRANSFORM = 6
"""Cycles for each vector of transformed data and of products."""

STREAM, NEAR = 5, 12
"""The bytes that a core reads in a cycle from memory (10 to 20 GB/s), and from the last-level cache."""


STEPS, START = 3, 10_000
"""The number of parallel loops over a group's steps, if threads share these instead of groups, and the cycles until all
threads have started one.
"""

ALIKE = 1.03
"""The largest ratio of cycles at which plans count as equally fast."""

OPEN_IMAGES = 8
"""The largest number of images in a group of tiles if their number is dynamic."""


@dataclass(frozen=True)
class WinogradPlan:
    """cycles: estimate on one core. shared: estimate for all cores together, including waiting. group: tiles that are
    computed together. panel: filters in a panel of weights. by_group: whether threads share the groups, or each step of
    one.
    """

    cycles: float
    shared: float
    tile_size: int
    panel: int
    group: int
    by_group: bool


def direct_cycles(channels: int, filters: int, pixels: int, lanes: int) -> float:
    """Cycles of a direct 3 x 3 convolution on one core, with two multiply-adds of vectors in each cycle."""
    work = 9 * channels * filters * pixels / (2 * lanes) / DIRECT
    return max(work, 36 * channels * filters / STREAM)


@cache
def winograd_plan(
    channels: int,
    filters: int,
    shape: tuple[int | None, int, int],
    tile_size: int,
    lanes: int,
    registers: int,
    threads: int,
    l2_bytes: int,
) -> WinogradPlan | None:
    """The best grouping of tiles of tile_size x tile_size results; None if they cannot be grouped well.

    shape: the (images, rows, columns) of tiles, with images None if they are dynamic. Groups are equal parts of a row,
    of rows or of images.
    """
    known, rows, columns = shape
    each = rows * columns
    tiles = (known or OPEN_IMAGES) * each
    places = (tile_size + 2) ** 2
    weights = 4 * places * channels * filters
    panel = next((v * lanes for v in (4, 2, 1) if filters % (v * lanes) == 0), 0)
    if not panel:
        return None
    plans: list[WinogradPlan] = []
    for group in divisors(tiles, tiles):
        groups = tiles // group
        cost = tile_cost(*register_tile(group if known else min(group, each), panel // lanes, registers), registers)
        if cost is None or not all([group % whole == 0 or whole % group == 0 for whole in (columns, each)]):
            continue
        work = places * channels * filters * tiles / lanes * max(cost, 0.5) / PRODUCTS
        moved = places * tiles * (channels + filters) / lanes * TRANSFORM
        held = 4 * places * group * (channels + filters)
        again = (groups - 1) * weights / NEAR if weights > l2_bytes // 2 else 0.0
        spilled = 2 * 4 * places * tiles * (channels + filters) / NEAR if held > l2_bytes // 2 else 0.0
        cycles = max(work, weights / STREAM) + moved + again + spilled
        by_group, by_step = cycles * waiting(groups, threads), cycles + starts(groups, threads)
        plans.append(WinogradPlan(cycles, min(by_group, by_step), tile_size, panel, group, by_group <= by_step))
    # What one thread does as fast: of those, what several share best.
    most = ALIKE * min([p.cycles for p in plans], default=0.0)
    return min([p for p in plans if p.cycles <= most], key=lambda p: p.shared, default=None)


def counts(threads: int) -> list[int]:
    """The numbers of threads with which a kernel for up to `threads` threads may run."""
    return [*[1 << n for n in range(threads.bit_length()) if 1 << n < threads], threads]


def waiting(groups: int, threads: int) -> float:
    """The mean factor by which threads take longer because they do not all have equally many groups, over the numbers
    of threads.
    """
    return fmean([-(-groups // n) * n / groups for n in counts(threads)])


def starts(groups: int, threads: int) -> float:
    """The mean cycles that all threads take to start the steps of each group, over the numbers of threads."""
    return fmean([n * groups * STEPS * START if n > 1 else 0 for n in counts(threads)])


def choose_winograd(channels: int, filters: int, pixels: tuple[int, int, int], target: Target) -> WinogradPlan | None:
    """The plan for a 3 x 3 convolution in Winograd's form; None if it would gain less than a fifth. pixels: the
    (images, rows, columns) of the result.
    """
    cpu = target.cpu
    lanes = cpu.lanes(32)
    if channels % lanes or filters % lanes:
        return None
    images, height, width = pixels
    direct = direct_cycles(channels, filters, images * height * width, lanes)
    plans = []
    for m in (4, 2):
        shape = images, -(-height // m), -(-width // m)
        plan = winograd_plan(channels, filters, shape, m, lanes, cpu.vector_registers, cpu.threads, cpu.l2_bytes)
        if plan is not None and plan.cycles < 0.8 * direct:
            plans.append(plan)
    return min(plans, key=lambda p: p.cycles, default=None)


def winograd_product(view: KernelView) -> BlockView | None:
    """The product of a Winograd convolution with a static number of images, if the kernel has one."""
    found = next((b for b in view.blocks() if b.name == PRODUCT), None)
    tiles = found.block.iter_vars[2].dom if found is not None else None
    return found if tiles is not None and isinstance(tiles.extent, IntImm) else None


def schedule_winograd(view: KernelView, product: BlockView, target: Target) -> None:
    """Schedule all stages of a Winograd convolution, and the element-wise operators after it."""
    sch, cpu = view.sch, target.cpu
    names = {b.name: b for b in view.blocks()}
    weights = product.block.reads[1].buffer
    panel, m = divisor_of(weights.shape[-1]), names["winograd_inverse"].extents[3]
    _, images, tiles, filters, channels = product.extents
    lanes = cpu.lanes(32)
    last = _last(view, names["winograd_result"])
    image, fo, y, x, fb = sch.get_loops(last)
    _, _, rows, columns, _ = [-(-e // m) for e in names["winograd_result"].extents]
    each = rows * columns
    known = tiles // each if images == 1 else None
    plan = winograd_plan(
        channels, filters, (known, rows, columns), m, lanes, cpu.vector_registers, cpu.threads, cpu.l2_bytes
    )
    group = plan.group if plan is not None else tiles
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
    for name in ("winograd_inverse", "winograd_back"):
        block = names[name].rv
        sch.compute_at(block, inner)
        sch.set_scope(block, 0, "local")
        _straight(view, block, 3)
    by_group = (plan is not None and plan.by_group) if known else tiles // group > 1
    by_step = not by_group and cpu.threads > 1
    if by_step:
        sch.parallel(sch.fuse(t, fo))
    _schedule_product(view, product.rv, g, panel, target, by_step)
    _schedule_data(view, names, g, by_step)
    if by_group and cpu.threads > 1:
        sch.parallel(sch.fuse(several, g) if known is None else g)


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
    rows, columns = register_tile(divisor_of(sch.get(t).extent), panel // lanes, target.cpu.vector_registers)
    fo, fv, fl = sch.split(f, [None, columns, lanes])
    to, ti = sch.split(t, [None, rows])
    sch.reorder(place, fo, image, to, ti, fv, fl)
    sch.compute_at(block, to)
    _straight(view, copy, 3)
    ti, f, rc = sch.get_loops(block)[-3:]
    fv, fl = sch.split(f, [None, lanes])
    ro, ri = sch.split(rc, [None, unroll_factor(divisor_of(sch.get(rc).extent), rows * columns, LONG_BODY)])
    sch.reorder(ro, ri, ti, fv, fl)
    _straight(view, sch.decompose_reduction(block, ro), 3)
    _straight(view, block, 4)
    if parallel:
        sch.parallel(sch.fuse(place, fo))


def _schedule_data(view: KernelView, names: dict[str, BlockView], at: LoopRV, parallel: bool) -> None:
    sch = view.sch
    data = names["winograd_data"].rv
    sch.compute_at(data, at, True)
    place, image, t, c = sch.get_loops(data)[-4:]
    co, cb = sch.split(c, [None, names["winograd_tile"].extents[-1]])
    sch.reorder(t, co, image, place, cb)
    _straight(view, data, 2)
    for name in ("winograd_columns", "winograd_tile"):
        block: Any = names[name].rv
        sch.compute_at(block, image)
        sch.set_scope(block, 0, "local")
        _straight(view, block, 3)
    if parallel:
        sch.parallel(sch.fuse(t, co))
