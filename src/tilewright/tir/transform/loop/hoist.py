"""HoistExpression: moves conditions and bindings out of loops that do not change them."""

from __future__ import annotations

import enum
from typing import Any

from tilewright.ir import IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, on
from tilewright.node import structural_equal as same
from tilewright.tir.arithmetic import const
from tilewright.tir.expr import And, BufferLoad, Call, CmpExpr, FloorDiv, FloorMod, IterVar, Let, Not, Or, Select, Var
from tilewright.tir.expr import Div as TruncDiv
from tilewright.tir.expr import Mod as TruncMod
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import is_pure
from tilewright.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)
from tilewright.tir.stmt_functor import used_vars
from tilewright.tir.transform.base import call_name, has_load, is_no_op, prim_func_pass
from tilewright.tir.transform.ssa import convert_ssa


class HoistedConditionals(enum.Flag):
    """The kinds of conditions that are hoisted."""

    Never = 0
    IfElseStmt = 1
    """Conditions of if statements."""
    IfElseExpr = 2
    """Conditions of if_then_else and Select."""
    BooleanExpression = 4
    """The operands of `and` and `or`, and comparisons that are values."""
    UsingBlockVar = 8
    """Also conditions on thread axes and block variables."""
    All = IfElseStmt | IfElseExpr | BooleanExpression | UsingBlockVar


class HoistedLetBindings(enum.Flag):
    """The kinds of bindings that are hoisted."""

    Never = 0
    RequiredByConditional = 1
    """Bindings that a hoisted condition uses."""
    LetStmt = 2
    LetExpr = 4
    All = RequiredByConditional | LetStmt | LetExpr


MOST_VERSIONS = 4
"""The largest number of conditions hoisted out of one loop. Each doubles the loop's body."""


def _safe(e: PrimExpr) -> bool:
    """Whether an expression can be evaluated elsewhere: it has no loads, no effects, and no division by a possible zero."""
    if not is_pure(e) or has_load(e):
        return False
    walk = _Divides()
    walk.visit(e)
    return walk.ok


class _Divides(Visitor):
    ok = True

    @on(FloorDiv, FloorMod, TruncDiv, TruncMod)
    def _div(self, e: FloorDiv | FloorMod | TruncDiv | TruncMod) -> None:
        self.ok &= e.dtype.is_float or (isinstance(e.b, IntImm) and e.b.value != 0)
        self.visit_children(e)


class _Find(Visitor):
    """Finds conditions and bindings in a loop that can move out of it."""

    def __init__(self, conditions: HoistedConditionals, lets: HoistedLetBindings, refused: set[Var]) -> None:
        self.conditions, self.lets, self.refused = conditions, lets, refused
        self.inside: set[Var] = set()
        self.found: list[PrimExpr] = []
        self.bindings: dict[Var, PrimExpr] = {}
        self.statements: set[Var] = set()

    def _free(self, e: PrimExpr) -> bool:
        return _safe(e) and not any([v in self.inside or v in self.refused for v in used_vars(e)])

    def _condition(self, e: PrimExpr, kind: HoistedConditionals) -> None:
        bare = e.args[0] if call_name(e) == "likely" else e  # type: ignore[attr-defined]
        if not self.conditions & kind or isinstance(bare, IntImm) or bare.dtype.lanes != 1 or not self._free(bare):
            return
        if not any([same(bare, f) for f in self.found]):
            self.found.append(bare)

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> None:
        # An earlier statement might end the run before this one.
        return

    @on(While)
    def _while(self, s: While) -> None:
        return

    @on(For)
    def _for(self, s: For) -> None:
        self.inside.add(s.loop_var)
        if s.kind == ForKind.THREAD_BINDING and s.thread_binding is not None:
            self.inside.add(s.thread_binding.var)
        self.visit(s.body)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
        kind = HoistedLetBindings.LetStmt if isinstance(s, LetStmt) else HoistedLetBindings.LetExpr
        self.visit(s.value)
        needed = self.lets & (kind | HoistedLetBindings.RequiredByConditional)
        if needed and self._free(s.value):
            self.bindings[s.var] = s.value
            if self.lets & kind:
                self.statements.add(s.var)
        else:
            self.inside.add(s.var)
        self.visit(s.body)

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> None:
        self.inside.add(s.buffer_var)
        self.visit(s.body)

    @on(DeclBuffer)
    def _decl(self, s: DeclBuffer) -> None:
        self.visit(s.body)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        if isinstance(s.node, IterVar):
            self.inside.add(s.node.var)
        self.visit(s.body)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        self.inside.update([a.var for a in s.block.iter_vars])
        self.visit(s.predicate)
        self.visit(s.block)

    @on(Block)
    def _block(self, b: Block) -> None:
        if b.init is None:
            self.visit(b.body)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        self._condition(s.condition, HoistedConditionals.IfElseStmt)
        self.visit(s.condition)
        self.visit(s.then_case)
        if s.else_case is not None:
            self.visit(s.else_case)

    @on(Call)
    def _call(self, e: Call) -> None:
        if call_name(e) == "if_then_else":
            self._condition(e.args[0], HoistedConditionals.IfElseExpr)
        self.visit_children(e)

    @on(Select)
    def _select(self, e: Select) -> None:
        self._condition(e.condition, HoistedConditionals.IfElseExpr)
        self.visit_children(e)

    @on(And, Or)
    def _connective(self, e: And | Or) -> None:
        self._condition(e.a, HoistedConditionals.BooleanExpression)
        self._condition(e.b, HoistedConditionals.BooleanExpression)
        self.visit_children(e)

    @on(CmpExpr)
    def _compare(self, e: CmpExpr) -> None:
        self._condition(e, HoistedConditionals.BooleanExpression)
        self.visit_children(e)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.visit_children(e)


class _Known(Mutator):
    """Replaces a condition by its value, and removes statements that then never run."""

    def __init__(self, condition: PrimExpr, value: bool) -> None:
        self.condition, self.value = condition, const(value, "bool")
        self.kind = type(condition)

    def _is(self, e: PrimExpr) -> bool:
        return type(e) is self.kind and same(e, self.condition)

    @on(CmpExpr, Not, Var, Call)
    def _expr(self, e: Any) -> Any:
        if self._is(e):
            return self.value
        if type(e) is Var:
            return e
        new = self.rebuild(e)
        name = call_name(new)
        if name == "likely" and isinstance(new.args[0], IntImm):
            return new.args[0]
        if name == "if_then_else" and isinstance(new.args[0], IntImm):
            return new.args[1] if new.args[0].value else new.args[2]
        return new

    @on(And, Or)
    def _connective(self, e: And | Or) -> PrimExpr:
        if self._is(e):
            return self.value
        a, b = self.visit(e.a), self.visit(e.b)
        absorbing = type(e) is Or
        for x, y in ((a, b), (b, a)):
            if isinstance(x, IntImm):
                return x if bool(x.value) == absorbing else y
        return e if a is e.a and b is e.b else type(e)(a, b, e.span)

    @on(Select)
    def _select(self, e: Select) -> PrimExpr:
        new = self.rebuild(e)
        if isinstance(new.condition, IntImm):
            return new.true_value if new.condition.value else new.false_value
        return new

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Stmt:
        condition = self.visit(s.condition)
        if isinstance(condition, IntImm):
            if condition.value:
                return self.visit(s.then_case)
            return NOTHING if s.else_case is None else self.visit(s.else_case)
        then = self.visit(s.then_case)
        other = None if s.else_case is None else self.visit(s.else_case)
        if is_no_op(then) and is_no_op(other) and is_pure(condition):
            return NOTHING
        return s.replace(condition=condition, then_case=then, else_case=other)

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        new = self.rebuild(s)
        return new if new is s else stmt_seq(new)

    @on(For, Allocate, AllocateConst, DeclBuffer)
    def _scope(self, s: For) -> Stmt:
        new = self.rebuild(s)
        return NOTHING if is_no_op(new.body) else new


def _nothing() -> Stmt:
    from tilewright.tir.stmt import Evaluate

    return Evaluate(IntImm("int32", 0))


NOTHING = _nothing()


class _Unbind(Mutator):
    """Replaces hoisted bindings by their bodies."""

    def __init__(self, moved: set[Var]) -> None:
        self.moved = moved

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> Any:
        return self.visit(s.body) if s.var in self.moved else self.rebuild(s)


class _Hoist(Mutator):
    def __init__(self, conditions: HoistedConditionals, lets: HoistedLetBindings) -> None:
        self.conditions, self.lets = conditions, lets
        self.threads: set[Var] = set()
        self.changed = False

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if isinstance(s.node, IterVar):
            self.threads.add(s.node.var)
        return self.rebuild(s)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> Stmt:
        self.threads.update([a.var for a in s.block.iter_vars])
        return self.rebuild(s)

    @on(For)
    def _for(self, s: For) -> Stmt:
        if s.kind == ForKind.THREAD_BINDING:
            if s.thread_binding is not None:
                self.threads.update((s.loop_var, s.thread_binding.var))
            return self.rebuild(s)
        refused = set() if self.conditions & HoistedConditionals.UsingBlockVar else self.threads
        look = _Find(self.conditions, self.lets, refused)
        look.visit(s)
        if not look.found and not look.statements:
            return self.rebuild(s)
        chosen = look.found[:MOST_VERSIONS]
        needed = set(look.statements)
        for e in reversed([*look.bindings.values(), *chosen]):
            needed.update([v for v in used_vars(e) if v in look.bindings] if e in chosen else ())
        for var in reversed(list(look.bindings)):
            if var in needed:
                needed.update([v for v in used_vars(look.bindings[var]) if v in look.bindings])
        self.changed = True
        body: Stmt = self._versions(_Unbind(needed).visit(s) if needed else s, chosen)
        for var in reversed(list(look.bindings)):
            if var in needed:
                body = LetStmt(var, look.bindings[var], body)
        return body

    def _versions(self, s: Stmt, conditions: list[PrimExpr]) -> Stmt:
        if not conditions:
            # Conditions and bindings that stay may still leave inner loops.
            out: Stmt = self.rebuild(s) if type(s) is For else s
            return out
        first = conditions[0]
        yes, no = _Known(first, True).visit(s), _Known(first, False).visit(s)
        then = self._versions(yes, conditions[1:])
        other = None if is_no_op(no) else self._versions(no, conditions[1:])
        if is_no_op(then):
            return NOTHING if other is None else IfThenElse(Not(first), other)
        return IfThenElse(first, then, other)


def hoist(func: PrimFunc, conditions: HoistedConditionals, lets: HoistedLetBindings) -> PrimFunc:
    """Move loop-invariant conditions and bindings of a function out of its loops."""
    walk = _Hoist(conditions, lets)
    body = walk.visit(func.body)
    return convert_ssa(func.replace(body=body)) if walk.changed else func


def HoistExpression() -> Pass:
    """Move conditions and bindings out of the outermost loop that does not change them.

    Option "tir.HoistExpression": {"hoisted_conditionals": a HoistedConditionals value, "hoisted_let_bindings": a
    HoistedLetBindings value}. The default is all except conditions on thread axes. Nothing is moved out of a sequence
    of statements.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.config.get("tir.HoistExpression") or {}
        usual = HoistedConditionals.All & ~HoistedConditionals.UsingBlockVar
        conditions = HoistedConditionals(_flag(options.get("hoisted_conditionals", usual)))
        return hoist(
            func, conditions, HoistedLetBindings(_flag(options.get("hoisted_let_bindings", HoistedLetBindings.All)))
        )

    made: Pass = prim_func_pass(run, name="tir.HoistExpression")
    return made


def _flag(value: Any) -> int:
    return int(getattr(value, "value", value))
