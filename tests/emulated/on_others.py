"""What is compiled for RISC-V (scalars, and vectors of RVV 1.0 on registers of 256 bits) and 32-bit ARM (NEON, floats passed in
registers), run under QEMU. `make test-machines`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from benchmarks import models
from tests.codegen.every_float import FUNCTIONS, errors
from tests.emulated import machines
from tests.fuzz.onnx_case import Way
from tests.fuzz.onnx_graphs import attempt, draw
from tests.fuzz.onnx_ops import generators
from tilewright import IRModule, relay
from tilewright.ir.transform import PassContext

MODELS = ("resnet_small", "mobilenet_small", "bert_small", "resnet_small_int8", "light_squeezenet_random")

on_each = pytest.mark.parametrize("machine", machines.OTHERS)


@on_each
@pytest.mark.parametrize("name", sorted(generators))
def test_random_models(name: str, machine: str) -> None:
    _, d = draw(2000, name)
    outcome = attempt(d, Way(opt_level=3, target=machines.OTHERS[machine]))
    assert outcome.status != "failed", outcome.text


@on_each
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, machine: str, tmp_path: Path) -> None:
    path, inputs = models.make(name), models.inputs(name)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, inputs)
    mod, params = relay.frontend.from_onnx(path, shape=models.shapes(name))
    with PassContext(opt_level=3):
        relay.build(mod, machines.OTHERS[machine], params=params).export_library(tmp_path / "m.so")
    got = machines.run(tmp_path / "m.so", inputs, machines.OTHERS[machine])
    # A number that lies between two steps may be quantised to either.
    bound = 0.05 if name.endswith("_int8") else 1e-4
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert np.abs(one - other).max() <= bound * np.abs(other).max()


@on_each
@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
def test_vector_math(name: str, machine: str, tmp_path: Path) -> None:
    """Normal numbers and infinities: 32-bit ARM's vectors take denormals for zeros."""
    rng = np.random.default_rng(7)
    x = np.concatenate([np.array([0, np.inf, -np.inf, np.nan], "float32"), rng.normal(0, 4, 5001).astype("float32")])
    data = relay.var("x", shape=x.shape)
    mod = IRModule.from_expr(relay.Function([data], getattr(relay, name)(data)))
    with PassContext(opt_level=3):
        relay.build(mod, machines.OTHERS[machine]).export_library(tmp_path / "f.so")
    (got,) = machines.run(tmp_path / "f.so", {"x": x}, machines.OTHERS[machine])
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name].exact(x.astype("float64"))
    assert errors(got, exact).max() <= FUNCTIONS[name].limit
