"""Kernels and models on a device beside the interpreter and the CPU: `make test-opencl` on pocl, `make test-gpu` on a GPU of NVIDIA.

DEVICE_TARGET names the target.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.scheduling.gpu.kernels import KERNELS, arrays
from tests.scheduling.gpu.test_kernels import close
from tilewright import nd, relay, te
from tilewright.codegen import interp
from tilewright.contrib import graph_executor
from tilewright.relay.testing import mobilenet, resnet
from tilewright.scheduling import KernelPlan, scheduled
from tilewright.target import Target

TARGET = os.environ["DEVICE_TARGET"]
DEV = tvm.device(TARGET.split()[0])
SHAPE = (3, 64, 64)
MODELS: dict[str, Any] = {
    "resnet18": lambda: resnet.get_workload(batch_size=1, num_classes=10, num_layers=18, image_shape=SHAPE),
    "mobilenet": lambda: mobilenet.get_workload(batch_size=1, num_classes=10, image_shape=SHAPE),
}


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
    assert not plan.fallbacks
    close([a.numpy() for a in found[len(given) :]], wanted)


def result(mod: tvm.IRModule, params: Any, target: str, device: Any, data: Any) -> Any:
    module = graph_executor.GraphModule(relay.build(mod, target, params=params)["default"](device))
    module.run(data=data)
    return module.get_output(0).numpy()


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    mod, params = MODELS[name]()
    data = np.random.default_rng(0).standard_normal((1, *SHAPE), "float32")
    found, wanted = result(mod, params, TARGET, DEV, data), result(mod, params, "llvm", tvm.cpu(), data)
    np.testing.assert_allclose(found, wanted, 1e-3, 1e-5)
