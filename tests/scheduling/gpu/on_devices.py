"""Models on a device beside the CPU: `make test-opencl` on pocl, `make test-gpu` on a GPU of NVIDIA. DEVICE_TARGET names the target."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.testing import mobilenet, resnet

TARGET = os.environ["DEVICE_TARGET"]
DEV = tvm.device(TARGET.split()[0])
SHAPE = (3, 64, 64)
MODELS: dict[str, Any] = {
    "resnet18": lambda: resnet.get_workload(batch_size=1, num_classes=10, num_layers=18, image_shape=SHAPE),
    "mobilenet": lambda: mobilenet.get_workload(batch_size=1, num_classes=10, image_shape=SHAPE),
}


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
