"""Random programs, run natively and interpreted: loops, conditionals, locals, vectors, integers and floats."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.codegen.small_programs import aligned, buffer1d, native
from tilewright.codegen import interp
from tilewright.ir import DataType, PrimExpr
from tilewright.tir import (
    Allocate,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Max,
    Min,
    PrimFunc,
    Ramp,
    Select,
    Stmt,
    Var,
    const,
    decl_buffer,
    floordiv,
    floormod,
    if_then_else,
    stmt_seq,
)

SIZE = 64


class Generator:
    """Makes programs over A, B (float32), N (int32, inputs), out (float32) and ints (int32)."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.a, self.b, self.out = buffer1d("A", SIZE), buffer1d("B", SIZE), buffer1d("out", SIZE)
        self.n, self.ints = buffer1d("N", SIZE, "int32"), buffer1d("ints", SIZE, "int32")
        self.vars: list[Var] = []
        self.locals: list[Buffer] = []

    def integer(self, depth: int = 2) -> Any:
        r = self.rng.random()
        if depth == 0 or r < 0.3:
            return self.rng.choice(self.vars) if self.vars and r < 0.25 else const(self.rng.randint(-9, 40))
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        pick = self.rng.randrange(9)
        if pick < 3:
            return [a + b, a - b, a * b][pick]
        if pick < 5:
            divisor = const(self.rng.choice([2, 3, 4, 7, 8, -3]))
            return floordiv(a, divisor) if pick == 3 else floormod(a, divisor)
        if pick == 5:
            return BufferLoad(self.n, (self.index(),))
        if pick == 6:
            return Min(a, b)
        if pick == 7:
            return Max(a, b)
        return Select(a < b, a, b)

    def index(self, size: int = SIZE) -> Any:
        """Within bounds: affine where the loops allow, else a remainder."""
        if self.vars and self.rng.random() < 0.6:
            var = self.rng.choice(self.vars)
            return floormod(var * self.rng.randint(1, 5) + self.rng.randint(0, 9), const(size))
        return floormod(self.integer(1), const(size))

    def value(self, depth: int = 2, lanes: int = 1) -> Any:
        r = self.rng.random()
        if depth == 0 or r < 0.35:
            if r < 0.1:
                number: Any = const(self.rng.choice([0.0, 1.0, -2.5, 0.125]), "float32")
                return number if lanes == 1 else Broadcast(number, lanes)
            buffer = self.rng.choice([self.a, self.b])
            if lanes > 1:
                stride = self.rng.choice([1, 1, 1, 0, 2])
                start = floormod(self.index(), const(SIZE - stride * (lanes - 1)))
                return BufferLoad(buffer, (Ramp(start, const(stride), lanes),))
            if self.locals and r < 0.3:
                return BufferLoad(self.locals[-1], (const(self.rng.randrange(4)),))
            return BufferLoad(buffer, (self.index(),))
        a, b = self.value(depth - 1, lanes), self.value(depth - 1, lanes)
        pick = self.rng.randrange(6)
        if pick < 3:
            return [a + b, a - b, a * b][pick]
        if pick == 3:
            return Max(a, b)
        if pick == 4:
            return Select(a < b, b, a)
        return if_then_else(self.integer(1) < 5, a, b)

    def statement(self, depth: int) -> Stmt:
        pick = self.rng.randrange(10) if depth else self.rng.randrange(3)
        if pick == 0:
            return BufferStore(self.ints, self.integer(), (self.index(),))
        if pick == 1:
            lanes = self.rng.choice([4, 8])
            start = floormod(self.index(), const(SIZE - lanes))
            return BufferStore(self.out, self.value(2, lanes), (Ramp(start, const(1), lanes),))
        if pick == 2:
            if self.locals and self.rng.random() < 0.5:
                return BufferStore(self.locals[-1], self.value(1), (const(self.rng.randrange(4)),))
            return BufferStore(self.out, self.value(), (self.index(),))
        if pick == 3:
            other = self.statement(depth - 1) if self.rng.random() < 0.5 else None
            return IfThenElse(self.integer(1) < self.integer(1), self.statement(depth - 1), other)
        if pick == 4:
            var = Var("let")
            value = self.integer()
            self.vars.append(var)
            body = self.statement(depth - 1)
            self.vars.pop()
            return LetStmt(var, value, body)
        if pick == 5:
            return self.local(depth)
        if pick == 6:
            return stmt_seq(self.statement(depth - 1), self.statement(depth - 1))
        var = Var(f"i{depth}")
        kind = self.rng.choice([ForKind.SERIAL, ForKind.SERIAL, ForKind.UNROLLED])
        low = self.rng.choice([0, 0, 2])
        extent: PrimExpr = const(self.rng.choice([1, 2, 3, 5]))
        if kind == ForKind.SERIAL and self.rng.random() < 0.3:
            extent = floormod(self.integer(1), const(4))
        self.vars.append(var)
        body = self.statement(depth - 1)
        self.vars.pop()
        return For(var, low, extent, kind, body)

    def local(self, depth: int) -> Stmt:
        buffer = decl_buffer((4,), "float32", "tmp", scope="local")
        init = [BufferStore(buffer, const(float(k), "float32"), (const(k),)) for k in range(4)]
        self.locals.append(buffer)
        body = stmt_seq(
            *init, self.statement(depth - 1), BufferStore(self.out, BufferLoad(buffer, (const(1),)), (self.index(),))
        )
        self.locals.pop()
        return Allocate(buffer.data, DataType("float32"), (4,), const(True), body)

    def function(self) -> PrimFunc:
        body = stmt_seq(*[self.statement(4) for _ in range(4)])
        return PrimFunc([self.a, self.b, self.n, self.out, self.ints], body, attrs={"global_symbol": "main"})


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed: int) -> None:
    func = Generator(seed).function()
    rng = np.random.default_rng(seed)
    # Small integers: fused and separate multiply-add agree exactly.
    arrays = [
        rng.integers(-3, 4, SIZE).astype(np.float32), rng.integers(-2, 3, SIZE).astype(np.float32),
        rng.integers(-50, 50, SIZE).astype(np.int32), np.zeros(SIZE, np.float32), np.zeros(SIZE, np.int32),
    ]  # fmt: skip
    expected = [a.copy() for a in arrays]
    interp.run(func, expected)
    for level in (1, 3) if seed % 6 == 0 else (1,):
        got = [aligned(a, str(a.dtype)) for a in arrays]
        assert native(func, got, opt_level=level) == 0
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)
