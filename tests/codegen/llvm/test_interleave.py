"""Loads of lanes at fixed distances: interleaved and transposed copies give what the interpreter gives, from few instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.small_programs import aligned, native
from tilewright.codegen import interp
from tilewright.codegen.backend import AOT
from tilewright.codegen.interp.values import np_type
from tilewright.codegen.llvm import emit_module
from tilewright.codegen.llvm.memory.interleave import fixed_lanes, piece, segments
from tilewright.ir import DataType, IRModule
from tilewright.tir import (
    Add,
    Broadcast,
    BufferLoad,
    BufferStore,
    FloorDiv,
    FloorMod,
    For,
    Mul,
    PrimFunc,
    Ramp,
    Sub,
    Var,
    decl_buffer,
)


def lanes(n: int, block: int, inner: int, outer: int) -> Any:
    """(lane % block) * inner + (lane // block) * outer."""
    ramp, many = Ramp(0, 1, n), Broadcast(block, n)
    return Add(Mul(FloorMod(ramp, many), Broadcast(inner, n)), Mul(FloorDiv(ramp, many), Broadcast(outer, n)))


PATTERNS = {
    "two rows interleaved": (32, 2, 40, 1),
    "pairs from sixteen rows": (32, 2, 1, 12),
    "fours from eight rows": (32, 4, 1, 20),
    "halves of two rows": (16, 8, 1, 50),
    "four rows interleaved": (64, 4, 90, 1),
    "one pair": (2, 4, 1, 0),
    "all apart": (8, 2, 30, 7),
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "float32", "int32"])
def test_loads(pattern: str, dtype: str) -> None:
    n, *shape = PATTERNS[pattern]
    index = lanes(n, *shape)
    a, b = decl_buffer((400,), dtype, "A"), decl_buffer((4 * n,), dtype, "B")
    i = Var("i", "int32")
    load = BufferLoad(a, (Add(index, Broadcast(i * 3, n)),))
    func = PrimFunc(
        (a, b), For(i, 0, 4, 0, BufferStore(b, load, (Ramp(i * n, 1, n),))), attrs={"global_symbol": "main"}
    )
    x = aligned(np.random.default_rng(0).integers(-100, 100, 400), dtype)
    results = [aligned(np.zeros(4 * n), dtype) for _ in range(2)]
    assert native(func, [x, results[0]]) == 0
    interp.run(func, [x, results[1]])
    place = [(k % shape[0]) * shape[1] + (k // shape[0]) * shape[2] for k in range(n)]
    want = np.concatenate([x[np.array(place) + 3 * k] for k in range(4)])
    assert want.dtype == np_type(DataType(dtype))
    for found in results:
        np.testing.assert_array_equal(found, want)


def test_two_vectors_make_an_interleaved_one() -> None:
    a, b = decl_buffer((400,), "bfloat16", "A"), decl_buffer((32,), "bfloat16", "B")
    load = BufferLoad(a, (lanes(32, 2, 40, 1),))
    func = PrimFunc(
        (a, b), BufferStore(b, load, (Ramp(0, 1, 32),)), attrs={"global_symbol": "main", "calling_conv": AOT}
    )
    text = emit_module(IRModule({"main": func}), "llvm")
    assert text.count("load <16 x i16>") == 2 and "shufflevector <16 x i16>" in text


def test_distances() -> None:
    x = Var("x", "int32")
    assert fixed_lanes(Sub(Broadcast(x, 4), Ramp(1, 2, 4)))[1] == (0, -2, -4, -6)  # type: ignore[index]
    assert fixed_lanes(FloorDiv(Ramp(x, 1, 4), Broadcast(2, 4))) is None  # it depends on x where they change
    assert fixed_lanes(FloorMod(Ramp(3, 1, 4), Broadcast(4, 4)))[1] == (3, 0, 1, 2)  # type: ignore[index]
    assert segments((0, 8, 1, 9, 2, 10, 3, 11)) == [(0, 4), (8, 4)]
    assert segments((0, 8, 16, 24)) is None and segments((0, 1, 2, 4, 5, 6)) is None
    assert piece((0, 1, 7, 8, 20, 21), 16) == 2 and piece((0, 1, 2, 3), 32) == 2 and piece((0, 2), 8) == 1
