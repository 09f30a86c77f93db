"""Vectors that a language lacks, cut into pieces that it has, and masked accesses cut into elements.

C[0:8] = A[0:8] + B[0:8]   -->   C[0:4] = A[0:4] + B[0:4]
                                 C[4:8] = A[4:8] + B[4:8]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.codegen.source.device.refused import Refused
from tilewright.ir import DataType, IntImm, PrimExpr, structural_equal
from tilewright.node import Mutator, nodes_of, on
from tilewright.tir import (
    Broadcast,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    IfThenElse,
    LetStmt,
    Not,
    PrimFunc,
    Ramp,
    Select,
    Shuffle,
    Stmt,
    Var,
    const,
    if_then_else,
)
from tilewright.tir.expr import BinaryOpExpr
from tilewright.tir.op import PURE, call_effect
from tilewright.tir.stmt import stmt_seq

Has = Callable[[DataType, int], bool]
Piece = tuple[int, int]
"""(first lane, number of lanes)."""


class _Pieces(Mutator):
    def __init__(self, has: Has) -> None:
        self.has = has
        self.env: dict[Var, dict[Piece, Var]] = {}

    def _is_legal(self, dtype: DataType) -> bool:
        return dtype.lanes == 1 or dtype.code in ("handle", "void", "") or self.has(dtype.element, dtype.lanes)

    def _plan(self, lanes: int) -> list[Piece]:
        """The pieces of a vector: as wide as possible, from the first lane on."""
        out, start = [], 0
        while start < lanes:
            wide = [n for n in (16, 8, 4, 2) if n <= lanes - start and self.has(DataType("int32"), n)]
            out.append((start, wide[0] if wide else 1))
            start += out[-1][1]
        return out

    # --- statements

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        value = self.visit(s.value)
        s = s.replace(value=value, indices=tuple([self.visit(i) for i in s.indices]))
        if s.predicate is not None:
            return self._masked(s)
        illegal = not all([self._is_legal(e.dtype) for e in nodes_of(s.value, PrimExpr)])
        if not illegal and not any([e.predicate is not None for e in nodes_of(s.value, BufferLoad)]):
            return s
        if s.buffer.dtype.lanes > 1:
            raise Refused(f"{s.buffer.name} has elements of type {s.buffer.dtype}; use elements of fewer lanes")
        return self._cut(s, self._plan(s.value.dtype.lanes) if illegal else self._elements(s.value.dtype.lanes))

    @staticmethod
    def _elements(lanes: int) -> list[Piece]:
        return [(k, 1) for k in range(lanes)]

    def _cut(self, s: BufferStore, plan: list[Piece]) -> Stmt:
        values = [self.piece(s.value, *p) for p in plan]
        stores = [
            BufferStore(s.buffer, v, tuple([self.piece(i, *p) for i in s.indices]))
            for v, p in zip(values, plan, strict=True)
        ]
        loads = [e for e in nodes_of(s.value, BufferLoad) if e.buffer.data is s.buffer.data]
        if all([structural_equal(e.indices, s.indices, map_free_vars=False) for e in loads]):
            return stmt_seq(*stores)
        # A later piece reads what an earlier one would write, so all are computed first.
        names = [Var(f"{s.buffer.name}_part", v.dtype) for v in values]
        body = stmt_seq(*[store.replace(value=n) for store, n in zip(stores, names, strict=True)])
        for n, v in reversed(list(zip(names, values, strict=True))):
            body = LetStmt(n, v, body)
        return body

    def _masked(self, s: BufferStore) -> Stmt:
        assert s.predicate is not None
        mask = self.visit(s.predicate)
        out = []
        for p in self._elements(s.value.dtype.lanes):
            at = tuple([self.piece(i, *p) for i in s.indices])
            out.append(IfThenElse(self.piece(mask, *p), BufferStore(s.buffer, self.piece(s.value, *p), at)))
        return stmt_seq(*out)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> Stmt:
        value = self.visit(s.value)
        if self._is_legal(s.var.dtype):
            return s.replace(value=value, body=self.visit(s.body))
        plan = self._plan(s.var.dtype.lanes)
        names = {p: Var(f"{s.var.name}_{p[0]}", s.var.dtype.with_lanes(p[1])) for p in plan}
        self.env[s.var] = names
        body = self.visit(s.body)
        for p in reversed(plan):
            body = LetStmt(names[p], self.piece(value, *p), body)
        return body

    @on(Shuffle)
    def _shuffle(self, e: Shuffle) -> PrimExpr:
        vectors = tuple([self.visit(v) for v in e.vectors])
        if all([self._is_legal(v.dtype) for v in vectors]):
            return e.replace(vectors=vectors)
        lanes = [(v, k) for v in vectors for k in range(v.dtype.lanes)]
        picks = [int(i) for i in e.indices]  # type: ignore[call-overload]
        chosen = [self.piece(lanes[k][0], lanes[k][1], 1) for k in picks]
        return chosen[0] if len(chosen) == 1 else Shuffle(tuple(chosen), _numbers(len(chosen)))

    # --- parts of expressions

    def piece(self, e: PrimExpr, start: int, n: int) -> PrimExpr:
        """Lanes start, ..., start + n - 1 of a vector. A scalar stays as it is."""
        lanes = e.dtype.lanes
        if lanes == 1 or (start == 0 and n == lanes):
            return e
        dtype = e.dtype.with_lanes(n)
        if isinstance(e, Ramp):
            base = e.base + e.stride * start if start else e.base
            return base if n == 1 else Ramp(base, e.stride, n)
        if isinstance(e, Broadcast) and e.value.dtype.lanes == 1:
            return e.value if n == 1 else Broadcast(e.value, n)
        if isinstance(e, BinaryOpExpr):
            made: Any = type(e)
            found: PrimExpr = made(self.piece(e.a, start, n), self.piece(e.b, start, n))
            return found
        if isinstance(e, Cast):
            return Cast(dtype, self.piece(e.value, start, n))
        if isinstance(e, Not):
            return Not(self.piece(e.a, start, n))
        if isinstance(e, Select):
            condition, a, b = [self.piece(x, start, n) for x in (e.condition, e.true_value, e.false_value)]
            return Select(condition, a, b)
        if isinstance(e, Shuffle):
            return Shuffle(e.vectors, e.indices[start : start + n])
        if isinstance(e, BufferLoad):
            return self._load(e, start, n)
        if isinstance(e, Var):
            known = self.env.get(e, {}).get((start, n))
            return known if known is not None else Shuffle((e,), _numbers(n, start))
        if isinstance(e, Call) and call_effect(e) == PURE and all([a.dtype.lanes in (1, lanes) for a in e.args]):
            return Call(dtype, e.op, tuple([self.piece(a, start, n) for a in e.args]), e.span)
        raise Refused(f"a vector of type {e.dtype} cannot be cut into pieces here; vectorize fewer elements")

    def _load(self, e: BufferLoad, start: int, n: int) -> PrimExpr:
        if e.buffer.dtype.lanes > 1:
            raise Refused(f"{e.buffer.name} has elements of type {e.buffer.dtype}; use elements of fewer lanes")
        load = BufferLoad(e.buffer, tuple([self.piece(i, start, n) for i in e.indices]), None, e.span)
        if e.predicate is None:
            return load
        if n > 1:
            return Shuffle(tuple([self._load(e, start + k, 1) for k in range(n)]), _numbers(n))
        return if_then_else(self.piece(e.predicate, start, 1), load, const(0, load.dtype))


def _numbers(n: int, start: int = 0) -> tuple[Any, ...]:
    return tuple([IntImm("int32", start + k) for k in range(n)])


def legal_vectors(func: PrimFunc, has: Has) -> PrimFunc:
    """The function with vectors of lanes that a language has. has: (element type, lanes) -> whether it has them. Raises Refused for
    vectors that cannot be cut."""
    body = _Pieces(has).visit(func.body)
    return func if body is func.body else func.replace(body=body)


__all__ = ["legal_vectors"]
