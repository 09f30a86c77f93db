"""Running sums of a line by a block of threads: each thread adds up a few neighbours, and the threads scan their sums in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.topi.device_loops import log2, shared, wait
from tilewright.topi.lang import tir
from tilewright.topi.loops import local

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.ir_builder import IRBuilder

NEIGHBOURS = 8
"""The elements that a thread adds up by itself."""


def scan_line(
    ib: IRBuilder,
    me: Any,
    threads: int,
    n: Any,
    dtype: str,
    start: Any,
    binop: Callable[[Any, Any], Any],
    exclusive: bool,
    load: Callable[[Any], PrimExpr],
    store: Callable[[Any, Any], None],
) -> None:
    """store(k, start op load(0) op .. op load(k)) for all k < n; exclusive: without load(k). me: the number of the thread, of `threads` of
    its block. binop must be associative, and `start` neutral.

    Parts of threads * NEIGHBOURS elements follow one another. The threads' sums are scanned in log2(threads) steps (D. Hillis and
    G. Steele, Data parallel algorithms, 1986).
    """
    part = threads * NEIGHBOURS
    sums = [shared(ib, dtype, threads, f"sums{half}") for half in range(2)]
    own = ib.allocate(dtype, (NEIGHBOURS,), name="own", scope="local")
    carried = local(ib, dtype, start, "carried")
    with ib.for_range(0, tir.floordiv(n + (part - 1), part), "part") as p:
        total = local(ib, dtype, start, "total")
        first = ib.let("first", p * part + me * NEIGHBOURS)
        with ib.for_range(0, NEIGHBOURS, "e", kind="unroll") as e:
            own[e] = total[0]
            with ib.if_scope(first + e < n):
                total[0] = binop(total[0], load(first + e))
                if not exclusive:
                    own[e] = total[0]
        sums[0][me] = total[0]
        wait(ib)
        for step in range(log2(threads)):
            here, there, reach = sums[step % 2], sums[1 - step % 2], 1 << step
            mine = here[me]
            there[me] = tir.Select(me >= reach, binop(here[tir.max(me - reach, 0)], mine), mine)
            wait(ib)
        last = sums[log2(threads) % 2]
        before = local(ib, dtype, carried[0], "before")
        with ib.if_scope(me > 0):
            before[0] = binop(carried[0], last[tir.max(me - 1, 0)])
        with ib.for_range(0, NEIGHBOURS, "e", kind="unroll") as e, ib.if_scope(first + e < n):
            store(first + e, binop(before[0], own[e]))
        carried[0] = binop(carried[0], last[threads - 1])
        wait(ib)


__all__ = ["scan_line"]
