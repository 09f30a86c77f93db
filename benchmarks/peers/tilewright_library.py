"""This compiler as it is deployed: a library written by another process, run by the runtime alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from benchmarks.contests.contest import ROOT
from benchmarks.peers import STORE, Job, Run, Unavailable

EXPORT = """
import sys
import tilewright as tvm
from tilewright import relay
from benchmarks import models
name, path, precision = sys.argv[1:]
mod, params = relay.frontend.from_onnx(models.make(name), shape=models.shapes(name))
mod = relay.transform.FakeQuantizationToInteger()(mod)
with tvm.transform.PassContext(opt_level=3, config={"relay.build.precision": precision}):
    relay.build(mod, target="llvm", params=params).export_library(path)
"""


def load(job: Job) -> None:
    from tilewright.contrib import graph_executor  # noqa: F401


def prepare(job: Job) -> Run:
    import tilewright as tvm
    from tilewright.contrib import graph_executor

    path = STORE / "tilewright" / f"{job.model}-{job.precision}.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", EXPORT, job.model, str(path), job.precision]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"the library of {job.model} was not written: {done.stderr.strip()[-300:]}")
    executor = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    for name, value in job.inputs.items():
        executor.set_input(name, value)
    count = executor.get_num_outputs()

    def run() -> list[np.ndarray]:
        executor.run()
        return [executor.get_output(i).numpy() for i in range(count)]

    return run
