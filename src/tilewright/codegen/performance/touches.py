"""Which thread of a lowered program accesses which elements, one by one: for small programs, as pictures and tests need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.performance.index_values import IndexValues
from tilewright.ir import PrimExpr
from tilewright.node import Visitor, on
from tilewright.tir import (
    AttrStmt,
    BufferLoad,
    BufferStore,
    Call,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    Ramp,
    Var,
)


class Touch(NamedTuple):
    """An access to one element. buffer: its name; element: its number in flat memory; threads: the number along each axis, by tag."""

    buffer: str
    element: int
    writes: bool
    threads: Mapping[str, int]


def touches(func: PrimFunc, data: Mapping[str, Any] | None = None, **threads: int) -> list[Touch]:
    """The accesses of a program that tvm.lower made, in the order in which a thread makes them.

    data: values of buffers on which indices and conditions depend, by name. threads: only those with these numbers along an axis
    (blockIdx_x=0). Raises index_values.Unknown where an index depends on more.
    """
    walk = _Touches(data or {}, {name.replace("_", "."): number for name, number in threads.items()})
    walk.visit(func.body)
    return walk.found


class _Values(IndexValues):
    """Integers, which may depend on data."""

    def __init__(self, variables: Mapping[Var, Any], data: Mapping[str, Any], lane: int) -> None:
        super().__init__(variables, lane)
        self.data = data

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> Any:
        if e.buffer.name not in self.data:
            return self._other(e)
        return np.asarray(self.data[e.buffer.name]).ravel()[int(self.visit(e.indices[0]))]


class _Touches(Visitor):
    """Runs the loops and threads of a program as far as indices and conditions go."""

    def __init__(self, data: Mapping[str, Any], wanted: Mapping[str, int]) -> None:
        self.data, self.wanted = data, wanted
        self.variables: dict[Var, int] = {}
        self.threads: dict[str, int] = {}
        self.found: list[Touch] = []

    def value(self, e: PrimExpr, lane: int = 0) -> int:
        return int(_Values(self.variables, self.data, lane).of(e))

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key != "thread_extent" or not isinstance(s.node, IterVar):
            self.visit(s.body)
            return
        tag, outer = s.node.thread_tag, self.threads
        for number in range(self.value(s.value)):
            if self.wanted.get(tag, number) == number:
                self.threads = {**outer, tag: number}
                self.variables[s.node.var] = number
                self.visit(s.body)
        self.threads = outer

    @on(For)
    def _for(self, s: For) -> None:
        low = self.value(s.min)
        for step in range(low, low + self.value(s.extent)):
            self.variables[s.loop_var] = step
            self.visit(s.body)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> None:
        self.visit(s.value)
        self.variables[s.var] = self.value(s.value)
        self.visit(s.body)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        self.visit(s.condition)
        taken = s.then_case if self.value(s.condition) else s.else_case
        if taken is not None:
            self.visit(taken)

    @on(Call)
    def _call(self, e: Call) -> None:
        if e.intrinsic != "if_then_else":
            self.visit_children(e)
            return
        condition, yes, no = e.args
        self.visit(condition)
        self.visit(yes if self.value(condition) else no)

    @on(BufferLoad, BufferStore)
    def _access(self, node: BufferLoad | BufferStore) -> None:
        self.visit_children(node)
        (index,) = node.indices
        for lane in range(index.lanes if isinstance(index, Ramp) else 1):
            found = Touch(node.buffer.name, self.value(index, lane), isinstance(node, BufferStore), self.threads)
            self.found.append(found)


__all__ = ["Touch", "touches"]
