"""InstrumentBoundCheckers: checks every access of a buffer that a kernel owns at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, Visitor, mutate_tuple, on
from tilewright.script.underline import located
from tilewright.tir.arithmetic import cast_to, logical_and, logical_not, logical_or
from tilewright.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Let,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Var,
)
from tilewright.tir.stmt import AssertStmt, BufferStore, Evaluate, For, IfThenElse, LetStmt, Stmt
from tilewright.tir.transform.base import body_pass, call_name


class _Accesses(Visitor):
    """The accesses of an expression, each with the conditions of the choices around it."""

    def __init__(self, note: Callable[[Any, tuple[PrimExpr, ...]], None]) -> None:
        self.note, self.under = note, ()

    under: tuple[PrimExpr, ...]

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.visit_children(e)
        self.note(e, self.under)

    @on(Let)
    def _let(self, e: Let) -> None:
        # Checks outside of the body cannot use its variable.
        self.visit(e.value)

    @on(Call)
    def _call(self, e: Call) -> None:
        name = call_name(e)
        if name == "if_then_else":
            condition, yes, no = e.args
            self.visit(condition)
            outer = self.under
            self.under = (*outer, condition)
            self.visit(yes)
            self.under = (*outer, logical_not(condition))
            self.visit(no)
            self.under = outer
        elif name != "address_of":
            self.visit_children(e)


class _Lane(Mutator):
    """One lane of a vector expression. Raises ValueError if it is unknown."""

    def __init__(self, lane: int) -> None:
        self.lane = lane

    @on(Ramp)
    def _ramp(self, e: Ramp) -> PrimExpr:
        if e.base.dtype.lanes > 1:
            raise ValueError
        return e.base + e.stride * IntImm(e.stride.dtype, self.lane)

    @on(Broadcast)
    def _broadcast(self, e: Broadcast) -> PrimExpr:
        if e.value.dtype.lanes > 1:
            raise ValueError
        return e.value

    @on(Cast)
    def _cast(self, e: Cast) -> PrimExpr:
        return Cast(e.dtype.element, self.visit(e.value)) if e.dtype.lanes > 1 else e

    @on(Call)
    def _call(self, e: Call) -> PrimExpr:
        return Call(e.dtype.element, e.op, mutate_tuple(self.visit, e.args), e.span) if e.dtype.lanes > 1 else e

    @on(Let, Shuffle)
    def _unknown(self, e: PrimExpr) -> PrimExpr:
        raise ValueError

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v.dtype.lanes > 1:
            raise ValueError
        return v


def _lane_inside(index: PrimExpr, dim: PrimExpr, masks: list[PrimExpr], lane: int) -> PrimExpr:
    """The condition that one lane of an access is inside the buffer or is masked."""
    take = _Lane(lane)
    at = take.visit(index)
    inside: PrimExpr = logical_and(at >= 0, at < dim)
    for mask in masks:
        inside = logical_or(logical_not(take.visit(mask)), inside)
    return inside


class _Checks(Mutator):
    """Inserts checks of the indices before each statement that loads or stores."""

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(BufferStore, Evaluate)
    def _leaf(self, s: BufferStore | Evaluate) -> Stmt:
        return self._checked(s, s, s.value, *getattr(s, "indices", ()))

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Stmt:
        return self._checked(self.rebuild(s), None, s.condition)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> Stmt:
        return self._checked(self.rebuild(s), None, s.value)

    @on(For)
    def _for(self, s: For) -> Stmt:
        return self._checked(self.rebuild(s), None, s.min, s.extent)

    def _checked(self, s: Stmt, store: Stmt | None, *expressions: PrimExpr) -> Stmt:
        checks: list[tuple[PrimExpr, PrimExpr]] = []

        def note(access: PrimExpr | Stmt, under: tuple[PrimExpr, ...]) -> None:
            self._of(access, under, checks)

        walk = _Accesses(note)
        for e in expressions:
            walk.visit(e)
        if isinstance(store, BufferStore):
            note(store, ())
        for condition, message in reversed(checks):
            s = AssertStmt(condition, message, s)
        return s

    @staticmethod
    def _of(access: Any, under: tuple[PrimExpr, ...], checks: list[tuple[PrimExpr, PrimExpr]]) -> None:
        """Adds for each index: the condition that it is inside the buffer, and a message with its value."""
        buffer = access.buffer
        for k, (index, dim) in enumerate(zip(access.indices, buffer.shape, strict=True)):
            first = last = index
            if isinstance(index, Ramp):
                first, last = index.base, index.base + index.stride * (index.lanes - 1)
            elif isinstance(index, Broadcast):
                first = last = index.value
            if first.dtype.lanes != 1:
                continue
            masks = [c for c in (*under, access.predicate) if c is not None and c.dtype.lanes > 1]
            inside: PrimExpr = logical_and(logical_and(first >= 0, first < dim), logical_and(last >= 0, last < dim))
            if last is first:
                inside = logical_and(first >= 0, first < dim)
            if masks:
                # Each lane is checked separately: masked lanes may be outside.
                try:
                    lanes = [_lane_inside(index, dim, masks, k) for k in range(masks[0].dtype.lanes)]
                except ValueError:
                    continue
                inside = lanes[0]
                for lane in lanes[1:]:
                    inside = logical_and(inside, lane)
            for condition in reversed([c for c in under if c.dtype.lanes == 1]):
                inside = logical_or(logical_not(condition), inside)
            if isinstance(inside, IntImm) and inside.value:
                continue
            what = f"index out of bounds: dimension {k} of buffer {buffer.name} has {dim} elements, index {index}"
            text = located(what, access) + "\n  the index is "
            wrong = last if last is first else Select(first < 0, first, last)
            parts = (StringImm("AssertionError"), StringImm(text), cast_to(wrong, DataType("int64")))
            checks.append((inside, Call(DataType("handle"), "tvm_tuple", parts)))


def InstrumentBoundCheckers() -> Pass:
    """Insert assertions before accesses that their indices lie within the buffer. The messages show the line and the
    index.
    """
    return body_pass("InstrumentBoundCheckers", lambda f: _Checks().visit(f.body))
