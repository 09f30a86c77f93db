"""Operators that check numbers at run time."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from tilewright.ir import IntImm, PrimExpr, TensorType, Type
from tilewright.relay.cards.card import OpCard, need
from tilewright.relay.cards.relations import tensor
from tilewright.relay.expr import Expr
from tilewright.relay.op.arithmetic import elemwise
from tilewright.relay.op.data_dependent.dynamic import Dynamic, Read
from tilewright.tir import GE, LE, And


class within(Dynamic, key="dyn.within"):
    """data, if `number` is at least `low` and at most `high`. Otherwise the program stops with an error that names the number
    `name`."""

    of = elemwise.copy
    low: int | None = None
    high: int | None = None
    name: str = ""
    samples = [(((2,), np.array(3)), {"low": 0, "high": 3}), (((2,), np.array(-3)), {"high": 3})]

    @classmethod
    def reads(cls) -> list[int]:
        """The index of the number."""
        return [1]

    def infer(self, data: TensorType, number: TensorType) -> Type:
        tensor(number, 1)
        return tensor(data, 0)

    def static(self, values: Read) -> OpCard:
        """A copy of data. Raises TypeRuleError for a known number out of range."""
        (number,) = values[1]
        if isinstance(number, int):
            need(self.low is None or number >= self.low, self.rule(), f"it is {number}", 1)
            need(self.high is None or number <= self.high, self.rule(), f"it is {number}", 1)
        return self.of()

    def needs(self, values: Read) -> list[tuple[PrimExpr, str, PrimExpr]]:
        """The condition that the number is in range."""
        (number,) = values[1]
        if not isinstance(number, PrimExpr):
            return []
        return [(within_range(number, self.low, self.high), self.rule(), number)]

    def rule(self) -> str:
        """The rule in words."""
        return f"{self.name or 'the number'} must be {range_text(self.low, self.high)}"

    def grad(self, data: Expr, number: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [dy, None]


def within_range(e: PrimExpr, low: int | None, high: int | None) -> PrimExpr:
    """The condition that a number lies between two bounds, of which one may be None."""
    parts: list[PrimExpr] = [] if low is None else [GE(e, IntImm("int64", low))]
    parts += [] if high is None else [LE(e, IntImm("int64", high))]
    return functools.reduce(And, parts)


def range_text(low: int | None, high: int | None) -> str:
    """The range in words."""
    if low is not None and high is not None:
        return f"from {low} to {high}"
    return f"{low} or more" if low is not None else f"{high} or less"
