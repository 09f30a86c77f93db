"""VectorizeLoop: turns vectorized loops into vector expressions. Statements without a vector form stay in serial loops."""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import FloatImm, IntImm, IRModule, PrimExpr, Range
from tilewright.ir.dtype import ScalableLanes
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, on
from tilewright.tir.arithmetic import (
    add,
    cast_to,
    conjuncts,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    multiply,
    subtract,
)
from tilewright.tir.builtin import lane_count
from tilewright.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    BinaryOpExpr,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    Let,
    Mul,
    Not,
    Or,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
    scalable_lanes,
)
from tilewright.tir.expr import Div as DivExpr
from tilewright.tir.expr import Mod as ModExpr
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import PURE, call_effect
from tilewright.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferStore,
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
from tilewright.tir.transform.base import call_name, has_load, prim_func_pass
from tilewright.tir.transform.ssa import convert_ssa

MAX_LANES = 256
SCALAR_CALLS = frozenset(
    {
        "address_of", "handle_add_byte_offset", "call_pure_extern", "call_llvm_pure_intrin", "vectorlow", "vectorhigh",
        "vectorcombine",
    }
)  # fmt: skip
"""Pure calls without a vector form."""


class NotVectorizable(Exception):
    """Raised for a statement without a vector form."""


def spread(e: PrimExpr, lanes: int) -> PrimExpr:
    """A scalar broadcast to all lanes."""
    have = e.dtype.lanes
    if have == lanes:
        return e
    if have != 1:
        raise NotVectorizable
    return Broadcast(e, lanes)


class _Vectorize(Mutator):
    """The body of one loop, with its variable as a ramp. Handlers return scalars for values that are equal in all lanes."""

    def __init__(self, var: Var, low: PrimExpr, lanes: int, analyzer: Analyzer) -> None:
        self.lanes = lanes
        self.analyzer = analyzer
        self.env: dict[Var, PrimExpr] = {var: Ramp(low, IntImm(var.dtype, 1), lanes)}
        self.masks: list[PrimExpr] = []
        self.needs_lane = False

    def _both(self, a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        lanes = max(a.dtype.lanes, b.dtype.lanes)
        return spread(a, lanes), spread(b, lanes)

    @on(IntImm, FloatImm, StringImm)
    def _constant(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.env.get(v, v)

    @on(Add, Sub)
    def _sum(self, e: Add | Sub) -> PrimExpr:
        a, b = self.visit(e.a), self.visit(e.b)
        if a is e.a and b is e.b:
            return e
        op = add if type(e) is Add else subtract
        if a.dtype.lanes == b.dtype.lanes == 1:
            return type(e)(a, b)
        if type(a) is Ramp and b.dtype.lanes == 1:
            return Ramp(op(a.base, b), a.stride, a.lanes)
        if type(b) is Ramp and a.dtype.lanes == 1:
            stride = b.stride if type(e) is Add else subtract(IntImm(b.stride.dtype, 0), b.stride)
            return Ramp(op(a, b.base), stride, b.lanes)
        if type(a) is Ramp and type(b) is Ramp:
            return Ramp(op(a.base, b.base), op(a.stride, b.stride), a.lanes)
        return type(e)(*self._both(a, b))

    @on(Mul)
    def _mul(self, e: Mul) -> PrimExpr:
        a, b = self.visit(e.a), self.visit(e.b)
        if a is e.a and b is e.b:
            return e
        if type(b) is Ramp and a.dtype.lanes == 1:
            a, b = b, a
        if type(a) is Ramp and b.dtype.lanes == 1:
            return Ramp(multiply(a.base, b), multiply(a.stride, b), a.lanes)
        return Mul(*self._both(a, b))

    @on(FloorDiv, FloorMod, DivExpr, ModExpr)
    def _division(self, e: FloorDiv | FloorMod | DivExpr | ModExpr) -> PrimExpr:
        a, b = self.visit(e.a), self.visit(e.b)
        if self.masks and not e.dtype.is_float and not isinstance(b, IntImm):
            if b.dtype.lanes > 1:
                raise NotVectorizable  # a masked lane could divide by zero
            b = self._divisor(b)
        if a is e.a and b is e.b:
            return e
        out = type(e)(*self._both(a, b))
        if out.dtype.lanes > 1 and not e.dtype.is_float:
            return self.analyzer.simplify(out)
        return out

    def _divisor(self, b: PrimExpr) -> PrimExpr:
        """A scalar divisor under masks, which may be 0 if all lanes are masked. Sizes become at least 1; others require an active lane."""
        least = self.analyzer.const_int_bound(b).min_value
        if least == 0:
            return maximum(b, IntImm(b.dtype, 1))
        self.needs_lane = self.needs_lane or least < 0
        return b

    @on(BinaryOpExpr)
    def _binary(self, e: BinaryOpExpr) -> PrimExpr:
        a, b = self.visit(e.a), self.visit(e.b)
        return e if a is e.a and b is e.b else type(e)(*self._both(a, b))

    @on(And, Or)
    def _logical(self, e: And | Or) -> PrimExpr:
        a, b = self.visit(e.a), self.visit(e.b)
        return e if a is e.a and b is e.b else type(e)(*self._both(a, b))

    @on(Not)
    def _not(self, e: Not) -> PrimExpr:
        a = self.visit(e.a)
        return e if a is e.a else Not(a)

    @on(Cast)
    def _cast(self, e: Cast) -> PrimExpr:
        value = self.visit(e.value)
        if value is e.value:
            return e
        lanes = value.dtype.lanes
        if type(value) is Ramp and e.dtype.is_int and e.dtype.bits >= value.dtype.bits >= 32:
            return Ramp(cast_to(value.base, e.dtype), cast_to(value.stride, e.dtype), lanes)
        return Cast(e.dtype.with_lanes(lanes), value)

    @on(Select)
    def _select(self, e: Select) -> PrimExpr:
        c, a, b = self.visit(e.condition), self.visit(e.true_value), self.visit(e.false_value)
        if c is e.condition and a is e.true_value and b is e.false_value:
            return e
        lanes = max(c.dtype.lanes, a.dtype.lanes, b.dtype.lanes)
        if c.dtype.lanes == 1:
            return Select(c, spread(a, lanes), spread(b, lanes))
        return Select(spread(c, lanes), spread(a, lanes), spread(b, lanes))

    def _mask(self) -> PrimExpr | None:
        out: PrimExpr | None = None
        for m in self.masks:
            out = m if out is None else logical_and(*self._both(out, m))
        return out

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        if e.predicate is not None or e.dtype.lanes != 1:
            if any([self.visit(i) is not i for i in e.indices]):
                raise NotVectorizable
            return e
        indices = tuple([self.visit(i) for i in e.indices])
        if all([i is j for i, j in zip(indices, e.indices, strict=True)]):
            # A scalar load under a mask requires an active lane.
            self.needs_lane = self.needs_lane or bool(self.masks)
            return e
        indices = self._last_vector(indices)
        mask = self._mask() if indices[-1].dtype.lanes > 1 else None
        if mask is None and self.masks:
            raise NotVectorizable
        return BufferLoad(e.buffer, indices, None if mask is None else spread(mask, indices[-1].dtype.lanes), e.span)

    def _last_vector(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """The indices, if at most the last is a vector. Raises NotVectorizable for others."""
        if any([i.dtype.lanes > 1 for i in indices[:-1]]):
            raise NotVectorizable
        return indices

    @on(Call)
    def _call(self, e: Call) -> PrimExpr:
        name = call_name(e)
        if name == "likely":
            value = self.visit(e.args[0])
            return e if value is e.args[0] else value
        if name == "if_then_else":
            return self._choice(e)
        args = tuple([self.visit(a) for a in e.args])
        lanes = max([a.dtype.lanes for a in args], default=1)
        if all([a is b for a, b in zip(args, e.args, strict=True)]):
            if call_effect(e) != PURE:
                raise NotVectorizable
            return e
        if e.dtype.lanes != 1 or call_effect(e) != PURE or name in SCALAR_CALLS:
            raise NotVectorizable
        if lanes == 1:
            return Call(e.dtype, e.op, args, e.span)
        return Call(e.dtype.with_lanes(lanes), e.op, tuple([spread(a, lanes) for a in args]), e.span)

    def _choice(self, e: Call) -> PrimExpr:
        condition = self.visit(e.args[0])
        if condition.dtype.lanes > 1:
            outer, self.needs_lane = self.needs_lane, False
            self.masks.append(condition)
            a = self.visit(e.args[1])
            self.masks[-1] = logical_not(condition)
            b = self.visit(e.args[2])
            self.masks.pop()
            if self.needs_lane:
                raise NotVectorizable
            self.needs_lane = outer
            lanes = max(condition.dtype.lanes, a.dtype.lanes, b.dtype.lanes)
            return Select(spread(condition, lanes), spread(a, lanes), spread(b, lanes))
        a, b = self.visit(e.args[1]), self.visit(e.args[2])
        if condition is e.args[0] and a is e.args[1] and b is e.args[2]:
            return e
        a, b = self._both(a, b)
        return Call(a.dtype, e.op, (condition, a, b), e.span)

    @on(Let)
    def _let(self, e: Let) -> PrimExpr:
        value = self.visit(e.value)
        if value.dtype.lanes == 1:
            body = self.visit(e.body)
            return e if value is e.value and body is e.body else Let(e.var, value, body)
        var = Var(e.var.name, value.dtype)
        self.env[e.var] = var
        return Let(var, value, self.visit(e.body))

    @on(Ramp, Broadcast, Shuffle, Reduce)
    def _vector(self, e: Ramp | Broadcast | Shuffle | Reduce) -> PrimExpr:
        # Vectors of an inner loop must not depend on this loop.
        parts = (
            (e.base, e.stride) if type(e) is Ramp else (e.value,) if type(e) is Broadcast else getattr(e, "vectors", ())
        )
        if type(e) is Reduce or any([self.visit(p) is not p for p in parts]):
            raise NotVectorizable
        return e

    # --- statements

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        if s.predicate is not None or s.value.dtype.lanes != 1:
            raise NotVectorizable
        indices = tuple([self.visit(i) for i in s.indices])
        value = self.visit(s.value)
        lanes = indices[-1].dtype.lanes if indices else 1
        if lanes == 1:
            raise NotVectorizable  # All lanes write one element, in order.
        indices = self._last_vector(indices)
        if isinstance(indices[-1], Broadcast):
            raise NotVectorizable
        mask = self._mask()
        return BufferStore(
            s.buffer, spread(value, lanes), indices, None if mask is None else spread(mask, lanes), s.span
        )

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        if isinstance(s.value, IntImm):
            return s
        raise NotVectorizable

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Any:
        scalars: Any = None
        vectors: list[tuple[PrimExpr, PrimExpr]] = []
        for c in conjuncts(s.condition):
            here = self.visit(c)
            if here.dtype.lanes == 1:
                scalars = here if scalars is None else logical_and(scalars, here)
            else:
                vectors.append((c, here))
        if not vectors:
            then = self.visit(s.then_case)
            return IfThenElse(scalars, then, None if s.else_case is None else self.visit(s.else_case), s.span)
        if s.else_case is not None:
            return self._two_armed(s)
        before = len(self.masks)
        self.masks += [v for _, v in vectors]
        outer, self.needs_lane = self.needs_lane, False
        then = self.visit(s.then_case)
        del self.masks[before:]
        if self.needs_lane:
            if len(vectors) != 1 or before:
                raise NotVectorizable
            scalars = self._some_lane(vectors[0][0], scalars)
        self.needs_lane = outer
        return then if scalars is None else IfThenElse(scalars, then, None, s.span)

    def _some_lane(self, condition: PrimExpr, others: PrimExpr | None) -> PrimExpr:
        """The condition that an affine bound holds in some lane: in the first or in the last."""
        plain: Any = condition.args[0] if call_name(condition) == "likely" else condition  # type: ignore[attr-defined]
        if type(plain) not in (LT, LE, GT, GE) or plain.a.dtype.is_float:
            raise NotVectorizable
        difference = self.visit(plain.a - plain.b)
        if type(difference) is not Ramp:
            raise NotVectorizable
        first = type(plain)(difference.base, IntImm(difference.base.dtype, 0))
        last = cast_to(subtract(lane_count(self.lanes), 1), difference.base.dtype)
        end = add(difference.base, multiply(difference.stride, last))
        some = logical_or(first, type(plain)(end, IntImm(difference.base.dtype, 0)))
        some = self.analyzer.simplify(some)
        return some if others is None else logical_and(others, some)

    def _two_armed(self, s: IfThenElse) -> Any:
        condition = self.visit(s.condition)
        # The guarded statement could change the condition.
        if has_load(condition):
            raise NotVectorizable
        outer, self.needs_lane = self.needs_lane, False
        self.masks.append(condition)
        then = self.visit(s.then_case)
        self.masks[-1] = logical_not(condition)
        other = self.visit(s.else_case)
        self.masks.pop()
        if self.needs_lane:
            raise NotVectorizable
        self.needs_lane = outer
        return stmt_seq(then, other)

    @on(For)
    def _for(self, s: For) -> Stmt:
        low, extent = self.visit(s.min), self.visit(s.extent)
        if low.dtype.lanes != 1 or extent.dtype.lanes != 1 or s.kind in (ForKind.VECTORIZED, ForKind.PARALLEL):
            raise NotVectorizable
        body = self.visit(s.body)
        return For(s.loop_var, low, extent, s.kind, body, s.thread_binding, s.annotations, s.span)

    @on(LetStmt)
    def _let_stmt(self, s: LetStmt) -> Stmt:
        value = self.visit(s.value)
        if value.dtype.lanes == 1:
            return LetStmt(s.var, value, self.visit(s.body), s.span)
        var = Var(s.var.name, value.dtype)
        self.env[s.var] = var
        return LetStmt(var, value, self.visit(s.body), s.span)

    @on(Allocate, AllocateConst, While, AssertStmt)
    def _never(self, s: Stmt) -> Stmt:
        raise NotVectorizable

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        return s.replace(body=self.visit(s.body))


class _Loops(Mutator):
    """Vectorizes innermost loops first. A loop without a vector form is distributed over the statements of its body."""

    def __init__(self, enable: bool) -> None:
        self.enable = enable
        self.analyzer = Analyzer()
        self.copied = False

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(For)
    def _for(self, s: For) -> Stmt:
        if s.kind != ForKind.VECTORIZED:
            self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        body = self.visit(s.body)
        s = s if body is s.body else s.replace(body=body)
        if s.kind != ForKind.VECTORIZED:
            return s
        extent = self.analyzer.simplify(s.extent)
        lanes: Any = extent.value if isinstance(extent, IntImm) else scalable_lanes(extent)
        few = isinstance(lanes, ScalableLanes) or isinstance(lanes, int) and 1 < lanes <= MAX_LANES
        if not self.enable or not few:
            return s.replace(kind=ForKind.SERIAL)
        return self._lanes(s, body, lanes)

    def _lanes(self, s: For, body: Stmt, lanes: int) -> Stmt:
        try:
            out: Stmt = _Vectorize(s.loop_var, s.min, lanes, self.analyzer).visit(body)
            return out
        except NotVectorizable:
            pass
        if type(body) is SeqStmt:
            self.copied = True
            return stmt_seq(*[self._lanes(s, part, lanes) for part in body.seq])
        return s.replace(kind=ForKind.SERIAL, body=body)


def _run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
    walk = _Loops(not ctx.config.get("tir.disable_vectorize", False))
    new = func.replace(body=walk.visit(func.body))
    return convert_ssa(new) if walk.copied else new


def VectorizeLoop(enable_vectorize: bool = True) -> Pass:
    """Turn vectorized loops into ramps and broadcasts, with masks for conditions that differ between lanes. Loops without a vector form
    become serial loops.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if enable_vectorize:
            return _run(func, mod, ctx)
        return func.replace(body=_Loops(False).visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.VectorizeLoop", needs=("flat_buffers",), gives=("vectors_lowered",))
    return made
