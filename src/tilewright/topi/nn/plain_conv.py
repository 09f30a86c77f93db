"""Convolutions in plain layouts, channels first: any number of spatial axes, any strides, dilations and groups.

Vectors run along the image, so neither channels nor filters need to be whole vectors, and weights are not packed. The convolution
is a matrix product whose rows are the filters; its second operand is not stored in memory. There are three forms:

rows   vectors along the last axis of the image
flat   vectors along the whole image. Padded rows are adjacent in memory, so a kernel offset is a constant distance for all elements;
       results between the rows are cut off
dots   for small images: windows are copied to memory, and vectors run along the reduction

For strides above 1, padded data is split into phases, `phases[.., place % stride, place // stride]`: then the elements that one
kernel offset reads for adjacent outputs are adjacent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.ir import DataType, PrimExpr
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.product import dots, in_panels, tile_attrs
from tilewright.topi.planner import Form, planner
from tilewright.topi.problems import Matrices, Windows
from tilewright.topi.stages import MATERIALIZE, OWN_DATA, TILE_ROWS
from tilewright.topi.utils import ceil_div, get_const_int, shape_of

if TYPE_CHECKING:
    from tilewright.tir.expr import IterVar, ProducerLoad, Var


Read = Callable[[Any, Any, Sequence[Any], Sequence[Any]], Any]
"""read(image, channel, phase, place): an element of the padded data; places count in strides."""


def plain_conv(w: Windows, name: str, tag: str) -> te.Tensor | None:
    """The convolution (N, O, spatial...). None if a dimension is dynamic, or if the planner has no form for it."""
    known = all([isinstance(d, int) for d in (*shape_of(w.data), *w.out)])
    if not known or not DataType(w.dtype).is_float or min(w.out) < 1 or w.dtype != w.data.dtype:
        return None
    form = planner().windows(w, name)
    return None if form is None else _FORMS[form.kind](w, form, name, tag)


def _padded(w: Windows, places: Sequence[int]) -> Read:
    """A function that reads padded data with `places` places (counted in strides) along each axis: from the data itself if it needs no
    padding, or from a padded copy, which is split into phases for strides above 1."""
    steps, phases = w.strides, w.phases
    needed = [(p - 1) * s + f for p, s, f in zip(places, steps, phases, strict=True)]
    inside = not any(w.before) and all([n <= e for n, e in zip(needed, w.extents, strict=True)])
    source = w.data if inside else _zero_padded(w, needed)
    if all([s == 1 for s in steps]):
        return lambda nn, cc, phase, at: source(nn, cc, *at)
    rank = len(steps)

    def element(*i: PrimExpr) -> Any:
        nn, cc, *rest = i
        phase, at = rest[:rank], rest[rank:]
        return source(nn, cc, *[a * s + f if s > 1 else a for a, s, f in zip(at, steps, phase, strict=True)])

    shape = [*shape_of(w.data)[:2], *phases, *places]
    parts = compute(shape, element, name="pad_phases", tag="injective,pad", attrs={MATERIALIZE: 1})
    return lambda nn, cc, phase, at: parts(nn, cc, *phase, *at)


def _zero_padded(w: Windows, needed: Sequence[int]) -> te.Tensor:
    """The data padded with zeros, to `needed` elements along each spatial axis."""

    def element(*i: Var) -> Any:
        nn, cc, *at = i
        conditions = []
        for a, b, e, n in zip(at, w.before, w.extents, needed, strict=True):
            conditions += [a >= b] if b else []
            conditions += [a < e + b] if n > e + b else []
        value = w.data(nn, cc, *[a - b if b else a for a, b in zip(at, w.before, strict=True)])
        return tir.if_then_else(tir.all(*conditions), value, tir.const(0, w.data.dtype)) if conditions else value

    shape = [*shape_of(w.data)[:2], *needed]
    return compute(shape, element, name="pad_temp", tag="injective,pad", attrs={MATERIALIZE: 1})


def _sum(w: Windows, rows: int) -> tuple[list[Any], Callable[[Any, Any], tuple[Any, Any, list[Any]]]]:
    """(axes of the reduction, f(group, filter) -> (channel, weight, kernel offsets)). Axes of extent 1 are left out."""
    per_group, filters = w.per_group, w.filters
    rc = te.reduce_axis((0, per_group), name="rc")
    kernel_offsets = [te.reduce_axis((0, k), name=f"r{'zyx'[-len(w.window) :][i]}") for i, k in enumerate(w.window)]
    extents = [per_group, *w.window]
    axes = [a for a, extent in zip((rc, *kernel_offsets), extents, strict=True) if extent > 1] or [rc]

    def one(axis: IterVar) -> Any:
        return axis.var if axis in axes else 0

    def terms(group: Any, row: PrimExpr) -> tuple[PrimExpr, ProducerLoad, list[PrimExpr]]:
        chosen = row if rows == filters else tir.min(row, filters - 1)
        filter_ = chosen if w.groups == 1 else group * filters + chosen
        channel = one(rc) if w.groups == 1 else group * per_group + one(rc)
        at = [one(t) for t in kernel_offsets]
        return channel, w.kernel(filter_, one(rc), *at), at

    return axes, terms


def _own(w: Windows, name: str) -> dict[str, int]:
    """The annotation for the schedule that each group pads its own data, if the planner says so."""
    return {OWN_DATA: 1} if planner().apart(w, name) else {}


def _result(w: Windows, made: te.Tensor, at: Callable[[Sequence[Any]], Sequence[Any]]) -> te.Tensor:
    """The result (N, O, places...) from `made` (N, groups, filters, ...). at: f(places) -> the last indices of `made`."""
    filters = w.filters
    if w.groups > 1 and get_const_int(made.shape[2]) != filters:
        cut = [*shape_of(made)[:2], filters, *shape_of(made)[3:]]
        whole = made
        made = compute(cut, lambda *i: whole(*i), name="T_filters", tag="injective", attrs={MATERIALIZE: 1})

    def element(nn: Var, ff: Var, *place: Var) -> ProducerLoad:
        if w.groups == 1:
            return made(nn, ff, *at(place))
        group, row = (ff, 0) if filters == 1 else (tir.floordiv(ff, filters), tir.floormod(ff, filters))
        return made(nn, group, row, *at(place))

    shape = [get_const_int(w.data.shape[0]), filters * w.groups, *w.out]
    return compute(shape, element, name="T_places", tag="injective")


def _rows(w: Windows, form: Form, name: str, tag: str) -> te.Tensor:
    *lead, last = w.out
    width, tiles = form.lanes, form.tiles
    # If a row of the image is one vector, rows of the image are the columns of the tile.
    vectors = ceil_div(last, width)
    rows, columns = tiles.rows, (tiles.columns if vectors > 1 else 1) * width
    attrs = {**(tile_attrs(tiles) if vectors > 1 else {TILE_ROWS: tiles.tile_rows}), **_own(w, name)}
    read = _padded(w, [o + v for o, v in zip([*lead, columns], w.over, strict=True)])
    axes, terms = _sum(w, rows)

    def element(nn: Var, *i: Var) -> Any:
        group, row, place = (0, i[0], i[1:]) if w.groups == 1 else (i[0], i[1], i[2:])
        channel, weight, kernel_offsets = terms(group, row)
        phase, steps = w.kernel_offset(kernel_offsets)
        return te.sum(read(nn, channel, phase, [p + s for p, s in zip(place, steps, strict=True)]) * weight, axis=axes)

    groups = [w.groups] if w.groups > 1 else []
    shape = [get_const_int(w.data.shape[0]), *groups, rows, *lead, columns]
    made = compute(shape, element, name=name, tag=tag, attrs=attrs)
    if not groups and (rows, columns) == (w.filters, last):
        return made
    return _result(w, made, lambda place: place)


def _flat(w: Windows, form: Form, name: str, tag: str) -> te.Tensor:
    steps, wanted, tiles = w.row_steps, w.flat_places, form.tiles
    rows, columns = tiles.rows, tiles.columns * form.lanes
    inner = [o + v for o, v in zip(w.out, w.over, strict=True)][1:]
    reach = sum([v * s for v, s in zip(w.over, steps, strict=True)])
    whole = [ceil_div(columns + reach, steps[0]), *inner]
    direct = reach == 0 and not any([*w.before, *w.after]) and all([s == 1 for s in w.strides])
    # Windows of one element read the data itself, with the lanes beyond the last place masked.
    read: Read = (lambda nn, cc, phase, at: w.data(nn, cc, *at)) if direct else _padded(w, whole)
    axes, terms = _sum(w, rows)

    def element(nn: Any, *i: Any) -> Any:
        group, row, q = (0, *i) if w.groups == 1 else i
        channel, weight, kernel_offsets = terms(group, row)
        phase, distance = w.kernel_offset(kernel_offsets)
        at = q
        for d, s in zip(distance, steps, strict=True):
            at = at + (d if s == 1 else d * s)
        value = read(nn, channel, phase, _unflattened(at, whole))
        if direct and columns > wanted:
            value = tir.if_then_else(q < wanted, value, tir.const(0, w.dtype))
        return te.sum(value * weight, axis=axes)

    groups = [w.groups] if w.groups > 1 else []
    made = compute(
        [get_const_int(w.data.shape[0]), *groups, rows, columns], element, name=name, tag=tag,
        attrs={**tile_attrs(tiles), **_own(w, name)},
    )  # fmt: skip

    def flat(place: Sequence[Any]) -> list[Any]:
        at = 0
        for p, s in zip(place, steps, strict=True):
            at = at + (p if s == 1 else p * s)
        return [at]

    return _result(w, made, flat)


def _unflattened(at: Any, extents: Sequence[int]) -> list[Any]:
    """The index along each axis of a place that is counted over all axes in row-major order. They are quotients of one another, so that
    they simplify to the place again if the axes are contiguous in memory."""
    found: list[Any] = []
    for e in reversed(extents[1:]):
        found.append(tir.floormod(at, e) if e > 1 else 0)
        at = tir.floordiv(at, e) if e > 1 else at
    return [at, *reversed(found)]


def _panels(w: Windows, form: Form, name: str, tag: str) -> te.Tensor:
    """The product of weights and the image, which is first copied into panels. If channels are far apart, each would be on another page of
    memory."""
    per_group, filters, out = w.per_group, w.filters, w.out

    def left(i: Sequence[Any], row: Any, k: Any) -> Any:
        return w.kernel(i[1] * filters + row, k, *[0] * len(out))

    def right(i: Sequence[Any], k: Any, column: Any) -> Any:
        return w.data(i[0], i[1] * per_group + k, *_unflattened(column, out))

    lead = [get_const_int(w.data.shape[0]), w.groups]
    made = in_panels(Matrices(left, right, lead, filters, prod(out), per_group, True, False, w.dtype), form, name, tag)
    return _apart(w, made)


def _dots(w: Windows, form: Form, name: str, tag: str) -> te.Tensor:
    per_group, window, out = w.per_group, w.window, w.out
    read = _padded(w, [o + v for o, v in zip(out, w.over, strict=True)])
    rank = len(window)

    def written(*i: PrimExpr) -> Any:
        nn, group, place, channel, kernel_offsets = i[0], i[1], i[2 : 2 + rank], i[2 + rank], i[3 + rank :]
        phase, steps = w.kernel_offset(kernel_offsets)
        return read(nn, group * per_group + channel, phase, [p + s for p, s in zip(place, steps, strict=True)])

    batch = get_const_int(w.data.shape[0])
    windows = compute(
        [batch, w.groups, *out, per_group, *window], written, name="T_windows", tag="injective", attrs={MATERIALIZE: 1}
    )
    sizes = [per_group, *window]

    def left(i: Sequence[Any], row: Any, k: Any) -> Any:
        return w.kernel(i[1] * w.filters + row, *_unflattened(k, sizes))

    def right(i: Sequence[Any], k: Any, column: Any) -> Any:
        return windows(*i, *_unflattened(column, out), *_unflattened(k, sizes))

    p = Matrices(left, right, [batch, w.groups], w.filters, prod(out), prod(sizes), True, True, w.dtype)
    return _apart(w, dots(p, form, name, tag))


def _apart(w: Windows, made: te.Tensor) -> te.Tensor:
    """The result (N, O, places...) from `made` (N, groups, filters, places as one axis)."""
    filters, out = w.filters, w.out
    steps = [prod(out[i + 1 :]) for i in range(len(out))]

    def element(nn: Any, ff: Any, *place: Any) -> Any:
        at = 0
        for q, s in zip(place, steps, strict=True):
            at = at + q * s
        return made(nn, tir.floordiv(ff, filters), tir.floormod(ff, filters), at)

    return compute(
        [get_const_int(w.data.shape[0]), filters * w.groups, *out], element, name="T_places", tag="injective"
    )


_FORMS = {"rows": _rows, "flat": _flat, "panels": _panels, "dots": _dots}

__all__ = ["plain_conv"]
