"""Sorting of lines by a block of threads in shared memory: a bitonic network over keys and positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.device_loops import log2, shared, threads_of, wait
from tilewright.topi.lang import tir
from tilewright.topi.loops import Lines, program
from tilewright.topi.planner import planner
from tilewright.topi.utils import shape_of, to

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.ir import PrimExpr
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


def bitonic(
    data: te.Tensor, axis: int, number: int, dtype: str, word: str, sortable: Callable[[PrimExpr], PrimExpr]
) -> list[te.Tensor]:
    """[values, positions] of the first `number` elements of every line, ordered by sortable(element), numbers of type `word`. Equal
    elements keep their order.

    After step s, runs of 2^s elements are sorted, in turns upwards and downwards (K. Batcher, Sorting networks and their applications,
    1968). Elements beyond the line come last.
    """
    shape = shape_of(data)
    lines = Lines(shape, axis)
    n = lines.length
    assert isinstance(n, int)
    out = [*shape[:axis], number, *shape[axis + 1 :]]
    steps = log2(n)
    size = 1 << steps
    threads = max(min(planner().threads(), size // 2), 1)

    def body(ib: IRBuilder, x: BufferVar, values: BufferVar, places: BufferVar) -> None:
        line, me = threads_of(ib, lines.count, threads)
        keys, order = shared(ib, word, size, "keys"), shared(ib, "int32", size, "order")
        bits = 64 if word == "uint64" else 32

        def each(count: int) -> Any:
            return ib.for_range(0, -(-count // threads), "step")

        with each(size) as step:
            k = ib.let("k", step * threads + me)
            with ib.if_scope(k < n):
                keys[k] = sortable(x[lines.index(line, tir.min(k, n - 1))])
            with ib.else_scope():
                keys[k] = tir.const((1 << bits) - 1, word)
            order[k] = k
        wait(ib)
        with ib.for_range(1, steps + 1, "run") as run, ib.for_range(0, run, "half") as half:
            log = ib.let("log", run - 1 - half)
            stride = ib.let("stride", tir.shift_left(tir.const(1, "int32"), log))
            with each(size // 2) as step:
                pair = ib.let("pair", step * threads + me)
                low = ib.let(
                    "low",
                    tir.bitwise_or(
                        tir.shift_left(tir.shift_right(pair, log), log + 1), tir.bitwise_and(pair, stride - 1)
                    ),
                )
                high = ib.let("high", low + stride)
                a, b = ib.let("a", keys[low]), ib.let("b", keys[high])
                i, j = ib.let("i", order[low]), ib.let("j", order[high])
                later = tir.Or(a > b, tir.And(tir.EQ(a, b), i > j))
                upwards = tir.EQ(tir.bitwise_and(tir.shift_right(low, run), 1), 0)
                # Without a condition around the stores, for threads may have to wait for each other before them.
                swapped = ib.let("swapped", tir.EQ(later, upwards))
                keys[low], keys[high] = tir.Select(swapped, b, a), tir.Select(swapped, a, b)
                order[low], order[high] = tir.Select(swapped, j, i), tir.Select(swapped, i, j)
            wait(ib)
        with each(number) as step:
            k = ib.let("k", step * threads + me)
            with ib.if_scope(k < number):
                place = ib.let("place", order[k])
                values[lines.index(line, k)] = x[lines.index(line, place)]
                places[lines.index(line, k)] = to(place, dtype)

    return program([out, out], [data.dtype, dtype], [data], body, "sort")


__all__ = ["bitonic"]
