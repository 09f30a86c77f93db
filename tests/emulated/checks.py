"""What is checked on every processor that is emulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from benchmarks import models
from tests.codegen.llvm.every_float import FUNCTIONS, errors
from tests.emulated import machines
from tests.fuzz.onnx.case import Way
from tests.fuzz.onnx.graphs import attempt, draw
from tilewright import IRModule, relay
from tilewright.ir.transform import PassContext


def build(mod: IRModule, target: str, path: Path) -> Path:
    """A module as a library at `path`."""
    with PassContext(opt_level=3):
        relay.build(mod, target).export_library(path)
    return path


def check_random_model(name: str, seed: int, target: str) -> None:
    """A random model of one family, beside ONNX Runtime."""
    _, d = draw(seed, name)
    outcome = attempt(d, Way(opt_level=3, target=target))
    assert outcome.status != "failed", f"seed {seed}: {outcome.text}"


def check_model(name: str, target: str, folder: Path) -> None:
    """A benchmark model, beside ONNX Runtime."""
    model, inputs = models.make(name), models.inputs(name)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    want = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, inputs)
    mod, params = relay.frontend.from_onnx(model, shape=models.shapes(name))
    path = folder / machines.library_name(target)
    with PassContext(opt_level=3):
        relay.build(mod, target, params=params).export_library(path)
    got = machines.run(path, inputs, target)
    # A number that lies between two steps may be quantised to either.
    bound = 0.05 if name.endswith("_int8") else 1e-4
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert np.abs(one - other).max() <= bound * np.abs(other).max()


def check_vector_math(name: str, x: np.ndarray, target: str, folder: Path) -> None:
    """A function of single numbers at each of `x`, beside its exact values."""
    data = relay.var("x", shape=x.shape)
    path = build(
        IRModule.from_expr(relay.Function([data], getattr(relay, name)(data))),
        target,
        folder / machines.library_name(target),
    )
    (got,) = machines.run(path, {"x": x}, target)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name].exact(x.astype("float64"))
    assert errors(got, exact).max() <= FUNCTIONS[name].limit
