"""This compiler as a contestant: imported, built and run in one process, as its users do."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.peers import Job, Run


def load(job: Job) -> None:
    import tilewright.contrib.graph_executor
    import tilewright.relay  # noqa: F401


def prepare(job: Job, target: str = "llvm", records: Path | None = None) -> Run:
    """records: of tuning, whose fastest kernels are used."""
    import tilewright as tvm
    from tilewright import relay
    from tilewright.contrib import graph_executor

    mod, params = relay.frontend.from_onnx(job.path, shape={k: v.shape for k, v in job.inputs.items()})
    mod = relay.transform.FakeQuantizationToInteger()(mod)
    options = {"relay.build.precision": job.precision} | ({"relay.plans": str(records)} if records else {})
    with tvm.transform.PassContext(opt_level=3, config=options):
        library = relay.build(mod, target=target, params=params)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    del mod, params, library
    for name, value in job.inputs.items():
        executor.set_input(name, value)
    count = executor.get_num_outputs()

    def run() -> list[np.ndarray]:
        executor.run()
        return [executor.get_output(i).numpy() for i in range(count)]

    return run
