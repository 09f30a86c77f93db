"""Sorting: stable merge sort of every line along an axis, O(n log n), and the k best of it in one pass.

NaN counts as larger than every number, as NumPy has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.topi.lang import tir
from tilewright.topi.loops import Lines, local, program
from tilewright.topi.utils import Dim, normalize_axis, shape_of, to

RUN = 16
"""Length of the runs that insertion sorts before they are merged."""
FEW = 64
"""Up to this k, the k best are kept in order while a line is read once."""


def before(a: Any, b: Any, is_ascend: bool) -> Any:
    """Whether a comes strictly before b."""
    if not is_ascend:
        a, b = b, a
    if "float" not in a.dtype:
        return a < b
    return tir.Or(a < b, tir.And(tir.NE(b, b), tir.EQ(a, a)))


def _insert_runs(ib: Any, keys: Any, places: Any, line: Any, n: Dim, is_ascend: bool) -> None:
    """Sorts keys[line] (and places[line] along) within runs."""
    with ib.for_range(0, tir.floordiv(n + (RUN - 1), RUN), "run") as run:
        start = ib.let("start", run * RUN)
        with ib.for_range(start, tir.min(start + RUN, n), "at") as at:
            key = local(ib, keys.dtype, keys[line, at], "key")
            place = local(ib, "int32", places[line, at], "place")
            to_place = local(ib, at.dtype, at, "hole")
            moving = local(ib, "int32", 1, "moving")
            with ib.while_loop(moving[0] > 0):
                hole = to_place[0]
                prior = tir.max(hole - 1, start)
                ahead = tir.And(hole > start, before(key[0], keys[line, prior], is_ascend))
                with ib.if_scope(ahead):
                    keys[line, hole] = keys[line, prior]
                    places[line, hole] = places[line, prior]
                    to_place[0] = prior
                with ib.else_scope():
                    moving[0] = tir.const(0, "int32")
            keys[line, to_place[0]] = key[0]
            places[line, to_place[0]] = place[0]


def _merge(ib: Any, source: Any, target: Any, line: Any, n: Dim, width: Any, is_ascend: bool) -> None:
    """Merges neighbouring runs of `width` from (keys, places) to others."""
    (keys, places), (out_keys, out_places) = source, target
    with ib.for_range(0, tir.floordiv(n + 2 * width - 1, 2 * width), "pair") as p:
        start = ib.let("start", p * 2 * width)
        middle = ib.let("middle", tir.min(start + width, n))
        end = ib.let("end", tir.min(start + 2 * width, n))
        left, right = local(ib, start.dtype, start, "left"), local(ib, start.dtype, middle, "right")
        with ib.for_range(start, end, "at") as at:
            i, j = left[0], right[0]
            # What is read past the end of a run is not used.
            a, b = tir.min(i, n - 1), tir.min(j, n - 1)
            first = tir.And(i < middle, tir.Or(j >= end, tir.Not(before(keys[line, b], keys[line, a], is_ascend))))
            with ib.if_scope(first):
                out_keys[line, at] = keys[line, a]
                out_places[line, at] = places[line, a]
                left[0] = i + 1
            with ib.else_scope():
                out_keys[line, at] = keys[line, b]
                out_places[line, at] = places[line, b]
                right[0] = j + 1


def _sorted(data: te.Tensor, axis: int, is_ascend: bool, number: Dim, dtype: str) -> list[te.Tensor]:
    """[values, places] of the first `number` elements of every sorted line."""
    shape = shape_of(data)
    lines = Lines(shape, axis)
    n = lines.length
    out = [*shape[:axis], number, *shape[axis + 1 :]]

    def body(ib: Any, x: Any, values: Any, places: Any, key_a: Any, key_b: Any, place_a: Any, place_b: Any) -> None:
        with lines.each(ib, 8) as line:
            with ib.for_range(0, n, "k") as k:
                key_a[line, k] = x[lines.index(line, k)]
                place_a[line, k] = to(k, "int32")
            _insert_runs(ib, key_a, place_a, line, n, is_ascend)
            if not isinstance(n, int) or n > RUN:
                width = local(ib, line.dtype if isinstance(n, int) else n.dtype, RUN, "width")
                with ib.while_loop(width[0] < n):
                    _merge(ib, (key_a, place_a), (key_b, place_b), line, n, width[0], is_ascend)
                    _merge(ib, (key_b, place_b), (key_a, place_a), line, n, width[0] * 2, is_ascend)
                    width[0] = width[0] * 4
            with ib.for_range(0, number, "k") as k:
                values[lines.index(line, k)] = key_a[line, k]
                places[lines.index(line, k)] = to(place_a[line, k], dtype)

    room = [lines.count, n]
    scratch = [(room, data.dtype), (room, data.dtype), (room, "int32"), (room, "int32")]
    return program([out, out], [data.dtype, dtype], [data], body, "sort", scratch)


def _best(data: te.Tensor, axis: int, is_ascend: bool, number: int, dtype: str) -> list[te.Tensor]:
    """As _sorted for a small number: one pass over each line, in which the best so far stand in order."""
    shape = shape_of(data)
    lines = Lines(shape, axis)
    out = [*shape[:axis], number, *shape[axis + 1 :]]

    def body(ib: Any, x: Any, values: Any, places: Any, keys: Any, found: Any) -> None:
        with lines.each(ib, 2) as line, ib.for_range(0, lines.length, "k") as k:
            key = ib.let("key", x[lines.index(line, k)])
            # Before `number` elements are seen, each one is among the best.
            room = to(tir.min(k, number - 1), "int32")
            last = ib.let("last", room)
            full = k >= number
            with ib.if_scope(tir.Or(tir.Not(full), before(key, keys[line, tir.const(number - 1, "int32")], is_ascend))):
                hole = local(ib, "int32", last, "hole")
                moving = local(ib, "int32", 1, "moving")
                with ib.while_loop(moving[0] > 0):
                    at = hole[0]
                    prior = tir.max(at - 1, 0)
                    with ib.if_scope(tir.And(at > 0, before(key, keys[line, prior], is_ascend))):
                        keys[line, at] = keys[line, prior]
                        found[line, at] = found[line, prior]
                        hole[0] = prior
                    with ib.else_scope():
                        moving[0] = tir.const(0, "int32")
                keys[line, hole[0]] = key
                found[line, hole[0]] = to(k, "int32")
        with lines.each(ib) as line, ib.for_range(0, number, "k") as k:
            values[lines.index(line, k)] = keys[line, k]
            places[lines.index(line, k)] = to(found[line, k], dtype)

    room = [lines.count, number]
    return program([out, out], [data.dtype, dtype], [data], body, "topk", [(room, data.dtype), (room, "int32")])


def sort(data: te.Tensor, axis: int = -1, is_ascend: bool = True) -> te.Tensor:
    """Elements in order along `axis`."""
    at = normalize_axis(axis, len(data.shape))
    return _sorted(data, at, is_ascend, shape_of(data)[at], "int32")[0]


def argsort(
    data: te.Tensor,
    valid_count: te.Tensor | None = None,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: str = "float32",
) -> te.Tensor:
    """Positions in sorted order along `axis`, equal elements in their old order. With `valid_count`, only the first so many
    elements of each line are sorted; those behind keep their places."""
    at = normalize_axis(axis, len(data.shape))
    if valid_count is not None:
        return _argsort_valid(data, valid_count, at, is_ascend, dtype)
    return _sorted(data, at, is_ascend, shape_of(data)[at], dtype)[1]


def _argsort_valid(data: te.Tensor, valid_count: te.Tensor, axis: int, is_ascend: bool, dtype: str) -> te.Tensor:
    worst = tir.max_value(data.dtype) if is_ascend else tir.min_value(data.dtype)
    flat_axes = [i for i in range(len(data.shape)) if i != axis]

    def kept(*i: Any) -> Any:
        count = valid_count(*[i[a] for a in flat_axes])
        return tir.Select(i[axis] < to(count, i[axis].dtype), data(*i), worst)

    masked: te.Tensor = te.compute(data.shape, kept, name="valid", tag="injective")
    return _sorted(masked, axis, is_ascend, shape_of(data)[axis], dtype)[1]


def topk(
    data: te.Tensor, k: Any = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int64"
) -> Any:
    """The k largest (smallest when `is_ascend`) along `axis` in order: [values, indices], or one of them. k < 1 means all."""
    if ret_type not in ("both", "values", "indices"):
        raise ValueError(f'topk: ret_type must be "both", "values" or "indices", but is {ret_type!r}')
    at = normalize_axis(axis, len(data.shape))
    n = shape_of(data)[at]
    number = n if isinstance(k, int) and k < 1 else k
    few = isinstance(number, int) and number <= FEW and not (isinstance(n, int) and n < 2 * number)
    values, places = (_best if few else _sorted)(data, at, is_ascend, number, dtype)
    return [values, places] if ret_type == "both" else [values] if ret_type == "values" else [places]


def searchsorted(
    sorted_sequence: te.Tensor, values: te.Tensor, right: bool = False, out_dtype: str = "int64"
) -> te.Tensor:
    """Where each value belongs in the sorted last axis: before the equals, or behind them when `right`. The other axes of both are
    the same, or the sequence has one axis."""
    shape, wanted = shape_of(sorted_sequence), shape_of(values)
    n = shape[-1]

    def body(ib: Any, s: Any, v: Any, out: Any) -> None:
        flat: Sequence[Dim] = wanted or [1]
        lines = Lines(flat, len(flat) - 1)
        with lines.each(ib, 4) as line, ib.for_range(0, lines.length, "k") as k:
            index = lines.index(line, k) if wanted else ()
            prefix = index[:-1] if len(shape) > 1 else ()
            value = ib.let("value", v[index])
            kind = n.dtype if not isinstance(n, int) else "int32"
            low, high = local(ib, kind, 0, "low"), local(ib, kind, n, "high")
            with ib.while_loop(low[0] < high[0]):
                middle = ib.let("middle", low[0] + tir.floordiv(high[0] - low[0], 2))
                element = s[(*prefix, middle)]
                behind = tir.Not(before(value, element, True)) if right else before(element, value, True)
                with ib.if_scope(behind):
                    low[0] = middle + 1
                with ib.else_scope():
                    high[0] = middle
            out[index] = to(low[0], out_dtype)

    return program([wanted], [out_dtype], [sorted_sequence, values], body, "searchsorted")[0]
