"""Memory of the activations of whole models beside ONNX Runtime's arena.

    python -m benchmarks memory --models resnet50,bert_base [--json FILE]

Ours: the arena that the memory plan gives all activations, the most bytes that live in it at once, and the largest temporary storage
of a kernel (a thread's). ONNX Runtime's: the one block that its memory pattern asks for in runs whose shapes are known, which is its own
plan of the same tensors, and all that its arena holds after three runs, initialisers left out. Both are read from what it logs as it
allocates, in a process of its own. The ratio is our arena by its planned block: at most 1 is promised for resnet50 and bert_base.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import models
from benchmarks.options import takes_json, write_json

DEFAULT = ("resnet50", "bert_base")
CHILD = """
import sys
import onnxruntime
from benchmarks import models
name = sys.argv[1]
onnxruntime.set_default_logger_severity(0)
options = onnxruntime.SessionOptions()
options.log_severity_level = 0
options.intra_op_num_threads = 1
# Weights outside of the arena, as ours are.
options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
session = onnxruntime.InferenceSession(str(models.make(name)), options, providers=["CPUExecutionProvider"])
shrink = onnxruntime.RunOptions()
shrink.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
for run_options in (None, None, None, shrink, None):
    print("== run", file=sys.stderr, flush=True)
    session.run(None, models.inputs(name), run_options)
"""


def ours(name: str) -> dict[str, int]:
    """Bytes of the planned arena, of the peak in it, and of the largest temporary storage of a kernel."""
    import tilewright as tvm
    from tilewright import relay
    from tilewright.node import deep_recursion
    from tilewright.relay.backend.kernels.machine_code import lowered, scheduled
    from tilewright.relay.backend.planning.memory_report import memory_report
    from tilewright.relay.backend.planning.plan import make_plan
    from tilewright.relay.backend.te_compiler import TECompiler
    from tilewright.tir.analysis import calculate_workspace_bytes

    mod, params = relay.frontend.from_onnx(models.make(name), shape=models.shapes(name))
    target = tvm.target.Target("llvm")
    with target, tvm.transform.PassContext(opt_level=3), deep_recursion():
        optimized, _ = relay.optimize(mod, target, params)
        compiler = TECompiler(target)
        report = memory_report(make_plan(optimized, compiler))
        functions = [
            f
            for k in compiler.kernels.values()
            for f in lowered(scheduled(k.func, target, k.plan), target).functions.values()
        ]
        scratch = max([calculate_workspace_bytes(f) for f in functions], default=0)
    return {"arena": report.arena_bytes, "peak": report.peak_bytes, "scratch": scratch}


def onnxruntime_arena(name: str) -> dict[str, int | None]:
    """Bytes of the block that ONNX Runtime plans for a run, and of all that its arena holds for activations."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, name],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return read_arena(done.stderr)


def read_arena(log: str) -> dict[str, int | None]:
    """The arena's figures from its log. The first run teaches the memory pattern; after three the arena is what it stays. The
    fourth empties it at its end, so that the fifth has to ask for the pattern's block; None where the block fits into the arena's
    first region, which stays."""
    *runs, last = log.split("== run")[1:]
    grown = [int(n) for run in runs[:3] for n in re.findall(r"Extended allocation by (\d+) bytes", run)]
    asked = [int(n) for n in re.findall(r"Extending BFCArena for Cpu\..*?num_bytes: (\d+)", last)]
    if not grown:
        raise RuntimeError("ONNX Runtime logged no allocations of its arena; is its log of another form?")
    return {"planned": max(asked, default=None), "arena": sum(grown)}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks memory", description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(DEFAULT), help=f"of {', '.join(models.ALL)}")
    takes_json(parser)
    options = parser.parse_args(arguments)
    table = Table(title="bytes of activations")
    for column in ("model", "arena", "peak", "kernel scratch", "ONNX Runtime plans", "its arena holds", "ratio"):
        table.add_column(column, justify="left" if column == "model" else "right")
    rows: list[dict[str, Any]] = []
    for name in options.models.split(","):
        mine, theirs = ours(name), onnxruntime_arena(name)
        planned = theirs["planned"]
        ratio = None if planned is None else mine["arena"] / planned
        rows.append({"model": name, "tilewright": mine, "onnxruntime": theirs, "ratio": ratio})
        figures = [mine["arena"], mine["peak"], mine["scratch"], planned, theirs["arena"]]
        cells = ["not told" if n is None else f"{n:,}" for n in figures]
        table.add_row(name, *cells, "" if ratio is None else f"{ratio:.2f}")
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    write_json(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
