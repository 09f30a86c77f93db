"""Kernels and models on a device beside the interpreter and the CPU: `make test-opencl` on pocl, `make test-gpu` on a GPU of NVIDIA.

DEVICE_TARGET names the target.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from benchmarks import models
from tests.scheduling.gpu.kernels import KERNELS, arrays
from tests.scheduling.gpu.models import DYNAMIC, MODELS, bound, inputs
from tests.scheduling.gpu.test_kernels import close
from tests.scheduling.gpu.unknown_sizes import OPERATORS, check, given, program
from tilewright import nd, relay, te, topi
from tilewright.codegen import interp
from tilewright.contrib import graph_executor
from tilewright.scheduling import KernelPlan, scheduled
from tilewright.target import Target

TARGET = os.environ["DEVICE_TARGET"]
DEV = tvm.device(TARGET.split()[0])


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str) -> None:
    ins, outs = KERNELS[name]()
    given, room = arrays(ins, outs)
    target, wanted = Target(TARGET), [r.copy() for r in room]
    interp.run(te.create_prim_func([*ins, *outs]), [*given, *wanted])
    plan = KernelPlan(target)
    with plan:
        ins, outs = KERNELS[name]()
        func = te.create_prim_func([*ins, *outs])
    found = [nd.array(a, DEV) for a in (*given, *room)]
    tvm.build(scheduled(func, target, plan).mod["main"], target=target)(*found)
    assert not plan.fallbacks, plan.fallbacks
    close([a.numpy() for a in found[len(given) :]], wanted)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_long_lines_are_sorted(dtype: str) -> None:
    """Runs by blocks of threads, merged by kernels; equal elements keep their order."""
    target, data = Target(TARGET), np.random.default_rng(0).integers(0, 5000, (2, 10007)).astype(dtype)
    plan = KernelPlan(target)
    with plan:
        x = te.placeholder(data.shape, dtype, name="x")
        func = te.create_prim_func([x, topi.argsort(x, axis=1, dtype="int32")])
    found = [nd.array(a, DEV) for a in (data, np.zeros(data.shape, "int32"))]
    tvm.build(scheduled(func, target, plan).mod["main"], target=target)(*found)
    assert plan.values()["order.form"] == "merged"
    np.testing.assert_array_equal(found[1].numpy(), np.argsort(data, axis=1, kind="stable"))


def results(mod: tvm.IRModule, target: str, device: Any, given: dict[str, Any]) -> list[Any]:
    module = graph_executor.GraphModule(relay.build(mod, target)["default"](device))
    module.run(**given)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    mod = MODELS[name]()
    given = inputs(mod)
    for found, wanted in zip(results(mod, TARGET, DEV, given), results(mod, "llvm", tvm.cpu(), given), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-3, 1e-4)


def test_mobilenet_v2_in_full_size() -> None:
    """Images of 224 x 224 pixels, 1,001 classes."""
    given = models.inputs("mobilenetv2")
    mod, params = relay.frontend.from_onnx(models.make("mobilenetv2"), shape={k: v.shape for k, v in given.items()})
    mod = bound(mod, params)
    for found, wanted in zip(results(mod, TARGET, DEV, given), results(mod, "llvm", tvm.cpu(), given), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-3, 1e-4)


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_sizes(name: str) -> None:
    """One build for all sizes: the host computes the numbers of blocks, and threads past the end do nothing."""
    make, shapes = DYNAMIC[name]
    machines = [
        tvm.runtime.vm.VirtualMachine(relay.vm.compile(make(), target), device)
        for target, device in ((TARGET, DEV), ("llvm", tvm.cpu()))
    ]
    for shape in shapes:
        data = np.random.default_rng(1).standard_normal(shape).astype("float32")
        found, wanted = (
            m.invoke("main", nd.array(data, d)).numpy() for m, d in zip(machines, (DEV, tvm.cpu()), strict=True)
        )
        np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("name", OPERATORS)
def test_unknown_sizes(name: str) -> None:
    found = relay.create_executor("vm", program(name), DEV, TARGET).evaluate()(*given(name))
    check(name, [a.numpy() for a in ([found] if isinstance(found, nd.NDArray) else [*found])])
