"""Sorting of lines by a block of threads in shared memory: a bitonic network over keys and positions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.device_loops import log2, shared, threads_of, wait
from tilewright.topi.lang import tir
from tilewright.topi.loops import Lines, program
from tilewright.topi.planner import planner
from tilewright.topi.utils import shape_of, to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tilewright.ir import PrimExpr
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


def bitonic(
    data: te.Tensor, axis: int, number: int, dtype: str, word: str, sortable: Callable[[PrimExpr], PrimExpr]
) -> list[te.Tensor]:
    """[values, positions] of the first `number` elements of every line, ordered by sortable(element), numbers of type `word`. Equal
    elements keep their order."""
    shape = shape_of(data)
    lines = Lines(shape, axis)
    n = lines.length
    assert isinstance(n, int)
    out = [*shape[:axis], number, *shape[axis + 1 :]]

    def body(ib: IRBuilder, x: BufferVar, values: BufferVar, places: BufferVar) -> None:
        network = Network(ib, lines.count, n, word)
        network.load(0, n, lambda k: sortable(x[lines.index(network.block, k)]))
        network.sort()
        with network.first(number) as k:
            place = ib.let("place", network.order[k])
            values[lines.index(network.block, k)] = x[lines.index(network.block, place)]
            places[lines.index(network.block, k)] = to(place, dtype)

    return program([out, out], [data.dtype, dtype], [data], body, "sort")


class Network:
    """A block of threads that sorts up to n elements in shared memory: `keys` of the type `word`, and `order`, their numbers. block: the
    number of the block, of `blocks`.

    After step s, runs of 2^s elements are sorted, in turns upwards and downwards (K. Batcher, Sorting networks and their applications,
    1968). Elements beyond those that there are come last.
    """

    def __init__(self, ib: IRBuilder, blocks: Any, n: int, word: str) -> None:
        self.ib, self.word, self.steps = ib, word, log2(n)
        self.size = 1 << self.steps
        self.threads = max(min(planner().threads(), self.size // 2), 1)
        self.block, self.me = threads_of(ib, blocks, self.threads)
        self.keys, self.order = shared(ib, word, self.size, "keys"), shared(ib, "int32", self.size, "order")

    def load(self, begin: Any, n: Any, key: Callable[[Any], PrimExpr]) -> None:
        """Takes the keys of the elements begin, begin + 1, .. of a line of n; `order` has their numbers in the line."""
        ib, last = self.ib, tir.const((1 << (64 if self.word == "uint64" else 32)) - 1, self.word)
        with self._each(self.size) as k:
            at = ib.let("at", begin + k)
            with ib.if_scope(at < n):
                self.keys[k] = key(tir.min(at, n - 1))
            with ib.else_scope():
                self.keys[k] = last
            self.order[k] = at
        wait(ib)

    def sort(self) -> None:
        """Sorts by keys, then by numbers."""
        ib, keys, order = self.ib, self.keys, self.order
        with ib.for_range(1, self.steps + 1, "run") as run, ib.for_range(0, run, "half") as half:
            log = ib.let("log", run - 1 - half)
            stride = ib.let("stride", tir.shift_left(tir.const(1, "int32"), log))
            with self._each(self.size // 2) as pair:
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

    @contextmanager
    def first(self, number: int) -> Iterator[Any]:
        """The first `number` places, which threads share."""
        with self._each(number) as k, self.ib.if_scope(k < number):
            yield k

    @contextmanager
    def _each(self, count: int) -> Iterator[Any]:
        """So many numbers, and some behind them in the last step."""
        with self.ib.for_range(0, -(-count // self.threads), "step") as step:
            yield self.ib.let("k", step * self.threads + self.me)


__all__ = ["Network", "bitonic"]
