"""Small rewrites: remove assumptions and undefined stores, compute repeated index arithmetic once, normalise split
patterns.
"""

from __future__ import annotations

from typing import Any

from tilewright.ir import IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, on
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import floordiv, floormod
from tilewright.tir.expr import Add, Call, Cast, FloorDiv, FloorMod, Max, Min, Mul, Sub, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    LetStmt,
    SeqStmt,
    Stmt,
    stmt_seq,
)
from tilewright.tir.transform.base import body_pass, call_name, prim_func_pass


class _NoAssume(Mutator):
    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        return Evaluate(IntImm("int32", 0)) if call_name(s.value) == "assume" else s

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        new = self.rebuild(s)
        return new if new is s else stmt_seq(new)

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e


def RemoveAssume() -> Pass:
    """Remove T.assume(...), after the passes that use it."""
    return body_pass("RemoveAssume", lambda f: _NoAssume().visit(f.body), gives=("no_assume",))


class _NoUndef(Mutator):
    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if call_name(s.value) == "undef":
            return Evaluate(IntImm("int32", 0))
        return self.rebuild(s)

    @on(Call)
    def _call(self, e: Call) -> Any:
        if call_name(e) == "undef":
            raise TVMError(
                located("RemoveStoreUndef: T.undef() may only be stored directly, but is inside an expression", e)
            )
        return self.rebuild(e)

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        new = self.rebuild(s)
        return new if new is s else stmt_seq(new)


def RemoveStoreUndef() -> Pass:
    """Remove stores of T.undef(). Raises TVMError for undef inside an expression."""
    return body_pass("RemoveStoreUndef", lambda f: _NoUndef().visit(f.body), gives=("no_undef",))


class _Renormalize(Mutator):
    @on(FloorDiv)
    def _div(self, e: FloorDiv) -> PrimExpr:
        new = self.rebuild(e)
        inner, by = new.a, new.b
        if type(inner) is FloorMod and isinstance(inner.b, IntImm) and isinstance(by, IntImm) and by.value > 0:
            if inner.b.value > 0 and inner.b.value % by.value == 0:
                rest = IntImm(by.dtype, inner.b.value // by.value)
                return floormod(floordiv(inner.a, by), rest)
        return new


def RenormalizeSplitPattern() -> Pass:
    """Rewrite (x % (a * b)) // b to (x // b) % a, the form that code generators and iterator maps recognise."""
    return body_pass("RenormalizeSplitPattern", lambda f: _Renormalize().visit(f.body))


Key = Any


class _Keys:
    """Keys of integer expressions made of variables and arithmetic; None for any other expression."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[PrimExpr, Key, frozenset[Var], int]] = {}

    def of(self, e: Any) -> tuple[Key, frozenset[Var], int]:
        """(key, variables, size)."""
        found = self.known.get(id(e))
        if found is None:
            found = self.known[id(e)] = (e, *self._make(e))
        return found[1:]

    def _make(self, e: Any) -> tuple[Key, frozenset[Var], int]:
        nothing: tuple[Key, frozenset[Var], int] = (None, frozenset(), 0)
        if e.dtype.lanes != 1 or not (e.dtype.is_int or e.dtype.is_uint):
            return nothing
        if isinstance(e, Var):
            return (id(e), frozenset((e,)), 1)
        if isinstance(e, IntImm):
            return ((e.dtype, e.value), frozenset(), 0)
        if type(e) is Cast:
            key, names, size = self.of(e.value)
            return nothing if key is None else ((Cast, e.dtype, key), names, size)
        if type(e) in (FloorDiv, FloorMod) and not (isinstance(e.b, IntImm) and e.b.value):
            # The binding would be evaluated where its condition is false.
            return nothing
        if type(e) in (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max):
            (a, va, sa), (b, vb, sb) = self.of(e.a), self.of(e.b)
            return nothing if a is None or b is None else ((type(e), a, b), va | vb, sa + sb + 1)
        return nothing


class _Count(Visitor):
    def __init__(self, keys: _Keys, defined: set[Var]) -> None:
        self.keys, self.defined = keys, defined
        self.found: dict[Key, list[Any]] = {}

    @on(Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)
    def _expr(self, e: PrimExpr) -> None:
        key, names, size = self.keys.of(e)
        if key is not None and names and names <= self.defined:
            self.found.setdefault(key, [e, 0, size])[1] += 1
        self.visit_children(e)


class _Replace(Mutator):
    def __init__(self, keys: _Keys, key: Key, var: Var) -> None:
        self.keys, self.key, self.var = keys, key, var

    @on(Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return self.var if self.keys.of(e)[0] == self.key else self.rebuild(e)


class _Eliminate:
    """From the outside in: binds repeated expressions at the first scope that defines all their variables."""

    def __init__(self) -> None:
        self.keys = _Keys()
        self.count = 0

    def run(self, body: Stmt, defined: set[Var]) -> Stmt:
        lets: list[tuple[Var, PrimExpr]] = []
        while True:
            look = _Count(self.keys, defined)
            look.visit(body)
            for _, value in lets:
                look.visit_children(value)
            repeated = [(key, e, size) for key, (e, n, size) in look.found.items() if n > 1]
            if not repeated:
                break
            key, e, _ = max(repeated, key=lambda t: t[2])
            self.count += 1
            var = Var(f"cse_var_{self.count}", e.dtype)
            replace = _Replace(self.keys, key, var)
            body = replace.visit(body)
            lets = [(v, replace.rebuild(value)) for v, value in lets] + [(var, e)]
        inner = self._below(body, defined | {v for v, _ in lets})
        for var, value in lets:
            inner = LetStmt(var, value, inner)
        return inner

    def _below(self, s: Stmt, defined: set[Var]) -> Stmt:
        """Scopes inside a statement, each with the variables that it defines."""
        outer = self

        class Scopes(Mutator):
            @on(PrimExpr)
            def _expr(self, e: PrimExpr) -> PrimExpr:
                return e

            @on(For)
            def _for(self, f: For) -> Stmt:
                body = outer.run(f.body, defined | {f.loop_var})
                return f if body is f.body else f.replace(body=body)

            @on(LetStmt)
            def _let(self, x: LetStmt) -> Stmt:
                body = outer.run(x.body, defined | {x.var})
                return x if body is x.body else x.replace(body=body)

            @on(AttrStmt)
            def _attr(self, x: AttrStmt) -> Stmt:
                own = getattr(x.node, "var", None) if x.attr_key in ("thread_extent", "virtual_thread") else None
                body = outer.run(x.body, defined | {own}) if isinstance(own, Var) else self.visit(x.body)
                return x if body is x.body else x.replace(body=body)

        out: Stmt = Scopes().visit(s)
        return out


def CommonSubexprElimTIR(enable_cse_tir: bool = True, identify_equiv_terms: bool = False) -> Pass:
    """Compute repeated index arithmetic once, in a LetStmt where its variables are defined. Needs flat buffers.

    identify_equiv_terms is accepted for compatibility. Two terms are the same only if they are written the same.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if not enable_cse_tir:
            return func
        defined = set(func.params)
        for buffer in func.buffer_map.values():
            defined.update([e for e in (*buffer.shape, *buffer.strides, buffer.elem_offset) if isinstance(e, Var)])
        return func.replace(body=_Eliminate().run(func.body, defined))

    made: Pass = prim_func_pass(run, name="tir.CommonSubexprElimTIR", needs=("flat_buffers",))
    return made
