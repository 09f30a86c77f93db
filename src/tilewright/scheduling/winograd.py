"""Winograd's form of 3 x 3 convolutions: its cost beside the direct form's, and how tiles are grouped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod
from statistics import fmean

from tilewright.scheduling.cost import divisors, register_tile, tile_cost
from tilewright.target.core import Core
from tilewright.target.cpu import CpuFacts

STEPS = 3
"""The number of parallel loops over a group's steps, if threads share these instead of groups."""


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


def direct_cycles(channels: int, filters: int, pixels: int, lanes: int, core: Core) -> float:
    """Cycles of a direct 3 x 3 convolution on one core."""
    work = 9 * channels * filters * pixels / (core.multiply_adds * lanes) / core.direct
    return max(work, 4 * 9 * channels * filters / core.from_memory)


@cache
def winograd_plan(
    channels: int,
    filters: int,
    shape: tuple[int | None, int, int],
    tile_size: int,
    lanes: int,
    core: Core,
    threads: int,
    l2_bytes: int,
) -> WinogradPlan | None:
    """The best grouping of tiles of tile_size x tile_size results; None if they cannot be grouped well.

    shape: the (images, rows, columns) of tiles, with images None if they are dynamic. Groups are equal parts of a row,
    of rows or of images.
    """
    known, rows, columns = shape
    each = rows * columns
    tiles = (known or core.winograd_images) * each
    places = (tile_size + 2) ** 2
    weights = 4 * places * channels * filters
    panel = next((v * lanes for v in (4, 2, 1) if filters % (v * lanes) == 0), 0)
    if not panel:
        return None
    plans: list[WinogradPlan] = []
    for group in divisors(tiles, tiles):
        groups = tiles // group
        cost = tile_cost(*register_tile(group if known else min(group, each), panel // lanes, core), core)
        if cost is None or not all([group % whole == 0 or whole % group == 0 for whole in (columns, each)]):
            continue
        work = places * channels * filters * tiles / lanes * max(cost, 1 / core.multiply_adds) / core.products
        moved = places * tiles * (channels + filters) / lanes * core.transformed
        held = 4 * places * group * (channels + filters)
        again = (groups - 1) * weights / core.from_last_cache if weights > l2_bytes // 2 else 0.0
        spilled = 2 * 4 * places * tiles * (channels + filters) / core.from_last_cache if held > l2_bytes // 2 else 0.0
        cycles = max(work, weights / core.from_memory) + moved + again + spilled
        by_group, by_step = cycles * waiting(groups, threads), cycles + starts(groups, threads, core)
        plans.append(WinogradPlan(cycles, min(by_group, by_step), tile_size, panel, group, by_group <= by_step))
    # What one thread does as fast: of those, what several share best.
    most = core.winograd_alike * min([p.cycles for p in plans], default=0.0)
    return min([p for p in plans if p.cycles <= most], key=lambda p: p.shared, default=None)


def counts(threads: int) -> list[int]:
    """The numbers of threads with which a kernel for up to `threads` threads may run."""
    return [*[1 << n for n in range(threads.bit_length()) if 1 << n < threads], threads]


def waiting(groups: int, threads: int) -> float:
    """The mean factor by which threads take longer because they do not all have equally many groups, over the numbers
    of threads.
    """
    return fmean([-(-groups // n) * n / groups for n in counts(threads)])


def starts(groups: int, threads: int, core: Core) -> float:
    """The mean cycles that all threads take to start the steps of each group, over the numbers of threads."""
    return fmean([n * groups * STEPS * core.start if n > 1 else 0 for n in counts(threads)])


def winograd_plans(channels: int, filters: int, pixels: tuple[int, int, int], cpu: CpuFacts) -> dict[int, WinogradPlan]:
    """The plans of a 3 x 3 convolution in Winograd's form by the side of their tiles; none where channels fill no vectors. pixels: the
    (images, rows, columns) of the result.
    """
    lanes = cpu.lanes(32)
    if channels % lanes or filters % lanes:
        return {}
    images, height, width = pixels
    found = {}
    for m in (4, 2):
        shape = images, -(-height // m), -(-width // m)
        plan = winograd_plan(channels, filters, shape, m, lanes, cpu.core, cpu.threads, cpu.l2_bytes)
        if plan is not None:
            found[m] = plan
    return found


def choose_winograd(channels: int, filters: int, pixels: tuple[int, int, int], cpu: CpuFacts) -> WinogradPlan | None:
    """The fastest plan of these; None where it would gain too little."""
    direct = direct_cycles(channels, filters, prod(pixels), cpu.lanes(32), cpu.core)
    plans = [
        p
        for p in winograd_plans(channels, filters, pixels, cpu).values()
        if p.cycles < cpu.core.winograd_share * direct
    ]
    return min(plans, key=lambda p: p.cycles, default=None)
