"""Shared code of the passes: the decorator for passes on PrimFuncs, and helpers for statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.ir import IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, function_pass_of
from tilewright.node import Visitor, has_node, on
from tilewright.tir.arithmetic import conjuncts, logical_and
from tilewright.tir.expr import BufferLoad, Call, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import UPDATES, call_effect, is_pure
from tilewright.tir.stmt import Allocate, AllocateConst, BufferStore, Evaluate, MatchBufferRegion, SeqStmt, Stmt


class PrimFuncPass(Pass):
    """A pass on PrimFuncs, made by `prim_func_pass`."""


prim_func_pass = function_pass_of(PrimFunc, PrimFuncPass)
prim_func_pass.__doc__ = (
    "Makes a pass of `f(func, mod, ctx) -> func`, or a pass factory of a class with `transform_function`."
)


def body_pass(
    name: str, rewrite: Callable[[PrimFunc], Stmt], needs: tuple[str, ...] = (), gives: tuple[str, ...] = ()
) -> Pass:
    """Make a pass that gives each function a new body."""

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return func.replace(body=rewrite(func))

    made: Pass = prim_func_pass(run, name=f"tir.{name}", needs=needs, gives=gives)
    return made


def is_no_op(s: Stmt | None) -> bool:
    """Whether a statement does nothing."""
    if s is None:
        return True
    if type(s) is Evaluate:
        return isinstance(s.value, IntImm)
    return type(s) is SeqStmt and all([is_no_op(x) for x in s.seq])


def call_name(e: PrimExpr) -> str:
    """The name of the intrinsic of a call, without "tir."; "" for other expressions."""
    if type(e) is not Call:
        return ""
    name: str = getattr(e.op, "name", "")
    return name.removeprefix("tir.")


def has_load(e: PrimExpr) -> bool:
    """Whether an expression reads a buffer."""
    return has_node(e, BufferLoad)


class _Changes(Visitor):
    """The storage that a statement may write or allocate; `anything` if it calls a function that may write any storage."""

    def __init__(self) -> None:
        self.storage: set[Var] = set()
        self.views: dict[Var, Var] = {}
        self.anything = False

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.storage.add(s.buffer.data)
        self.visit_children(s)

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> None:
        self.storage.add(s.buffer_var)
        self.visit_children(s)

    @on(Call)
    def _call(self, e: Call) -> None:
        self.anything = self.anything or call_effect(e) == UPDATES
        self.visit_children(e)

    @on(MatchBufferRegion)
    def _view(self, m: MatchBufferRegion) -> None:
        self.views[m.buffer.data] = m.source.buffer.data
        self.visit_children(m)


class _Loaded(Visitor):
    def __init__(self) -> None:
        self.found: set[Var] = set()

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.found.add(e.buffer.data)
        self.visit_children(e)


class Invariants:
    """Finds values that do not change while a statement runs: they load only storage that the statement does not write.

    views: data variables of views that are defined outside of the statement -> the data variable of the viewed buffer.
    """

    def __init__(self, body: Stmt, views: Mapping[Var, Var] | None = None) -> None:
        self.body, self.views = body, views or {}
        self.changes: _Changes | None = None

    def __call__(self, e: PrimExpr) -> bool:
        if not is_pure(e):
            return False
        loads = _Loaded()
        loads.visit(e)
        if not loads.found:
            return True
        if self.changes is None:
            self.changes = _Changes()
            self.changes.visit(self.body)
        changed = {self._whole(v) for v in self.changes.storage}
        return not self.changes.anything and changed.isdisjoint([self._whole(v) for v in loads.found])

    def _whole(self, data: Var) -> Var:
        assert self.changes is not None
        while data in self.changes.views or data in self.views:
            data = self.changes.views[data] if data in self.changes.views else self.views[data]
        return data


def lasting(condition: PrimExpr, body: Stmt, views: Mapping[Var, Var] | None = None) -> PrimExpr:
    """The conjuncts of a condition that stay true while a statement runs."""
    if not has_load(condition) and is_pure(condition):
        return condition
    steady = Invariants(body, views)
    kept: PrimExpr = IntImm("bool", 1)
    for c in conjuncts(condition):
        if steady(c):
            kept = logical_and(kept, c)
    return kept


def is_true(e: PrimExpr) -> bool:
    """Whether an expression is the constant true."""
    return isinstance(e, IntImm) and e.value != 0
