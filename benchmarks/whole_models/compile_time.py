"""Time and memory from an .onnx file to the first result, cold and from the cache, by phase, each run in a fresh process.

    python -m benchmarks compile_time --models resnet50,bert_base --json out.json

Seconds of phases are CPU seconds of the thread that did the work, so that a busy machine does not count; totals are given
as elapsed and as CPU seconds of the whole process, interpreter and imports included. Constants are clocked by elapsed time,
since several threads lay them out. LLVM and the laying out of constants
run beside the rest, so phases may add up to more than the elapsed time. Memory is the peak resident set. A second table has the elapsed
seconds of processes that only import.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks import models
from benchmarks.contests.resident import resident
from benchmarks.options import takes_json, write_json

DEFAULT_MODELS = (*models.BENCHMARKED, "light_shufflenet_random")
PHASES = ("import", "passes", "plan", "schedule", "lower", "emit", "llvm", "constants", "load", "run")
PYCACHE = models.CACHE.parent / "pycache"
BUDGET = (6, 500)
"""Peak memory allowed: so many times the file, and so many MB."""
IMPORTS = {
    "nothing": "",
    "numpy": "import numpy",
    "tilewright": "import tilewright",
    "tilewright.runtime": "import tilewright.runtime",
    "tilewright.relay": "import tilewright.relay",
    "tilewright, all that compiles": "from tilewright.relay.backend.compilation import compile_model",
}
ROUNDS = 5


class Phases:
    """CPU seconds by phase, and calls, of functions that are replaced by clocked ones."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.calls = dict.fromkeys(PHASES, 0)
        self._lock = threading.Lock()

    def clocked(
        self, phase: str, function: Callable[..., Any], clock: Callable[[], float] = time.thread_time
    ) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            start = clock()
            try:
                return function(*args, **kwargs)
            finally:
                with self._lock:
                    self.seconds[phase] += clock() - start
                    self.calls[phase] += 1

        return run

    def install(self) -> None:
        """Clock the compiler's own functions, where they are looked up."""
        from tilewright.codegen.llvm import backend as llvm
        from tilewright.relay.backend import compilation
        from tilewright.relay.backend.kernels import machine_code
        from tilewright.relay.backend.planning.constants import ConstantPool

        compilation.optimize = self.clocked("passes", compilation.optimize)
        compilation.make_plan = self.clocked("plan", compilation.make_plan)
        machine_code.scheduled = self.clocked("schedule", machine_code.scheduled)
        machine_code.lowered = self.clocked("lower", machine_code.lowered)
        llvm.emit_module = self.clocked("emit", llvm.emit_module)
        machine_code.compile_code = self.clocked("llvm", machine_code.compile_code)
        ConstantPool.blob = self.clocked("constants", ConstantPool.blob, time.perf_counter)  # type: ignore[method-assign]


def worker(model: str) -> dict[str, Any]:
    """One model from its file to the first result, in this process."""
    import tilewright as tvm
    from tilewright import relay
    from tilewright.contrib import graph_executor

    path, inputs = models.make(model), models.inputs(model)
    shapes = {name: value.shape for name, value in inputs.items()}
    phases = Phases()
    phases.install()

    def load(library: Any) -> Any:
        return graph_executor.GraphModule(library["default"](tvm.cpu()))

    def run(executor: Any) -> Any:
        for name, value in inputs.items():
            executor.set_input(name, value)
        executor.run()
        return executor.get_output(0).numpy()

    mod, params = phases.clocked("import", relay.frontend.from_onnx)(path, shape=shapes)
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm", params=params)
    phases.clocked("run", run)(phases.clocked("load", load)(library))
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "phases": phases.seconds,
        "compilations": phases.calls["llvm"],
        "kernels": len({k["name"] for k in library.metadata["kernels"]}),
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": resident("VmHWM"),
    }


def in_fresh_process(model: str, cache: str) -> dict[str, Any]:
    """`worker` in a process of its own; adds the elapsed seconds, start of the interpreter included."""
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": str(PYCACHE)}
    # Compiled modules are kept, as they are where the package is installed.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "benchmarks", "compile_time", "--worker", "--models", model]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return {**result, "total_s": seconds}


def import_seconds(statement: str) -> float:
    """The median elapsed time of a fresh process that runs a statement, its start and end included."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(PYCACHE)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], env=environment, check=True)
        seconds.append(time.perf_counter() - start)
    # The first compiled the modules.
    return statistics.median(seconds[1:])


def measure(model: str) -> dict[str, Any]:
    """Cold (empty cache) and warm (the same cache again)."""
    size = models.make(model).stat().st_size / 1e6
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = in_fresh_process(model, cache), in_fresh_process(model, cache)
    return {"model": model, "file_mb": size, "cold": cold, "warm": warm, "memory_ratio": cold["peak_mb"] / size}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compile_time", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(DEFAULT_MODELS))
    takes_json(parser)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    names = options.models.split(",")
    if options.worker:
        print(json.dumps(worker(names[0])))
        return 0
    for name in names:
        models.make(name)
    with tempfile.TemporaryDirectory() as cache:
        in_fresh_process("resnet_small", cache)  # compiles the modules
    results = [measure(name) for name in names]
    imports = {name: import_seconds(statement) for name, statement in IMPORTS.items()}
    show(results, imports)
    write_json(options, {"models": results, "imports": imports})
    over = [r["model"] for r in results if r["cold"]["peak_mb"] > BUDGET[0] * r["file_mb"] + BUDGET[1]]
    missed = [r["model"] for r in results if r["warm"]["compilations"]]
    return int(bool(over or missed))


def show(results: list[dict[str, Any]], imports: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="from .onnx to the first result: seconds (phases: CPU seconds of the cold run), peak memory in MB"
    )
    for column in ("model", "kernels", *PHASES, "cold", "cold CPU", "warm", "warm CPU", "peak", "file"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for r in results:
        cold, warm = r["cold"], r["warm"]
        totals = [cold["total_s"], cold["cpu_s"], warm["total_s"], warm["cpu_s"]]
        table.add_row(
            r["model"],
            str(cold["kernels"]),
            *[f"{cold['phases'][p]:.2f}" for p in PHASES],
            *[f"{s:.2f}" for s in totals],
            f"{cold['peak_mb']:.0f}",
            f"{r['file_mb']:.0f}",
        )
    Console(width=180).print(table)
    table = Table("what is imported", "seconds", title="processes that only import: seconds elapsed")
    for name, seconds in imports.items():
        table.add_row(name, f"{seconds:.3f}")
    Console(width=180).print(table)
