"""Kernels by the rules for GPUs: the interpreter runs them in lockstep threads beside the plain ones, they lower to source, their
traces give them again, and other decisions than the model's compute the same."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.scheduling.gpu.kernels import KERNELS, arrays
from tilewright import te, tir
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
