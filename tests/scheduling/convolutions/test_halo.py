"""Kernels that write a halo around their result: without a copy, and with the interpreter's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.codegen.interp import run
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.cpu.halo import set_halo_apart
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule

TARGET = Target("llvm -mcpu=skylake-avx512")


def kernel(before: list[int], after: list[int], value: float, stride: int = 1, dtype: str = "float32") -> PrimFunc:
    """A pointwise convolution on channel blocks, an epilogue, and a halo."""
    data = te.placeholder((2, 2, 7, 8, 16), dtype, name="data")
    weight = te.placeholder((3, 2, 1, 1, 16, 16), dtype, name="weight")
    with TARGET, KernelPlan(TARGET):
        sums = topi.nn.conv2d_NCHWc(data, weight, stride, 0, 1)
        out = topi.nn.pad(topi.nn.relu(sums), before, after, value)
    return te.create_prim_func([data, weight, out])


def values(func: PrimFunc, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    out = np.full([int(n) for n in func.buffer_map[func.params[2]].shape], 7, data.dtype)
    run(func, [data, weight, out])
    return out


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        ([0, 0, 1, 1, 0], [0, 0, 1, 1, 0], 0.0),
        ([0, 0, 2, 0, 0], [0, 0, 0, 3, 0], -1.5),
        ([0, 0, 0, 1, 0], [0, 0, 0, 0, 0], 0.0),
        ([0, 1, 0, 1, 0], [1, 0, 2, 0, 0], 0.25),
    ],
)
def test_values(before: list[int], after: list[int], value: float) -> None:
    func = kernel(before, after, value)
    rng = np.random.default_rng(0)
    data, weight = [rng.standard_normal(s).astype("float32") for s in ((2, 2, 7, 8, 16), (3, 2, 1, 1, 16, 16))]
    sums = np.einsum("nchwi,ocyxib->nohwb", data, weight)
    wanted = np.pad(np.maximum(sums, 0), list(zip(before, after, strict=True)), constant_values=value)
    assert np.allclose(values(schedule_kernel(func, TARGET), data, weight), wanted, atol=1e-5)


def test_nothing_is_copied() -> None:
    func = schedule_kernel(kernel([0, 0, 1, 1, 0], [0, 0, 1, 1, 0], 0.0), TARGET)
    root: Any = func.body
    assert [b.scope() for b in root.block.alloc_buffers if b.scope() != "local"] == []


def test_other_last_steps_are_no_halos() -> None:
    x = te.placeholder((4, 6), "float32", name="x")
    doubled = te.compute((4, 6), lambda i, j: x(i, j) * 2.0, name="doubled")
    cropped = topi.nn.pad(doubled, [0, -1], [0, 1])
    mirrored = topi.nn.mirror_pad(doubled, [0, 1], [0, 1])
    for out in (doubled, cropped, mirrored):
        assert set_halo_apart(Schedule(te.create_prim_func([x, out]))) is None
