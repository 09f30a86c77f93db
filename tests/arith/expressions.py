"""Random expressions for the arith fuzzer: index arithmetic of tiles, conditions, vectors, floats and small integers."""

from __future__ import annotations

import random
from typing import Any

from tilewright import tir

RANGES = [(0, 4), (0, 16), (0, 7), (-5, 11), (3, 6), (-20, 41), (0, 1), (1, 12), (-8, 4), (0, 32), (0, 2)]
CONSTANTS = [-7, -4, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 31]
DIVISORS = [1, 2, 3, 4, 5, 6, 8, 12, 16, -1, -3, -4]
COMPARISONS = [tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE]


class Expressions:
    """Random expressions of one integer type over given variables."""

    def __init__(self, rng: random.Random, variables: list[tir.Var], dtype: str = "int32") -> None:
        self.rng, self.variables, self.dtype = rng, variables, dtype

    def constant(self, choices: list[int] = CONSTANTS) -> Any:
        value = self.rng.choice(choices)
        return tir.const(abs(value) if self.dtype[0] == "u" else value, self.dtype)

    def leaf(self) -> Any:
        return self.rng.choice(self.variables) if self.rng.random() < 0.75 else self.constant()

    def divisor(self) -> Any:
        return self.rng.choice(self.variables) if self.rng.random() < 0.12 else self.constant(DIVISORS)

    def integer(self, depth: int) -> Any:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.08:
            return self.leaf()
        draw = rng.random()
        if draw < 0.16:
            return self.tile(depth - 1)
        if draw < 0.4:
            return rng.choice([tir.Add, tir.Add, tir.Sub])(self.integer(depth - 1), self.integer(depth - 1))
        if draw < 0.5:
            other = self.integer(1) if rng.random() < 0.2 else self.constant()
            a = self.integer(depth - 1)
            return tir.Mul(a, other) if rng.random() < 0.8 else tir.Mul(other, a)
        if draw < 0.7:
            return rng.choice([tir.FloorDiv, tir.FloorMod])(self.integer(depth - 1), self.divisor())
        if draw < 0.76:
            return rng.choice([tir.Div, tir.Mod])(self.integer(depth - 1), self.divisor())
        if draw < 0.87:
            return rng.choice([tir.Min, tir.Max])(self.integer(depth - 1), self.integer(depth - 1))
        if draw < 0.92:
            branches = self.integer(depth - 1), self.integer(depth - 1)
            condition = self.boolean(depth - 1)
            return tir.Select(condition, *branches) if rng.random() < 0.5 else tir.if_then_else(condition, *branches)
        return self.odd(depth - 1)

    def tile(self, depth: int) -> Any:
        """What splits and fusions leave behind."""
        rng = self.rng
        c, d = (tir.const(rng.choice([2, 3, 4, 5, 8, 16]), self.dtype) for _ in range(2))
        x, y = self.integer(depth - 1), self.leaf()
        form = rng.randrange(8)
        if form == 0:
            return tir.FloorDiv(x, c) * c + tir.FloorMod(x, c)
        if form == 1:
            return tir.FloorMod(tir.FloorDiv(x * c + y, d), c)
        if form == 2:
            return tir.FloorDiv(x * c + y, c * d if rng.random() < 0.5 else c)
        if form == 3:
            return tir.FloorMod(x * c + y, c)
        if form == 4:
            return tir.FloorDiv(tir.FloorMod(x, c * d), c) * c + tir.FloorMod(x, c)
        if form == 5:
            return tir.Min(c, x - y * c)
        if form == 6:
            return tir.FloorDiv(x + c - 1, c) * c - y
        return tir.Sub(x, tir.FloorDiv(x, c) * c)

    def odd(self, depth: int) -> Any:
        """Casts, shifts, bits, lets and likely."""
        rng = self.rng
        a = self.integer(depth)
        form = rng.randrange(7)
        if form == 0:
            other = "int64" if self.dtype == "int32" else "int32"
            return tir.Cast(self.dtype, tir.Cast(rng.choice([other, "int8", "uint8", "int16"]), a))
        if form == 1:
            return tir.shift_left(a, tir.const(rng.randrange(4), self.dtype))
        if form == 2:
            return tir.shift_right(a, tir.const(rng.randrange(4), self.dtype))
        if form == 3:
            return tir.bitwise_and(a, tir.const(rng.choice([0, 1, 3, 5, 7, 15]), self.dtype))
        if form == 4:
            return rng.choice([tir.bitwise_or, tir.bitwise_xor])(a, self.leaf())
        if form == 5:
            v = tir.Var("let", self.dtype)
            inner = Expressions(rng, [*self.variables, v, v], self.dtype)
            return tir.Let(v, a, inner.integer(depth))
        return tir.Cast(self.dtype, self.boolean(depth)) if self.dtype != "bool" else a

    def boolean(self, depth: int) -> Any:
        rng = self.rng
        draw = rng.random()
        if depth > 0 and draw < 0.45:
            kind = rng.choice([tir.And, tir.Or, tir.Not])
            a = self.boolean(depth - 1)
            return tir.Not(a) if kind is tir.Not else kind(a, self.boolean(depth - 1))
        if depth > 0 and draw < 0.5:
            return tir.likely(self.boolean(depth - 1))
        if depth > 0 and draw < 0.54:
            return tir.Select(self.boolean(depth - 2), self.boolean(depth - 1), self.boolean(depth - 1))
        if depth > 0 and 0.54 <= draw < 0.56:
            return rng.choice([tir.EQ, tir.NE])(self.boolean(depth - 2), self.boolean(depth - 2))
        return rng.choice(COMPARISONS)(self.integer(max(depth - 1, 0)), self.integer(max(depth - 1, 0)))


class Vectors:
    """Random vector expressions over scalar variables."""

    def __init__(self, rng: random.Random, variables: list[tir.Var], lanes: int = 4) -> None:
        self.rng, self.scalars, self.lanes = rng, Expressions(rng, variables), lanes

    def integer(self, depth: int) -> Any:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            stride = self.scalars.constant([-4, -1, 0, 1, 1, 1, 2, 3, 8])
            if rng.random() < 0.15:
                stride = self.scalars.leaf()
            if rng.random() < 0.5:
                return tir.Ramp(self.scalars.integer(1), stride, self.lanes)
            return tir.Broadcast(self.scalars.integer(1) if rng.random() < 0.5 else self.scalars.constant(), self.lanes)
        a = self.integer(depth - 1)
        draw = rng.random()
        if draw < 0.3:
            divisor = tir.Broadcast(self.scalars.constant(DIVISORS), self.lanes)
            return rng.choice([tir.FloorDiv, tir.FloorMod, tir.FloorDiv, tir.FloorMod, tir.Div, tir.Mod])(a, divisor)
        if draw < 0.4:
            return tir.Select(self.boolean(depth - 1), a, self.integer(depth - 1))
        if draw < 0.45:
            return tir.Cast(f"int32x{self.lanes}", tir.Cast(f"{rng.choice(['int64', 'int8'])}x{self.lanes}", a))
        return rng.choice([tir.Add, tir.Sub, tir.Mul, tir.Min, tir.Max])(a, self.integer(depth - 1))

    def boolean(self, depth: int) -> Any:
        rng = self.rng
        if depth > 0 and rng.random() < 0.35:
            kind = rng.choice([tir.And, tir.Or, tir.Not])
            a = self.boolean(depth - 1)
            return tir.Not(a) if kind is tir.Not else kind(a, self.boolean(depth - 1))
        return rng.choice(COMPARISONS)(self.integer(depth - 1), self.integer(depth - 1))


class Floats:
    """Random floating point expressions; their divisors are constants."""

    def __init__(self, rng: random.Random, variables: list[tir.Var], dtype: str = "float32") -> None:
        self.rng, self.variables, self.dtype = rng, variables, dtype

    def constant(self) -> Any:
        return tir.const(self.rng.choice([0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 1e30]), self.dtype)

    def value(self, depth: int) -> Any:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.1:
            return rng.choice(self.variables) if rng.random() < 0.7 else self.constant()
        draw = rng.random()
        a = self.value(depth - 1)
        if draw < 0.1:
            return tir.Div(a, tir.const(rng.choice([1.0, 2.0, -4.0, 3.0]), self.dtype))
        if draw < 0.2:
            return tir.Select(self.boolean(depth - 1), a, self.value(depth - 1))
        if draw < 0.25:
            return tir.if_then_else(self.boolean(depth - 1), a, self.value(depth - 1))
        return rng.choice([tir.Add, tir.Sub, tir.Mul])(a, self.value(depth - 1))

    def boolean(self, depth: int) -> Any:
        rng = self.rng
        if depth > 0 and rng.random() < 0.35:
            kind = rng.choice([tir.And, tir.Or, tir.Not])
            a = self.boolean(depth - 1)
            return tir.Not(a) if kind is tir.Not else kind(a, self.boolean(depth - 1))
        return rng.choice(COMPARISONS)(self.value(depth - 1), self.value(depth - 1))
