"""Nests over whole elements: the loops over the numbers of an element are left out, where every index goes through these in their order.

An element of weights has hundreds of numbers, whose places need not be evaluated one by one."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import PrimExpr
from tilewright.node import Visitor, on
from tilewright.support.errors import TVMError
from tilewright.tir import BufferLoad, BufferStore, Call, Var
from tilewright.vta.compiler.grids import coefficient

Loop = tuple[Var, int, int]
"""A variable, its first value and its extent."""


class _Indices(Visitor):
    """The indices of loads, and the variables outside of them."""

    def __init__(self) -> None:
        self.found: list[PrimExpr] = []
        self.outside: set[Var] = set()

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.found += e.indices

    @on(Var)
    def _var(self, v: Var) -> None:
        self.outside.add(v)


def inner_loops(loops: Sequence[Loop], conditions: Sequence[PrimExpr], s: BufferStore, lanes: int) -> int:
    """How many of the innermost loops around a store are those over the `lanes` numbers of an element, which the indices of the store and
    of all loads go through in their order; 0 where they do not."""
    count, numbers = 0, 1
    while numbers < lanes and count < len(loops):
        count += 1
        numbers *= loops[-count][2]
    if numbers != lanes or count == 0:
        return 0
    look = _Indices()
    look.visit(s.value)
    indices, step = [*s.indices, *look.found], 1
    for var, first, extent in reversed(loops[len(loops) - count :]):
        if first or var in look.outside or any([coefficient(c, var) != 0 for c in conditions]):
            return 0
        if extent > 1 and any([coefficient(i, var) != step for i in indices]):
            return 0
        step *= extent
    return count


def pointed(e: PrimExpr) -> tuple[Var, PrimExpr]:
    """The buffer and the index that an address is made of."""
    if isinstance(e, Call) and e.intrinsic == "address_of" and isinstance(e.args[0], BufferLoad):
        return e.args[0].buffer.data, e.args[0].indices[0]
    if isinstance(e, Call) and e.intrinsic == "tvm_access_ptr" and isinstance(e.args[1], Var):
        return e.args[1], e.args[2]
    raise TVMError(f"a product takes addresses of buffers, but is given {e}")


__all__ = ["Loop", "inner_loops", "pointed"]
