"""Which variables a program uses without defining them, and whether it defines any twice."""

from __future__ import annotations

from typing import Any

from tilewright.node import Node, Visitor, on
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, CommReducer, Let, Reduce, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
)


class _Scopes(Visitor):
    """Walks with the set of variables defined so far; `undefined` keeps order of first use."""

    def __init__(self, defined: set[Var]) -> None:
        self.defined = defined
        self.undefined: dict[Var, None] = {}
        self.twice: dict[Var, None] = {}
        self.ever: set[Var] = set(defined)
        self.declared: set[Buffer] = set()

    def _define(self, var: Var) -> bool:
        if var in self.ever:
            self.twice[var] = None
        self.ever.add(var)
        if var in self.defined:
            return False
        self.defined.add(var)
        return True

    @on(Var)
    def _var(self, v: Var) -> None:
        if v not in self.defined:
            self.undefined.setdefault(v)

    def use(self, buffer: Buffer) -> None:
        if buffer in self.declared:
            return
        self._var(buffer.data)
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            self.visit(e)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.use(e.buffer)
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.use(s.buffer)
        self.visit_children(s)

    def _within(self, names: list[Var], *parts: Any) -> None:
        new = [v for v in names if self._define(v)]
        for part in parts:
            self.visit(part)
        self.defined.difference_update(new)

    @on(For)
    def _for(self, s: For) -> None:
        self.visit(s.min)
        self.visit(s.extent)
        names = [s.loop_var]
        if s.thread_binding is not None and s.thread_binding.var not in self.defined:
            names.append(s.thread_binding.var)
        self._within(names, s.body)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
        self.visit(s.value)
        self._within([s.var], s.body)

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> None:
        for e in s.extents:
            self.visit(e)
        self._within([s.buffer_var], s.body)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        self.visit(s.value)
        if s.attr_key in ("thread_extent", "virtual_thread") and s.node is not None and s.node.var not in self.defined:
            self.ever.discard(s.node.var)
            self._within([s.node.var], s.body)
        else:
            self.visit(s.body)

    @on(DeclBuffer)
    def _decl(self, s: DeclBuffer) -> None:
        self.use(s.buffer)
        self.visit(s.body)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        for e in s.iter_values:
            self.visit(e)
        block = s.block
        names = [axis.var for axis in block.iter_vars]
        new = [v for v in names if self._define(v)]
        self.visit(s.predicate)
        self.visit(block)
        self.defined.difference_update(new)

    @on(Block)
    def _block(self, block: Block) -> None:
        names = [b.data for b in block.alloc_buffers]
        for m in block.match_buffers:
            b = m.buffer
            names += [
                e for e in (b.data, *b.shape, *b.strides, b.elem_offset) if isinstance(e, Var) and e not in self.defined
            ]
        for region in (*block.reads, *block.writes):
            if not any([region.buffer is b for b in block.alloc_buffers]):
                for r in region.region:
                    self.visit(r)
        parts = [m.source for m in block.match_buffers]
        for part in parts:
            self.use(part.buffer)
            for r in part.region:
                self.visit(r)
        self._within(list(dict.fromkeys(names)), *([block.init] if block.init is not None else []), block.body)

    @on(CommReducer)
    def _reducer(self, r: CommReducer) -> None:
        self._within([*r.lhs, *r.rhs], *r.result)

    @on(Reduce)
    def _reduce(self, r: Reduce) -> None:
        self.visit(r.combiner)
        self._within([a.var for a in r.axis], *r.source, r.condition)


def _defined_by(func: PrimFunc) -> set[Var]:
    defined = set(func.params)
    for buffer in func.buffer_map.values():
        defined.add(buffer.data)
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(e, Var):
                defined.add(e)
    return defined


def undefined_vars(node: Node, defs: list[Var] | tuple[Var, ...] = ()) -> list[Var]:
    """Variables that a statement, expression or function uses and does not define, in order of first use."""
    defined = set(defs)
    if isinstance(node, PrimFunc):
        defined |= _defined_by(node)
        node = node.body
    walk = _Scopes(defined)
    walk.visit(node)
    return list(walk.undefined)


def verify_ssa(func: PrimFunc) -> bool:
    """Whether every variable is defined once."""
    walk = _Scopes(_defined_by(func))
    walk.visit(func.body)
    return not walk.twice
