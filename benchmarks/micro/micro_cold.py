"""From the file of a TFLite model to its first result on an emulated Cortex-M7, in a process of its own: with empty caches, and again.

Each process begins with Python and ends with the result, which is LiteRT's. Seconds that passed, and that processors worked for it, with
the compiler, the linker and the emulator; on a machine with other work only the latter mean something. With empty caches the
compiler of C has nothing either. Needs `pip install ai-edge-litert ziglang`, and QEMU as `make build/qemu-system/.done` unpacks it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.micro.micro_networks import NETWORKS
from benchmarks.micro.micro_sessions import with_qemu
from benchmarks.options import write_json

BOARD = "mps2_an500"
CACHES = ("TILEWRIGHT_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
PROGRAM = """
import sys, time
begun = time.perf_counter()
import numpy as np
from tilewright import micro, relay
from tilewright.micro.board import board
from tilewright.relay.backend import Executor, Runtime
path, name, given = sys.argv[1:]
model, x, marks = open(path, "rb").read(), np.load(given), [time.perf_counter()]
mod, params = relay.frontend.from_tflite(model)
marks.append(time.perf_counter())
lib = relay.build(mod, board(name).target("llvm"), params=params, executor=Executor("aot"), runtime=Runtime("crt"))
marks.append(time.perf_counter())
with micro.Session(name) as session:
    marks.append(time.perf_counter())
    executor = micro.MicroExecutor(micro.create_micro_mod(lib, session))
    marks.append(time.perf_counter())
    executor.set_input(0, x)
    executor.run()
    y = executor.get_output(0).numpy()
    marks.append(time.perf_counter())
import json
print(json.dumps({"stages": [b - a for a, b in zip([begun, *marks], marks)], "result": y.reshape(-1).tolist()}))
"""
STAGES = ("import Python", "read the model", "compile", "open the session", "load", "run")


def round_of(model: Path, given: Path, caches: Path) -> dict[str, Any]:
    """Seconds and processor seconds of one process, its stages and its result. caches: a folder."""
    folders = {name: str(caches / name.lower()) for name in CACHES}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, model, BOARD, given], env={**os.environ, **folders}, capture_output=True, text=True, check=False
    )  # fmt: skip
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{model.name}: {done.stderr[-4000:]}")
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "processor": worked, **json.loads(done.stdout)}


def measured(name: str) -> dict[str, Any]:
    """The figures of a network: with empty caches, and with what the first process left."""
    from benchmarks.micro.tiny_networks import NETWORKS as MADE
    from tests.frontend.tflite.ops.writer import litert

    net = MADE[name]()
    model, sample = net.model(), net.sample()
    wanted = litert(model, [sample])[0].reshape(-1).tolist()
    with tempfile.TemporaryDirectory() as folder:
        path, given = Path(folder) / f"{name}.tflite", Path(folder) / "input.npy"
        path.write_bytes(model)
        np.save(given, sample)
        found = {kind: round_of(path, given, Path(folder)) for kind in ("cold", "again")}
    equal = all([row.pop("result") == wanted for row in found.values()])
    return {"network": name, "equal": equal, **found}


def main(argv: list[str] | None = None) -> int:
    """Prints two rows for each network. Status 1 if a result is not LiteRT's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks micro_cold", description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="which ones")
    options = with_qemu(parser, argv)
    print(f"{'network':<12}{'caches':<8}{'seconds':>9}{'processor':>11}  {'; '.join(STAGES)}")
    rows = []
    for name in options.networks:
        row = measured(name)
        rows.append(row)
        for kind in ("cold", "again"):
            found = row[kind]
            stages = "; ".join([f"{s:.2f}" for s in found["stages"]])
            print(f"{name:<12}{kind:<8}{found['seconds']:>9.2f}{found['processor']:>11.2f}  {stages}")
        if not row["equal"]:
            print("  DIFFERENT from LiteRT's result")
    write_json(options, {"networks": rows})
    return 0 if all([row["equal"] for row in rows]) else 1
