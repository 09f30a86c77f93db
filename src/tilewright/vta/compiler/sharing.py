"""Which accumulators a step can overwrite with its results: an operand that is read there for the last time, element by element."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.node import Visitor, on, structural_equal
from tilewright.tir import Allocate, BufferLoad, BufferStore, Evaluate, For, PrimFunc, Stmt, Var


class _Leaf(NamedTuple):
    """A store or a call: its loops from outside, the storage that it accesses."""

    statement: Stmt
    loops: tuple[int, ...]
    storage: frozenset[Var]


class _Leaves(Visitor):
    def __init__(self) -> None:
        self.leaves: list[_Leaf] = []
        self.allocated: dict[Var, tuple[Allocate, tuple[int, ...]]] = {}
        self.loops: tuple[int, ...] = ()

    @on(For)
    def _for(self, s: For) -> None:
        outside, self.loops = self.loops, (*self.loops, id(s))
        self.visit(s.body)
        self.loops = outside

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        self.allocated[s.buffer_var] = (s, self.loops)
        self.visit(s.body)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._leaf(s)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        self._leaf(s)

    def _leaf(self, s: Stmt) -> None:
        look = _Storage()
        look.visit(s)
        self.leaves.append(_Leaf(s, self.loops, frozenset(look.found)))


class _Storage(Visitor):
    def __init__(self) -> None:
        self.found: set[Var] = set()
        self.loads: list[BufferLoad] = []

    @on(Var)
    def _var(self, v: Var) -> None:
        self.found.add(v)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.loads.append(e)
        self.found.add(e.buffer.data)
        for index in e.indices:
            self.visit(index)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.found.add(s.buffer.data)
        self.visit(s.value)
        for index in s.indices:
            self.visit(index)


def _scope(v: Var) -> str:
    return str(getattr(v.type_annotation, "storage_scope", ""))


def shared_buffers(func: PrimFunc) -> dict[Var, Var]:
    """By buffer, the buffer in whose place it can be: both are accumulators of one size; the first store of the one reads the other, which
    nothing reads later."""
    walk = _Leaves()
    walk.visit(func.body)
    found: dict[Var, Var] = {}
    for position, leaf in enumerate(walk.leaves):
        s = leaf.statement
        if not isinstance(s, BufferStore) or s.buffer.data not in walk.allocated or s.buffer.data in found:
            continue
        target, (own, outside) = s.buffer.data, walk.allocated[s.buffer.data]
        if any([target in other.storage for other in walk.leaves[:position]]):
            continue
        look = _Storage()
        look.visit(s.value)
        for load in look.loads:
            source = load.buffer.data
            if source is target or source not in walk.allocated or source in found.values():
                continue
            if sum([other.buffer.data is source for other in look.loads]) > 1:
                continue
            theirs, around = walk.allocated[source]
            alike = (
                _scope(source) == _scope(target)
                and around == outside
                and structural_equal(own.extents, theirs.extents)
                and structural_equal(load.indices, s.indices)
            )
            others = [o for n, o in enumerate(walk.leaves) if source in o.storage and n != position]
            later = any([source in o.storage for o in walk.leaves[position + 1 :]])
            inside = leaf.loops[len(outside) :]
            if alike and not later and not any([set(inside) & set(o.loops) for o in others]):
                found[target] = source
                break
    return found


__all__ = ["shared_buffers"]
