"""Every kernel of a model beside what the machine could do: time, arithmetic, traffic, and the fraction of the roofline it reaches.

    python -m benchmarks roofline --models resnet50,bert_base --threads 1 --chart build/roofline.png

A kernel's bound is the longer of its arithmetic at the peak of float32 multiply-adds and its compulsory traffic at the read bandwidth:
constants come from memory where those of the model are larger than the last cache (else from that cache), other tensors from
the second cache where the kernel's fit in it, else from the last. Peak and bandwidths are measured in the same run, between the passes over
the kernels, which run in order as in the model: medians of the kernels, and the best of peak and bandwidths, since others' work on the
machine only takes away. "of peak" over GEMM and convolution kernels, weighted by time, is their arithmetic by
their time and the peak. Each model runs in a process of its own on as many cores as threads.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.contests.contest import ROOT
from benchmarks.options import cores, new_file, takes_json, thread_counts, write_json

PRODUCTS = re.compile(r"conv|dense|matmul")
"""Kernels with such an operator are GEMM or convolution kernels."""
LEAST_PASSES = 7


def worker(model: str, threads: int, seconds: float) -> dict[str, Any]:
    """All calls of kernels of a model, in order, with their medians in microseconds; peak and bandwidths."""
    import tilewright as tvm
    from tilewright import relay
    from tilewright.cli.bandwidth import Bandwidth
    from tilewright.cli.peak import Peak
    from tilewright.contrib import graph_executor

    inputs = models.inputs(model)
    mod, params = relay.frontend.from_onnx(models.make(model), shape={k: v.shape for k, v in inputs.items()})
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm", params=params)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for name, value in inputs.items():
        executor.set_input(name, value)
    facts = json.loads(executor.module["get_metadata"]())
    kernels, run_kernel, clock = facts["kernels"], executor.module["run_kernel"], time.perf_counter
    times: list[list[float]] = [[] for _ in kernels]
    peak, bandwidth = Peak(threads), Bandwidth(threads)
    whole: list[float] = []
    start, passes = clock(), 0
    while passes < LEAST_PASSES or clock() - start < seconds:
        executor.run()
        begin = clock()
        executor.run()
        whole.append((clock() - begin) * 1e6)
        for i, record in enumerate(times):
            begin = clock()
            run_kernel(i)
            record.append((clock() - begin) * 1e6)
        peak.sample()
        bandwidth.sample()
        passes += 1
    levels = {level: max(s) / 1e9 for level, s in bandwidth.samples.items()}
    rows = []
    for kernel, taken, call in zip(kernels, times, library.plan.calls, strict=True):
        sizes = list(zip([a[0] for a in kernel["args"]], call.kernel.traffic, strict=True))
        rows.append(
            {
                "name": kernel["name"],
                "source": kernel.get("source", ""),
                "shapes": shapes_of(call),
                "us": float(np.median(taken)),
                "flops": kernel["flops"],
                "constant_bytes": sum(n for kind, n in sizes if kind == "constant"),
                "other_bytes": sum(n for kind, n in sizes if kind != "constant"),
            }
        )
    return {
        "model": model,
        "threads": threads,
        "us": float(np.median(whole)),
        "peak_gflops": peak.rate / 1e9,
        "bandwidth_gbs": levels,
        "constants": "memory" if facts["constants_bytes"] > bandwidth.sizes["last cache"] * 4 else "last cache",
        "second_cache": bandwidth.sizes["second cache"] * 2,
        "kernels": rows,
    }


def shapes_of(call: Any) -> str:
    """The first two inputs of a kernel, its weight most often, and its first output."""
    count = len(call.args) - call.outputs
    shown = [*call.args[: min(2, count)], call.args[count]]
    *inputs, output = ["x".join(map(str, place.type.concrete_shape)) or "scalar" for place in shown]
    return f"{', '.join(inputs)} -> {output}"


def bound(kernel: dict[str, Any], result: dict[str, Any]) -> tuple[float, str]:
    """The shortest time of a kernel in microseconds, and what bounds it."""
    arithmetic = kernel["flops"] / result["peak_gflops"] / 1e3
    rates = result["bandwidth_gbs"]
    near = "second cache" if kernel["other_bytes"] <= result["second_cache"] else "last cache"
    traffic = (kernel["constant_bytes"] / rates[result["constants"]] + kernel["other_bytes"] / rates[near]) / 1e3
    return (arithmetic, "FMA") if arithmetic >= traffic else (traffic, "bytes")


def summary(result: dict[str, Any]) -> dict[str, Any]:
    """The result with a row for each kernel, equal ones added up, the slowest first; and the shares of products."""
    groups: dict[str, dict[str, Any]] = {}
    for k in result["kernels"]:
        least, by = bound(k, result)
        row = groups.setdefault(
            k["name"], {"name": k["name"], "shapes": k["shapes"], "bound": by, "calls": 0, "us": 0.0, "least_us": 0.0}
        )
        row |= {"calls": row["calls"] + 1, "us": row["us"] + k["us"], "least_us": row["least_us"] + least}
        for key in ("flops", "constant_bytes", "other_bytes"):
            row[key] = row.get(key, 0) + k[key]
    total = sum(r["us"] for r in groups.values())
    for row in groups.values():
        row["gflops"] = row["flops"] / row["us"] / 1e3
        row["gbs"] = (row["constant_bytes"] + row["other_bytes"]) / row["us"] / 1e3
        row["share"] = row["us"] / total
        row["of_peak"] = row["gflops"] / result["peak_gflops"]
        row["of_roofline"] = row["least_us"] / row["us"]
    rows = sorted(groups.values(), key=lambda r: -r["us"])
    products = [r for r in rows if PRODUCTS.search(r["name"])]
    inside = [r for r in products if r["bound"] == "FMA"]
    return {
        **{k: v for k, v in result.items() if k != "kernels"},
        "kernels_us": total,
        "kernels": rows,
        "products_of_peak": of_peak(products, result),
        "products_bound_by_fma_of_peak": of_peak(inside, result),
        "products_share": sum(r["us"] for r in products) / total,
        "of_roofline": sum(r["least_us"] for r in rows) / total,
    }


def of_peak(rows: Sequence[dict[str, Any]], result: dict[str, Any]) -> float:
    """Arithmetic of kernels by their time and the peak."""
    us = sum(r["us"] for r in rows)
    return float(sum(r["flops"] for r in rows) / us / 1e3 / result["peak_gflops"]) if us else float("nan")


def show(s: dict[str, Any], top: int) -> None:
    from rich.table import Table

    from benchmarks.contests.standing import console

    rates = ", ".join(f"{level} {rate:.0f}" for level, rate in s["bandwidth_gbs"].items())
    table = Table(
        title=f"{s['model']}, {s['threads']} threads: {s['us'] / 1e3:.2f} ms, kernels alone {s['kernels_us'] / 1e3:.2f} ms;"
        f" peak {s['peak_gflops']:.0f} GFLOP/s; GB/s: {rates}"
    )
    table.add_column("kernel", overflow="fold")
    for column in ("calls", "us", "share", "GFLOP/s", "GB/s", "of peak", "of roofline", "bound"):
        table.add_column(column, justify="right")
    for r in s["kernels"][:top]:
        cells = [
            r["name"],
            str(r["calls"]),
            f"{r['us']:.0f}",
            f"{r['share']:.1%}",
            f"{r['gflops']:.0f}",
            f"{r['gbs']:.1f}",
        ]
        table.add_row(*cells, f"{r['of_peak']:.0%}", f"{r['of_roofline']:.0%}", r["bound"])
    rest = s["kernels"][top:]
    if rest:
        us = sum(r["us"] for r in rest)
        table.add_row(f"({len(rest)} more)", "", f"{us:.0f}", f"{us / s['kernels_us']:.1%}", "", "", "", "", "")
    out = console()
    out.print(table)
    out.print(
        f"GEMM and convolution kernels ({s['products_share']:.0%} of the time): {s['products_of_peak']:.1%} of the peak, weighted by"
        f" time; those that the peak bounds: {s['products_bound_by_fma_of_peak']:.1%}. All kernels: {s['of_roofline']:.1%} of the roofline"
    )


def in_fresh_process(model: str, threads: int, seconds: float) -> dict[str, Any]:
    models.make(model)
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks", "roofline", "--worker", "--models", model, "--threads", str(threads)]
    done = subprocess.run(
        [*command, "--seconds", str(seconds)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, cores(threads)),
    )
    if done.returncode:
        raise SystemExit(f"{model}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks roofline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", default="resnet50", help=f"comma-separated, or 'all': {', '.join(models.BENCHMARKED)}"
    )
    parser.add_argument("--threads", default="1", help="numbers of threads, such as 1,2")
    parser.add_argument("--seconds", type=float, default=4.0, help="measuring time for each model")
    parser.add_argument("--top", type=int, default=15, help="kernels shown of each model")
    takes_json(parser)
    parser.add_argument("--chart", type=new_file, help="also draw the kernels under the roofline here (PNG)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    names = list(models.BENCHMARKED) if options.models == "all" else options.models.split(",")
    threads = thread_counts(parser, options.threads)
    if options.worker:
        print(json.dumps(worker(names[0], threads[0], options.seconds)))
        return 0
    for name in names:
        if not models.is_known(name):
            parser.error(f"there is no model {name!r}; there are {', '.join(models.ALL + models.RANDOM_NAMES)}")
    results = []
    for name in names:
        for t in threads:
            results.append(summary(in_fresh_process(name, t, options.seconds)))
            show(results[-1], options.top)
    write_json(options, results)
    if options.chart is not None:
        from benchmarks.contests.chart import draw_roofline

        draw_roofline(results, options.chart)
    return 0
