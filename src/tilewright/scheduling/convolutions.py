"""Forms of convolutions, in plain layouts and on blocks of channels: what each costs, and the cheapest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from tilewright.ir import DataType
from tilewright.scheduling.cost import cycles_of_add, image_tile, padded_rows, register_tile, tiling
from tilewright.scheduling.instructions import DotProduct
from tilewright.scheduling.winograd import choose_winograd
from tilewright.target.core import Core
from tilewright.target.cpu import CpuFacts
from tilewright.topi.planner import Form, Tiling
from tilewright.topi.problems import Windows
from tilewright.topi.utils import ceil_div, get_const_int, shape_of


def has_own_data(w: Windows, core: Core) -> bool:
    """Whether groups share nothing, and are too small to gain from data that is padded for all."""
    return w.groups >= core.own_groups and w.filters == 1


def window_costs(w: Windows, lanes: int, core: Core) -> Mapping[str, float]:
    """Cycles of each form, by the model of register tiles. What all of them do alike is left out."""
    images = get_const_int(w.data.shape[0]) * w.groups
    places, inner = prod(w.out), w.per_group * prod(w.window)

    def tiles(rows: int, columns: int, steps: int) -> float:
        return steps * tiling(rows, columns, core).cycles

    *lead, last = w.out
    width = ceil_div(last, lanes)
    rows = (
        tiles(w.filters, width, inner) * prod(lead) if width > 1 else tiles(w.filters, lead[-1] if lead else 1, inner)
    )
    rows *= prod(lead[:-1]) if width == 1 else 1
    long = ceil_div(w.flat_places, lanes)
    # One filter's rows that follow each other without a gap are the result as it lies.
    lies = len(lead) == 0 or (w.is_product and w.filters == w.groups == 1)
    # Windows of one place leave no gaps, so whole tiles are written.
    cut = 0.0 if lies else w.filters * places * core.image_copied * (0.75 if w.is_product else 2)
    flat = tiles(w.filters, long, inner) + cut
    summed = ceil_div(inner, lanes) * tiling(w.filters, places, core, True).cycles + w.filters * places * core.folded
    written = places * inner * core.image_scattered
    found = {"rows": rows * images, "flat": flat * images, "dots": (summed + written) * images}
    if w.is_product and _is_misplaced(w, lanes, core):
        found["panels"] = found["flat"] + places * inner * images * core.image_panels
        found["flat"] *= core.far
        found["rows"] *= core.far
    return found


def _is_misplaced(w: Windows, lanes: int, core: Core) -> bool:
    """Whether the image of windows of one place is read better from a copy: its channels begin within vectors, or are very large, and
    many filters read them."""
    size = prod(w.out) * w.per_group * DataType(w.dtype).bytes
    crossing = size > core.misplaced and prod(w.out) % lanes != 0
    return w.filters >= core.far_reads and (size > core.large or crossing)


def window_form(w: Windows, kind: str, lanes: int, core: Core) -> Form:
    """A form with its tiles."""
    *lead, last = w.out
    if kind == "rows":
        while lanes > 4 and lanes >= 2 * last:
            lanes //= 2
        vectors = ceil_div(last, lanes)
        return Form(kind, lanes, window_tiles(w, vectors if vectors > 1 else lead[-1] if lead else 1, core))
    if kind == "flat":
        return Form(kind, lanes, window_tiles(w, ceil_div(w.flat_places, lanes), core))
    if kind == "panels":
        return Form(kind, lanes, tiling(w.filters, ceil_div(prod(w.out), lanes), core))
    return Form(kind, lanes, tiling(w.filters, prod(w.out), core, True))


def window_tiles(w: Windows, vectors: int, core: Core) -> Tiling:
    """The tiles over filters of a group and vectors. Groups lie side by side in the result, which is simpler to write where no filter
    is padded work: so it is where tiles then cost about the same."""
    found = tiling(w.filters, vectors, core)
    if w.groups > 1 and found.rows != w.filters:
        r, c = register_tile(w.filters, found.columns, core)
        cycles = cycles_of_add(r, c, core) * w.filters * found.columns
        if cycles <= core.unpadded * found.cycles:
            return Tiling(r, c, w.filters, found.columns, cycles)
    return found


class GroupedBytes(NamedTuple):
    """A grouped convolution of bytes: the channels and filters of a group, the rows and columns of the result and of the kernel, whether
    there are strides above 1."""

    inner: int
    outer: int
    out: Sequence[int]
    window: Sequence[int]
    strided: bool


def filled_costs(p: GroupedBytes, found: Sequence[DotProduct], cpu: CpuFacts) -> dict[int, float]:
    """Instructions for a kernel offset of a group, by the number of filters that are computed, some of them padded; 0: the form
    without padding, whose vectors run along rows of the image."""
    height, width = p.out
    lanes, core = cpu.lanes(32), cpu.core
    # Bytes at a stride are picked from vectors, and from a copy where rows are not whole vectors.
    picked = (core.picked_copy if width % lanes else core.picked) if p.strided else 1.0
    costs = {0: height * ceil_div(width, lanes) * p.outer * p.inner * picked}
    if p.inner == p.outer == 1:
        # Depthwise: vectors may run along the groups instead.
        costs[0] = min(costs[0], height * width / lanes)
    for dot in found:
        filters = ceil_div(p.outer, dot.lanes) * dot.lanes
        steps = filters // dot.lanes * ceil_div(p.inner, dot.group) * prod(p.window) * dot.cost
        cost = height * width * (steps + filters * core.relaid_sum) / prod(p.window)
        costs[filters] = min(cost, costs.get(filters, cost))
    return costs


def plain_cycles(w: Windows, cpu: CpuFacts) -> float | None:
    """Cycles of the cheapest form, its copy in phases included; None where there is no such form."""
    lanes, core = cpu.lanes(DataType(w.dtype).bits), cpu.core
    if lanes < 4 or not DataType(w.dtype).is_float or min(w.out) < 1 or w.dtype != w.data.dtype:
        return None
    places = [o + v for o, v in zip(w.out, w.over, strict=True)]
    copied = prod(w.phases) * prod(places) * w.per_group * w.groups * get_const_int(w.data.shape[0])
    narrow = places[-1] < lanes
    strided, padded = any([s > 1 for s in w.strides]), any([*w.before, *w.after])
    copies = copied * (core.image_narrow if narrow else core.image_phases) if strided else 0.0
    if padded and (narrow or not has_own_data(w, core)):
        # What groups pad for themselves in vectors stays near.
        copies += copied * (core.image_narrow if narrow else core.image_copied)
    return min(window_costs(w, lanes, core).values()) + copies


def plain_is_faster(w: Windows, block_in: int, block_out: int, in_blocks: bool, cpu: CpuFacts) -> bool:
    """Whether a convolution whose result is wanted plain costs less on plain layouts than on blocks of channels. `in_blocks`: whether
    its data comes so, and would be brought to the plain layout; else it would be brought to blocks."""
    plain = plain_cycles(w, cpu)
    if plain is None:
        return False
    core, (height, width) = cpu.core, w.out
    images, channels, filters = get_const_int(w.data.shape[0]), w.per_group * w.groups, w.filters * w.groups
    line = w.extents[0] == height == 1
    if line:
        plain += _streamed(w, cpu)
    elif height * width < core.small_image:
        plain *= core.image_ends
    relaying = core.relaid_lines if line else 1.0
    brought = relaying * relayout_cycles(images, channels, block_in, prod(w.extents), core)
    blocked = blocked_cycles(w, block_in, block_out, cpu)
    plain, blocked = (plain + brought, blocked) if in_blocks else (plain, blocked + brought)
    return bool(plain < blocked + relaying * relayout_cycles(images, filters, block_out, height * width, core))


def blocked_cycles(w: Windows, block_in: int, block_out: int, cpu: CpuFacts) -> float:
    """Cycles of a convolution over two axes on blocks of channels, in Winograd's form where that is taken."""
    core, (height, width) = cpu.core, w.out
    images, filters = get_const_int(w.data.shape[0]), w.filters * w.groups
    depthwise = w.per_group == 1 and w.groups == get_const_int(w.data.shape[1])
    vectors = 1 if depthwise else ceil_div(w.filters, block_out)
    columns = padded_rows(width, vectors, core)
    lines, rows, c = image_tile(height, columns, vectors, core)
    cost = 1.0 if depthwise else cycles_of_add(lines * rows, c, core)
    inner = (1 if depthwise else ceil_div(w.per_group, block_in) * block_in) * prod(w.window)
    outer = ceil_div(filters, block_out) if depthwise else vectors * w.groups
    cycles = images * height * columns * outer * inner * cost
    lanes = cpu.lanes(32)
    by_ones = {*w.strides, *w.dilations, w.groups} == {1} and w.window == [3, 3] and block_in == block_out == lanes
    if by_ones and choose_winograd(ceil_div(w.per_group, lanes) * lanes, vectors * lanes, (images, height, width), cpu):
        cycles *= core.winograd
    return cycles


def _streamed(w: Windows, cpu: CpuFacts) -> float:
    """Cycles that tiles along a line wait for weights that the first cache does not hold."""
    size = prod(shape_of(w.kernel)) // w.groups * 4
    if size <= cpu.l1_bytes:
        return 0.0
    tiles = tiling(w.filters, ceil_div(w.out[-1], cpu.lanes(32)), cpu.core)
    passes = ceil_div(tiles.columns, tiles.tile_columns)
    return float(prod([shape_of(w.data)[0], w.groups, passes]) * size / cpu.core.line * cpu.core.first_missed)


def relayout_cycles(images: int, channels: int, block: int, places: int, core: Core) -> float:
    """Cycles to bring data to or from blocks of channels."""
    if block == 1:
        return 0.0
    each = core.relaid_parts if channels % block else core.relaid
    return float(core.relayout + images * ceil_div(channels, block) * block * places * each)
