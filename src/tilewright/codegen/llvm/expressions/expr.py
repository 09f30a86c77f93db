"""LLVM IR text of expressions: leaves, conditions, vectors, and the table of the rules for all kinds of expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.codegen.llvm.expressions.operands import Operands, to_narrow
from tilewright.codegen.llvm.expressions.types import float_const, int_literal, is_literal, llvm_type, splat
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.variables import Variables
from tilewright.codegen.operations import EXPRESSIONS
from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr
from tilewright.tir import (
    And,
    Broadcast,
    Cast,
    Let,
    Max,
    Min,
    Not,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Var,
)
from tilewright.tir.analysis.value_range import value_range
from tilewright.tir.expr import BinaryOpExpr, Or
from tilewright.tir.scalars import DIVISIONS, int_range


class ExprEmitter:
    """Emits expressions. parts: the parts of the function's emitter that have rules for expressions."""

    def __init__(self, frame: Frame, variables: Variables, operands: Operands) -> None:
        self.frame, self.variables, self.operands = frame, variables, operands
        self.b = frame.b
        self.parts: list[object] = [self, variables]
        self._rules: dict[type, Callable[[Any], str]] = {}

    def expr(self, e: PrimExpr) -> str:
        """The operand that holds `e`."""
        rule = self._rules.get(type(e))
        if rule is None:
            rule = EXPRESSIONS.rule(type(e), self.parts)
            if rule is None:
                raise self.frame.error(f"{type(e).__name__} is not a lowered expression", e)
            self._rules[type(e)] = rule
        return rule(e)

    def bounds(self, e: PrimExpr) -> tuple[int, int] | None:
        """The range of an integer or of the lanes of an integer vector; None if it is not known."""
        return value_range(e, self.variables.known, wraps=False)

    # --- leaves

    def on_integer(self, e: IntImm) -> str:
        return int_literal(e.value, e.dtype)

    def on_float(self, e: FloatImm) -> str:
        return float_const(e.dtype, e.value)

    def on_string(self, e: StringImm) -> str:
        return self.frame.module.string(e.value)

    # --- conditions

    def on_connect(self, e: And | Or) -> str:
        is_and = type(e) is And
        a = self.expr(e.a)
        if e.dtype.lanes == 1:
            if a == ("0" if is_and else "1"):
                return a
            if a == ("1" if is_and else "0"):
                return self.expr(e.b)
            if not self.speculates(e.b):
                return self.lazy(
                    a, lambda: self.expr(e.b) if is_and else "1", lambda: "0" if is_and else self.expr(e.b), e.dtype
                )
        b = self.expr(e.b)
        if e.dtype.lanes == 1 and is_literal(b):
            return a if b == ("1" if is_and else "0") else b
        return self.b.pure(f"{'and' if is_and else 'or'} {llvm_type(e.dtype)} {a}, {b}", a, b)

    def on_negate(self, e: Not) -> str:
        a = self.expr(e.a)
        if is_literal(a):
            return "0" if a != "0" else "1"
        return self.b.pure(f"xor {llvm_type(e.dtype)} {a}, {splat(e.dtype, '1')}", a)

    def on_select(self, e: Select) -> str:
        cond = self.expr(e.condition)
        if is_literal(cond):
            return self.expr(e.true_value if cond != "0" else e.false_value)
        a, b, t = self.expr(e.true_value), self.expr(e.false_value), llvm_type(e.dtype)
        return self.b.pure(f"select {llvm_type(e.condition.dtype)} {cond}, {t} {a}, {t} {b}", cond, a, b)

    def lazy(self, cond: str, then: Callable[[], str], other: Callable[[], str], dtype: DataType) -> str:
        """A choice that computes only the chosen side."""
        b, t = self.b, llvm_type(dtype)
        results = []
        arms = []
        join = b.label("join")
        for side in (then, other):
            b.push(b.label("side"))
            results.append(side())
            arms.append(b.pop())
        name = b.name()
        phi = f"{name} = phi {t} [ {results[0]}, %{arms[0].label} ], [ {results[1]}, %{arms[1].label} ]"
        b.branch(cond, arms[0], arms[1], join, [phi])
        return b.define_here(name)

    def speculates(self, e: PrimExpr) -> bool:
        """Whether `e` may be computed when its value is not needed: it has no loads, no calls and no division by an unknown number."""
        if isinstance(e, (Var, IntImm, FloatImm, StringImm)):
            return True
        if isinstance(e, BinaryOpExpr):
            if (
                type(e) in DIVISIONS
                and not e.dtype.is_float
                and not (isinstance(e.b, IntImm) and e.b.value not in (0, -1))
            ):
                return False
            return self.speculates(e.a) and self.speculates(e.b)
        if isinstance(e, (Cast, Broadcast)):
            return self.speculates(e.value)
        if isinstance(e, Ramp):
            return self.speculates(e.base)
        if isinstance(e, Select):
            return all(map(self.speculates, (e.condition, e.true_value, e.false_value)))
        return isinstance(e, Not) and self.speculates(e.a)

    # --- casts and vectors

    def on_cast(self, e: Cast) -> str:
        held = _clipped(e)
        if held is not None:
            value, low, high = held
            return self.operands.saturated(self.expr(value), e.value.dtype, e.dtype, low, high)
        return self.operands.convert(self.expr(e.value), e.value.dtype, e.dtype)

    def on_broadcast(self, e: Broadcast) -> str:
        if e.value.dtype.lanes != 1:
            value, t, many = self.expr(e.value), llvm_type(e.value.dtype), e.dtype.lanes
            mask = ", ".join(f"i32 {k % e.value.dtype.lanes}" for k in range(many))
            return self.b.pure(f"shufflevector {t} {value}, {t} poison, <{many} x i32> <{mask}>", value)
        return self.operands.broadcast(self.expr(e.value), e.dtype)

    def on_ramp(self, e: Ramp) -> str:
        dtype = e.dtype
        base, stride, t, s = self.expr(e.base), self.expr(e.stride), llvm_type(dtype), llvm_type(dtype.element)
        if is_literal(stride):
            step = int(stride)
            if is_literal(base):
                lanes = [int_literal(int(base) + k * step, dtype.element) for k in range(dtype.lanes)]
                return f"<{', '.join(f'{s} {k}' for k in lanes)}>"
            steps = f"<{', '.join(f'{s} {int_literal(k * step, dtype.element)}' for k in range(dtype.lanes))}>"
        else:
            counts = f"<{', '.join(f'{s} {k}' for k in range(dtype.lanes))}>"
            every = self.operands.broadcast(stride, dtype)
            steps = self.b.pure(f"mul {t} {every}, {counts}", every)
        start = self.operands.broadcast(base, dtype)
        return self.b.pure(f"add {t} {start}, {steps}", start, steps)

    def on_shuffle(self, e: Shuffle) -> str:
        lanes: list[tuple[str, DataType, int]] = []
        for vector in e.vectors:
            operand = self.expr(vector)
            lanes += [(operand, vector.dtype, k) for k in range(vector.dtype.lanes)]
        picks = []
        for index in e.indices:
            value = self.expr(index)
            if not is_literal(value):
                raise self.frame.error("shuffle indices must be constants", e)
            picks.append(int(value))
        if len(e.vectors) <= 2 and len({v.dtype for v in e.vectors}) == 1 and e.vectors[0].dtype.lanes > 1:
            t = llvm_type(e.vectors[0].dtype)
            first = lanes[0][0]
            second = lanes[-1][0] if len(e.vectors) == 2 else "poison"
            if e.dtype.lanes == 1:
                operand, _, k = lanes[picks[0]]
                return self.b.pure(f"extractelement {t} {operand}, i32 {k}", operand)
            mask = f"<{len(picks)} x i32> <{', '.join(f'i32 {k}' for k in picks)}>"
            return self.b.pure(f"shufflevector {t} {first}, {t} {second}, {mask}", first, second)
        scalars = []
        for pick in picks:
            operand, dtype, k = lanes[pick]
            scalars.append(operand if dtype.lanes == 1 else self.operands.lane(operand, dtype, k))
        return scalars[0] if e.dtype.lanes == 1 else self.operands.gather(scalars, e.dtype)

    def on_let(self, e: Let) -> str:
        self.bind(e.var, e.value)
        return self.expr(e.body)

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Binds `var` to `value` from here on."""
        operand = self.expr(value)
        self.variables.define(var, operand, self.bounds(value) if value.dtype.is_int else None)


def _clipped(cast: Cast) -> tuple[PrimExpr, float, float] | None:
    """(x, low, high) of a cast of min(max(x, low), high) to a narrow type that holds both ends; None for other casts."""
    e = cast.value
    if not to_narrow(e.dtype, cast.dtype) or not isinstance(e, Min) or not isinstance(e.a, Max):
        return None
    low, high = _constant(e.a.b), _constant(e.b)
    least, most = int_range(cast.dtype)
    return (e.a.a, low, high) if low is not None and high is not None and least <= low <= high <= most else None


def _constant(e: PrimExpr) -> float | None:
    value = e.value if isinstance(e, Broadcast) else e
    return value.value if isinstance(value, FloatImm) else None
