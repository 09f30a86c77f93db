"""Compiled models against ONNX Runtime, at one thread and at two: small ones always, whole ones with `make test-slow`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest

import tilewright as tvm
from benchmarks import models
from tilewright import relay, runtime
from tilewright.contrib import graph_executor

QUICK = tuple(models.SMALL)
WHOLE = tuple(n for n in (*models.FULL, *models.LIGHT_NAMES, *models.RANDOM_NAMES, *models.PPOCR) if n not in QUICK)
RELATIVE = 1e-4
"""Largest difference, relative to the largest magnitude of an output."""


@pytest.fixture(autouse=True)
def all_threads() -> Iterator[None]:
    """Back to all threads after a test."""
    yield
    runtime.set_num_threads(None)


def expected(name: str, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """ONNX Runtime's outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(models.make(name)), options, providers=["CPUExecutionProvider"])
    return [np.asarray(o) for o in session.run(None, inputs)]


def check(name: str) -> None:
    """Outputs within the bound, at one thread and at two, twice each: a second run must not see the first one's leftovers."""
    inputs = models.inputs(name)
    wanted = expected(name, inputs)
    mod, params = relay.frontend.from_onnx(models.make(name), shape=models.shapes(name))
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm", params=params)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for key, value in inputs.items():
        executor.set_input(key, value)
    for count in (1, 2, 1, 2):
        runtime.set_num_threads(count)
        executor.run()
        for i, want in enumerate(wanted):
            got: Any = executor.get_output(i).numpy()
            assert got.shape == want.shape and got.dtype == want.dtype
            scale = max(float(np.abs(want.astype(np.float64)).max(initial=0)), 1e-6)
            worst = float(np.abs(got.astype(np.float64) - want).max(initial=0)) / scale
            assert worst <= RELATIVE, f"{name}, output {i}, {count} threads: relative difference {worst:.1e}"


@pytest.mark.parametrize("name", QUICK)
def test_small(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_whole(name: str) -> None:
    check(name)
