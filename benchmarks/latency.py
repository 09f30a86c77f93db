"""Latency of whole models beside their peers: same inputs, same threads, interleaved in one run, medians.

    python -m benchmarks latency --models resnet50,bert_base --threads 1,2

Each (model, threads) pair runs in a process of its own that holds all contestants, so that they meet the same
machine and none sees another's thread pool grow. Outputs are compared with the first peer's.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import models

Runner = Callable[[], list[np.ndarray]]
DEFAULT_MODELS = (*models.FULL, *models.LIGHT_NAMES, *models.PPOCR)


def tilewright_runner(path: Path, inputs: dict[str, np.ndarray], threads: int) -> tuple[Runner, dict[str, float]]:
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

    def run() -> list[np.ndarray]:
        executor.run()
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]

    return run, {"compile_s": seconds}


def onnxruntime_runner(path: Path, inputs: dict[str, np.ndarray], threads: int) -> tuple[Runner, dict[str, float]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    seconds = time.perf_counter() - start
    return (lambda: session.run(None, inputs)), {"compile_s": seconds}


def openvino_runner(path: Path, inputs: dict[str, np.ndarray], threads: int) -> tuple[Runner, dict[str, float]]:
    import openvino

    core = openvino.Core()
    start = time.perf_counter()
    model = core.read_model(path)
    model.reshape({name: value.shape for name, value in inputs.items()})
    options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(model, "CPU", options).create_infer_request()
    seconds = time.perf_counter() - start
    return (lambda: list(request.infer(inputs).values())), {"compile_s": seconds}


PEERS = {"tilewright": tilewright_runner, "onnxruntime": onnxruntime_runner, "openvino": openvino_runner}
SETTLE = 0.05
"""Seconds before each burst in which the pools of the other contestants stop spinning on the cores that this one needs."""

BURST = 3
"""Runs in a row of one contestant; the first is not counted: another's threads may still be spinning, and its data is in the caches."""


def relative_error(mine: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """Largest difference over all outputs, relative to the largest magnitude of each."""
    return max(
        float(np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-6)) if a.size else 0.0
        for a, b in zip(mine, theirs, strict=True)
    )


def measure(model: str, threads: int, peers: list[str], seconds: float) -> dict[str, Any]:
    """Medians and spread of each contestant in milliseconds, bursts of runs taken in turn."""
    path = models.make(model)
    inputs = models.inputs(model)
    runners: dict[str, Runner] = {}
    result: dict[str, Any] = {"model": model, "threads": threads, "peers": {}}
    for peer in peers:
        runners[peer], extra = PEERS[peer](path, inputs, threads)
        result["peers"][peer] = extra
        result["peers"][peer]["peak_mb_after_compile"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answers = {peer: [np.array(o) for o in run()] for peer, run in runners.items()}
    times: dict[str, list[float]] = {peer: [] for peer in peers}
    stop = time.perf_counter() + seconds * len(peers)
    while time.perf_counter() < stop or len(times[peers[0]]) < 7:
        for peer, run in runners.items():
            time.sleep(SETTLE)
            run()
            for _ in range(BURST - 1):
                start = time.perf_counter()
                run()
                times[peer].append((time.perf_counter() - start) * 1e3)
    for peer in peers:
        t = np.array(times[peer][1:])
        result["peers"][peer] |= {
            "median_ms": float(np.median(t)),
            "p10_ms": float(np.percentile(t, 10)),
            "p90_ms": float(np.percentile(t, 90)),
            "runs": len(t),
        }
    if "tilewright" in peers and len(peers) > 1:
        other = next(p for p in peers if p != "tilewright")
        result["relative_error"] = relative_error(answers["tilewright"], answers[other])
        result["ratio"] = result["peers"]["tilewright"]["median_ms"] / result["peers"][other]["median_ms"]
    return result


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks latency", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models",
        default="resnet50,bert_base,mobilenetv2",
        help=f"comma-separated, or 'all': {', '.join(DEFAULT_MODELS)}",
    )
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--peers", default="tilewright,onnxruntime")
    parser.add_argument("--seconds", type=float, default=4.0, help="measuring time per contestant")
    parser.add_argument("--json", type=Path, help="also write the results here")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    names = DEFAULT_MODELS if options.models == "all" else options.models.split(",")
    if options.worker:
        print(json.dumps(measure(names[0], int(options.threads), options.peers.split(","), options.seconds)))
        return 0
    for kind, given, known in (
        ("model", names, models.ALL + models.RANDOM_NAMES),
        ("peer", options.peers.split(","), PEERS),
    ):
        unknown = [n for n in given if n not in known]
        if unknown:
            parser.error(f"there is no {kind} {unknown[0]!r}; there are {', '.join(known)}")
    pairs = [(name, int(threads)) for name in names for threads in options.threads.split(",")]
    results = []
    start = time.monotonic()
    for done, (name, threads) in enumerate(pairs):
        left = f", about {(time.monotonic() - start) / done * (len(pairs) - done):.0f} s left" if done else ""
        print(f"{done + 1} of {len(pairs)}: {name}, {threads} threads{left}", file=sys.stderr, flush=True)
        results.append(run_worker(name, threads, options))
    show(results, options.peers.split(","))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return int(any("error" in r for r in results))


def run_worker(name: str, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    models.make(name)
    command = [sys.executable, "-m", "benchmarks", "latency", "--worker", "--models", name, "--threads", str(threads)]
    command += ["--peers", options.peers, "--seconds", str(options.seconds)]
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        return {"model": name, "threads": threads, "error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def show(results: list[dict[str, Any]], peers: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="median latency in ms, contestants interleaved; ratio and difference: the first to the second")
    for column in ("model", "threads", *peers, "ratio", "largest difference", "compile s", "peak MB"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for r in results:
        if "error" in r:
            table.add_row(r["model"], str(r["threads"]), f"[red]{r['error'][:80]}")
            continue
        first = r["peers"][peers[0]]
        cells = [r["model"], str(r["threads"]), *[f"{r['peers'][p]['median_ms']:.2f}" for p in peers]]
        cells += [f"{r['ratio']:.2f}" if "ratio" in r else "", f"{r['relative_error']:.1e}" if "ratio" in r else ""]
        table.add_row(*cells, f"{first['compile_s']:.1f}", f"{first['peak_mb_after_compile']:.0f}")
    Console(width=None if sys.stdout.isatty() else 140).print(table)
