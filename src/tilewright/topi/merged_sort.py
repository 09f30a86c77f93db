"""Sorting of lines that are too long for the shared memory of a block: blocks sort runs of a line (bitonic.py), then runs are merged in
pairs, a kernel for each doubling.

    runs of 4            5 7 8 9 | 1 2 5 6 | 0 3 3 4        an element's place in its pair of runs: its number in its own run, and how
    merged to 8    1 2 5 5 6 7 8 9 | 0 3 3 4                many elements of the other run come before it, by a binary search
    to 16                0 1 2 3 3 4 5 5 6 7 8 9

Of each run only as many elements are kept as are wanted of the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.bitonic import Network
from tilewright.topi.device_loops import log2
from tilewright.topi.lang import tir
from tilewright.topi.loops import Lines, local, program
from tilewright.topi.utils import ceil_div, shape_of, to

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.ir import PrimExpr
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


def merged(
    data: te.Tensor, axis: int, number: int, dtype: str, word: str, run: int, sortable: Callable[[PrimExpr], PrimExpr]
) -> list[te.Tensor]:
    """[values, positions] of the first `number` elements of every line, ordered by sortable(element), numbers of type `word`. Equal
    elements keep their order. run: elements that a block sorts, a power of two."""
    shape = shape_of(data)
    lines = Lines(shape, axis)
    n, count = lines.length, lines.count
    assert isinstance(n, int)
    out = [*shape[:axis], number, *shape[axis + 1 :]]
    runs = ceil_div(n, run)

    def body(ib: IRBuilder, x: BufferVar, values: BufferVar, places: BufferVar, *halves: BufferVar) -> None:
        sides = [halves[:2], halves[2:]]
        with ib.new_scope():
            _sort_runs(ib, x, lines, n, run, runs, number, word, sortable, *sides[0])
        width, side = run, 0
        while width < n:
            _merge(ib, count, n, width, number, sides[side], sides[1 - side])
            width, side = 2 * width, 1 - side
        order = sides[side][1]
        with ib.for_range(0, count * number, "element", kind="parallel") as element:
            line, k = ib.let("line", tir.floordiv(element, number)), ib.let("k", tir.floormod(element, number))
            place = ib.let("place", order[line, k])
            values[lines.index(line, k)] = x[lines.index(line, place)]
            places[lines.index(line, k)] = to(place, dtype)

    scratch = [([count, n], word), ([count, n], "int32")]
    return program([out, out], [data.dtype, dtype], [data], body, "sort", [*scratch, *scratch])


def _sort_runs(
    ib: IRBuilder, x: BufferVar, lines: Lines, n: int, run: int, runs: int, number: int, word: str,
    sortable: Callable[[PrimExpr], PrimExpr], keys: BufferVar, order: BufferVar,
) -> None:  # fmt: skip
    """Sorts each run of the lines, and keeps the first elements of it."""
    network = Network(ib, lines.count * runs, run, word)
    line = ib.let("line", tir.floordiv(network.block, runs))
    begin = ib.let("begin", tir.floormod(network.block, runs) * run)
    network.load(begin, n, lambda k: sortable(x[lines.index(line, k)]))
    network.sort()
    with network.first(min(run, number)) as k, ib.if_scope(begin + k < n):
        keys[line, begin + k], order[line, begin + k] = network.keys[k], network.order[k]


def _merge(ib: IRBuilder, count: Any, n: int, width: int, number: int, source: Any, to_side: Any) -> None:
    """Merges pairs of runs that begin at multiples of `width`: a thread for each element that is kept of a run."""
    kept, runs = min(width, number), ceil_div(n, width)
    keys, order = source
    with ib.for_range(0, count * (runs * kept), "element", kind="parallel") as element:
        line = ib.let("line", tir.floordiv(element, runs * kept))
        inside = ib.let("inside", tir.floormod(element, runs * kept))
        number_of_run, k = ib.let("run", tir.floordiv(inside, kept)), ib.let("k", tir.floormod(inside, kept))
        begin = ib.let("begin", number_of_run * width)
        with ib.if_scope(begin + k < n):
            mine = ib.let("mine", keys[line, begin + k])
            second = ib.let("second", tir.floormod(number_of_run, 2))
            # Of equal elements, those of the first run of a pair come first.
            other = ib.let("other", begin + (1 - 2 * second) * width)
            low, high = local(ib, "int32", 0, "low"), local(ib, "int32", 0, "high")
            high[0] = tir.max(tir.min(tir.const(kept, "int32"), n - other), 0)
            with ib.for_range(0, log2(kept) + 1, "step"):
                searched = ib.let("searched", low[0] < high[0])
                middle = ib.let("middle", tir.shift_right(low[0] + high[0], 1))
                found = ib.let("found", keys[line, tir.Select(searched, other + middle, begin + k)])
                before = tir.Or(found < mine, tir.And(tir.EQ(found, mine), tir.EQ(second, 1)))
                right = ib.let("right", tir.And(searched, before))
                high[0] = tir.Select(right, high[0], middle)
                low[0] = tir.Select(right, middle + 1, low[0])
            at = ib.let("at", k + low[0])
            with ib.if_scope(at < number):
                place = ib.let("place", begin - second * width + at)
                to_side[0][line, place], to_side[1][line, place] = mine, order[line, begin + k]


__all__ = ["merged"]
