"""Loops of stages for processors with vectors: the outer ones are shared among threads, the innermost is vectorised.

A reduction is computed in tiles of registers: rows that share what they read, by vectors along an axis whose neighbours are neighbours in
memory. Where only the reduced axis has such neighbours, each result is the sum of as many partial sums as a vector has lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewright import te
from tilewright.topi.stage_schedules import StageGraph, extent, is_reduction, loads_of
from tilewright.topi.stage_schedules.operands import divisor, neighbours, reused_axis, uses, uses_in
from tilewright.topi.template_stages import LANES, axes_of, reduced, shared


class Tiles(NamedTuple):
    """Sizes of the tiles of reductions, at most: rows, and vectors of LANES columns. With these, tiles fit into the registers of all
    families. dot: the instruction for sums of products of bytes in groups of four, if the target has one."""

    rows: int = 6
    vectors: int = 2
    dot: te.TensorIntrin | None = None


GROUP = 4
"""Bytes of a group whose products instructions add up."""
DEFAULT = Tiles()


def template_cpu(outs: Any, cfg: Any, dot: te.TensorIntrin | None = None) -> te.Schedule:
    """`schedule_cpu` by the knobs of a template, if there are any."""
    if cfg is None:
        return schedule_cpu(outs, Tiles(dot=dot))
    cfg.define_knob("rows", [6, 1, 2, 4, 8, 12])
    cfg.define_knob("vectors", [2, 1, 4])
    return schedule_cpu(outs, Tiles(cfg["rows"].val, cfg["vectors"].val, dot))


def schedule_cpu(outs: Any, tiles: Tiles = DEFAULT) -> te.Schedule:
    """A schedule of outputs and of all that they need."""
    graph = StageGraph(outs)
    for op in graph.computed:
        tensor, end = op.output(0), graph.ends.get(op)
        if not is_reduction(op):
            spread(graph.schedule, tensor)
        elif (
            not _reduction(graph.schedule, tensor, tensor if end is None else end.output(0), tiles) and end is not None
        ):
            spread(graph.schedule, end.output(0))
    return graph.schedule


def schedule_product(s: te.Schedule, made: te.Tensor, last: te.Tensor, tiles: Tiles = DEFAULT) -> None:
    """Loops of a reduction in a schedule, and of `last`, which takes its results at the same indices, or is the reduction itself."""
    if not _reduction(s, made, last, tiles):
        spread(s, last)


def spread(s: te.Schedule, tensor: te.Tensor) -> None:
    """Loops of a stage without reduction: threads share the outer ones, vectors run along the last axis."""
    axes = axes_of(s, tensor)
    if not axes:
        return
    size = extent(axes[-1])
    width = LANES if size is None or size > LANES else math.gcd(size, LANES)
    if width > 1:
        axes[-1], lanes = s[tensor].split(axes[-1], width)
        s[tensor].vectorize(lanes)
    shared(s, tensor, axes[:-1] if len(axes) > 1 else axes)


def _reduction(s: te.Schedule, tensor: te.Tensor, end: te.Tensor, tiles: Tiles) -> bool:
    """Loops of a reduction, and of `end`, which takes its result, if this returns True."""
    op: Any = s[tensor].op
    if not op.axis:
        _alone(s, tensor)
        return end is tensor
    last, size = op.axis[-1], extent(op.axis[-1])
    several = len(op.body) > 1
    vectors = size is not None and size >= 4 and neighbours(op, last)
    if not several and (vectors or _in_groups(op)):
        _tiles(s, tensor, end, tiles)
        return True
    if not several and _lanes(op) > 1:
        _partial_sums(s, tensor)
    else:
        shared(s, tensor, list(op.axis[:-1]) or list(op.axis))
    return end is tensor


def _alone(s: te.Schedule, tensor: te.Tensor) -> None:
    """A reduction to one element: partial sums in the lanes of a vector."""
    op: Any = s[tensor].op
    if len(op.body) == 1 and _lanes(op) > 1:
        _partial_sums(s, tensor)


def _lanes(op: te.ComputeOp) -> int:
    """The number of partial sums along the last reduced axis; 1 if its elements are no neighbours, or if it is short."""
    last = op.reduce_axis[-1]
    size = extent(last)
    if size is None or size < 2 * LANES or not neighbours(op, last):
        return 1
    return math.gcd(size, LANES)


def _partial_sums(s: te.Schedule, tensor: te.Tensor) -> None:
    op: Any = s[tensor].op
    lanes = _lanes(op)
    _, lane = s[tensor].split(op.reduce_axis[-1], lanes)
    parts = s.rfactor(tensor, lane, len(op.axis))
    axes = axes_of(s, tensor)
    if axes:
        outer = shared(s, tensor, axes)
        s[parts].compute_at(s[tensor], outer)
    *places, lane = axes_of(s, parts)
    s[parts].reorder(*places, *reduced(s, parts), lane)
    s[parts].vectorize(lane)


def _tiles(s: te.Schedule, made: te.Tensor, tensor: te.Tensor, tiles: Tiles) -> None:
    """Tiles of a reduction, along the loops of `tensor`, which takes its result."""
    op: Any = s[made].op
    rows = reused_axis(op)
    size = extent(op.axis[-1])
    assert size is not None
    grouped = tiles.dot is not None and _in_groups(op)
    width = (
        LANES
        if grouped
        else next((n * LANES for n in range(tiles.vectors, 0, -1) if size % (n * LANES) == 0), 0)
        or (LANES if size > LANES else size)
    )
    tile = s.cache_write(made, "global") if made is tensor else made
    *others, column = axes_of(s, tensor)
    outer_column, lanes = s[tensor].split(column, width)
    place = None if rows is None else list(op.axis).index(rows)
    if place is not None:
        height = extent(others[place])
        assert height is not None
        outer_row, row = s[tensor].split(others[place], divisor(height, tiles.rows))
        loops = [*others[:place], outer_row, *others[place + 1 :]]
        s[tensor].reorder(*loops, outer_column, row, lanes)
        s[tensor].unroll(row)
    else:
        loops = others
        s[tensor].reorder(*loops, outer_column, lanes)
    s[tensor].vectorize(lanes)
    if loops:
        shared(s, tensor, loops)
    else:
        s[tensor].parallel(outer_column)
    s[tile].compute_at(s[tensor], outer_column)
    *rest, inner_column = axes_of(s, tile)
    ks = reduced(s, tile)
    inner_rows = [rest[place]] if place is not None else []
    outer = [a for a in rest if a not in inner_rows]
    if grouped:
        s[tile].reorder(*outer, *ks[:-1], *inner_rows, inner_column, ks[-1])
        s[tile].tensorize(inner_column, tiles.dot)
        for axis in inner_rows:
            s[tile].unroll(axis)
        return
    s[tile].reorder(*outer, *ks, *inner_rows, inner_column)
    s[tile].vectorize(inner_column)
    for axis in inner_rows:
        s[tile].unroll(axis)
    _short(s, tile, ks)


def _in_groups(op: te.ComputeOp) -> bool:
    """Whether a reduction is of bytes in groups of four for sixteen results: the last reduced axis runs over the last axis of data
    (uint8) and of weights (int8), and the last axis of results over the one before that of the weights."""
    loads, last, group = loads_of(op), op.axis[-1], op.reduce_axis[-1]
    lanes = extent(last)
    if len(loads) != 2 or extent(group) != GROUP or lanes is None or lanes % LANES:
        return False
    by_type = {str(load.dtype): load for load in loads}
    if set(by_type) != {"uint8", "int8"} or not neighbours(op, group):
        return False
    data, weights = by_type["uint8"], by_type["int8"]
    last_but_one = [uses_in(index, last) for index in weights.indices]
    return not uses(data, last) and last_but_one[-2] and not last_but_one[-1] and uses_in(weights.indices[-1], group)


def _short(s: te.Schedule, tile: te.Tensor, ks: Sequence[Any]) -> None:
    """Unrolls the innermost reduced axis if it is short, such as the columns of a kernel."""
    size = extent(ks[-1])
    if len(ks) > 1 and size is not None and size <= 4:
        s[tile].unroll(ks[-1])
