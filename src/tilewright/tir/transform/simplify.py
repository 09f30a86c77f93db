"""Simplify, RemoveNoOp and HoistIfThenElse: simplification by the ranges of loops and the conditions around a
statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, IRModule, PrimExpr, Range
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, mutate_tuple, on
from tilewright.tir.arithmetic import conjuncts, logical_not
from tilewright.tir.expr import And, BufferLoad, Or, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import is_pure
from tilewright.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BufferStore,
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
from tilewright.tir.stmt_functor import used_vars
from tilewright.tir.transform.base import call_name, has_load, is_no_op, is_true, lasting, prim_func_pass
from tilewright.tir.transform.loop.logic_forms import and_of_ors, overwritten, stores_itself, under_each_other

if TYPE_CHECKING:
    from tilewright.arith.analyzer import ConstraintScope


NOTHING = Evaluate(IntImm("int32", 0))


class Simplifier(Mutator):
    """Simplifies every expression under the conditions that hold there. Removes branches and loops that do not run."""

    def __init__(self, and_of_ors: bool = False, under_each_other: bool = False) -> None:
        self.analyzer = Analyzer()
        self.views: dict[Var, Var] = {}
        self.and_of_ors, self.under_each_other = and_of_ors, under_each_other

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        new = self.analyzer.simplify(e)
        return self._condition(new) if isinstance(new, (And, Or)) else new

    def _condition(self, e: PrimExpr) -> PrimExpr:
        if self.and_of_ors:
            e = and_of_ors(e)
        return under_each_other(e, self.analyzer) if self.under_each_other else e

    def _while_true(self, condition: PrimExpr, body: Stmt) -> ConstraintScope:
        """The scope in which a statement is simplified: the parts of the condition hold that the statement cannot change."""
        return self.analyzer.constraint_scope(lasting(condition, body, self.views))

    @on(Block)
    def _block(self, s: Block) -> Stmt:
        self.views.update({m.buffer.data: m.source.buffer.data for m in s.match_buffers})
        return self.rebuild(s)

    @on(IntImm, Var)
    def _leaf(self, e: PrimExpr) -> PrimExpr:
        return e if type(e) is IntImm else self.analyzer.simplify(e)

    @on(For)
    def _for(self, s: For) -> Stmt:
        low, extent = self.visit(s.min), self.visit(s.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return NOTHING
        self.analyzer.bind(s.loop_var, Range.from_min_extent(low, extent), allow_override=True)
        with self._while_true(extent > 0, s.body) if not isinstance(extent, IntImm) else _Nothing():
            body = self.visit(s.body)
        if is_no_op(body):
            return NOTHING
        if isinstance(extent, IntImm) and extent.value == 1 and s.kind != ForKind.THREAD_BINDING and not s.annotations:
            if low.dtype is s.loop_var.dtype and not _mentions(body, s.loop_var):
                return body
            if low.dtype is s.loop_var.dtype:
                return LetStmt(s.loop_var, low, body)
        if low is s.min and extent is s.extent and body is s.body:
            return s
        return For(s.loop_var, low, extent, s.kind, body, s.thread_binding, s.annotations, s.span)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Stmt:
        parts = []
        for c in conjuncts(s.condition):
            hinted = call_name(c) == "likely"
            plain = self.visit(c.args[0]) if hinted else self.visit(c)  # type: ignore[attr-defined]
            if isinstance(plain, IntImm):
                if plain.value:
                    continue
                return NOTHING if s.else_case is None else self.visit(s.else_case)
            same = hinted and plain is c.args[0]  # type: ignore[attr-defined]
            parts.append((c if same else _likely(plain) if hinted else plain, plain))
        if not parts:
            return self.visit(s.then_case)
        condition = parts[0][0]
        known = parts[0][1]
        for whole, plain in parts[1:]:
            condition, known = condition & whole, known & plain
        if len(parts) == 1 and condition is s.condition:
            condition = s.condition
        with self._while_true(known, s.then_case):
            then = self.visit(s.then_case)
        other = s.else_case
        if other is not None:
            with self._while_true(logical_not(known), other):
                other = self.visit(other)
            if is_no_op(other):
                other = None
        if is_no_op(then):
            return NOTHING if other is None else IfThenElse(logical_not(condition), other)
        if then is s.then_case and other is s.else_case and list(conjuncts(s.condition)) == [p[0] for p in parts]:
            return s
        return IfThenElse(condition, then, other, s.span)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> Stmt:
        value = self.visit(s.value)
        if isinstance(value, (IntImm, Var)) and value.dtype is s.var.dtype and value.dtype.is_int:
            self.analyzer.bind(s.var, value, allow_override=True)
            body = self.visit(s.body)
            if not _mentions(body, s.var):
                return body
        else:
            if value.dtype.lanes == 1 and value.dtype.is_int:
                low, high = self.analyzer.bound(value)
                if abs(low) < 2**62 and abs(high) < 2**62:
                    self.analyzer.bind(
                        s.var, Range(IntImm("int64", low), IntImm("int64", high + 1)), allow_override=True
                    )
            body = self.visit(s.body)
        return s if value is s.value and body is s.body else LetStmt(s.var, value, body, s.span)

    @on(AssertStmt)
    def _assert(self, s: AssertStmt) -> Stmt:
        condition = self.visit(s.condition)
        with self._while_true(condition, s.body) if condition.dtype.lanes == 1 else _Nothing():
            body = self.visit(s.body)
        if is_true(condition):
            return body
        return s if condition is s.condition and body is s.body else AssertStmt(condition, s.message, body, s.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        value, indices = self.visit(s.value), mutate_tuple(self.visit, s.indices)
        predicate = None if s.predicate is None else self.visit(s.predicate)
        if isinstance(value, BufferLoad) and value.buffer is s.buffer and value.predicate is None:
            if all([a is b for a, b in zip(value.indices, indices, strict=True)]):
                return NOTHING
        if value is s.value and indices is s.indices and predicate is s.predicate:
            return s
        return BufferStore(s.buffer, value, indices, predicate, s.span)

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        new = mutate_tuple(self.visit, s.seq)
        return s if new is s.seq and not any([is_no_op(x) for x in new]) else stmt_seq(*new)

    @on(Allocate, AllocateConst, DeclBuffer)
    def _scope(self, s: Allocate | DeclBuffer) -> Stmt:
        new = self.rebuild(s)
        return NOTHING if is_no_op(new.body) else new

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key == "thread_extent" and s.node is not None:
            self.analyzer.bind(
                s.node.var, Range.from_min_extent(IntImm(s.value.dtype, 0), s.value), allow_override=True
            )
        body = self.visit(s.body)
        if is_no_op(body):
            return NOTHING
        return s if body is s.body else s.replace(body=body)

    @on(While)
    def _while(self, s: While) -> Stmt:
        return self.rebuild(s)


def _likely(e: PrimExpr) -> PrimExpr:
    from tilewright.tir.op import likely

    return likely(e)


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *args: object) -> None:
        pass


def _mentions(node: Stmt, var: Var) -> bool:
    return var in used_vars(node)


def Simplify() -> Pass:
    """Simplify expressions, and remove statements that never run.

    Option "tir.Simplify": {"convert_boolean_to_and_of_ors": rewrite conditions to conjunctions of disjunctions,
    "apply_constraints_to_boolean_branches": simplify the operands of `and` and `or` under each other}. The work of its
    other keys (transitive comparisons, conditions around a statement) is always done.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.config.get("tir.Simplify") or {}
        forms = (options.get("convert_boolean_to_and_of_ors"), options.get("apply_constraints_to_boolean_branches"))
        return func.replace(body=Simplifier(bool(forms[0]), bool(forms[1])).visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.Simplify")
    return made


class _RemoveNoOp(Mutator):
    def __init__(self, dataflow: bool) -> None:
        self.dataflow = dataflow

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        new = mutate_tuple(self.visit, s.seq)
        if self.dataflow:
            kept = [x for k, x in enumerate(new) if k + 1 == len(new) or not overwritten(x, new[k + 1])]
            new = new if len(kept) == len(new) else tuple(kept)
        return s if new is s.seq and not any([is_no_op(x) or type(x) is SeqStmt for x in new]) else stmt_seq(*new)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        return NOTHING if is_pure(s.value) else s

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        return NOTHING if type(s.value) is BufferLoad and stores_itself(s) else s

    @on(For, Allocate, AllocateConst, DeclBuffer)
    def _scope(self, s: Allocate | DeclBuffer | For) -> Stmt:
        body = self.visit(s.body)
        if is_no_op(body) or (type(s) is For and isinstance(s.extent, IntImm) and s.extent.value <= 0):
            return NOTHING
        return s if body is s.body else s.replace(body=body)

    @on(LetStmt, AttrStmt)
    def _valued(self, s: LetStmt | AttrStmt) -> Stmt:
        if type(s) is AttrStmt and s.attr_key == "pragma_debug_skip_region":
            return NOTHING
        body = self.visit(s.body)
        if is_no_op(body):
            return NOTHING if is_pure(s.value) else Evaluate(s.value)
        return s if body is s.body else s.replace(body=body)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Stmt:
        then = self.visit(s.then_case)
        other = None if s.else_case is None else self.visit(s.else_case)
        if is_no_op(other):
            other = None
        if is_no_op(then):
            if other is None:
                return NOTHING if is_pure(s.condition) else Evaluate(s.condition)
            return IfThenElse(logical_not(s.condition), other, None, s.span)
        return s if then is s.then_case and other is s.else_case else IfThenElse(s.condition, then, other, s.span)


def RemoveNoOp() -> Pass:
    """Remove statements without effect.

    Option "tir.RemoveNoOp": {"use_dataflow_analysis": also remove loops whose stores the next statement overwrites}.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.config.get("tir.RemoveNoOp") or {}
        return func.replace(body=_RemoveNoOp(bool(options.get("use_dataflow_analysis", False))).visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.RemoveNoOp")
    return made


class _Hoist(Mutator):
    """for i: if c: S  ->  if c: for i: S, if c does not depend on i and loads nothing."""

    def __init__(self, past_threads: bool) -> None:
        self.past_threads = past_threads
        self.threads: set[Var] = set()

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if not self.past_threads and s.attr_key == "thread_extent" and s.node is not None:
            self.threads.add(s.node.var)
        return self.rebuild(s)

    @on(For)
    def _for(self, s: For) -> Stmt:
        body = self.visit(s.body)
        if type(body) is IfThenElse and s.kind in (ForKind.SERIAL, ForKind.UNROLLED, ForKind.VECTORIZED):
            names = used_vars(body.condition)
            kept = s.loop_var in names or (self.threads and not self.threads.isdisjoint(names))
            if not kept and not _loads(body.condition):
                then = s.replace(body=body.then_case)
                other = None if body.else_case is None else s.replace(body=body.else_case)
                return IfThenElse(body.condition, then, other, body.span)
        return s if body is s.body else s.replace(body=body)


def _loads(e: PrimExpr) -> bool:
    return has_load(e) or not is_pure(e)


def HoistIfThenElse(variant: str | None = None) -> Pass:
    """Move conditions of if statements out of loops that do not change them.

    variant: "basic" moves only conditions directly inside a loop. None also moves deeper ones, out of several loops.
    Conditions on thread axes stay, unless the option "tir.HoistIfThenElse" has {"support_block_scope_hosting": True}.
    """
    if variant not in (None, "basic"):
        raise ValueError(f'HoistIfThenElse: variant is None or "basic", but was given {variant!r}')

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        from tilewright.tir.transform.loop.hoist import HoistedConditionals, HoistedLetBindings, hoist

        options = ctx.config.get("tir.HoistIfThenElse") or {}
        past = bool(options.get("support_block_scope_hosting") or options.get("support_block_scope_hoisting"))
        if variant == "basic":
            return func.replace(body=_Hoist(past).visit(func.body))
        kinds = HoistedConditionals.IfElseStmt
        return hoist(func, kinds | HoistedConditionals.UsingBlockVar if past else kinds, HoistedLetBindings.Never)

    made: Pass = prim_func_pass(run, name="tir.HoistIfThenElse")
    return made
