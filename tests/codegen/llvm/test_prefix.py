"""Masks that set the first lanes of a vector, of elements of all sizes: natively, in the oracle, and without a branch for each lane."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.small_programs import aligned, decl_buffer, kernels, loaded
from tests.slow import all_but
from tilewright.codegen import interp
from tilewright.codegen.llvm import compile_object, emit_module
from tilewright.ir import DataType, IntImm, IRModule, PrimExpr
from tilewright.tir import LT, Broadcast, BufferLoad, BufferStore, Cast, FloorDiv, For, PrimFunc, Ramp, Var

SERIAL, UNROLLED = 0, 3


def copied(dtype: str, lanes: int, count: int | None, index: str = "int32") -> PrimFunc:
    """B[:count] = A[:count] in two vectors; None: the number is the only element of N."""
    a, b = decl_buffer((lanes * 2,), dtype, "A"), decl_buffer((lanes * 2,), dtype, "B")
    number, i = decl_buffer((1,), index, "N"), Var("i", index)
    bound: PrimExpr = BufferLoad(number, (0,)) if count is None else IntImm(index, count)
    at = (Ramp(i * lanes, IntImm(index, 1), lanes),)
    mask = LT(*at, Broadcast(bound, lanes))
    body = For(i, 0, 2, SERIAL if count is None else UNROLLED, BufferStore(b, BufferLoad(a, at, mask), at, mask))
    return PrimFunc((a, b, number), body, attrs={"global_symbol": "main"})


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "bfloat16", "uint16", "float32", "int64"])
@pytest.mark.parametrize("lanes", all_but([2, 7, 16], [2, 4, 7, 8, 16, 32]))
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_first_lanes(index: str, lanes: int, dtype: str) -> None:
    x = aligned(np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 99, 2 * lanes), dtype)
    counts = sorted({-1, 0, 1, lanes - 1, lanes, lanes + 1, 2 * lanes - 3, 2 * lanes, 3 * lanes})
    functions = {f"main{k}": copied(dtype, lanes, count, index) for k, count in enumerate([*counts, None])}
    # One module: a C compiler starts once for all of them.
    run = loaded(kernels(functions), list(functions))
    *constant, dynamic = functions
    for name, count in zip(constant, counts, strict=True):
        expected = np.where(np.arange(2 * lanes) < count, x, np.ones(1, x.dtype))
        for entry in (name, dynamic):
            results = [aligned(np.ones(2 * lanes), dtype) for _ in range(2)]
            number = np.array([count], index)
            assert run(entry, [x, results[0], number]) == 0
            interp.run(functions[entry], [x, results[1], number])
            np.testing.assert_array_equal(results[0], expected)
            np.testing.assert_array_equal(results[1], expected)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("count", [None, 13])
@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
@pytest.mark.parametrize(
    ("target", "masked"),
    [
        ("llvm -mcpu=haswell", ["float32"]),
        ("llvm -mcpu=skylake-avx512", ["int8", "int16", "float32"]),
        ("llvm -mcpu=x86-64", []),
        ("llvm -mtriple=aarch64-linux-gnu", []),
    ],
)
def test_masks_only_where_the_processor_has_them(
    target: str, masked: list[str], dtype: str, count: int | None, index: str
) -> None:
    text = emit_module(IRModule({"main": copied(dtype, 16, count, index)}), target)
    assert ("llvm.masked" in text) == (dtype in masked)
    assert compile_object(text, target)


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("int32", "int8"),
        ("float32", "uint8"),
        ("int32", "int16"),
        ("int16", "int8"),
        ("int64", "int32"),
        ("int32", "bool"),
        ("float32", "bfloat16"),
        ("float32", "float16"),
    ],
)
@pytest.mark.parametrize(("effort", "kind"), [(1, UNROLLED), (3, SERIAL)])
def test_one_lane_of_narrowed_integers(effort: int, kind: int, source: str, to: str) -> None:
    """LLVM would store it in its former width; with all its passes, it unrolls the loop and finds the masks."""
    for count, blocks in ((1, 1), (17, 2), (49, 4), (50, 4)):
        a, b, i = decl_buffer((16 * blocks,), source, "A"), decl_buffer((16 * blocks,), to, "B"), Var("i", "int32")
        at = (Ramp(i * 16, IntImm("int32", 1), 16),)
        mask = LT(*at, Broadcast(IntImm("int32", count), 16))
        narrow = Cast(DataType(to).with_lanes(16), BufferLoad(a, at, mask))
        func = PrimFunc(
            (a, b), For(i, 0, blocks, kind, BufferStore(b, narrow, at, mask)), attrs={"global_symbol": "main"}
        )
        x, result = aligned(np.arange(1, 16 * blocks + 1), source), aligned(np.ones(16 * blocks), to)
        assert loaded(kernels({"main": func}), ["main"], opt_level=effort)("main", [x, result]) == 0
        np.testing.assert_array_equal(result, np.where(np.arange(16 * blocks) < count, x, 1).astype(result.dtype))


@pytest.mark.parametrize("dtype", ["int8", "float32", "float16"])
@pytest.mark.parametrize("times", [2, 3, 5])
@pytest.mark.parametrize("lanes", [4, 16])
def test_first_lanes_that_repeat_elements(lanes: int, times: int, dtype: str) -> None:
    """B[k] = A[k // times] below a bound; what is behind A's last needed element is not read."""
    count = lanes + 3
    x = aligned(np.arange(1, 2 + (count - 1) // times), dtype)
    a, b = decl_buffer(x.shape, dtype, "A"), decl_buffer((2 * lanes,), dtype, "B")
    i = Var("i", "int32")
    at = Ramp(i * lanes, IntImm("int32", 1), lanes)
    mask = LT(at, Broadcast(IntImm("int32", count), lanes))
    read = BufferLoad(a, (FloorDiv(at, Broadcast(IntImm("int32", times), lanes)),), mask)
    func = PrimFunc((a, b), For(i, 0, 2, UNROLLED, BufferStore(b, read, (at,), mask)), attrs={"global_symbol": "main"})
    run = loaded(kernels({"main": func}), ["main"])
    expected = np.where(np.arange(2 * lanes) < count, x[np.minimum(np.arange(2 * lanes) // times, len(x) - 1)], 7)
    results = [aligned(np.full(2 * lanes, 7), dtype) for _ in range(2)]
    assert run("main", [x, results[0]]) == 0
    interp.run(func, [x, results[1]])
    np.testing.assert_array_equal(results[0], expected.astype(x.dtype))
    np.testing.assert_array_equal(results[1], expected.astype(x.dtype))
