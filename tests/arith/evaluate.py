"""Evaluation of expressions with Python numbers, and random expressions: the oracle of the arith tests."""

from __future__ import annotations

import random
from typing import Any

from tilewright import tir
from tilewright.ir import FloatImm, IntImm


def truncdiv(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[type, Any] = {
    tir.Add: lambda a, b: a + b,
    tir.Sub: lambda a, b: a - b,
    tir.Mul: lambda a, b: a * b,
    tir.FloorDiv: lambda a, b: a // b,
    tir.FloorMod: lambda a, b: a % b,
    tir.Div: truncdiv,
    tir.Mod: lambda a, b: a - b * truncdiv(a, b),
    tir.Min: min,
    tir.Max: max,
    tir.EQ: lambda a, b: a == b,
    tir.NE: lambda a, b: a != b,
    tir.LT: lambda a, b: a < b,
    tir.LE: lambda a, b: a <= b,
    tir.GT: lambda a, b: a > b,
    tir.GE: lambda a, b: a >= b,
    tir.And: lambda a, b: a and b,
    tir.Or: lambda a, b: a or b,
}


def evaluate(e: Any, env: dict[tir.Var, Any]) -> Any:
    """The value of `e`; vectors are lists. ZeroDivisionError where a division by zero is met."""
    if isinstance(e, (IntImm, FloatImm)):
        return e.value
    if isinstance(e, tir.Var):
        return env[e]
    if type(e) in BINARY:
        a, b = evaluate(e.a, env), evaluate(e.b, env)
        f = BINARY[type(e)]
        return [f(x, y) for x, y in zip(a, b, strict=True)] if isinstance(a, list) else f(a, b)
    if isinstance(e, tir.Not):
        a = evaluate(e.a, env)
        return [not x for x in a] if isinstance(a, list) else not a
    if isinstance(e, tir.Select):
        c, a, b = evaluate(e.condition, env), evaluate(e.true_value, env), evaluate(e.false_value, env)
        if isinstance(c, list):
            return [x if k else y for k, x, y in zip(c, a, b, strict=True)]
        return a if c else b
    if isinstance(e, tir.Cast):
        return evaluate(e.value, env)
    if isinstance(e, tir.Broadcast):
        return [evaluate(e.value, env)] * e.lanes
    if isinstance(e, tir.Ramp):
        base, stride = evaluate(e.base, env), evaluate(e.stride, env)
        return [base + stride * i for i in range(e.lanes)]
    if isinstance(e, tir.Let):
        return evaluate(e.body, {**env, e.var: evaluate(e.value, env)})
    if isinstance(e, tir.Call):
        args = [evaluate(a, env) for a in e.args] if e.op.name != "tir.if_then_else" else []
        if e.op.name == "tir.if_then_else":
            return evaluate(e.args[1] if evaluate(e.args[0], env) else e.args[2], env)
        return {
            "tir.likely": lambda x: x,
            "tir.shift_left": lambda x, y: x << y,
            "tir.shift_right": lambda x, y: x >> y,
            "tir.bitwise_and": lambda x, y: x & y,
        }[e.op.name](*args)
    raise AssertionError(f"no value for {type(e)}")


class Programs:
    """Random integer and boolean expressions over given variables."""

    def __init__(self, rng: random.Random, variables: list[tir.Var]) -> None:
        self.rng, self.variables = rng, variables

    def constant(self) -> Any:
        return tir.const(self.rng.choice([-7, -4, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12, 16]), "int32")

    def divisor(self) -> Any:
        return tir.const(self.rng.choice([1, 2, 3, 4, 6, 8, 12, 16, -3, -4]), "int32")

    def integer(self, depth: int) -> Any:
        rng = self.rng
        if depth == 0 or rng.random() < 0.1:
            return rng.choice(self.variables) if rng.random() < 0.75 else self.constant()
        kind = rng.choice(
            [
                tir.Add,
                tir.Add,
                tir.Sub,
                tir.Mul,
                tir.FloorDiv,
                tir.FloorMod,
                tir.FloorDiv,
                tir.FloorMod,
                tir.Min,
                tir.Max,
                tir.Select,
                tir.Div,
                tir.Mod,
            ]
        )
        a = self.integer(depth - 1)
        if kind is tir.Select:
            return tir.Select(self.boolean(depth - 1), a, self.integer(depth - 1))
        if kind is tir.Mul:
            return tir.Mul(a, self.integer(1) if rng.random() < 0.2 else self.constant())
        if kind in (tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod):
            return kind(a, rng.choice(self.variables) if rng.random() < 0.15 else self.divisor())
        return kind(a, self.integer(depth - 1))

    def boolean(self, depth: int) -> Any:
        rng = self.rng
        if depth > 0 and rng.random() < 0.5:
            kind = rng.choice([tir.And, tir.Or, tir.Not])
            a = self.boolean(depth - 1)
            return tir.Not(a) if kind is tir.Not else kind(a, self.boolean(depth - 1))
        kind = rng.choice([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE])
        return kind(self.integer(max(depth - 1, 0)), self.integer(max(depth - 1, 0)))
