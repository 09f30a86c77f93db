"""Values of index expressions for many threads at once, as arrays of NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Visitor, on
from tilewright.tir import (
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
)
from tilewright.tir.scalars import BINARY, BITWISE, COMPARISONS


class Unknown(Exception):
    """An index that depends on data, or on an argument whose value was not given."""


class IndexValues(Visitor):
    """Evaluates integers and conditions. variables: a number or an array for each; a variable that lacks one raises Unknown. lane: which
    lane of vectors."""

    def __init__(self, variables: Mapping[Var, Any], lane: int = 0) -> None:
        self.variables, self.lane = dict(variables), lane

    def of(self, e: PrimExpr) -> Any:
        """The value of an expression. Raises Unknown."""
        with np.errstate(all="ignore"):
            return self.visit(e)

    @on(PrimExpr)
    def _other(self, e: PrimExpr) -> Any:
        raise Unknown

    @on(IntImm)
    def _integer(self, e: IntImm) -> Any:
        return np.int64(e.value)

    @on(Var)
    def _var(self, e: Var) -> Any:
        if e not in self.variables:
            raise Unknown
        return self.variables[e]

    @on(Add, Sub, Mul, FloorDiv, FloorMod, *COMPARISONS)
    def _binary(self, e: Add) -> Any:
        return BINARY[type(e)].integers(self.visit(e.a), self.visit(e.b))

    @on(Div, Mod)
    def _truncated(self, e: Div) -> Any:
        a, b = self.visit(e.a), self.visit(e.b)
        rest = np.fmod(a, b)
        return rest if isinstance(e, Mod) else (a - rest) // b

    @on(Min, Max)
    def _extreme(self, e: Min) -> Any:
        return (np.minimum if isinstance(e, Min) else np.maximum)(self.visit(e.a), self.visit(e.b))

    @on(And, Or)
    def _connected(self, e: And) -> Any:
        return (np.logical_and if isinstance(e, And) else np.logical_or)(self.visit(e.a), self.visit(e.b))

    @on(Not)
    def _negated(self, e: Not) -> Any:
        return np.logical_not(self.visit(e.a))

    @on(Select)
    def _select(self, e: Select) -> Any:
        return np.where(self.visit(e.condition), self.visit(e.true_value), self.visit(e.false_value))

    @on(Cast)
    def _cast(self, e: Cast) -> Any:
        if e.dtype.is_float or e.value.dtype.is_float:
            raise Unknown
        return self.visit(e.value)

    @on(Ramp)
    def _ramp(self, e: Ramp) -> Any:
        return self.visit(e.base) + self.lane * self.visit(e.stride)

    @on(Broadcast)
    def _broadcast(self, e: Broadcast) -> Any:
        return self.visit(e.value)

    @on(Let)
    def _let(self, e: Let) -> Any:
        outer = self.variables
        self.variables = {**outer, e.var: self.visit(e.value)}
        value = self.visit(e.body)
        self.variables = outer
        return value

    @on(Call)
    def _call(self, e: Call) -> Any:
        name = e.intrinsic
        if name in BITWISE:
            return BITWISE[name].integers(*[self.visit(a) for a in e.args])
        if name == "likely":
            return self.visit(e.args[0])
        if name == "bitwise_not":
            return ~self.visit(e.args[0])
        if name == "if_then_else":
            return np.where(*[self.visit(a) for a in e.args])
        raise Unknown


__all__ = ["IndexValues", "Unknown"]
