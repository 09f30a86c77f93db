"""torch.compile with freezing: Inductor's C++ code and the libraries that it calls, weights folded in and laid out ahead.

Models that PyTorch made are compiled from their own modules, others from the ONNX file, node by node (`onnx_torch`).
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from benchmarks import models
from benchmarks.peers import STORE, Job, Run, Unavailable


def load(job: Job) -> None:
    compiler = os.environ.get("CXX") or "g++"
    if shutil.which(compiler) is None and shutil.which("clang++") is None:
        raise Unavailable(
            f"torch.compile makes C++ and needs a C++ compiler; {compiler!r} is not on the PATH. Install one (g++ or clang++), "
            "name it in CXX, or leave torch out of --peers"
        )
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(STORE / "inductor"))
    import torch

    torch.set_num_threads(job.threads)
    torch.set_num_interop_threads(1)


def prepare(job: Job) -> Run:
    import torch
    import torch._inductor.config as inductor

    inductor.freezing = True
    net: Any
    if models.has_torch(job.model):
        net, _, names = models.torch_module(job.model)
    else:
        from benchmarks.peers.onnx_torch import as_module

        net, names = as_module(job.path, job.inputs)
    compiled = torch.compile(net.eval())
    given = [torch.from_numpy(job.inputs[name]) for name in names]

    def run() -> list[Any]:
        with torch.no_grad():
            return [o.numpy() for o in compiled(*given)]

    run()
    return run
