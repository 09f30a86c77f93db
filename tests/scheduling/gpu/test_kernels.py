"""Kernels by the rules for GPUs: the interpreter runs them in lockstep threads beside the plain ones, they lower to source, their
traces give them again, and other decisions than the model's compute the same."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.scheduling.gpu.kernels import KERNELS, arrays
from tilewright import te, tir, topi
from tilewright.codegen import interp
from tilewright.ir import IRModule
from tilewright.node import structural_equal
from tilewright.scheduling import KernelPlan, scheduled
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

CUDA = Target("cuda -arch=sm_80")


def unscheduled(name: str, plan: KernelPlan) -> tuple[tir.PrimFunc, list[Any], list[Any]]:
    with plan:
        ins, outs = KERNELS[name]()
        return te.create_prim_func([*ins, *outs]), *arrays(ins, outs)


def close(found: list[Any], wanted: list[Any]) -> None:
    for a, b in zip(found, wanted, strict=True):
        narrow = a.itemsize == 2 and a.dtype.kind != "i"
        np.testing.assert_allclose(
            a.astype("float64"), b.astype("float64"), rtol=2e-2 if narrow else 1e-4, atol=1e-2 if narrow else 1e-4
        )


def computed(func: tir.PrimFunc | IRModule, given: list[Any], room: list[Any]) -> list[Any]:
    results = [r.copy() for r in room]
    interp.run(func, [*given, *results], check_races=True)
    return results


def plain(name: str, given: list[Any], room: list[Any]) -> list[Any]:
    """What a kernel computes as its operators define it."""
    ins, outs = KERNELS[name]()
    return computed(te.create_prim_func([*ins, *outs]), given, room)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str) -> None:
    plan = KernelPlan(CUDA)
    func, given, room = unscheduled(name, plan)
    sch = scheduled(func, CUDA, plan)
    close(computed(sch.mod, given, room), plain(name, given, room))
    again = Schedule(func)
    assert sch.trace is not None
    sch.trace.apply_to_schedule(again, False)
    assert structural_equal(again.mod, sch.mod)
    source = str(tvm.build(sch.mod["main"], target=CUDA).imported_modules[0].get_source())
    assert "__global__" in source and not plan.unfit()


@pytest.mark.parametrize("name", KERNELS)
def test_other_decisions(name: str) -> None:
    """A random value for each decision: what fits computes the same."""
    plan = KernelPlan(CUDA)
    func, given, room = unscheduled(name, plan)
    wanted = plain(name, given, room)
    scheduled(func, CUDA, plan)
    random = Random(name)
    for _ in range(2):
        values = {decision: random.choice(choices) for decision, choices in plan.space().items()}
        other = KernelPlan(CUDA, values)
        sch = scheduled(func, CUDA, other)
        close(computed(sch.mod, given, room), wanted)
        tvm.lower(sch.mod)


@pytest.mark.parametrize("name", ["softmax0", "layer_norm", "rms_norm", "log_softmax", "softmax_half", "instance_norm"])
def test_stages_of_rows_are_one_kernel_in_registers(name: str) -> None:
    plan = KernelPlan(CUDA)
    func, _, _ = unscheduled(name, plan)
    source = str(tvm.build(scheduled(func, CUDA, plan).mod["main"], target=CUDA).imported_modules[0].get_source())
    assert source.count("__global__") == 1 and "__shared__" not in source and "__shfl" in source


def test_wide_accesses() -> None:
    """Four floats, eight halves: 16 bytes."""
    for name, text in (("relu3", "float4*"), ("half", "half8*"), ("softmax0", "float4*")):
        plan = KernelPlan(CUDA)
        func, _, _ = unscheduled(name, plan)
        source = str(tvm.build(scheduled(func, CUDA, plan).mod["main"], target=CUDA).imported_modules[0].get_source())
        assert text in source, source


def test_columns_of_tiles_lie_in_different_banks() -> None:
    plan = KernelPlan(CUDA)
    func, _, _ = unscheduled("transpose1", plan)
    source = str(tvm.build(scheduled(func, CUDA, plan).mod["main"], target=CUDA).imported_modules[0].get_source())
    assert "x0_shared[1056]" in source  # 32 rows of 33 elements


@pytest.mark.parametrize(
    "name", ["scatter_nd", "scatter_nd_mean", "scatter_elements_of_columns", "scatter_elements_of_middle"]
)
def test_threads_share_updates(name: str) -> None:
    """Each thread has the updates of places that it alone writes, in order."""
    plan = KernelPlan(CUDA)
    func, _, _ = unscheduled(name, plan)
    source = str(tvm.build(scheduled(func, CUDA, plan).mod["main"], target=CUDA).imported_modules[0].get_source())
    assert "__launch_bounds__(1)" not in source, source


@pytest.mark.parametrize("rows", [1, 5, 37])
def test_dynamic_rows_and_columns(rows: int) -> None:
    """Both axes of a product are as long as is known when it runs."""
    n = te.var("n")
    x = te.placeholder((3, n, 8), name="x")
    func = te.create_prim_func([x, topi.nn.batch_matmul(x, x)])
    given = np.random.default_rng(0).standard_normal((3, rows, 8)).astype("float32")
    (found,) = computed(scheduled(func, CUDA, KernelPlan(CUDA)).mod, [given], [np.zeros((3, rows, rows), "float32")])
    np.testing.assert_allclose(found, given @ given.transpose(0, 2, 1), 1e-4, 1e-5)


@pytest.mark.parametrize("images", [1, 3])
def test_a_dynamic_batch_of_windows(images: int) -> None:
    """What reads a depthwise convolution is computed in its threads, for any number of images."""
    n = te.var("n")
    x, w = te.placeholder((n, 3, 6, 7), name="x"), te.placeholder((3, 1, 3, 3), name="w")
    func = te.create_prim_func([x, w, topi.nn.relu(topi.nn.depthwise_conv2d_nchw(x, w, 1, 1, 1))])
    plan = KernelPlan(CUDA)
    made = scheduled(func, CUDA, plan).mod
    random = np.random.default_rng(0)
    given = [random.standard_normal(s).astype("float32") for s in ((images, 3, 6, 7), (3, 1, 3, 3))]
    room = [np.zeros((images, 3, 6, 7), "float32")]
    close(computed(made, given, room), computed(func, given, room))
    source = str(tvm.build(made["main"], target=CUDA).imported_modules[0].get_source())
    assert not plan.fallbacks and source.count("__global__") == 1


def test_rows_of_heads() -> None:
    """Rows of 40 elements, of which blocks of 256 threads have no whole number: threads take neighbours along the last two loops only."""
    x = te.placeholder((1024, 320), name="x")
    func = te.create_prim_func([x, topi.transpose(topi.reshape(x, (1024, 8, 40)), (1, 0, 2))])
    target = Target("cuda -arch=sm_90a")
    made = scheduled(func, target, KernelPlan(target)).mod
    text = str(tvm.build(made, target=target).imported_modules[0].get_source())
    assert text.count("__global__") == 1 and "blockIdx_x" in text and "threadIdx_x" in text
