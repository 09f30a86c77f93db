"""Products of matrices of any sizes and orders in memory, in each of their forms, on several targets."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.codegen import interp
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target
from tilewright.topi import nn

TARGETS = {
    "avx512": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2",
    "avx2": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell -num-cores=2",
}
# rows, columns, reduction; what each is small or odd for
SIZES = [
    (1, 1, 1), (1, 37, 40), (37, 1, 40), (3, 5, 7), (13, 50, 9), (2, 33, 70), (31, 16, 1), (5, 3, 64), (49, 7, 19),
]  # fmt: skip


def close(x: np.ndarray, y: np.ndarray) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("name", TARGETS)
def test_interpreted(name: str, transposed: tuple[bool, bool]) -> None:
    for m, n, k in SIZES[:7]:
        ta, tb = transposed
        rng = np.random.default_rng(m * n + k)
        a = rng.standard_normal((k, m) if ta else (m, k), np.float32)
        b = rng.standard_normal((n, k) if tb else (k, n), np.float32)
        with Target(TARGETS[name]) as target, KernelPlan(target):
            x, y = te.placeholder(a.shape, name="x"), te.placeholder(b.shape, name="y")
            f = te.create_prim_func([x, y, nn.matmul(x, y, transpose_a=ta, transpose_b=tb)])
            f = schedule_kernel(f, target)
        c = np.zeros((m, n), np.float32)
        interp.run(f, [a, b, c])
        close(c, (a.T if ta else a) @ (b.T if tb else b))


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("name", TARGETS)
def test_a_matrix_by_itself(name: str, transposed: tuple[bool, bool]) -> None:
    """Both operands are places of one tensor. The interpreter checks that nothing beyond the tensors is read or written."""
    ta, tb = transposed
    for m, k in ((20, 70), (5, 40), (13, 64), (17, 3)) if ta != tb else ((20, 20), (33, 33)):
        a = np.random.default_rng(m * k).standard_normal((k, m) if ta else (m, k), np.float32)
        with Target(TARGETS[name]) as target, KernelPlan(target):
            x = te.placeholder(a.shape, name="x")
            f = te.create_prim_func([x, nn.matmul(x, x, transpose_a=ta, transpose_b=tb)])
            f = schedule_kernel(f, target)
        c = np.zeros((m, m), np.float32)
        interp.run(f, [a, c])
        close(c, (a.T if ta else a) @ (a.T if tb else a))


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
def test_compiled_on_random_sizes(target: str) -> None:
    rng = np.random.default_rng(7)
    functions, arrays = {}, {}
    with Target(target) as t, KernelPlan(t):
        for case in range(24):
            m, n, k = (int(np.exp(rng.uniform(0, np.log(150)))) for _ in range(3))
            ta, tb, lead = bool(case % 2), bool(case // 2 % 2), (2,) if case % 5 == 0 else ()
            a = rng.standard_normal((*lead, *((k, m) if ta else (m, k))), np.float32)
            b = rng.standard_normal((*lead, *((n, k) if tb else (k, n))), np.float32)
            x, y = te.placeholder(a.shape, name="x"), te.placeholder(b.shape, name="y")
            if lead:
                made = nn.batch_matmul(x, y, transpose_a=ta, transpose_b=tb)
            else:
                made = nn.relu(nn.matmul(x, y, transpose_a=ta, transpose_b=tb))
            f = te.create_prim_func([x, y, made]).with_attr("global_symbol", f"f{case}")
            functions[f"f{case}"] = schedule_kernel(f, t)
            expected = (a.swapaxes(-1, -2) if ta else a) @ (b.swapaxes(-1, -2) if tb else b)
            arrays[f"f{case}"] = a, b, expected if lead else np.maximum(expected, 0)
    library = tvm.build(tvm.IRModule(functions), target=target)
    for name, (a, b, expected) in arrays.items():
        c = tvm.nd.empty(expected.shape)
        library[name](tvm.nd.array(a), tvm.nd.array(b), c)
        close(c.numpy(), expected)


@pytest.mark.parametrize("columns", [1201, 4099, 40])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
def test_one_row_by_a_matrix_larger_than_caches(target: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    a = rng.standard_normal((1, 1_200_000 // columns), np.float32)
    b = rng.standard_normal((a.shape[1], columns), np.float32)
    with Target(target) as t, KernelPlan(t):
        assert b.nbytes > t.cpu.l2_bytes
        x, y = te.placeholder(a.shape, name="x"), te.placeholder(b.shape, name="y")
        f = schedule_kernel(te.create_prim_func([x, y, nn.matmul(x, y)]).with_attr("global_symbol", "f"), t)
    c = tvm.nd.empty((1, columns))
    tvm.build(tvm.IRModule({"f": f}), target=target)["f"](tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize(
    ("m", "n", "k", "order"),
    [(300, 224, 15, "columns"), (976, 224, 15, "rows"), (5856, 224, 15, "rows"), (5856, 224, 120, "columns")],
)
def test_results_that_memory_is_busy_with_are_written_in_order(m: int, n: int, k: int, order: str) -> None:
    """Where they are larger than half of the second cache (here 1 MiB) and than what is read."""
    with Target(TARGETS["avx512"]) as target, KernelPlan(target) as plan:
        x, y = te.placeholder((m, k), name="x"), te.placeholder((k, n), name="y")
        schedule_kernel(te.create_prim_func([x, y, nn.matmul(x, y)]), target, plan)
    assert plan.values().get("T_matmul_NN.order", "columns") == order


@pytest.mark.parametrize("form", ["columns", "panels"])
def test_both_orders_compute_the_same(form: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float32") for s in ((2, 30, 9), (9, 80)))
    for order in ("columns", "rows"):
        with (
            Target(TARGETS["avx512"]) as target,
            KernelPlan(target, {"T_matmul_NN.order": order, "T_matmul_NN.form": form}) as plan,
        ):
            x, y = te.placeholder(a.shape, name="x"), te.placeholder(b.shape, name="y")
            f = schedule_kernel(te.create_prim_func([x, y, nn.matmul(x, y)]), target, plan)
        assert not plan.unfit()
        c = np.zeros((2, 30, 80), "float32")
        interp.run(f, [a, b, c])
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("rows", [2048, 9])
def test_panels_without_rows_keep_their_order(rows: int) -> None:
    """Panels are the rows of a tile where a product has none."""
    k = te.reduce_axis((0, 4), name="k")
    x, w = te.placeholder((rows, 4), name="x"), te.placeholder((rows, 4, 4, 64), name="w")
    c = te.compute((rows, 256), lambda b, j: te.sum(x[b, k] * w[b, j // 64, k, j % 64], axis=k), name="C")
    with Target(TARGETS["avx512"]) as target, KernelPlan(target) as plan:
        func = schedule_kernel(te.create_prim_func([x, w, c]), target, plan)
    assert "C.order" not in plan.values()
    if rows < 100:
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-4, 5, s).astype("float32") for s in ((rows, 4), (rows, 4, 4, 64)))
        found = np.zeros((rows, 256), "float32")
        interp.run(func, [a, b, found])
        np.testing.assert_array_equal(found, np.einsum("bk,bpkc->bpc", a, b).reshape(rows, 256))
