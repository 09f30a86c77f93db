"""Contestants of the latency benchmark: this compiler and its peers, each in a module of this folder.

A contestant's module has two functions: `load(job)` imports what it needs, and `prepare(job)` compiles the model and answers a
function that runs it once on the job's inputs and returns the outputs in order, as NumPy arrays. It runs in a worker process of its
own (`benchmarks/contests/worker.py`). What cannot be measured here raises `Unavailable` with the reason. To add one, write the module and a
line in PEERS.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import models

Run = Callable[[], list[np.ndarray]]
STORE = Path(os.environ.get("TILEWRIGHT_BENCH_STORE") or models.CACHE.parent / "peers")
"""Where peers without a cache of their own keep what they compiled."""


class Unavailable(Exception):
    """A contestant that cannot run here, or not this model; the message says why, and the remedy."""


class Job(NamedTuple):
    """What a contestant is to do."""

    model: str
    path: Path
    inputs: dict[str, np.ndarray]
    threads: int
    precision: str


def stored(job: Job, peer: str, version: str, ending: str) -> Path:
    """Where a peer keeps what it compiled for a job: apart for each version of it, number of threads, precision and shapes of inputs."""
    text = repr([(name, value.shape, value.dtype.name) for name, value in sorted(job.inputs.items())])
    key = f"{version}-{job.threads}t-{job.precision}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    path = STORE / peer / f"{job.model}-{key}{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


BEFORE = "TILEWRIGHT_BEFORE"
"""The environment variable that names a Python in which an earlier version of this compiler is installed."""


class Peer(NamedTuple):
    """A contestant: its module in this folder, the precision it computes in, what must be installed, whether it is this compiler, and
    the environment variable that names its Python where that is another one than this process's."""

    name: str
    module: str
    precision: str
    packages: tuple[str, ...]
    ours: bool = False
    python: str = ""

    def missing(self) -> str | None:
        """Why it cannot run in this environment, or None."""
        if self.python:
            return (
                None if self.executable() else f"{self.name} needs {self.python}=PYTHON, the Python of its environment"
            )
        gone = [p for p in self.packages if importlib.util.find_spec(p.split(".")[0]) is None]
        if gone:
            return f"{self.name} needs the Python package {gone[0]}: pip install 'tilewright[bench]'"
        return None

    def executable(self) -> str:
        """The Python that runs its worker; empty if it is not named."""
        return os.environ.get(self.python, "") if self.python else sys.executable


PEERS = {
    p.name: p
    for p in (
        Peer("tilewright", "tilewright", "float32", ("tilewright",), ours=True),
        Peer("tilewright_before", "tilewright", "float32", ("tilewright",), ours=True, python=BEFORE),
        Peer("tilewright_tuned", "tilewright_tuned", "float32", ("tilewright",), ours=True),
        Peer("tilewright_library", "tilewright_library", "float32", ("tilewright",), ours=True),
        Peer("tilewright_c", "tilewright_c", "float32", ("tilewright",), ours=True),
        Peer("tilewright_zig", "tilewright_zig", "float32", ("tilewright", "ziglang"), ours=True),
        Peer("onnxruntime", "onnxruntime", "float32", ("onnxruntime",)),
        Peer("openvino", "openvino", "float32", ("openvino",)),
        Peer("torch", "torch", "float32", ("torch",)),
        Peer("iree", "iree", "float32", ("iree",)),
        Peer("tvm", "tvm", "float32", ("tvm",)),
        Peer("tilewright_bf16", "tilewright", "bfloat16", ("tilewright",), ours=True),
        Peer("openvino_bf16", "openvino", "bfloat16", ("openvino",)),
    )
}
USUAL = ("tilewright", "onnxruntime", "openvino", "torch")
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1, "int8": 0.2}
"""Largest difference from the float32 reference, relative to the largest output, that is no error."""


def installed(names: Iterable[str]) -> list[str]:
    """Those of the contestants that can run in this environment; says which are left out, and why."""
    found = []
    for name in names:
        if gone := PEERS[name].missing():
            print(f"left out: {gone}", file=sys.stderr)
        else:
            found.append(name)
    return found


def relative_error(mine: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """Largest difference over all outputs, relative to the largest magnitude of each."""
    return max(
        float(np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-6)) if a.size else 0.0
        for a, b in zip(mine, theirs, strict=True)
    )
