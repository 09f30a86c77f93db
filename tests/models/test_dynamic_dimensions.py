"""Models exported with dynamic dimensions, compiled once and run at several, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import tilewright as tvm
from benchmarks import models
from benchmarks.whole_models import dynamic_models
from tests.slow import all_but
from tilewright import relay
from tilewright.runtime.vm import VirtualMachine


@pytest.mark.parametrize("name", all_but(["bert_small"], models.SMALL))
def test_one_build_for_all_sizes(name: str) -> None:
    path = models.make(f"{name}_dynamic")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    reference = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    mod, params = relay.frontend.from_onnx(path)
    with tvm.transform.PassContext(opt_level=3):
        machine = VirtualMachine(relay.vm.compile(mod, target="llvm", params=params))
    for size in dynamic_models.sizes_of(name):
        inputs = models.sized_inputs(name, *size)
        run, answers = dynamic_models.dynamic_runner(machine, inputs)
        run()
        for mine, theirs in zip(answers(), reference.run(None, inputs), strict=True):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(theirs).max())))
