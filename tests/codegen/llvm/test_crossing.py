"""Registers read across, and lanes that are some elements apart: few shuffles, and what the interpreter gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.small_programs import aligned, native
from tilewright.codegen import interp
from tilewright.codegen.backend import AOT
from tilewright.codegen.llvm import emit_module
from tilewright.codegen.llvm.memory.crossing import column
from tilewright.codegen.llvm.memory.interleave import stepped
from tilewright.ir import IRModule
from tilewright.tir import (
    LT,
    Allocate,
    Broadcast,
    BufferLoad,
    BufferStore,
    For,
    PrimFunc,
    Ramp,
    SeqStmt,
    Stmt,
    Var,
    decl_buffer,
)

UNROLLED = 3


def tile(dtype: str, rows: int, lanes: int, columns: int) -> PrimFunc:
    """B[c, :] = A[:, c] for the first columns of a tile of rows x lanes, by way of registers."""
    a, b = decl_buffer((rows * lanes,), dtype, "A"), decl_buffer((columns * rows,), dtype, "B")
    t = decl_buffer((rows * lanes,), dtype, "T", scope="local")
    r, c = Var("r"), Var("c")
    load = For(
        r, 0, rows, UNROLLED, BufferStore(t, BufferLoad(a, (Ramp(r * lanes, 1, lanes),)), (Ramp(r * lanes, 1, lanes),))
    )
    turn = For(
        c, 0, columns, UNROLLED, BufferStore(b, BufferLoad(t, (Ramp(c, lanes, rows),)), (Ramp(c * rows, 1, rows),))
    )
    body = Allocate(t.data, dtype, (rows * lanes,), True, SeqStmt((load, turn)))
    return PrimFunc((a, b), body, attrs={"global_symbol": "main"})


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "bfloat16", "float32", "int64"])
@pytest.mark.parametrize(
    "shape",
    [(16, 16, 16), (8, 8, 8), (4, 4, 4), (4, 16, 16), (16, 16, 5), (2, 8, 3), (32, 32, 32), (3, 8, 8), (16, 4, 4)],
)
def test_tiles(shape: tuple[int, int, int], dtype: str) -> None:
    rows, lanes, columns = shape
    func = tile(dtype, rows, lanes, columns)
    x = aligned(np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 99, rows * lanes), dtype)
    results = [aligned(np.zeros(rows * columns), dtype) for _ in range(2)]
    assert native(func, [x, results[0]]) == 0
    interp.run(func, [x, results[1]])
    for found in results:
        np.testing.assert_array_equal(found.reshape(columns, rows), x.reshape(rows, lanes)[:, :columns].T)


def test_as_few_shuffles_as_there_can_be() -> None:
    for n, dtype in ((16, "float32"), (8, "float32"), (16, "int8"), (16, "bool"), (8, "float64")):
        text = emit_module(IRModule({"main": tile(dtype, n, n, n).with_attr("calling_conv", AOT)}), "llvm")
        assert text.count("shufflevector") == n * (n.bit_length() - 1)
        assert "extractelement" not in text and "alloca" not in text


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("n", [2, 4, 8, 16, 32])
def test_columns(n: int, bits: int) -> None:
    held = {f"r{r}": [(r, k) for k in range(n)] for r in range(n)}

    def shuffle(a: str, b: str, mask: str) -> str:
        both = held[a] + held[b]
        name = f"v{len(held)}"
        held[name] = [both[int(k.split()[-1])] for k in mask.split("> <")[1].rstrip(">").split(", ")]
        return name

    for lane in range(n):
        assert held[column([f"r{r}" for r in range(n)], lane, bits, shuffle)] == [(r, lane) for r in range(n)]


def apart(dtype: str, lanes: int, step: int, count: int | None) -> PrimFunc:
    """B[i, :] = A[i + step * lane], in the lanes below `count`."""
    a, b = decl_buffer(((lanes - 1) * step + 4,), dtype, "A"), decl_buffer((4 * lanes,), dtype, "B")
    i = Var("i")
    mask: Any = None if count is None else LT(Ramp(0, 1, lanes), Broadcast(count, lanes))
    store: Stmt = BufferStore(b, BufferLoad(a, (Ramp(i, step, lanes),), mask), (Ramp(i * lanes, 1, lanes),), mask)
    return PrimFunc((a, b), For(i, 0, 4, 0, store), attrs={"global_symbol": "main"})


@pytest.mark.parametrize("dtype", ["int8", "bool", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("lanes", [2, 4, 7, 8, 16])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_lanes_some_elements_apart(step: int, lanes: int, dtype: str) -> None:
    for count in (None, lanes - 1, 1):
        func = apart(dtype, lanes, step, count)
        x = aligned(np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 99, (lanes - 1) * step + 4), dtype)
        results = [aligned(np.zeros(4 * lanes), dtype) for _ in range(2)]
        assert native(func, [x, results[0]]) == 0
        interp.run(func, [x, results[1]])
        np.testing.assert_array_equal(*results)
        wanted = np.arange(lanes) < (lanes if count is None else count)
        for i in range(4):
            expected = np.where(wanted, x[i::step][:lanes], np.zeros(1, x.dtype))
            np.testing.assert_array_equal(results[0][i * lanes : (i + 1) * lanes], expected)


def test_steps() -> None:
    assert stepped(16, 2) == ([0, 15], [(0, k) for k in range(0, 16, 2)] + [(1, k) for k in range(1, 16, 2)])
    for lanes, step in ((4, 3), (8, 4), (16, 3), (7, 2)):
        starts, places = stepped(lanes, step)
        assert [starts[v] + at for v, at in places] == list(range(0, lanes * step, step))
        assert all(0 <= at < lanes for _, at in places) and starts[-1] + lanes == (lanes - 1) * step + 1
    text = emit_module(IRModule({"main": apart("float32", 16, 2, None).with_attr("calling_conv", AOT)}), "llvm")
    assert text.count("load <16 x float>") == 2 and "insertelement" not in text
