"""Percent of the multiply-add peak that auto_scheduler finds for products of matrices, beside NumPy and torch.

    python -m benchmarks auto_scheduler_gemm --sizes 512,1024 --threads 1,2 --trials 64

A workload is the plain compute of a float32 product, alone or with a bias and a rectifier; nothing of a schedule is given. In the forms
"free" the layout of the right matrix is free, as in the classic tutorial, so that a program copies it before it multiplies. The fastest
program that is measured within the trials is built. Bursts of its calls alternate with bursts of multiply-adds in registers, on as many
threads, and with those of NumPy and torch. Percentages are of the fastest bursts, and on one thread by its processor time: on a loaded
machine the others measure its other work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import names, new_file, numbers, takes_json, thread_counts, write_json

FORMS = ("plain", "bias_relu", "free", "free_bias_relu")
POOLS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CHILD = "AUTO_SCHEDULER_GEMM_THREADS"
"""Variables: of the sizes of pools of threads; set in the process that measures."""
ROUNDS = 60
"""Bursts of each contestant."""
BURST = 2e-3
"""Seconds of a burst, at least: shorter than the time that a system lets another process run."""


def workload(size: int, form: str) -> list[Any]:
    """A product of square matrices: its inputs and its output."""
    from tilewright import te

    a, b = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")
    attrs = {"layout_free_placeholders": [b]} if form.startswith("free") else {}
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C", attrs=attrs)
    if not form.endswith("bias_relu"):
        return [a, b, c]
    bias = te.placeholder((size,), name="bias")
    biased = te.compute(c.shape, lambda i, j: c[i, j] + bias[j], name="biased")
    return [a, b, bias, te.compute(c.shape, lambda i, j: te.max(biased[i, j], 0.0), name="relu")]


def tuned(size: int, form: str, threads: int, trials: int, seed: int, log: Path) -> tuple[Any, float]:
    """The fastest program that is found, built, and the seconds that the search took."""
    import tilewright as tvm
    from tilewright import auto_scheduler
    from tilewright.auto_scheduler.search_task import default_model

    auto_scheduler.register_workload("benchmarks.product", workload, override=True)
    target = tvm.target.Target(f"llvm -num-cores={threads}")
    task = auto_scheduler.SearchTask(func="benchmarks.product", args=(size, form), target=target)
    builder, runner = auto_scheduler.LocalBuilder(timeout=60), auto_scheduler.LocalRunner(min_repeat_ms=5, repeat=5)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=trials, num_measures_per_round=16, verbose=0, builder=builder, runner=runner,
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
    )  # fmt: skip
    begun = time.monotonic()
    try:
        task.tune(options, auto_scheduler.SketchPolicy(task, default_model(), seed=seed, verbose=0))
    finally:
        builder.close()
        runner.close()
    seconds = time.monotonic() - begun
    schedule, args = task.apply_best(log)
    return tvm.build(schedule, args, target), seconds


def calls_of(module: Any, size: int, form: str) -> dict[str, Callable[[], Any]]:
    """The call of the program that was found, and those of the peers, on the same arrays. Raises AssertionError for a wrong result."""
    import torch

    import tilewright as tvm

    random = np.random.default_rng(1)
    a, b = [random.standard_normal((size, size)).astype("float32") for _ in range(2)]
    bias, fused = random.standard_normal(size).astype("float32"), form.endswith("bias_relu")
    given = [tvm.nd.array(x) for x in ([a, b, bias] if fused else [a, b])]
    result, place = tvm.nd.array(np.zeros((size, size), "float32")), np.zeros((size, size), "float32")
    entry = module.get_function(module.entry_name) if hasattr(module, "entry_name") else module

    def numpy() -> None:
        np.matmul(a, b, out=place)
        if fused:
            np.maximum(np.add(place, bias, out=place), 0, out=place)

    ta, tb, tbias, tplace = [torch.from_numpy(x) for x in (a, b, bias, np.zeros_like(place))]

    def by_torch() -> None:
        if fused:
            torch.relu_(torch.addmm(tbias, ta, tb, out=tplace))
        else:
            torch.mm(ta, tb, out=tplace)

    calls: dict[str, Callable[[], Any]] = {
        "tilewright": lambda: entry(*given, result),
        "numpy": numpy,
        "torch": by_torch,
    }
    for call in calls.values():
        call()
    np.testing.assert_allclose(result.numpy(), place, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(tplace.numpy(), place, rtol=1e-3, atol=1e-3)
    return calls


def shares(calls: dict[str, Callable[[], Any]], flops: float, peak: Any) -> dict[str, float]:
    """The share of the peak that each call reaches, by the fastest bursts of each. peak: see tilewright.cli.peak."""
    clock, counts = time.thread_time if peak.threads == 1 else time.perf_counter, {}
    for name, call in calls.items():
        counts[name] = max(1, round(BURST / min([_seconds(call, 1, clock) for _ in range(5)])))
    least = {name: float("inf") for name in calls}
    for _ in range(ROUNDS):
        peak.sample()
        for name, call in calls.items():
            call()
            least[name] = min(least[name], _seconds(call, counts[name], clock))
    return {name: flops * counts[name] / least[name] / peak.rate for name in calls}


def _seconds(call: Callable[[], Any], count: int, clock: Callable[[], float]) -> float:
    begun = clock()
    for _ in range(count):
        call()
    return clock() - begun


def measured(options: argparse.Namespace, threads: int, folder: Path) -> list[dict[str, Any]]:
    """The cases of one number of threads, which this process was started with."""
    import torch

    from tilewright.cli.peak import Peak

    torch.set_num_threads(threads)
    peak, results = Peak(threads), []
    with torch.inference_mode():
        for size in options.sizes:
            for form in options.forms:
                for seed in range(options.seeds):
                    log = folder / f"{size}-{form}-{threads}-{seed}.json"
                    module, seconds = tuned(size, form, threads, options.trials, seed, log)
                    found = shares(calls_of(module, size, form), 2.0 * size**3, peak)
                    results.append(
                        {
                            "size": size,
                            "form": form,
                            "threads": threads,
                            "seed": seed,
                            "of_peak": found,
                            "seconds": seconds,
                        }
                    )
                    of_peak = " ".join([f"{100 * found[name]:10.1f}" for name in found])
                    print(f"{size:5} {form:15} {threads:7} {seed:4} {of_peak} {seconds:8.0f}", flush=True)
    return results


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks auto_scheduler_gemm", description=__doc__)
    parser.add_argument("--sizes", default="512,1024", help="rows of the square matrices")
    parser.add_argument("--forms", default="plain,bias_relu", help=f"of {', '.join(FORMS)}")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--trials", type=int, default=64, help="measurements of each case (default: 64)")
    parser.add_argument("--seeds", type=int, default=1, help="searches of each case (default: 1)")
    parser.add_argument("--logs", type=new_file, help="a folder that keeps the records")
    takes_json(parser)
    given = sys.argv[2:] if argv is None else argv
    options = parser.parse_args(given)
    options.sizes = numbers(parser, "--sizes", options.sizes)
    options.forms = names(parser, "--forms", options.forms, FORMS)
    counts = thread_counts(parser, options.threads)
    if os.environ.get(CHILD) is None:
        # Pools of threads have their sizes for the life of a process.
        print(" size form            threads seed  tilewright      numpy      torch  seconds", flush=True)
        results = []
        with tempfile.TemporaryDirectory() as scratch:
            found = Path(scratch) / "results.json"
            for count in counts:
                more = ["--threads", str(count), "--json", str(found)]
                environment = {**os.environ, **dict.fromkeys([*POOLS, CHILD], str(count))}
                command = [sys.executable, "-m", "benchmarks", "auto_scheduler_gemm", *given, *more]
                subprocess.run(command, check=True, env=environment)
                results += json.loads(found.read_text())
        write_json(options, results)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.logs or Path(scratch)
        folder.mkdir(exist_ok=True)
        write_json(options, measured(options, counts[0], folder))
