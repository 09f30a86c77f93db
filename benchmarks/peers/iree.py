"""IREE: its ONNX importer, the LLVM CPU back end for this machine at the highest level with data tiling, the local task driver."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.peers import Job, Run, Unavailable, stored

FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
    "--iree-opt-data-tiling",
)
OLDEST = 17
"""Its importer wants at least this operator set."""


def load(job: Job) -> None:
    import iree.compiler.tools
    import iree.runtime

    iree.runtime.flags.parse_flags(f"--task_topology_group_count={job.threads}")


def compiled(job: Job) -> Path:
    """The compiled module, from the store if it was compiled before."""
    import iree.compiler.tools
    import onnx

    path = stored(job, "iree", version("iree-base-compiler"), ".vmfb")
    if path.exists():
        return path
    model = onnx.load(job.path)
    weights = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in weights:
            for dim, size in zip(value.type.tensor_type.shape.dim, job.inputs[value.name].shape, strict=True):
                dim.dim_value = size
    pinned, text = path.with_suffix(".onnx"), path.with_suffix(".mlir")
    onnx.save(model, str(pinned))
    command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", str(pinned), "-o", str(text)]
    if model.opset_import[0].version < OLDEST:
        command += ["--opset-version", str(OLDEST)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"IREE cannot import {job.model}: {done.stderr.strip()[-300:]}")
        iree.compiler.tools.compile_file(str(text), input_type="onnx", output_file=str(path), extra_args=list(FLAGS))
    except iree.compiler.tools.CompilerToolError as error:
        raise Unavailable(f"IREE cannot compile {job.model}: {str(error).strip()[:300]}") from error
    finally:
        pinned.unlink(missing_ok=True)
        text.unlink(missing_ok=True)
    return path


def prepare(job: Job) -> Run:
    import iree.runtime as runtime

    config = runtime.Config("local-task")
    module = runtime.VmModule.mmap(config.vm_instance, str(compiled(job)))
    context = runtime.SystemContext(config=config)
    context.add_vm_module(module)
    (name,) = [n for n in module.function_names if not n.startswith("__") and not n.endswith("$async")]
    function = context.modules[module.name][name]

    def run() -> list[np.ndarray]:
        results = function(*job.inputs.values())
        if not isinstance(results, (list, tuple)):
            results = [results]
        return [np.asarray(r.to_host()) for r in results]

    return run
