"""LoopPartition takes out of the main part of a loop the likely-conditions by which stores choose their values."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.codegen.interp import run
from tilewright.driver import lower
from tilewright.ir.transform import PassContext
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.script import tir as T
from tilewright.target import Target

TARGETS = ["llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512", "llvm -mtriple=aarch64-linux-gnu"]


@T.prim_func
def chosen(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (37,))
    B = T.match_buffer(b, (8,))
    for i in range(5):
        for j in range(8):
            B[j] = B[j] + T.if_then_else(T.likely(i * 8 + j < 37), A[i * 8 + j], T.float32(0)) * T.Select(
                T.likely(i * 8 + j < 37), T.float32(2), T.float32(3)
            )


def test_the_main_part_has_no_conditions() -> None:
    text = lower(chosen.with_attr("global_symbol", "main")).script()
    assert "T.grid(4, 8)" in text and "if_then_else" not in text and "likely" not in text, text
    a, b = np.arange(37, dtype="float32"), np.zeros(8, "float32")
    run(lower(chosen.with_attr("global_symbol", "main")), [a, b])
    want = np.zeros(40, "float32")
    want[:37] = 2 * a
    np.testing.assert_allclose(b, want.reshape(5, 8).sum(0))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [37, 333, 1003])
def test_rows_that_fill_no_vectors(columns: int, target: str) -> None:
    """The rows of a softmax and a sum, at every stage."""
    x = np.random.default_rng(0).standard_normal((3, columns)).astype("float32")
    power = np.exp(x - x.max(-1, keepdims=True))
    with Target(target) as made, KernelPlan(made):
        for f, want in (
            (topi.nn.softmax, power / power.sum(-1, keepdims=True)),
            (lambda t: topi.sum(t, -1), x.sum(-1)),
        ):
            data = te.placeholder(x.shape, name="x")
            out = f(data)
            func = schedule_kernel(te.create_prim_func([data, out]), made)
            for program in (func, lower(func.with_attr("global_symbol", "main"))):
                found = np.zeros(want.shape, "float32")
                run(program, [x, found])
                np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_conditions_stay_right_where_no_loop_is_split() -> None:
    data = te.placeholder((4, 333), name="x")
    with Target("llvm") as target, KernelPlan(target):
        func = schedule_kernel(te.create_prim_func([data, topi.max(data, -1)]), target)
    x = np.random.default_rng(0).standard_normal((4, 333)).astype("float32")
    for off in ([], ["tir.LoopPartition"]):
        found = tvm.nd.array(np.zeros(4, "float32"))
        with PassContext(disabled_pass=off):
            tvm.build(func, target="llvm")(tvm.nd.array(x), found)
        np.testing.assert_array_equal(found.numpy(), x.max(-1))


@T.prim_func
def joined(a: T.handle, b: T.handle, c: T.handle, d: T.handle) -> None:
    A = T.match_buffer(a, (20,))
    B = T.match_buffer(b, (8,))
    C = T.match_buffer(c, (22,))
    D = T.match_buffer(d, (50,))
    for i in T.serial(50, annotations={"pragma_loop_partition_hint": 1}):
        if i >= 28:
            D[i] = C[i - 28]
        elif i >= 20:
            D[i] = B[i - 20]
        else:
            D[i] = A[i]


def test_a_hint_splits_a_loop_at_all_its_conditions() -> None:
    text = tvm.tir.transform.LoopPartition()(tvm.IRModule.from_expr(joined)).script()
    assert "if " not in text and text.count("for i in range") == 3, text
    parts = [np.arange(n, dtype="float32") + 100 * n for n in (20, 8, 22)]
    found = np.zeros(50, "float32")
    run(lower(joined.with_attr("global_symbol", "main")), [*parts, found])
    np.testing.assert_array_equal(found, np.concatenate(parts))
