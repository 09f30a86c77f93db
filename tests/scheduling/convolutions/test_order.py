"""Convolutions on channel blocks go by lines where data is read from far away, else by tiles of filters."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.codegen import interp
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target
from tilewright.tir import PrimFunc

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2"


def scheduled(plan: KernelPlan, size: int, channels: int, filters: int, kernel: int = 1, batch: int = 1) -> PrimFunc:
    with Target(TARGET), plan:
        d = te.placeholder((batch, channels // 16, size, size, 16), name="d")
        w = te.placeholder((filters // 16, channels // 16, kernel, kernel, 16, 16), name="w")
        func = te.create_prim_func([d, w, topi.nn.conv2d_NCHWc(d, w, 1, kernel // 2, 1)])
    return schedule_kernel(func, plan.target, plan)


@pytest.mark.parametrize(
    ("size", "channels", "filters", "kernel", "order"),
    [
        (128, 256, 144, 1, "lines"),
        (48, 512, 512, 1, "lines"),
        (128, 64, 64, 3, "lines"),
        (28, 256, 64, 1, "columns"),  # the second cache holds the data
        (14, 1024, 2048, 1, "columns"),  # weights are more than the data
    ],
)
def test_the_larger_operand_streams_once(size: int, channels: int, filters: int, kernel: int, order: str) -> None:
    plan = KernelPlan(TARGET)
    scheduled(plan, size, channels, filters, kernel)
    assert plan.values()["conv2d_NCHWc.order"] == order


@pytest.mark.parametrize(("kernel", "batch"), [(1, 1), (3, 1), (1, 2)])
def test_both_orders_compute_the_same(kernel: int, batch: int) -> None:
    rng = np.random.default_rng(0)
    d = rng.integers(-4, 5, (batch, 2, 4, 4, 16)).astype("float32")
    w = rng.integers(-4, 5, (8, 2, kernel, kernel, 16, 16)).astype("float32")
    found = []
    for order in ("columns", "lines"):
        plan = KernelPlan(TARGET, {"conv2d_NCHWc.order": order})
        func = scheduled(plan, 4, 32, 128, kernel, batch)
        assert not plan.unfit()
        found.append(np.zeros((batch, 8, 4, 4, 16), "float32"))
        interp.run(func, [d, w, found[-1]])
    np.testing.assert_array_equal(*found)
    assert found[0].any()
