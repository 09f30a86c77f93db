"""RewriteUnsafeSelect, ReduceBranchingThroughOvercompute, UseAssumeToReduceBranches: rewrites of conditional values and stores."""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import FloatImm, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, on, structural_equal
from tilewright.tir.arithmetic import cast_to, logical_not
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import EQ, BufferLoad, Call, Cast, Div, FloorDiv, FloorMod, Mod, Or, Select, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import UPDATES, call_effect, if_then_else, is_pure
from tilewright.tir.stmt import Block, BlockRealize, BufferStore, Evaluate, For, IfThenElse, SeqStmt, Stmt, stmt_list
from tilewright.tir.stmt_functor import substitute, used_vars
from tilewright.tir.transform.base import body_pass, call_name, has_load, prim_func_pass

# --- RewriteUnsafeSelect


class _Unsafe(Visitor):
    found = False

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.found = True

    @on(Div, Mod, FloorDiv, FloorMod)
    def _div(self, e: Div | Mod | FloorDiv | FloorMod) -> None:
        self.found |= not e.dtype.is_float and not (isinstance(e.b, IntImm) and e.b.value != 0)
        self.visit_children(e)

    @on(Call)
    def _call(self, e: Call) -> None:
        if call_name(e) == "if_then_else":
            self.visit(e.args[0])  # only the chosen value is evaluated
            return
        self.found |= call_effect(e) == UPDATES
        self.visit_children(e)


def is_unsafe(e: PrimExpr) -> bool:
    """Whether evaluating an expression could fail or have an effect."""
    walk = _Unsafe()
    walk.visit(e)
    return walk.found


class _Lazy(Mutator):
    @on(Select)
    def _select(self, e: Select) -> PrimExpr:
        new = self.rebuild(e)
        if new.condition.dtype.lanes == 1 and (is_unsafe(new.true_value) or is_unsafe(new.false_value)):
            return if_then_else(new.condition, new.true_value, new.false_value)
        return new


def RewriteUnsafeSelect() -> Pass:
    """Replace Select by if_then_else, which evaluates only one value, if a value loads, divides by a variable or has
    effects.
    """
    return body_pass("RewriteUnsafeSelect", lambda f: _Lazy().visit(f.body))


# --- assumptions about buffers


class Known:
    """The assumption `assume(holds or buffer[indices] == value)`, for all iterations of the loops around it."""

    __slots__ = ("buffer", "holds", "indices", "loops", "value")

    def __init__(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...], holds: PrimExpr, value: PrimExpr, loops: tuple[Var, ...]
    ) -> None:
        self.buffer, self.indices, self.holds, self.value, self.loops = buffer, indices, holds, value, loops

    def at(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, PrimExpr] | None:
        """(condition, value): the element at these indices has the value wherever the condition is false."""
        env: dict[Var, PrimExpr] = {}
        for mine, other in zip(self.indices, indices, strict=True):
            if isinstance(mine, Var) and mine in self.loops and mine not in env:
                env[mine] = other
            elif not structural_equal(substitute(mine, env), other):
                return None
        if any([v in self.loops and v not in env for v in used_vars(self.holds)]):
            return None
        return substitute(self.holds, env), self.value


class _Assumptions(Visitor):
    """Collects assumptions about elements of buffers. If the function writes a buffer, only those after the last write count."""

    def __init__(self) -> None:
        self.loops: list[Var] = []
        self.env: dict[Var, PrimExpr] = {}
        self.found: list[Known] = []
        self.written: set[Buffer] = set()

    @on(For)
    def _for(self, s: For) -> None:
        self.loops.append(s.loop_var)
        self.visit(s.body)
        self.loops.pop()

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        for axis, value in zip(s.block.iter_vars, s.iter_values, strict=True):
            self.env[axis.var] = substitute(value, self.env)
        self.visit(s.block)

    @on(Block)
    def _block(self, b: Block) -> None:
        if b.init is not None:
            self.visit(b.init)
        self.visit(b.body)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.written.add(s.buffer)
        self.found = [k for k in self.found if k.buffer is not s.buffer]

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        if call_name(s.value) == "assume":
            known = assumption(substitute(s.value.args[0], self.env), tuple(self.loops))  # type: ignore[attr-defined]
            if known is not None:
                self.found.append(known)
        elif not is_pure(s.value):
            self.found = []


def assumption(e: PrimExpr, loops: tuple[Var, ...]) -> Known | None:
    """The assumption about an element in `holds or buffer[i] == value`; None for other conditions."""
    if not isinstance(e, Or):
        return None
    parts: list[PrimExpr] = []

    def collect(x: PrimExpr) -> None:
        if isinstance(x, Or):
            collect(x.a)
            collect(x.b)
        else:
            parts.append(x)

    collect(e)
    for k, part in enumerate(parts):
        if isinstance(part, EQ):
            for load, value in ((part.a, part.b), (part.b, part.a)):
                element = load.value if isinstance(load, Cast) else load
                if isinstance(element, BufferLoad) and not has_load(value):
                    holds: Any = None
                    for other in (*parts[:k], *parts[k + 1 :]):
                        holds = other if holds is None else holds | other
                    if holds is not None and not has_load(holds):
                        return Known(element.buffer, element.indices, holds, value, loops)
    return None


class _Replace(Mutator):
    """Replaces loads of elements whose value is assumed under the negated condition by that value."""

    def __init__(self, known: list[Known], analyzer: Analyzer) -> None:
        self.known, self.analyzer = known, analyzer

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        for k in self.known:
            if k.buffer is e.buffer:
                found = k.at(e.indices)
                if found is not None and self.analyzer.can_prove(logical_not(found[0])):
                    return found[1] if _is_undef(found[1]) else cast_to(found[1], e.dtype)
        return self.rebuild(e)


def _is_undef(e: PrimExpr) -> bool:
    return call_name(e) == "undef"


def _same(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> bool:
    a, b = analyzer.simplify(a), analyzer.simplify(b)
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return a.value == b.value and a.dtype is b.dtype
    return bool(structural_equal(a, b))


class _Bound(Mutator):
    """Base of both passes: keeps the ranges of loops."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    @on(For)
    def _for(self, s: For) -> Stmt:
        from tilewright.ir import Range

        self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        return self.rebuild(s)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> Stmt:
        for axis in s.block.iter_vars:
            if axis.dom is not None:
                self.analyzer.bind(axis.var, axis.dom, allow_override=True)
        return self.rebuild(s)


class _UseAssumptions(_Bound):
    """if_then_else(c, x, y) -> x, if the assumptions about the buffers that x reads imply x == y when c is false."""

    def __init__(self, known: list[Known]) -> None:
        super().__init__()
        self.known = known

    @on(Call)
    def _call(self, e: Call) -> Any:
        new = self.rebuild(e)
        if call_name(new) != "if_then_else" or not self.known:
            return new
        condition, yes, no = new.args
        if not has_load(yes) or not is_pure(yes):
            return new
        with self.analyzer.constraint_scope(logical_not(condition)):
            elsewhere = _Replace(self.known, self.analyzer).visit(yes)
            if has_load(elsewhere) and elsewhere is not yes:
                return new
            if _same(elsewhere, no, self.analyzer):
                return yes
        return new


def _in_bounds(known: list[Known], e: PrimExpr) -> bool:
    return all([any([k.buffer is load.buffer for k in known]) for load in loads(e)])


def loads(e: PrimExpr) -> list[BufferLoad]:
    """The loads of an expression."""
    found: list[BufferLoad] = []

    class Walk(Visitor):
        @on(BufferLoad)
        def _load(self, x: BufferLoad) -> None:
            found.append(x)
            self.visit_children(x)

    Walk().visit(e)
    return found


class _Checked(_UseAssumptions):
    @on(Call)
    def _call(self, e: Call) -> Any:
        # x will be evaluated everywhere, so its loads need assumptions everywhere: only these elements certainly exist.
        if call_name(e) == "if_then_else" and not _in_bounds(self.known, e.args[1]):
            return self.rebuild(e)
        return super()._call(e)


def UseAssumeToReduceBranches() -> Pass:
    """Replace if_then_else(c, f(A[i]), pad) by f(A[i]), if `assume(c or A[i] == value)` implies that f(value) is pad.

    This is for inputs whose layout has padding with an assumed value. Computing on the padding costs less than testing
    where it begins.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        look = _Assumptions()
        look.visit(func.body)
        known = [k for k in look.found if k.buffer not in look.written]
        return func.replace(body=_Checked(known).visit(func.body)) if known else func

    made: Pass = prim_func_pass(run, name="tir.UseAssumeToReduceBranches")
    return made


# --- ReduceBranchingThroughOvercompute


class _Overcompute(_Bound):
    """if c: S; else: T -> S, if S equals T when c is false, or writes only elements that are assumed undefined then."""

    def __init__(self, known: list[Known]) -> None:
        super().__init__()
        self.known = known
        self.after: list[Known] = []

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        out: list[Stmt] = []
        for k, item in enumerate(s.seq):
            outer = self.after
            if k + 1 < len(s.seq):
                self.after = [*outer, *_assumed_by(s.seq[k + 1])]
            out.append(self.visit(item))
            self.after = outer
        return s if all([a is b for a, b in zip(out, s.seq, strict=True)]) else s.replace(seq=tuple(out))

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Stmt:
        new = self.rebuild(s)
        stores = stmt_list(new.then_case)
        if not all([isinstance(x, BufferStore) and is_pure(x.value) for x in stores]) or not is_pure(new.condition):
            return new
        if not all([_in_bounds(self.known, x.value) for x in stores]):  # type: ignore[attr-defined]
            return new
        others = [] if new.else_case is None else stmt_list(new.else_case)
        with self.analyzer.constraint_scope(logical_not(new.condition)):
            replace = _Replace(self.known, self.analyzer)
            if others:
                same = len(stores) == len(others) and all(
                    [self._agree(a, b, replace) for a, b in zip(stores, others, strict=True)]
                )
                return new.then_case if same else new
            return new.then_case if all([self._unseen(x) for x in stores]) else new

    def _agree(self, a: Any, b: Stmt, replace: _Replace) -> bool:
        if not isinstance(b, BufferStore) or a.buffer is not b.buffer:
            return False
        if not all([self.analyzer.can_prove_equal(x, y) for x, y in zip(a.indices, b.indices, strict=True)]):
            return False
        return _same(replace.visit(a.value), b.value, self.analyzer)

    def _unseen(self, s: Any) -> bool:
        """Whether the value that a store leaves when the condition is false is undefined, or assumed undefined right after."""
        for k in self.after:
            if k.buffer is not s.buffer:
                continue
            found = k.at(s.indices)
            if found is not None and self.analyzer.can_prove(logical_not(found[0])):
                return _is_undef(found[1]) or _same(s.value, cast_to(found[1], s.value.dtype), self.analyzer)
        return False


def _assumed_by(s: Stmt) -> list[Known]:
    if isinstance(s, Evaluate) and call_name(s.value) == "assume":
        known = assumption(s.value.args[0], ())  # type: ignore[attr-defined]
        return [] if known is None else [known]
    return []


def ReduceBranchingThroughOvercompute() -> Pass:
    """Replace `if c: S; else: T` by S, if the assumptions about buffers imply that S gives the same results everywhere.

    `assume(c or B[i] == undef())` right after `if c: B[i] = x` states that B[i] is not read where c is false.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        look = _Assumptions()
        look.visit(func.body)
        known = [k for k in look.found if k.buffer not in look.written]
        return func.replace(body=_Overcompute(known).visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.ReduceBranchingThroughOvercompute")
    return made
