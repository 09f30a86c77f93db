"""Sorts of lines that are longer than what a block sorts: runs that are merged, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.codegen import interp
from tilewright.node.field_values import numpy_dtype
from tilewright.scheduling import KernelPlan, scheduled
from tilewright.target import Target
from tilewright.topi.utils import shape_of

CUDA = Target("cuda -arch=sm_80")


def run_on_threads(compute: Any, data: Any, given: dict[str, Any]) -> list[Any]:
    """The results of a compute of one tensor by the threads of a device."""
    plan = KernelPlan(CUDA, given)
    with plan:
        x = te.placeholder(data.shape, str(data.dtype), name="x")
        made = compute(x)
        outs = list(made) if isinstance(made, (list, tuple)) else [made]
        func = te.create_prim_func([x, *outs])
    found = [np.zeros(shape_of(t), numpy_dtype(t.dtype)) for t in outs]
    interp.run(scheduled(func, CUDA, plan).mod, [data, *found], check_races=True)
    assert not plan.unfit() and not plan.fallbacks
    return found


@pytest.mark.parametrize("length", [8, 9, 37, 64, 71])
@pytest.mark.parametrize("ascending", [True, False])
def test_merged_runs(length: int, ascending: bool) -> None:
    """Equal elements keep their order; lines of whole and of broken runs, an odd number of them included."""
    data = np.random.default_rng(length).integers(0, 9, (2, length)).astype("float32")
    data[0, ::7] = np.nan
    (order,) = run_on_threads(
        lambda x: topi.argsort(x, axis=1, is_ascend=ascending, dtype="int32"),
        data,
        {"order.form": "merged", "order.run": 8},
    )
    keys = np.where(np.isnan(data), 99.0, data)
    np.testing.assert_array_equal(order, np.argsort(keys if ascending else -keys, axis=1, kind="stable"))


@pytest.mark.parametrize("number", [1, 5, 16, 50])
def test_first_of_merged_runs(number: int) -> None:
    """Of each run as many elements are kept as are wanted; int64 has keys of 64 bits."""
    data = np.random.default_rng(number).integers(-(1 << 40), 1 << 40, (50, 2))
    values, places = run_on_threads(
        lambda x: topi.topk(x, number, 0, dtype="int64"), data, {"order.form": "merged", "order.run": 4}
    )
    np.testing.assert_array_equal(values, -np.sort(-data, axis=0)[:number])
    np.testing.assert_array_equal(np.take_along_axis(data, places, 0), values)


@pytest.mark.parametrize("length", [5, 70])
def test_lines_of_unknown_length(length: int) -> None:
    """What a thread needs for its line is memory of the device, which the host takes: kernels have arrays of constant size."""
    plan, n = KernelPlan(CUDA), te.var("n")
    with plan:
        x = te.placeholder((2, n), "float32", name="x")
        func = te.create_prim_func([x, topi.argsort(x, axis=1, dtype="int32")])
    made = scheduled(func, CUDA, plan).mod
    data = np.random.default_rng(length).integers(0, 9, (2, length)).astype("float32")
    order = np.zeros((2, length), "int32")
    interp.run(made, [data, order], check_races=True)
    np.testing.assert_array_equal(order, np.argsort(data, axis=1, kind="stable"))
    assert tvm.build(made["main"], target=CUDA).imported_modules


def test_the_choice() -> None:
    """Blocks sort lines that fit into shared memory, and runs of longer ones, whose merges are a kernel each."""
    for n, form, merges in ((4096, "bitonic", 0), (4097, "merged", 1), (50257, "merged", 4)):
        plan = KernelPlan(CUDA)
        with plan:
            x = te.placeholder((1, n), "float32", name="x")
            func = te.create_prim_func([x, topi.sort(x, 1)])
        assert plan.values()["order.form"] == form
        launches = scheduled(func, CUDA, plan).mod.script().count('"blockIdx.x"')
        assert launches == (1 if form == "bitonic" else merges + 2), launches
