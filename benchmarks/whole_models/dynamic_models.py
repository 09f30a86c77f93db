"""Models with dynamic dimensions beside builds that are pinned to a size: one dynamic build for all sizes, interleaved in one process.

    python -m benchmarks dynamic_models --models resnet50,bert_base --threads 1

The dynamic build runs in the virtual machine, pinned ones ahead of time. Both get the same inputs, and their results are compared.
Each (model, threads) pair runs in a process of its own. Beside the ratio of latencies stands that of processor time, which a machine
that is busy with other things blurs less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.options import takes_json, thread_counts, write_json
from benchmarks.peers import relative_error

SIZES: dict[str, tuple[tuple[int, ...], ...]] = {
    "resnet": ((1,), (4,), (8,)),
    "mobilenet": ((1,), (4,), (8,)),
    "vit": ((1,), (2,), (4,)),
    "gpt2": ((1, 32), (1, 128), (2, 100)),
    "gpt2_small": ((1, 5), (1, 16), (4, 25)),
    "bert": ((1, 32), (1, 128), (4, 100)),
    "bert_small": ((1, 5), (1, 16), (4, 25)),
}
"""(batch,) or (batch, tokens) by the beginning of a model's name, the longest that fits."""
LIMIT = 1.25
"""The most that dynamic dimensions may cost."""

Run = Callable[[], None]


def sizes_of(model: str) -> tuple[tuple[int, ...], ...]:
    """The sizes at which a model is measured."""
    fitting = [prefix for prefix in SIZES if model.startswith(prefix)]
    return SIZES[max(fitting, key=len)]


def dynamic_runner(machine: Any, inputs: dict[str, np.ndarray[Any, Any]]) -> tuple[Run, Callable[[], list[Any]]]:
    """Runs a dynamic build on the inputs; the second function answers the results of the last run."""
    import tilewright as tvm

    given = {name: tvm.nd.array(value) for name, value in inputs.items()}

    def run() -> None:
        machine.set_input("main", **given)
        machine.invoke_stateful("main")

    return run, lambda: [o.numpy() for o in machine.get_outputs()]


def pinned_runner(path: Path, inputs: dict[str, np.ndarray[Any, Any]]) -> tuple[Run, Callable[[], list[Any]], float]:
    """Builds the model for the inputs' shapes alone. Runs it, answers its results, and how many seconds the build took."""
    import tilewright as tvm
    from tilewright import relay
    from tilewright.contrib import graph_executor

    start = time.perf_counter()
    mod, params = relay.frontend.from_onnx(path, shape={k: v.shape for k, v in inputs.items()})
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm", params=params)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    seconds = time.perf_counter() - start
    for name, value in inputs.items():
        executor.set_input(name, value)
    return (
        executor.run,
        lambda: [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())],
        seconds,
    )


def measure(model: str, seconds: float) -> dict[str, Any]:
    """Medians in milliseconds of the dynamic and the pinned build at each size, runs taken in turn, and their differences."""
    import tilewright as tvm
    from tilewright import relay
    from tilewright.relay.backend import vm
    from tilewright.runtime.vm import VirtualMachine

    path = models.make(f"{model}_dynamic")
    start = time.perf_counter()
    mod, params = relay.frontend.from_onnx(path)
    with tvm.transform.PassContext(opt_level=3):
        machine = VirtualMachine(vm.compile(mod, "llvm", params=params))
    result: dict[str, Any] = {"model": model, "compile_s": time.perf_counter() - start, "sizes": []}
    for size in sizes_of(model):
        inputs = models.sized_inputs(model, *size)
        run_dynamic, answers = dynamic_runner(machine, inputs)
        run_pinned, expected, compile_s = pinned_runner(path, inputs)
        run_dynamic()
        run_pinned()
        difference = relative_error(answers(), expected())
        times: tuple[list[float], list[float]] = ([], [])
        work: tuple[list[float], list[float]] = ([], [])
        stop = time.perf_counter() + seconds
        while time.perf_counter() < stop or len(times[0]) < 7:
            for run, taken, used in zip((run_dynamic, run_pinned), times, work, strict=True):
                run()
                begin, before = time.perf_counter(), time.process_time()
                run()
                taken.append((time.perf_counter() - begin) * 1e3)
                used.append(time.process_time() - before)
        ratios = np.array(times[0]) / np.array(times[1])
        result["sizes"].append(
            {
                "size": size,
                "dynamic_ms": float(np.median(times[0])),
                "pinned_ms": float(np.median(times[1])),
                "ratio": float(np.median(ratios)),
                "processor_ratio": float(np.median(work[0]) / max(float(np.median(work[1])), 1e-9)),
                "runs": len(ratios),
                "relative_error": difference,
                "pinned_compile_s": compile_s,
            }
        )
    return result


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks dynamic_models", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="resnet50,bert_base")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--seconds", type=float, default=8.0, help="measuring time for each size")
    takes_json(parser)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    names = options.models.split(",")
    if options.worker:
        print(json.dumps(measure(names[0], options.seconds)))
        return 0
    unknown = [n for n in names if f"{n}_dynamic" not in models.DYNAMIC_NAMES]
    if unknown:
        known = ", ".join(n.removesuffix("_dynamic") for n in models.DYNAMIC_NAMES)
        parser.error(f"there is no model {unknown[0]!r} with dynamic dimensions; there are {known}")
    threads = thread_counts(parser, options.threads)
    results = [run_worker(n, str(t), options.seconds) for n in names for t in threads]
    show(results)
    write_json(options, results)
    return int(any("error" in r or any(s["ratio"] > LIMIT for s in r["sizes"]) for r in results))


def run_worker(name: str, threads: str, seconds: float) -> dict[str, Any]:
    """One model in a process of its own."""
    models.make(f"{name}_dynamic")
    print(f"{name}, {threads} threads", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks", "dynamic_models", "--worker", "--models", name]
    environment = {**os.environ, "TVM_NUM_THREADS": threads}
    done = subprocess.run(
        [*command, "--seconds", str(seconds)], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        return {
            "model": name,
            "threads": threads,
            "error": (done.stderr.strip().splitlines() or ["no output"])[-1],
        }
    return {"threads": threads, **json.loads(done.stdout.strip().splitlines()[-1])}


def show(results: list[dict[str, Any]]) -> None:
    """A line for each size."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="one build with dynamic dimensions beside builds pinned to a size: medians in ms, interleaved")
    for column in (
        "model",
        "threads",
        "size",
        "dynamic",
        "pinned",
        "ratio",
        "processor",
        "difference",
        "compile s (dynamic, pinned)",
    ):
        table.add_column(column, justify="left" if column == "model" else "right")
    for r in results:
        if "error" in r:
            table.add_row(r["model"], r["threads"], f"[red]{r['error'][:80]}")
            continue
        for s in r["sizes"]:
            color = "red" if s["ratio"] > LIMIT else "green"
            table.add_row(
                r["model"],
                r["threads"],
                " x ".join(map(str, s["size"])),
                f"{s['dynamic_ms']:.2f}",
                f"{s['pinned_ms']:.2f}",
                f"[{color}]{s['ratio']:.2f}",
                f"{s['processor_ratio']:.2f}",
                f"{s['relative_error']:.1e}",
                f"{r['compile_s']:.1f}, {s['pinned_compile_s']:.1f}",
            )
    Console(width=None if sys.stdout.isatty() else 140).print(table)
