"""Sorting every line along an axis, by insertion or by digits (O(n) for numbers of a fixed width), and the k best in one pass.

Equal elements keep their order; NaN counts as larger than every number, as NumPy has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.topi.lang import tir
from tilewright.topi.loops import Lines, local, program
from tilewright.topi.utils import Dim, normalize_axis, shape_of, to

SHORT = 48
"""Up to this length, lines are sorted by insertion."""
DIGIT = 8
"""Bits of a key that one pass of radix sort looks at."""
FEW = 64
"""Up to this k, the k best are kept in order while a line is read once."""


def before(a: Any, b: Any, is_ascend: bool) -> Any:
    """Whether a comes strictly before b."""
    if not is_ascend:
        a, b = b, a
    if "float" not in a.dtype:
        return a < b
    return tir.Or(a < b, tir.And(tir.NE(b, b), tir.EQ(a, a)))


def _sortable(x: Any, is_ascend: bool) -> Any:
    """An unsigned number that is the smaller the earlier x comes."""
    kind = x.dtype
    if "float" in kind:
        wide = kind == "float64"
        bits, word = (64, "uint64") if wide else (32, "uint32")
        value = x if kind in ("float32", "float64") else tir.Cast("float32", x)
        one = tir.const(1, word)
        top = tir.shift_left(one, tir.const(bits - 1, word))
        # Both zeros are one, and so are all NaNs.
        plain = tir.Select(tir.EQ(value, tir.const(0, value.dtype)), tir.const(0, word), tir.reinterpret(word, value))
        nan = tir.const(0x7FF8 << 48 if wide else 0x7FC0 << 16, word)
        plain = tir.Select(tir.NE(value, value), nan, plain)
        key = tir.Select(plain >= top, tir.bitwise_not(plain), tir.bitwise_or(plain, top))
    else:
        bits, word = (64, "uint64") if kind in ("int64", "uint64") else (32, "uint32")
        key = to(x, word)
        if kind.startswith("int"):
            top = tir.shift_left(tir.const(1, word), tir.const(bits - 1, word))
            key = tir.bitwise_xor(key, top)
    return key if is_ascend else tir.bitwise_not(key)


def _insert(ib: Any, keys: Any, places: Any, line: Any, n: Dim) -> None:
    """Sorts keys[line, 0] and places[line, 0] along by insertion."""
    with ib.for_range(1, n, "at") as at:
        key, place = local(ib, keys.dtype, keys[line, 0, at], "key"), local(ib, "int32", places[line, 0, at], "place")
        hole, moving = local(ib, at.dtype, at, "hole"), local(ib, "int32", 1, "moving")
        with ib.while_loop(moving[0] > 0):
            prior = tir.max(hole[0] - 1, 0)
            with ib.if_scope(tir.And(hole[0] > 0, key[0] < keys[line, 0, prior])):
                keys[line, 0, hole[0]] = keys[line, 0, prior]
                places[line, 0, hole[0]] = places[line, 0, prior]
                hole[0] = prior
            with ib.else_scope():
                moving[0] = tir.const(0, "int32")
        keys[line, 0, hole[0]] = key[0]
        places[line, 0, hole[0]] = place[0]


def _radix(ib: Any, keys: Any, places: Any, counts: Any, which: Any, line: Any, n: Dim, bits: int) -> None:
    """Sorts by digits from the lowest on, each pass from one half of keys and places to the other; `which[0]` tells where they end."""
    passes, radix = bits // DIGIT, 1 << DIGIT

    def digit(key: Any, p: int) -> Any:
        shifted = tir.shift_right(key, tir.const(p * DIGIT, key.dtype)) if p else key
        return to(tir.bitwise_and(shifted, tir.const(radix - 1, key.dtype)), "int32")

    with ib.for_range(0, passes, "p") as p, ib.for_range(0, radix, "d") as d:
        counts[line, p, d] = tir.const(0, "int32")
    with ib.for_range(0, n, "k") as k:
        for p in range(passes):
            d = digit(keys[line, 0, k], p)
            counts[line, p, d] = counts[line, p, d] + 1
    for p in range(passes):
        # What all keys have in common orders nothing.
        common = digit(keys[line, which[0], tir.const(0, "int32")], p)
        with ib.if_scope(counts[line, p, common] < to(n, "int32")):
            total = local(ib, "int32", 0, "total")
            with ib.for_range(0, radix, "d") as d:
                count = local(ib, "int32", counts[line, p, d], "count")
                counts[line, p, d] = total[0]
                total[0] = total[0] + count[0]
            other = 1 - which[0]
            with ib.for_range(0, n, "k") as k:
                key = local(ib, keys.dtype, keys[line, which[0], k], "key")
                d = digit(key[0], p)
                place = local(ib, "int32", counts[line, p, d], "place")
                counts[line, p, d] = place[0] + 1
                keys[line, other, place[0]] = key[0]
                places[line, other, place[0]] = places[line, which[0], k]
            which[0] = other


def _sorted(data: te.Tensor, axis: int, is_ascend: bool, number: Dim, dtype: str) -> list[te.Tensor]:
    """[values, places] of the first `number` elements of every sorted line."""
    shape = shape_of(data)
    lines = Lines(shape, axis)
    n = lines.length
    out = [*shape[:axis], number, *shape[axis + 1 :]]
    wide = data.dtype in ("float64", "int64", "uint64")
    bits = 64 if wide else {"bool": 8, "int8": 32, "uint8": 8, "uint16": 16}.get(str(data.dtype), 32)
    word = "uint64" if wide else "uint32"
    short, long = isinstance(n, int) and n <= SHORT, isinstance(n, int) and n > SHORT

    def body(ib: Any, x: Any, values: Any, places: Any, keys: Any, order: Any, counts: Any) -> None:
        with lines.each(ib, 8) as line:
            with ib.for_range(0, n, "k") as k:
                keys[line, 0, k] = _sortable(x[lines.index(line, k)], is_ascend)
                order[line, 0, k] = to(k, "int32")
            which = local(ib, "int32", 0, "which")
            if short:
                _insert(ib, keys, order, line, n)
            elif long:
                _radix(ib, keys, order, counts, which, line, n, bits)
            else:
                with ib.if_scope(n <= SHORT):
                    _insert(ib, keys, order, line, n)
                with ib.else_scope():
                    _radix(ib, keys, order, counts, which, line, n, bits)
            with ib.for_range(0, number, "k") as k:
                place = local(ib, "int32", order[line, which[0], k], "place")
                values[lines.index(line, k)] = x[lines.index(line, place[0])]
                places[lines.index(line, k)] = to(place[0], dtype)

    room = [lines.count, 1 if short else 2, n]
    table = [1, 1, 1] if short else [lines.count, bits // DIGIT, 1 << DIGIT]
    scratch = [(room, word), (room, "int32"), (table, "int32")]
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
