"""Projects for tests: a process of this machine, and lines to it that lose and change bytes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import tilewright as tvm
from tests.micro.boards import exp_plus_and_asks, network
from tilewright import micro, relay
from tilewright.micro.project_api.server import TransportTimeouts
from tilewright.micro.transport.base import Transport
from tilewright.micro.transport.subprocess import SubprocessTransport

QUICK = TransportTimeouts(0.05, 5.0, 10.0)


def host_project(kind: str, folder: Path, **options: Any) -> micro.GeneratedProject:
    """A project of a process, built. kind: "functions", or the executor of a model: "aot" or "graph"."""
    target = tvm.target.micro("host")
    if kind == "functions":
        module: Any = exp_plus_and_asks(target)
    else:
        mod, weights = network()
        runtime = relay.backend.Runtime("crt", {"system-lib": True})
        executor = relay.backend.Executor(kind)
        module = relay.build(mod, target, params=weights, mod_name="net", executor=executor, runtime=runtime)
    project = micro.generate_project(micro.get_microtvm_template_projects("crt"), module, folder, options)
    project.build()
    return project


class BadLine(Transport):
    """A line that loses, changes and repeats some of what goes over it, and adds more. rate: of what is damaged."""

    def __init__(self, program: Path, rate: float, seed: int) -> None:
        self.inner, self.rate, self.random = SubprocessTransport([program]), rate, random.Random(seed)
        self.damaged = 0

    def timeouts(self) -> TransportTimeouts:
        return QUICK

    def open(self) -> None:
        self.inner.open()

    def close(self) -> None:
        self.inner.close()

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        while True:
            data = self._harmed(self.inner.read(n, timeout_sec))
            if data:
                return data

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        harmed = self._harmed(data)
        if harmed:
            self.inner.write(harmed, timeout_sec)

    def _harmed(self, data: bytes) -> bytes:
        rng = self.random
        if rng.random() > self.rate or not data:
            return data
        self.damaged += 1
        at = rng.randrange(len(data))
        match rng.randrange(5):
            case 0:
                return data[:at] + data[at + rng.randrange(1, 9) :]
            case 1:
                return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
            case 2:
                return data[:at] + rng.randbytes(rng.randrange(1, 20)) + data[at:]
            case 3:
                return data + data
            case _:
                return b""
