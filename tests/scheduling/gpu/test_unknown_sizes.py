"""Sums over axes of unknown length: threads of the interpreter, which check races, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tests.scheduling.gpu.unknown_sizes import SUMS, check, given, kernel, sample
from tilewright import te, topi
from tilewright.codegen import interp
from tilewright.driver.pipeline import lower_pipeline
from tilewright.scheduling import KernelPlan, scheduled
from tilewright.target import Target

CUDA = Target("cuda -arch=sm_80")


@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str) -> None:
    plan = KernelPlan(CUDA)
    made = scheduled(kernel(name, plan), CUDA, plan).mod
    assert not plan.fallbacks, plan.fallbacks
    found = [np.zeros(r.shape, r.dtype) for r in sample(name)[2]]
    interp.run(lower_pipeline(threads=True)(made), [*given(name), *found], check_races=True)
    assert tvm.build(made["main"], target=CUDA).imported_modules
    check(name, found)


@pytest.mark.parametrize("length", [0, 3])
def test_products_of_no_terms_are_zero(length: int) -> None:
    plan = KernelPlan(CUDA)
    n = te.var("n", "int64")
    with plan:
        a, b = (te.placeholder((rows, n), name=name) for rows, name in ((4, "a"), (6, "b")))
        func = te.create_prim_func([a, b, topi.nn.dense(a, b)])
    x, y = (np.random.default_rng(rows).standard_normal((rows, length)).astype("float32") for rows in (4, 6))
    found = np.full((4, 6), np.nan, "float32")
    interp.run(lower_pipeline(threads=True)(scheduled(func, CUDA, plan).mod), [x, y, found], check_races=True)
    np.testing.assert_allclose(found, x @ y.T, 1e-5, 1e-6)


def test_no_rows_of_unknown_length() -> None:
    """A kernel that has no blocks of threads."""
    plan = KernelPlan(CUDA)
    with plan:
        x = te.placeholder((0, te.var("n", "int64")), name="x")
        func = te.create_prim_func([x, topi.argmax(x, 1)], "int64")
    made = lower_pipeline(threads=True)(scheduled(func, CUDA, plan).mod)
    interp.run(made, [np.zeros((0, 3), "float32"), np.zeros(0, "int32")])
