"""Convolutions of plain layouts, channels first: any number of spatial axes, any strides, dilations and groups.

Vectors run along the image, so that neither channels nor filters need to be whole vectors, and weights are read as they lie:
filters are the rows of a product of matrices, whose other operand is never written out. Three forms:

rows   vectors along the last axis of the image
flat   vectors along the whole image: the padded rows follow each other in memory, so that a tap of a window is a constant
       distance away for all of them; what is computed between the rows is cut off again
dots   for images of few places: windows are written out, and vectors run along the reduction

Where windows move by more than one place, the padded data is cut into phases, `phases[.., place % stride, place // stride]`, in
which the elements that a tap reads for neighbouring outputs are neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from tilewright import te
from tilewright.ir import DataType
from tilewright.scheduling.cpu.tiles import MATERIALIZE, OWN_DATA, TILE_ROWS, Tiling, register_tile, tile_cost, tiling
from tilewright.target import Target
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.product import FAR, FOLD, OWN_PANELS, Matrices, dots, in_panels, tile_attrs
from tilewright.topi.utils import ceil_div, get_const_int, shape_of, window_extent

MISPLACED, LARGE = 1 << 20, 1 << 23
"""Bytes of an image of which vectors cross lines of the caches, and of any, from which on it pays to copy it."""
MANY_GROUPS = 8
"""Groups from which on each one's padded data is made where it is read."""
COPY, PANELS, PHASES, NARROW, SCATTERED = 0.25, 0.3, 1.0, 1.8, 2.0
"""Cycles for an element that is copied with vectors, into panels, from steps of a stride, in rows of less than a vector, and by itself."""


class Windows(NamedTuple):
    """A convolution's data and weights, and how its windows move; one number for each spatial axis."""

    data: te.Tensor
    kernel: te.Tensor
    strides: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]
    dilations: Sequence[int]
    groups: int
    dtype: str

    @property
    def extents(self) -> list[int]:
        return shape_of(self.data)[2:]

    @property
    def window(self) -> list[int]:
        return [get_const_int(d) for d in self.kernel.shape[2:]]

    @property
    def out(self) -> list[int]:
        """Places of the result."""
        each = zip(self.extents, self.window, self.before, self.after, self.strides, self.dilations, strict=True)
        return [window_extent(*one) for one in each]

    @property
    def filters(self) -> int:
        """Filters of each group, where weights are (filters of all groups, channels of one, window...)."""
        return int(get_const_int(self.kernel.shape[0]) // self.groups)

    @property
    def per_group(self) -> int:
        """Channels of each group."""
        return int(get_const_int(self.kernel.shape[1]))

    @property
    def over(self) -> list[int]:
        """How many steps of its stride a window reaches beyond its first place."""
        return [(k - 1) * d // s for k, d, s in zip(self.window, self.dilations, self.strides, strict=True)]

    @property
    def phases(self) -> list[int]:
        """How many phases of each axis windows read, from the first to the last of them."""
        each = zip(self.window, self.dilations, self.strides, strict=True)
        return [max([t * d % s for t in range(min(k, s))]) + 1 for k, d, s in each]

    @property
    def is_product(self) -> bool:
        """Whether windows are single places that lie side by side: the convolution is a product of matrices."""
        return {*self.window, *self.strides} == {1} and not any([*self.before, *self.after])

    def tap(self, k: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The phase of a tap, and its distance in steps."""
        at = [t if d == 1 else t * d for t, d in zip(k, self.dilations, strict=True)]
        phase = [tir.floormod(a, s) if s > 1 else 0 for a, s in zip(at, self.strides, strict=True)]
        return phase, [tir.floordiv(a, s) if s > 1 else a for a, s in zip(at, self.strides, strict=True)]


Read = Callable[[Any, Any, Sequence[Any], Sequence[Any]], Any]
"""read(image, channel, phase, place): an element of the padded data; places count in strides."""


def plain_conv(w: Windows, name: str, tag: str) -> te.Tensor | None:
    """The convolution (N, O, places...), or None where it has no vectors or a dimension is dynamic."""
    target = Target.current(True)
    known = all([isinstance(d, int) for d in (*shape_of(w.data), *w.out)])
    if target is None or not known or not DataType(w.dtype).is_float or min(w.out) < 1 or w.dtype != w.data.dtype:
        return None
    lanes, registers = target.cpu.lanes(DataType(w.dtype).bits), target.cpu.vector_registers
    if lanes < 4:
        return None
    form = _cheapest(w, lanes, registers)
    forms = {"rows": _rows, "flat": _flat, "dots": _dots, "panels": _panels}
    return forms[form](w, lanes, registers, name, tag)


def _cheapest(w: Windows, lanes: int, registers: int) -> str:
    """The form of the fewest cycles."""
    costs = _costs(w, lanes, registers)
    return min(costs, key=lambda form: costs[form])


def _costs(w: Windows, lanes: int, registers: int) -> dict[str, float]:
    """Cycles of each form, by the model of register tiles. What all of them do alike is left out."""
    images = get_const_int(w.data.shape[0]) * w.groups
    places, inner = prod(w.out), w.per_group * prod(w.window)

    def tiles(rows: int, columns: int, steps: int) -> float:
        return steps * tiling(rows, columns, registers).cycles

    *lead, last = w.out
    width = ceil_div(last, lanes)
    rows = (
        tiles(w.filters, width, inner) * prod(lead) if width > 1 else tiles(w.filters, lead[-1] if lead else 1, inner)
    )
    rows *= prod(lead[:-1]) if width == 1 else 1
    long = ceil_div(_flat_places(w), lanes)
    # One filter's rows that follow each other without a gap are the result as it lies.
    lies = len(lead) == 0 or (w.is_product and w.filters == w.groups == 1)
    flat = tiles(w.filters, long, inner) + (0 if lies else w.filters * places * COPY * 2)
    summed = ceil_div(inner, lanes) * tiling(w.filters, places, registers, True).cycles + w.filters * places * FOLD
    written = places * inner * SCATTERED
    found = {"rows": rows * images, "flat": flat * images, "dots": (summed + written) * images}
    if w.is_product and _is_apart(w, lanes):
        found["panels"] = found["flat"] + places * inner * images * PANELS
        found["flat"] *= FAR
        found["rows"] *= FAR
    return found


def _is_apart(w: Windows, lanes: int) -> bool:
    """Whether the image of windows of one place is read better from a copy: its channels begin within vectors, or are very large, and
    many filters read them."""
    size = prod(w.out) * w.per_group * DataType(w.dtype).bytes
    return w.filters >= OWN_PANELS and (size > LARGE or (size > MISPLACED and prod(w.out) % lanes != 0))


def plain_cycles(w: Windows) -> float | None:
    """Cycles of the cheapest form, its copy in phases included; None where there is no such form."""
    target = Target.current(True)
    lanes = target.cpu.lanes(DataType(w.dtype).bits) if target is not None else 0
    if target is None or lanes < 4 or not DataType(w.dtype).is_float or min(w.out) < 1 or w.dtype != w.data.dtype:
        return None
    places = [o + v for o, v in zip(w.out, w.over, strict=True)]
    copied = prod(w.phases) * prod(places) * w.per_group * w.groups * get_const_int(w.data.shape[0])
    narrow = places[-1] < lanes
    strided, padded = any([s > 1 for s in w.strides]), any([*w.before, *w.after])
    copies = copied * (NARROW if narrow else PHASES) if strided else 0.0
    if padded and (narrow or OWN_DATA not in _own(w)):
        # What groups pad for themselves in vectors stays near.
        copies += copied * (NARROW if narrow else COPY)
    return min(_costs(w, lanes, target.cpu.vector_registers).values()) + copies


def _row_steps(w: Windows) -> list[int]:
    """The distance of neighbours along each axis in a flat image."""
    _, *inner = [o + v for o, v in zip(w.out, w.over, strict=True)]
    return [prod(inner[i:]) for i in range(len(inner) + 1)]


def _flat_places(w: Windows) -> int:
    """From the first place of a flat image to the last one that is wanted."""
    return sum([(o - 1) * s for o, s in zip(w.out, _row_steps(w), strict=True)]) + 1


def _padded(w: Windows, places: Sequence[int]) -> Read:
    """Reads data of so many places (counted in strides) along each axis: where it lies if that is all there is, else a padded
    copy, in phases where windows move by more than one place."""
    steps, phases = w.strides, w.phases
    needed = [(p - 1) * s + f for p, s, f in zip(places, steps, phases, strict=True)]
    inside = not any(w.before) and all([n <= e for n, e in zip(needed, w.extents, strict=True)])
    source = w.data if inside else _with_borders(w, needed)
    if all([s == 1 for s in steps]):
        return lambda nn, cc, phase, at: source(nn, cc, *at)
    rank = len(steps)

    def element(*i: Any) -> Any:
        nn, cc, *rest = i
        phase, at = rest[:rank], rest[rank:]
        return source(nn, cc, *[a * s + f if s > 1 else a for a, s, f in zip(at, steps, phase, strict=True)])

    shape = [*shape_of(w.data)[:2], *phases, *places]
    parts = compute(shape, element, name="pad_phases", tag="injective,pad", attrs={MATERIALIZE: 1})
    return lambda nn, cc, phase, at: parts(nn, cc, *phase, *at)


def _with_borders(w: Windows, needed: Sequence[int]) -> te.Tensor:
    """The data with zeros around it."""

    def element(*i: Any) -> Any:
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
    """(axes of the reduction, f(group, filter) -> channel, weight, taps); axes of one place are left out."""
    per_group, filters = w.per_group, w.filters
    rc = te.reduce_axis((0, per_group), name="rc")
    taps = [te.reduce_axis((0, k), name=f"r{'zyx'[-len(w.window) :][i]}") for i, k in enumerate(w.window)]
    extents = [per_group, *w.window]
    axes = [a for a, extent in zip((rc, *taps), extents, strict=True) if extent > 1] or [rc]

    def one(axis: Any) -> Any:
        return axis.var if axis in axes else 0

    def terms(group: Any, row: Any) -> tuple[Any, Any, list[Any]]:
        chosen = row if rows == filters else tir.min(row, filters - 1)
        filter_ = chosen if w.groups == 1 else group * filters + chosen
        channel = one(rc) if w.groups == 1 else group * per_group + one(rc)
        at = [one(t) for t in taps]
        return channel, w.kernel(filter_, one(rc), *at), at

    return axes, terms


def _tiles(w: Windows, vectors: int, registers: int) -> Tiling:
    """The tiles over filters of a group and vectors. Groups lie side by side in the result, which is simpler to write where no filter
    is computed in vain: so it is where tiles then cost about the same."""
    found = tiling(w.filters, vectors, registers)
    if w.groups > 1 and found.rows != w.filters:
        r, c = register_tile(w.filters, found.columns, registers)
        cycles = (tile_cost(r, c, registers) or 2.0) * w.filters * found.columns
        if cycles <= 1.25 * found.cycles:
            return Tiling(r, c, w.filters, found.columns, cycles)
    return found


def _own(w: Windows) -> dict[str, int]:
    """What tells the schedule that groups share nothing, and are too small to gain from data that is padded for all."""
    return {OWN_DATA: 1} if w.groups >= MANY_GROUPS and w.filters == 1 else {}


def _result(w: Windows, made: te.Tensor, at: Callable[[Sequence[Any]], Sequence[Any]]) -> te.Tensor:
    """(N, O, places...) out of (N, groups, filters, ...), at(places) being the last indices."""
    filters = w.filters
    if w.groups > 1 and get_const_int(made.shape[2]) != filters:
        cut = [*shape_of(made)[:2], filters, *shape_of(made)[3:]]
        whole = made
        made = compute(cut, lambda *i: whole(*i), name="T_filters", tag="injective", attrs={MATERIALIZE: 1})

    def element(nn: Any, ff: Any, *place: Any) -> Any:
        if w.groups == 1:
            return made(nn, ff, *at(place))
        group, row = (ff, 0) if filters == 1 else (tir.floordiv(ff, filters), tir.floormod(ff, filters))
        return made(nn, group, row, *at(place))

    shape = [get_const_int(w.data.shape[0]), filters * w.groups, *w.out]
    return compute(shape, element, name="T_places", tag="injective")


def _rows(w: Windows, lanes: int, registers: int, name: str, tag: str) -> te.Tensor:
    *lead, last = w.out
    width = lanes
    while width > 4 and width >= 2 * last:
        width //= 2
    vectors = ceil_div(last, width)
    # Where a row of places is one vector, rows of the image are the columns of the tile.
    tiles = _tiles(w, vectors if vectors > 1 else lead[-1] if lead else 1, registers)
    rows, columns = tiles.rows, (tiles.columns if vectors > 1 else 1) * width
    attrs = {**(tile_attrs(tiles) if vectors > 1 else {TILE_ROWS: tiles.tile_rows}), **_own(w)}
    read = _padded(w, [o + v for o, v in zip([*lead, columns], w.over, strict=True)])
    axes, terms = _sum(w, rows)

    def element(nn: Any, *i: Any) -> Any:
        group, row, place = (0, i[0], i[1:]) if w.groups == 1 else (i[0], i[1], i[2:])
        channel, weight, taps = terms(group, row)
        phase, steps = w.tap(taps)
        return te.sum(read(nn, channel, phase, [p + s for p, s in zip(place, steps, strict=True)]) * weight, axis=axes)

    groups = [w.groups] if w.groups > 1 else []
    shape = [get_const_int(w.data.shape[0]), *groups, rows, *lead, columns]
    made = compute(shape, element, name=name, tag=tag, attrs=attrs)
    if not groups and (rows, columns) == (w.filters, last):
        return made
    return _result(w, made, lambda place: place)


def _flat(w: Windows, lanes: int, registers: int, name: str, tag: str) -> te.Tensor:
    steps, wanted = _row_steps(w), _flat_places(w)
    tiles = _tiles(w, ceil_div(wanted, lanes), registers)
    rows, columns = tiles.rows, tiles.columns * lanes
    inner = [o + v for o, v in zip(w.out, w.over, strict=True)][1:]
    reach = sum([v * s for v, s in zip(w.over, steps, strict=True)])
    whole = [ceil_div(columns + reach, steps[0]), *inner]
    direct = reach == 0 and not any([*w.before, *w.after]) and all([s == 1 for s in w.strides])
    # Where windows have one place, data is read where it lies; what is no place of the last vector is masked.
    read: Read = (lambda nn, cc, phase, at: w.data(nn, cc, *at)) if direct else _padded(w, whole)
    axes, terms = _sum(w, rows)

    def element(nn: Any, *i: Any) -> Any:
        group, row, q = (0, *i) if w.groups == 1 else i
        channel, weight, taps = terms(group, row)
        phase, distance = w.tap(taps)
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
        attrs={**tile_attrs(tiles), **_own(w)},
    )  # fmt: skip

    def flat(place: Sequence[Any]) -> list[Any]:
        at: Any = 0
        for p, s in zip(place, steps, strict=True):
            at = at + (p if s == 1 else p * s)
        return [at]

    return _result(w, made, flat)


def _unflattened(at: Any, extents: Sequence[int]) -> list[Any]:
    """The indices along axes of these extents of a place that is counted along all of them, from the last one on: each counts what
    the one after it leaves, so that they are seen to be one place again where the axes lie together in memory."""
    found: list[Any] = []
    for e in reversed(extents[1:]):
        found.append(tir.floormod(at, e) if e > 1 else 0)
        at = tir.floordiv(at, e) if e > 1 else at
    return [at, *reversed(found)]


def _panels(w: Windows, lanes: int, registers: int, name: str, tag: str) -> te.Tensor:
    """Weights by the image, of which vectors' places are copied side by side first: where its channels are far apart, each would be
    read from another page."""
    per_group, filters, out = w.per_group, w.filters, w.out

    def left(i: Sequence[Any], row: Any, k: Any) -> Any:
        return w.kernel(i[1] * filters + row, k, *[0] * len(out))

    def right(i: Sequence[Any], k: Any, column: Any) -> Any:
        return w.data(i[0], i[1] * per_group + k, *_unflattened(column, out))

    lead = [get_const_int(w.data.shape[0]), w.groups]
    made = in_panels(
        Matrices(left, right, lead, filters, prod(out), per_group, True, False, w.dtype), lanes, registers, name, tag
    )
    return _apart(w, made)


def _dots(w: Windows, lanes: int, registers: int, name: str, tag: str) -> te.Tensor:
    per_group, window, out = w.per_group, w.window, w.out
    read = _padded(w, [o + v for o, v in zip(out, w.over, strict=True)])
    rank = len(window)

    def written(*i: Any) -> Any:
        nn, group, place, channel, taps = i[0], i[1], i[2 : 2 + rank], i[2 + rank], i[3 + rank :]
        phase, steps = w.tap(taps)
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
    return _apart(w, dots(p, lanes, registers, name, tag))


def _apart(w: Windows, made: te.Tensor) -> te.Tensor:
    """(N, O, places...) out of (N, groups, filters, places as one axis)."""
    filters, out = w.filters, w.out
    steps = [prod(out[i + 1 :]) for i in range(len(out))]

    def element(nn: Any, ff: Any, *place: Any) -> Any:
        at: Any = 0
        for q, s in zip(place, steps, strict=True):
            at = at + q * s
        return made(nn, tir.floordiv(ff, filters), tir.floormod(ff, filters), at)

    return compute(
        [get_const_int(w.data.shape[0]), filters * w.groups, *out], element, name="T_places", tag="injective"
    )


__all__ = ["Windows", "plain_conv", "plain_cycles"]
