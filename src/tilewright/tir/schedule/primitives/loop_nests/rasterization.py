"""rasterize: runs a plane of iterations in strips, so that neighbours in time are neighbours in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.primitives.loop_nests.loops import fuse_loops, reorder_loops, split_loop
from tilewright.tir.schedule.trace import LoopRV, primitive

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


@primitive
def rasterize(s: Schedule, rows: LoopRV, columns: LoopRV, width: int) -> list[LoopRV]:
    """for i in m: for j in 8: S   -->   for strip in 2: for f in m * 4: S[i := f // 4, j := strip * 4 + f % 4]

        rows    0  1  2  3  4  5  6  7                0  1  2  3 | 16 17 18 19
                8  9 10 11 12 13 14 15       -->      4  5  6  7 | 20 21 22 23
               16 17 18 19 20 21 22 23                8  9 10 11 | 24 25 26 27
               24 25 26 27 28 29 30 31               12 13 14 15 | 28 29 30 31

    Strips of `width` columns run one after the other; inside of a strip, row after row. width: a power of two, so that
    rows and columns are bits of f (f >> 2, f & 3). Blocks of threads that run at the same time then read few rows and
    few columns of the operands of a product, and find them in the second cache: 32 blocks read 8 + 4 panels instead of
    32 + 1 where a row of the plane has 32 columns. Returns the loop of strips and the loop inside of it. If the width
    does not divide the columns, blocks of the last strip get a predicate.
    """
    outer, inner = s.loop(rows), s.loop(columns)
    if width < 1 or width & (width - 1):
        refuse(f"the width of the strips of {{0}} must be a power of two, but is {width}", inner.stmt)
    if outer.stmt.body is not inner.stmt:
        refuse("{0} must hold only {1}, but it does not", outer.stmt, inner.stmt)
    strips, within = split_loop(s.state, inner, [None, width])
    outer = strips.parent
    assert outer is not None
    reorder_loops(s.state, [strips, outer, within])
    return [s.loop_rv(strips), s.loop_rv(fuse_loops(s.state, [outer, within]))]


__all__ = ["rasterize"]
