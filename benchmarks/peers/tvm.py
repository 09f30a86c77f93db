"""Apache TVM as it is released today (Relax), untuned: its ONNX importer and the default pipeline of its LLVM back end."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Job, Run, Unavailable, stored


def load(job: Job) -> None:
    import tvm.relax.frontend.onnx  # noqa: F401


def compiled(job: Job) -> Any:
    """The library, from the store if it was compiled before."""
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    path = stored(job, "tvm", f"{tvm.__version__}-{host()}", ".so")
    if not path.exists():
        try:
            mod = from_onnx(onnx.load(job.path), shape_dict={k: list(v.shape) for k, v in job.inputs.items()})
            target = tvm.target.Target({"kind": "llvm", "mcpu": host(), "num-cores": job.threads})
            with target:
                executable = tvm.compile(relax.get_pipeline("zero")(mod), target=target)
            executable.export_library(str(path))
        except Exception as error:  # whatever its importer or passes raise
            raise Unavailable(f"TVM cannot compile {job.model}: {type(error).__name__}: {str(error)[-300:]}") from error
    return tvm.runtime.load_module(str(path))


def host() -> str:
    import tvm

    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


def prepare(job: Job) -> Run:
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(compiled(job), tvm.cpu())
    given = [tvm.runtime.tensor(v) for v in job.inputs.values()]

    def run() -> list[np.ndarray]:
        result = machine["main"](*given)
        return [o.numpy() for o in ([result] if hasattr(result, "numpy") else result)]

    return run
