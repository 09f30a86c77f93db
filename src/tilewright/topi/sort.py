"""Sorting along an axis, and the first k elements of lines. The planner decides the form:

inserted   insertion sort
radix      by digits of the keys, one after the other: O(n) for numbers of fixed width
best       one pass, in which the best elements so far stand in order
ranked     the place of each element is the number of those that come before it
bitonic    by the threads of a block, in shared memory (bitonic.py)
merged     by blocks of threads, which sort runs, and kernels that merge them (merged_sort.py)
side by side   the best so far of several lines, a line in each lane of vectors (side_by_side.py)
halved     the range of the keys is halved until it holds those that are wanted; these are ranked

Equal elements keep their order. NaN counts as larger than every number, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.bitonic import bitonic
from tilewright.topi.lang import tir
from tilewright.topi.loops import Lines, local, program
from tilewright.topi.merged_sort import merged
from tilewright.topi.planner import planner
from tilewright.topi.side_by_side import side_by_side
from tilewright.topi.utils import Dim, normalize_axis, prod, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Select, Var
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


SHORT = 48
"""The greatest length of lines of dynamic length that are sorted by insertion."""
DIGIT = 8
"""The number of bits of a key that one pass of radix sort uses."""
FEW = 64
"""The greatest k for which the k best of a line of dynamic length are kept in order while it is read once."""
COUNTED = 64
"""The number of keys that one step of a counting loop compares."""


def before(a: Any, b: Any, is_ascend: bool) -> Any:
    """Whether a comes strictly before b in the order."""
    if not is_ascend:
        a, b = b, a
    if "float" not in a.dtype:
        return a < b
    return tir.Or(a < b, tir.And(tir.NE(b, b), tir.EQ(a, a)))


def _sortable(x: PrimExpr, is_ascend: bool) -> PrimExpr:
    """An unsigned integer that sorts in ascending order as x does in the wanted order."""
    kind = x.dtype
    if "float" in kind:
        wide = kind == "float64"
        bits, word = (64, "uint64") if wide else (32, "uint32")
        value = x if kind in ("float32", "float64") else tir.Cast("float32", x)
        one = tir.const(1, word)
        top = tir.shift_left(one, tir.const(bits - 1, word))
        # Both zeros are equal, and so are all NaNs.
        plain = tir.Select(tir.EQ(value, tir.const(0, value.dtype)), tir.const(0, word), tir.reinterpret(word, value))
        nan = tir.const(0x7FF8 << 48 if wide else 0x7FC0 << 16, word)
        plain = tir.Select(tir.NE(value, value), nan, plain)
        key: PrimExpr = tir.Select(plain >= top, tir.bitwise_not(plain), tir.bitwise_or(plain, top))
    else:
        bits, word = (64, "uint64") if kind in ("int64", "uint64") else (32, "uint32")
        key = to(x, word)
        if kind.startswith("int"):
            top = tir.shift_left(tir.const(1, word), tir.const(bits - 1, word))
            key = tir.bitwise_xor(key, top)
    return key if is_ascend else tir.bitwise_not(key)


def _insert(ib: IRBuilder, keys: BufferVar, places: BufferVar, line: Var, n: Dim) -> None:
    """Sorts keys[line, 0] by insertion, and moves places[line, 0] with them."""
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
    """Sorts by digits, the lowest first. Each pass moves keys and places from one half to the other; which[0] is the half of the result."""
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
        # A digit that all keys have in common needs no pass.
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


def _sorted(data: te.Tensor, axis: int, is_ascend: bool, number: Dim, dtype: str, form: str = "") -> list[te.Tensor]:
    """[values, positions] of the first `number` elements of every sorted line. form: inserted or radix; if it is not given, the length of
    the lines selects it at run time."""
    shape = shape_of(data)
    lines = Lines(shape, axis)
    n = lines.length
    out = [*shape[:axis], number, *shape[axis + 1 :]]
    wide = data.dtype in ("float64", "int64", "uint64")
    bits = 64 if wide else {"bool": 8, "int8": 32, "uint8": 8, "uint16": 16}.get(str(data.dtype), 32)
    word = "uint64" if wide else "uint32"
    short, long = form == "inserted", form == "radix"

    def body(
        ib: IRBuilder,
        x: BufferVar,
        values: BufferVar,
        places: BufferVar,
        keys: BufferVar,
        order: BufferVar,
        counts: BufferVar,
    ) -> None:
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
    """Like `_sorted` for a small `number`: one pass over each line, which keeps the best elements so far in order."""
    shape = shape_of(data)
    lines = Lines(shape, axis)
    out = [*shape[:axis], number, *shape[axis + 1 :]]

    def body(ib: Any, x: Any, values: Any, places: Any, keys: Any, found: Any) -> None:
        with lines.each(ib, 2) as line, ib.for_range(0, lines.length, "k") as k:
            key = ib.let("key", x[lines.index(line, k)])
            # Each of the first `number` elements is among the best so far.
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


def _ranked(data: te.Tensor, axis: int, is_ascend: bool, number: int, dtype: str, form: str) -> list[te.Tensor]:
    """Like `_sorted` for a few elements of 32 bits, by counting in vectors without branches. form: ranked; or halved, where the last of
    the wanted elements is found by bisection over the range of the keys."""
    shape = shape_of(data)
    lines = Lines(shape, axis)
    n = lines.length
    out = [*shape[:axis], number, *shape[axis + 1 :]]
    chosen = number if form == "halved" else n
    # Padded with keys that come last, so that whole vectors are counted.
    keys_held, pairs_held = -(-n // COUNTED) * COUNTED, -(-chosen // 16) * 16
    word = "uint32"
    worst, most_places = tir.const((1 << 32) - 1, word), tir.const((1 << 64) - 1, "uint64")

    def one_if(condition: PrimExpr, kind: str = "int32") -> PrimExpr:
        return tir.Select(condition, tir.const(1, kind), tir.const(0, kind))

    def body(
        ib: IRBuilder,
        x: BufferVar,
        values: BufferVar,
        places: BufferVar,
        keys: BufferVar,
        order: BufferVar,
        pairs: BufferVar,
    ) -> None:
        def counted(condition: Callable[[Any], Any], extent: int, kind: str = "int32") -> Any:
            count = local(ib, kind, 0, "count")
            with ib.for_range(0, extent, "k") as k:
                count[0] = count[0] + one_if(condition(k), kind)
            return count[0]

        def pair(key: PrimExpr, place: Var) -> PrimExpr:
            """One number of key and position, so that equal keys keep their order."""
            return tir.bitwise_or(tir.shift_left(to(key, "uint64"), tir.const(32, "uint64")), to(place, "uint64"))

        with lines.each(ib, 8) as line:
            if form == "ranked":
                with ib.for_range(0, n, "k") as k:
                    pairs[line, k] = pair(_sortable(x[lines.index(line, k)], is_ascend), k)
            else:
                with ib.for_range(0, n, "k") as k:
                    keys[line, k] = _sortable(x[lines.index(line, k)], is_ascend)
                least, most = local(ib, word, (1 << 32) - 1, "least"), local(ib, word, 0, "most")
                for bound, of in ((least, tir.min), (most, tir.max)):
                    with ib.for_range(0, n, "k") as k:
                        bound[0] = of(bound[0], keys[line, k])
                with ib.for_range(0, keys_held - n, "k") as k:
                    keys[line, n + k] = worst
                with ib.while_loop(least[0] < most[0]):
                    middle = ib.let("middle", least[0] + tir.shift_right(most[0] - least[0], tir.const(1, word)))
                    count = ib.let("count", counted(lambda k: keys[line, k] <= middle, keys_held))
                    with ib.if_scope(count < number):
                        least[0] = middle + tir.const(1, word)
                    with ib.else_scope():
                        most[0] = middle
                        least[0] = tir.Select(tir.EQ(count, number), middle, least[0])
                last = ib.let("last", most[0])
                found = local(ib, "int32", 0, "found")

                def gather(wanted: Callable[[Any], Any]) -> None:
                    # An element is written even if it is not wanted; the next one overwrites it.
                    with ib.for_range(0, n, "k") as k:
                        order[line, found[0]] = to(k, "int32")
                        found[0] = found[0] + one_if(wanted(keys[line, k]))

                with ib.if_scope(tir.EQ(counted(lambda k: keys[line, k] <= last, keys_held), number)):
                    gather(lambda key: key <= last)
                with ib.else_scope():
                    gather(lambda key: key < last)
                    gather(lambda key: tir.And(tir.EQ(key, last), found[0] < number))
                with ib.for_range(0, number, "k") as k:
                    place = ib.let("place", order[line, k])
                    pairs[line, k] = pair(keys[line, place], place)
            with ib.for_range(0, pairs_held - chosen, "k") as k:
                pairs[line, chosen + k] = most_places
            with ib.for_range(0, chosen, "k") as k:
                mine = ib.let("mine", pairs[line, k])
                rank = ib.let("rank", to(counted(lambda j: pairs[line, j] < mine, pairs_held, "int64"), "int32"))
                with ib.if_scope(rank < number):
                    place = ib.let("place", to(tir.bitwise_and(mine, tir.const((1 << 32) - 1, "uint64")), "int32"))
                    values[lines.index(line, rank)] = x[lines.index(line, place)]
                    places[lines.index(line, rank)] = to(place, dtype)

    room, places = ([1, 1], [1, 1]) if chosen == n else ([lines.count, keys_held], [lines.count, number + 1])
    scratch = [(room, word), (places, "int32"), ([lines.count, pairs_held], "uint64")]
    return program([out, out], [data.dtype, dtype], [data], body, "ranked", scratch)


def first(data: te.Tensor, axis: int, is_ascend: bool, number: Dim, dtype: str) -> list[te.Tensor]:
    """[values, positions] of the first `number` elements of every sorted line, in the form that the planner decides."""
    n = shape_of(data)[axis]
    if not isinstance(n, int) or not isinstance(number, int):
        if isinstance(number, int) and number <= FEW:
            return _best(data, axis, is_ascend, number, dtype)
        return _sorted(data, axis, is_ascend, number, dtype)
    lines = prod([d for i, d in enumerate(shape_of(data)) if i != axis])
    wide = str(data.dtype) in ("float64", "int64", "uint64")
    form = planner().order(n, number, lines if isinstance(lines, int) else 0, wide)
    if form == "best":
        return _best(data, axis, is_ascend, number, dtype)
    word = "uint64" if wide else "uint32"
    if form == "bitonic":
        return bitonic(data, axis, number, dtype, word, lambda x: _sortable(x, is_ascend))
    if form == "merged":
        run = planner().sorted_run(n, wide)
        return merged(data, axis, number, dtype, word, run, lambda x: _sortable(x, is_ascend))
    if form == "side by side":
        return side_by_side(data, axis, number, dtype, lambda x: _sortable(x, is_ascend))
    if form in ("ranked", "halved"):
        return _ranked(data, axis, is_ascend, number, dtype, form)
    return _sorted(data, axis, is_ascend, number, dtype, form)


def sort(data: te.Tensor, axis: int = -1, is_ascend: bool = True) -> te.Tensor:
    """The elements in sorted order along `axis`."""
    at = normalize_axis(axis, len(data.shape))
    return first(data, at, is_ascend, shape_of(data)[at], "int32")[0]


def argsort(
    data: te.Tensor,
    valid_count: te.Tensor | None = None,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: str = "float32",
) -> te.Tensor:
    """The positions of the elements in sorted order along `axis`; equal elements keep their order. valid_count: only the first so
    many elements of each line are sorted; the others keep their positions."""
    at = normalize_axis(axis, len(data.shape))
    if valid_count is not None:
        return _argsort_valid(data, valid_count, at, is_ascend, dtype)
    return first(data, at, is_ascend, shape_of(data)[at], dtype)[1]


def _argsort_valid(data: te.Tensor, valid_count: te.Tensor, axis: int, is_ascend: bool, dtype: str) -> te.Tensor:
    worst = tir.max_value(data.dtype) if is_ascend else tir.min_value(data.dtype)
    flat_axes = [i for i in range(len(data.shape)) if i != axis]

    def kept(*i: Var) -> Select:
        count = valid_count(*[i[a] for a in flat_axes])
        return tir.Select(i[axis] < to(count, i[axis].dtype), data(*i), worst)

    masked: te.Tensor = te.compute(data.shape, kept, name="valid", tag="injective")
    return first(masked, axis, is_ascend, shape_of(data)[axis], dtype)[1]


def topk(
    data: te.Tensor, k: Any = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int64"
) -> list[te.Tensor]:
    """The k largest (or smallest, if `is_ascend`) elements along `axis`, in order: [values, indices], or one of them. k < 1 means
    all."""
    if ret_type not in ("both", "values", "indices"):
        raise ValueError(f'topk: ret_type must be "both", "values" or "indices", but is {ret_type!r}')
    at = normalize_axis(axis, len(data.shape))
    n = shape_of(data)[at]
    number = n if isinstance(k, int) and k < 1 else k
    if isinstance(n, int) and isinstance(number, int) and number > n:
        raise ValueError(f"topk: k must not exceed the extent of the axis, but it is {number} of {n}")
    values, places = first(data, at, is_ascend, number, dtype)
    return [values, places] if ret_type == "both" else [values] if ret_type == "values" else [places]


def binary_search(
    ib: IRBuilder,
    sequence_offset: Any,
    search_range: Dim,
    sorted_sequence: BufferVar,
    value: Any,
    right: bool,
    out_dtype: str,
) -> Any:
    """Writes a search by halves with the IR builder: the number of elements that are before `value` among `search_range` sorted ones, which
    begin at the flat place `sequence_offset` of a buffer; with `right`, equal elements are before it, too."""
    offset = 0 if sequence_offset is None else sequence_offset
    return _search(ib, lambda k: sorted_sequence[offset + k], search_range, value, right, out_dtype)


def _search(ib: IRBuilder, element: Callable[[Any], Any], count: Dim, value: Any, right: bool, out_dtype: str) -> Any:
    kind = count.dtype if not isinstance(count, int) else "int32"
    low, high = local(ib, kind, 0, "low"), local(ib, kind, count, "high")
    with ib.while_loop(low[0] < high[0]):
        middle = ib.let("middle", low[0] + tir.floordiv(high[0] - low[0], 2))
        found = element(middle)
        behind = tir.Not(before(value, found, True)) if right else before(found, value, True)
        with ib.if_scope(behind):
            low[0] = middle + 1
        with ib.else_scope():
            high[0] = middle
    return to(low[0], out_dtype)


def searchsorted(
    sorted_sequence: te.Tensor, values: te.Tensor, right: bool = False, out_dtype: str = "int64"
) -> te.Tensor:
    """The position of each value in the sorted last axis: before equal elements, or after them with `right`. The sequence has one axis,
    or its other axes equal those of the values."""
    shape, wanted = shape_of(sorted_sequence), shape_of(values)
    n = shape[-1]

    def body(ib: IRBuilder, s: BufferVar, v: BufferVar, out: BufferVar) -> None:
        flat: Sequence[Dim] = wanted or [1]
        lines = Lines(flat, len(flat) - 1)
        with lines.each(ib, 4) as line, ib.for_range(0, lines.length, "k") as k:
            index = lines.index(line, k) if wanted else ()
            prefix = index[:-1] if len(shape) > 1 else ()
            value = ib.let("value", v[index])
            out[index] = _search(ib, lambda k: s[(*prefix, k)], n, value, right, out_dtype)

    return program([wanted], [out_dtype], [sorted_sequence, values], body, "searchsorted")[0]
