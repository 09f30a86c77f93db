"""StorageRewrite: shares storage between allocations with disjoint lifetimes, and moves allocations of dynamic size out
of loops.
"""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, Visitor, on
from tilewright.tir.analysis.variables import undefined_vars
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, Evaluate, For, ForKind, SeqStmt, Stmt
from tilewright.tir.stmt_functor import substitute
from tilewright.tir.transform.base import body_pass

MIN_BYTES = 1024
"""Smaller allocations are not shared: code generation keeps them in registers or on the stack."""


class _Used(Visitor):
    """Data variables that a statement uses."""

    def __init__(self) -> None:
        self.found: set[Var] = set()

    @on(Var)
    def _var(self, v: Var) -> None:
        if v.dtype.code == "handle":
            self.found.add(v)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.found.add(e.buffer.data)
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.found.add(s.buffer.data)
        self.visit_children(s)

    @on(Buffer)
    def _buffer(self, b: Buffer) -> None:
        self.found.add(b.data)


def _bytes(s: Allocate) -> int | None:
    size = s.dtype.bytes * s.dtype.lanes
    for e in s.extents:
        if not isinstance(e, IntImm):
            return None
        size *= e.value
    return size


def _leaves(s: Allocate, var: Var) -> bool:
    """Whether an allocation of dynamic size does not depend on a loop's variable, and is valid even if the loop has no iterations."""
    if _bytes(s) is not None or var in undefined_vars(s.replace(body=Evaluate(IntImm("int32", 0)))):
        return False
    return all([Analyzer().const_int_bound(e).min_value >= 0 for e in s.extents])


class _Rewrite(Mutator):
    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        chain: list[Stmt] = []
        body: Any = s
        while type(body) in (Allocate, DeclBuffer, AttrStmt):
            chain.append(body)
            body = body.body
        if type(body) is SeqStmt:
            moved = self._share([c for c in chain if type(c) is Allocate], body)
            if moved:
                kept = [c for c in chain if not (type(c) is Allocate and c.buffer_var in moved)]
                inner: Stmt = substitute(body, moved)
                for c in reversed(kept):
                    inner = substitute(c, moved).replace(body=inner) if type(c) is DeclBuffer else c.replace(body=inner)
                return self.visit(inner) if kept and type(kept[0]) is not Allocate else self._below(inner)
        return self._below(s)

    @on(For)
    def _for(self, s: For) -> Stmt:
        """for i: allocate a[n]: S -> allocate a[n]: for i: S, if n is not a constant: the runtime would allocate it in each iteration."""
        body = self.visit(s.body)
        if s.kind != ForKind.SERIAL:
            return s if body is s.body else s.replace(body=body)
        outside: list[Allocate] = []
        inside: list[Allocate] = []
        inner = body
        while type(inner) is Allocate:
            (outside if _leaves(inner, s.loop_var) else inside).append(inner)
            inner = inner.body
        if not outside:
            return s if body is s.body else s.replace(body=body)
        for a in reversed(inside):
            inner = a.replace(body=inner)
        out: Stmt = s.replace(body=inner)
        for a in reversed(outside):
            out = a.replace(body=out)
        return out

    def _below(self, s: Stmt) -> Stmt:
        if type(s) is Allocate:
            body = self._below(s.body)
            return s if body is s.body else s.replace(body=body)
        out: Stmt = self.visit(s)
        return out

    @staticmethod
    def _share(allocations: list[Allocate], body: SeqStmt) -> dict[Var, Var]:
        """Data variable -> the data variable of the storage that it reuses, by first fit in the order of first use."""
        large = [a for a in allocations if (_bytes(a) or 0) >= MIN_BYTES]
        if len(large) < 2:
            return {}
        lives: dict[Var, list[int]] = {a.buffer_var: [] for a in large}
        for k, part in enumerate(body.seq):
            look = _Used()
            look.visit(part)
            for v in look.found:
                if v in lives:
                    lives[v].append(k)
        moved: dict[Var, Var] = {}
        free: list[tuple[int, Allocate]] = []
        for a in sorted([a for a in large if lives[a.buffer_var]], key=lambda a: lives[a.buffer_var][0]):
            first, last = lives[a.buffer_var][0], lives[a.buffer_var][-1]
            scope = getattr(a.buffer_var.type_annotation, "storage_scope", "")
            for n, (until, host) in enumerate(free):
                same = getattr(host.buffer_var.type_annotation, "storage_scope", "") == scope and host.dtype is a.dtype
                if until < first and same and _bytes(host) >= _bytes(a):  # type: ignore[operator]
                    moved[a.buffer_var] = host.buffer_var
                    free[n] = (last, host)
                    break
            else:
                free.append((last, a))
        return moved


def _run(func: PrimFunc) -> Stmt:
    out: Stmt = _Rewrite().visit(func.body)
    return out


def StorageRewrite() -> Pass:
    """Share storage between large allocations at one place if their lifetimes are disjoint. Move allocations of dynamic
    size out of serial loops.
    """
    return body_pass("StorageRewrite", _run, needs=("flat_buffers",))
