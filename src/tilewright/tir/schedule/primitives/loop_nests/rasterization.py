"""rasterize: runs a plane of iterations in strips, so that neighbours in time are neighbours in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.tir import For, ForKind, IterVar, Var
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.primitives.loop_nests.loop_kinds import set_kind
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
    32 + 1 where a row of the plane has 32 columns. If the width does not divide the columns, blocks of the last strip
    get a predicate. Both loops may be bound to blockIdx axes, which the new ones are bound to then. Returns the loop of
    strips and the loop inside of it.
    """
    outer, inner = s.loop(rows), s.loop(columns)
    if width < 1 or width & (width - 1):
        refuse(f"the width of the strips of {{0}} must be a power of two, but is {width}", inner.stmt)
    if outer.stmt.body is not inner.stmt:
        refuse("{0} must hold only {1}, but it does not", outer.stmt, inner.stmt)
    axes = [_block_axis(ref.stmt) for ref in (outer, inner)]
    if (axes[0] is None) != (axes[1] is None):
        refuse("both {0} and {1} must be bound to blocks of threads, or none", outer.stmt, inner.stmt)
    if axes[0] is not None:
        # Iterations of bound loops are independent, in whatever order they are numbered.
        for ref in (outer, inner):
            set_kind(s, ref, ForKind.SERIAL)
    strips, within = split_loop(s.state, inner, [None, width])
    parent = strips.parent
    assert parent is not None
    if axes[0] is None:
        reorder_loops(s.state, [strips, parent, within])
    else:
        body = within.stmt.body
        for ref in (within, parent, strips):
            body = ref.stmt.replace(body=body)
        s.state.replace(parent, body)
    fused = fuse_loops(s.state, [parent, within])
    for ref, axis in zip((strips, fused), axes, strict=True):
        if axis is not None:
            set_kind(s, ref, ForKind.THREAD_BINDING, IterVar(None, Var(axis, "int32"), IterVar.ThreadIndex, axis))
    return [s.loop_rv(strips), s.loop_rv(fused)]


def _block_axis(loop: For) -> str | None:
    """The axis of blocks that a loop is bound to; None for others."""
    axis = loop.thread_binding
    return axis.thread_tag if axis is not None and axis.thread_tag.startswith("blockIdx.") else None


__all__ = ["rasterize"]
