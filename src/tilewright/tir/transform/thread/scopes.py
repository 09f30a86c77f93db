"""Attributes that mark scopes: passes that lift, merge, and lower them to calls."""

from __future__ import annotations

from typing import Any, TypeGuard

from tilewright.ir import DataType, IntImm, Op, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, Visitor, on, structural_equal
from tilewright.support.errors import TVMError
from tilewright.tir.expr import Call, StringImm, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import UPDATES
from tilewright.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)
from tilewright.tir.stmt_functor import any_stmt, used_vars
from tilewright.tir.transform.base import body_pass, call_name
from tilewright.tir.transform.loop.double_buffer import touches

for _name in ("tvm_thread_context", "vta.coproc_sync", "vta.coproc_dep_push", "vta.coproc_dep_pop", "vta.coproc_read_barrier",
              "vta.coproc_write_barrier"):  # fmt: skip
    Op(f"tir.{_name}").set_attr("TCallEffectKind", UPDATES)


class _Lift(Mutator):
    """On the way up, moves a mark that all parts of a statement have around the statement."""

    def __init__(self, key: str) -> None:
        self.key = key

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    def _same(self, a: AttrStmt, b: Any) -> bool:
        return structural_equal(a.value, b.value) and (
            a.node is b.node or (a.node is not None and b.node is not None and structural_equal(a.node, b.node))
        )

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        """Merges neighbours with the same mark into one scope. Unmarked statements join their neighbours only if all marks agree."""
        parts = [self.visit(x) for x in s.seq]
        groups: list[list[Any]] = []
        for p in parts:
            marked = self._is_mark(p)
            if groups and marked and self._is_mark(groups[-1][0]) and self._same(groups[-1][0], p):
                groups[-1].append(p)
            else:
                groups.append([p])
        merged: list[Stmt] = [
            g[0] if len(g) == 1 else g[0].replace(body=stmt_seq(*[x.body for x in g])) for g in groups
        ]
        if len(merged) == 1:
            return merged[0]
        same = len(merged) == len(s.seq) and all([a is b for a, b in zip(merged, s.seq, strict=True)])
        return s if same else stmt_seq(*merged)

    def _is_mark(self, s: Stmt) -> TypeGuard[AttrStmt]:
        return isinstance(s, AttrStmt) and s.attr_key == self.key

    def _out(self, s: Any, own: tuple[Var, ...]) -> Any:
        new = self.rebuild(s)
        mark = new.body
        if self._is_mark(mark) and not any([v in used_vars(mark.value) or mark.node is v for v in own]):
            return mark.replace(body=new.replace(body=mark.body))
        return new

    @on(For)
    def _for(self, s: For) -> Any:
        return self._out(s, (s.loop_var,))

    @on(LetStmt)
    def _let(self, s: LetStmt) -> Any:
        return self._out(s, (s.var,))

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> Any:
        return self._out(s, (s.buffer_var,))

    @on(DeclBuffer, While)
    def _plain(self, s: DeclBuffer | While) -> Any:
        return self._out(s, ())

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Any:
        if s.attr_key == self.key:
            return self.rebuild(s)
        own = getattr(s.node, "var", s.node)
        return self._out(s, (own,) if isinstance(own, Var) else ())

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Stmt:
        new = self.rebuild(s)
        mark, other = new.then_case, new.else_case
        if not self._is_mark(mark):
            return new
        if other is None:
            return mark.replace(body=new.replace(then_case=mark.body))
        if self._is_mark(other) and self._same(mark, other):
            return mark.replace(body=new.replace(then_case=mark.body, else_case=other.body))
        return new


def LiftAttrScope(attr_key: str) -> Pass:
    """Move attributes with this key to the largest statement whose parts all have the attribute."""
    return body_pass("LiftAttrScope", lambda f: _Lift(attr_key).visit(f.body))


class _Contexts(Mutator):
    """Binds equal contexts of calls to one name each, around the body of the parallel loop."""

    def __init__(self) -> None:
        self.named: list[tuple[PrimExpr, Var]] = []

    @on(Call)
    def _call(self, e: Call) -> Any:
        if call_name(e) != "tvm_thread_context":
            return self.rebuild(e)
        made = e.args[0]
        for known, var in self.named:
            if structural_equal(known, made):
                return var
        var = Var("ctx_cache_", "handle")
        self.named.append((made, var))
        return var

    @on(For)
    def _for(self, s: For) -> Stmt:
        return s.replace(body=self.within(s.body)) if s.kind == ForKind.PARALLEL else self.rebuild(s)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        own = s.attr_key in ("thread_extent", "coproc_uop_scope", "compute_scope")
        return s.replace(body=self.within(s.body)) if own else self.rebuild(s)

    def within(self, body: Stmt) -> Stmt:
        outer, self.named = self.named, []
        new: Stmt = self.visit(body)
        for made, var in reversed(self.named):
            new = LetStmt(var, Call("handle", "tir.tvm_thread_context", (made,)), new)
        self.named = outer
        return new


def CombineContextCall() -> Pass:
    """Merge equal calls tvm_thread_context(x) into one, which each thread makes once."""
    return body_pass("CombineContextCall", lambda f: _Contexts().within(f.body))


# --- co-processors

SCOPE = "coproc_scope"


def _units(s: Stmt) -> list[int]:
    """The units of the co-processor that a statement uses, in order."""
    found: dict[int, None] = {}

    class Walk(Visitor):
        @on(PrimExpr)
        def _expr(self, e: PrimExpr) -> None:
            pass

        @on(AttrStmt)
        def _attr(self, x: AttrStmt) -> None:
            if x.attr_key == SCOPE:
                if not isinstance(x.value, IntImm):
                    raise TVMError(f"CoProcSync: the unit of a coproc_scope must be a constant, but is {x.value}")
                found.setdefault(x.value.value)
            self.visit(x.body)

    Walk().visit(s)
    return list(found)


class _CoProc(Mutator):
    """Between the statements of a sequence, inserts tokens from unit to unit, and a wait before host code."""

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return s if s.attr_key == SCOPE else self.rebuild(s)

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        parts = [self.visit(x) for x in s.seq]
        uses = [touches(p) for p in parts]
        units = [_units(p) for p in parts]
        out: list[Stmt] = []
        waited = 0
        for k, part in enumerate(parts):
            for j in range(k):
                shared = (uses[j].writes & (uses[k].reads | uses[k].writes)) | (uses[j].reads & uses[k].writes)
                if not shared or not units[j]:
                    continue
                if not units[k]:
                    if j >= waited:
                        out.append(Evaluate(Call("int32", "tir.vta.coproc_sync", ())))
                        waited = k
                    continue
                for a in units[j]:
                    for b in units[k]:
                        if a != b:
                            push, pop = (
                                Evaluate(Call("int32", f"tir.vta.coproc_dep_{w}", (a, b))) for w in ("push", "pop")
                            )
                            out += [_in(a, push), _in(b, pop)]
            out.append(part)
        return (
            s if len(out) == len(s.seq) and all([a is b for a, b in zip(out, s.seq, strict=True)]) else stmt_seq(*out)
        )

    @on(For)
    def _for(self, s: For) -> Stmt:
        new = self.rebuild(s)
        units = _units(new.body)
        if len(units) < 2:
            return new
        # The first unit of the next iteration waits for the last unit of this one.
        first, last = units[0], units[-1]
        push, pop = (Evaluate(Call("int32", f"tir.vta.coproc_dep_{w}", (last, first))) for w in ("push", "pop"))
        body = stmt_seq(_in(first, pop), new.body, _in(last, push))
        return stmt_seq(_in(last, push), new.replace(body=body), _in(first, pop))


def _in(unit: int, s: Stmt) -> Stmt:
    axis = Var("cop", DataType("int32"))
    return AttrStmt(axis, SCOPE, IntImm("int32", unit), s)


def _coproc(func: PrimFunc) -> Stmt:
    if not any_stmt(func.body, lambda s: isinstance(s, AttrStmt) and s.attr_key == SCOPE):
        return func.body
    body: Stmt = _CoProc().visit(func.body)
    return stmt_seq(body, Evaluate(Call("int32", "tir.vta.coproc_sync", ())))


def CoProcSync() -> Pass:
    """Insert dependency tokens between the units of "coproc_scope" (value: the unit), and a wait before host code and
    at the end.
    """
    return body_pass("CoProcSync", _coproc)


# --- fragments of matrix units


class _Fragments(Visitor):
    def __init__(self) -> None:
        self.shape: dict[Var, str] = {}
        self.layout: dict[Var, str] = {}

    def _note(self, data: PrimExpr, sizes: tuple[PrimExpr, ...], layout: Any = None) -> None:
        if not isinstance(data, Var):
            return
        shape = ", ".join([str(x) for x in sizes])
        if self.shape.setdefault(data, shape) != shape:
            raise TVMError(f"InferFragment: {data.name} is used as a fragment of {self.shape[data]} and of {shape}")
        if isinstance(layout, StringImm):
            if self.layout.setdefault(data, layout.value) != layout.value:
                raise TVMError(f"InferFragment: {data.name} is loaded as {self.layout[data]} and as {layout.value}")

    @on(Call)
    def _call(self, e: Call) -> None:
        name = call_name(e)
        if name in ("tvm_load_matrix_sync", "tvm_store_matrix_sync"):
            scope = str(getattr(e.args[0].type_annotation, "storage_scope", ""))  # type: ignore[attr-defined]
            self._note(e.args[0], e.args[1:4], e.args[7] if scope in ("wmma.matrix_a", "wmma.matrix_b") else None)
        elif name == "tvm_fill_fragment":
            self._note(e.args[0], e.args[1:4])
        self.visit_children(e)


class _MarkFragments(Mutator):
    def __init__(self, found: _Fragments) -> None:
        self.found = found

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        new: Stmt = self.rebuild(s)
        for key, table in (("fragment_layout", self.found.layout), ("fragment_shape", self.found.shape)):
            if s.buffer_var in table:
                new = AttrStmt(s.buffer_var, key, StringImm(table[s.buffer_var]), new)
        return new


class _Mma(Visitor):
    """Checks that fragments that are multiplied together have one shape."""

    def __init__(self, found: _Fragments) -> None:
        self.found = found

    @on(Call)
    def _call(self, e: Call) -> None:
        if call_name(e) in ("tvm_mma_sync", "tvm_bmma_sync"):
            names = [a for a in (e.args[0], e.args[2], e.args[4], e.args[6]) if isinstance(a, Var)]
            shapes = {self.found.shape[v] for v in names if v in self.found.shape}
            if len(shapes) > 1:
                raise TVMError(f"InferFragment: {call_name(e)} multiplies fragments of {' and '.join(sorted(shapes))}")
            for v in names:
                self.found.shape.setdefault(v, *shapes) if shapes else None
        self.visit_children(e)


def _fragments(func: PrimFunc) -> Stmt:
    found = _Fragments()
    found.visit(func.body)
    _Mma(found).visit(func.body)
    if not found.shape:
        return func.body
    out: Stmt = _MarkFragments(found).visit(func.body)
    return out


def InferFragment() -> Pass:
    """Mark storage of matrix-unit fragments "fragment_shape" ("m, n, k") and "fragment_layout", as inferred from the
    calls on it.
    """
    return body_pass("InferFragment", _fragments)
