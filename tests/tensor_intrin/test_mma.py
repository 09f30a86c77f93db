"""mma and ldmatrix as tensor intrinsics: programs of them compute what their descriptions say, at every stage of lowering."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.tensor_intrin.on_devices import as_on_device, inputs_of, results
from tests.tensor_intrin.products import TYPES, plain, scheduled
from tilewright import tir
from tilewright.codegen.interp import InterpError, run
from tilewright.tir.schedule import TensorIntrin
from tilewright.tir.tensor_intrin import cuda, mma, mma_layouts
from tilewright.tir.transform.thread.thread_sync import tells_apart

STORED = list(product((False, True), repeat=2))
"""Whether the first and the second operand are stored transposed."""
CASES = [(*types, *stored) for types in TYPES for stored in (STORED if types[0] == "float16" else STORED[1:3])]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}-{'NT'[c[2]]}{'NT'[c[3]]}")
def test_products(case: tuple[str, str, bool, bool]) -> None:
    types, stored = case[:2], case[2:]
    func = plain(*types, *stored)
    s = scheduled(func, *types, *stored)
    inputs = inputs_of(func)
    want = results(func, inputs)[2]
    text = s.mod.script()
    transposes = stored == (True, False) and types[0] not in ("float16", "bfloat16")
    assert "ptx_mma" in text and ("ptx_ldmatrix" in text) != transposes
    np.testing.assert_array_equal(results(s.mod, inputs)[2], want)
    lowered = as_on_device(s.mod)
    assert '"warp"' not in lowered.script()
    np.testing.assert_array_equal(results(lowered, inputs, check_races=True)[2], want)


@pytest.mark.parametrize("simple", [False, True])
def test_dynamic_shared_memory(simple: bool) -> None:
    case = ("float16", "float32", False, True)
    func = plain(*case)
    lowered = as_on_device(scheduled(func, *case, scope="shared.dyn", simple=simple).mod)
    assert "buf_dyn_shmem" in lowered.script() and ("mma_store" in lowered.script()) != simple
    inputs = inputs_of(func)
    np.testing.assert_array_equal(results(lowered, inputs, check_races=True)[2], results(func, inputs)[2])


@pytest.mark.parametrize(("name", "rows", "columns"), [
    ("shared_16x16_to_ldmatrix_32x8_layout", 16, 16),
    ("shared_16x32_to_ldmatrix_32x16_layout", 16, 32),
    ("shared_32x16_to_ldmatrix_32x16_layout", 32, 16),
    ("shared_16x8_to_ldmatrix_32x4_layout", 16, 8),
    ("shared_8x16_to_ldmatrix_32x4_layout", 8, 16),
])  # fmt: skip
def test_layouts(name: str, rows: int, columns: int) -> None:
    """Each element has a place of its own, and no place is empty."""
    place = getattr(mma_layouts, name)
    found = {place(i, j) for i in range(rows) for j in range(columns)}
    assert found == {(lane, k) for lane in range(32) for k in range(rows * columns // 32)}


def test_inverse() -> None:
    for i, j in product(range(16), repeat=2):
        place = cuda.shared_16x16_to_ldmatrix_32x8_layout(i, j)
        assert cuda.ldmatrix_32x8_to_shared_16x16_layout(*place) == (i, j)
    assert cuda.index_map_shared_16x16_to_ldmatrix_32x8_layout(5, 9, 3) == [
        5,
        *cuda.shared_16x16_to_ldmatrix_32x8_layout(9, 3),
    ]


def test_names() -> None:
    """The classic names, and none that has no intrinsic."""
    for constant, name in {
        "LDMATRIX_f16_A_INTRIN": "mma_ldmatrix_f16_a",
        "LDMATRIX_f16_B_TRANS_DYN_INTRIN": "mma_ldmatrix_f16_b_trans_dyn",
        "LDMATRIX_i8_B_INTRIN": "mma_ldmatrix_i8_b",
        "MMA_f16f16f32_INTRIN": "mma_f16f16f32",
        "MMA_f16f16f16_TRANS_A_TRANS_B_INTRIN": "mma_f16f16f16_trans_a_trans_b",
        "MMA_i8i8i32_TRANS_B_INTRIN": "mma_i8i8i32_trans_b",
        "MMA_fill_16x16_i32_INTRIN": "mma_fill_16x16_i32",
        "MMA_store_16x16_f32_global_INTRIN": "mma_store_16x16_f32_global_",
        "MMA_store_16x16_f32_shared_dyn_INTRIN_SIMPLE": "mma_store_16x16_f32_shared_dyn_simple_",
    }.items():
        assert getattr(cuda, constant) == name
    for name in mma.INTRINSICS.constants.values():
        assert TensorIntrin.get(name) is not None
    assert mma.INTRINSICS.get("mma_ldmatrix_f64_a") is None


@pytest.mark.parametrize(("call", "text"), [
    (lambda: mma.get_ldmatrix_intrin(16, "float16", "C", False), 'matrix_name is "A" or "B", but'),
    (lambda: mma.get_ldmatrix_intrin(16, "int8", "A", False), "tiles of int8 have 32 elements along k, but 16"),
    (lambda: mma.get_mma_intrin(16, "int32", False, False), "mma has no sums of int32 for operands of float16"),
    (lambda: mma.get_mma_intrin_group("shared", "local", "float16", "float32", False, False), "not shared, local"),
    (lambda: mma.get_mma_intrin_group("shared", "global", "float64", "float64", False, False), "no product of float64"),
])  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def one_warp(threads: int, call: Any) -> tir.PrimFunc:
    """A kernel of some threads that makes a call with (shared memory of 1024 halves, 8 halves of registers, the thread)."""
    shared, held = [
        tir.decl_buffer((n,), "float16", name, scope=s)
        for n, name, s in ((1024, "shared", "shared"), (8, "held", "local"))
    ]
    lane = tir.Var("lane", "int32")
    axis = tir.IterVar(None, lane, tir.IterVar.ThreadIndex, "threadIdx.x")
    body: Any = tir.Evaluate(call(shared.data, held.data, lane))
    for b in (shared, held):
        body = tir.Allocate(b.data, b.dtype, b.shape, tir.const(True, "bool"), body)
    return tir.PrimFunc([], tir.AttrStmt(axis, "thread_extent", tir.IntImm("int32", threads), body))


@pytest.mark.parametrize(("threads", "call", "text"), [
    (32, lambda s, h, x: tir.ptx_ldmatrix("float16", False, 4, ".b16", h, 0, s, x * 8 + 4), "begins at a multiple of 16 bytes, but byte 8"),
    (32, lambda s, h, x: tir.ptx_ldmatrix("float16", False, 4, ".b16", h, 0, s, x * 8 + 1024), "outside of shared, which has 2048"),
    (32, lambda s, h, x: tir.ptx_ldmatrix("float16", False, 4, ".b16", h, 0, s, x * 8), "uninitialised read: the row of ldmatrix"),
    (16, lambda s, h, x: tir.ptx_ldmatrix("float16", False, 4, ".b16", h, 0, s, x * 8), "ldmatrix takes 32 threads, but the warp has 16"),
    (32, lambda s, h, x: tir.ptx_mma("float16", "m16n8k16", "row", "col", "fp16", "fp16", "fp16", h, 0, h, 0, h, 0, False),
     "uninitialised read: registers held from byte 0"),
])  # fmt: skip
def test_misuse(threads: int, call: Any, text: str) -> None:
    with pytest.raises(InterpError, match=text):
        run(one_warp(threads, call), [])


def test_lanes_of_vectors_are_told_apart() -> None:
    """Vectors of neighbouring threads, and permuted chunks, need no barrier between them."""
    x, one = tir.Var("x", "int32"), tir.IntImm("int32", 1)
    chunk = x // 4 * 32 + ((x % 4) ^ (x // 8)) * 8
    assert tells_apart(tir.Ramp(x * 8, one, 8), {x: 32}) and tells_apart(tir.Ramp(chunk, one, 8), {x: 32})
    assert not tells_apart(tir.Ramp(x * 4, one, 8), {x: 32}) and not tells_apart(((x % 4) ^ (x // 8)) * 8, {x: 32})
