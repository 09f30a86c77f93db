"""Running sums of a line in vectors: within each by doubling, then with the sum of all vectors before.

    v = v + (v moved by 1 lane);   by 2;   by 4;   by 8;   out = last + v;   last = last + (the last lane of v, in all lanes)

Only the additions to `last` depend on the vector before. (W. D. Hillis and G. L. Steele, Data parallel algorithms, 1986.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.topi.lang import tir

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.ir_builder import IRBuilder

LANES = 16


def scan_in_vectors(
    ib: IRBuilder,
    n: int,
    dtype: str,
    start: Any,
    binop: Callable[[Any, Any], Any],
    exclusive: bool,
    read: Callable[[Any], Any],
    write: Callable[[Any, Any], None],
) -> None:
    """Writes binop, which is associative with the identity `start`, of all elements up to each one of a line of n, or before each one
    (exclusive). read and write take one index, or several adjacent ones (a Ramp)."""
    state = ib.allocate(dtype, (LANES,), "last", scope="local")
    every = tir.Ramp(tir.const(0, "int32"), tir.const(1, "int32"), LANES)
    none = tir.Broadcast(start, LANES)
    state[every] = none
    with ib.for_range(0, n // LANES, "v") as v:
        at = tir.Ramp(v * LANES, tir.const(1, "int32"), LANES)
        sums = ib.let("x", read(at))
        for apart in (1, 2, 4, 8):
            moved = _lanes(none, sums, LANES - apart)
            sums = ib.let("sums", binop(moved, sums))
        last = ib.let("last", state[every])
        if exclusive:
            write(at, binop(last, _lanes(none, sums, LANES - 1)))
        else:
            write(at, binop(last, sums))
        state[every] = binop(last, tir.Shuffle((sums,), tuple([tir.const(LANES - 1, "int32")] * LANES)))
    total = ib.allocate(dtype, (1,), "total", scope="local")
    total[0] = state[LANES - 1]
    with ib.for_range(n // LANES * LANES, n, "k") as k:
        sums = ib.let("sums", binop(total[0], read(k)))
        write(k, total[0] if exclusive else sums)
        total[0] = sums


def _lanes(first: PrimExpr, second: PrimExpr, begin: int) -> PrimExpr:
    """As many lanes as a vector has, of two vectors one behind the other, from `begin` on."""
    return tir.Shuffle((first, second), tuple([tir.const(begin + lane, "int32") for lane in range(LANES)]))


__all__ = ["scan_in_vectors"]
