"""Percent of the multiply-add peak that a template of a matrix product reaches once AutoTVM has tuned it, beside NumPy and torch.

    python -m benchmarks autotvm_gemm --sizes 512,1024 --trials 200

The template is that of the classic tutorials: tiles, a packed copy of B, a tile of C in registers, vectors and unrolled loops. XGBTuner
searches its space. The fastest configurations by the tuner's measurements are then measured again, in turn with the loop of the peak and
with the peers, all on one thread, in seconds of that thread, so that other work on the machine counts little. The packing of B belongs
to each call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tvm
from benchmarks.machine_code.kernels import Kernel, peak_kernel
from benchmarks.options import numbers, takes_json, write_json
from tilewright import autotvm, te
from tilewright.target import Target

FINALISTS = 8
"""Configurations that are measured again."""
ROUNDS = 30


@autotvm.template("benchmarks/gemm")
def gemm(n: int) -> Any:
    """C = A @ B of n x n matrices.

    Knobs: rows and columns of a tile; depth, the steps of the reduction that are unrolled; block, the part of the reduction that all
    tiles do before the next; band, the tiles that share a panel of B; copied, whether A is packed as B is; written, whether a tile is
    summed in a buffer of its own.
    """
    cfg = autotvm.get_config()
    cfg.define_knob("rows", [1, 2, 4, 6, 8, 12, 14])
    cfg.define_knob("columns", [8, 16, 24, 32, 48, 64])
    cfg.define_knob("depth", [1, 2, 4, 8])
    cfg.define_knob("block", [128, 256, n])
    cfg.define_knob("band", [1, 16, n])
    cfg.define_knob("copied", [0, 1])
    cfg.define_knob("written", [0, 1])
    rows, columns, depth, block = (cfg[name].val for name in ("rows", "columns", "depth", "block"))
    # A tile fits into registers. One that is summed in a buffer of its own is written once, so the whole reduction is inside.
    cpu = Target.current().cpu
    room = cpu.core.registers * cpu.vector_bits // 32
    cfg.multi_filter(lambda entity: entity["rows"].val * entity["columns"].val < room)
    cfg.multi_filter(lambda entity: not entity["written"].val or entity["block"].val == n)
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    packed = _panels(n, columns, lambda k, j: b[k, j], "packed")
    left = _panels(n, rows, lambda k, i: a[i, k], "left") if cfg["copied"].val else None

    def of_a(i: Any) -> Any:
        return a[i, k] if left is None else left[tvm.tir.indexdiv(i, rows), k, tvm.tir.indexmod(i, rows)]

    c = te.compute(
        (n, n),
        lambda i, j: te.sum(of_a(i) * packed[tvm.tir.indexdiv(j, columns), k, tvm.tir.indexmod(j, columns)], axis=k),
        name="C",
    )
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "global") if cfg["written"].val else c
    i0, j0, i1, j1 = s[c].tile(*c.op.axis, rows, columns)
    bands, i0 = s[c].split(i0, min(cfg["band"].val, -(-n // rows)))
    outer = [bands, j0, i0]
    if tile is not c:
        s[c].reorder(*outer, i1, j1)
        s[c].unroll(i1)
        s[c].vectorize(j1)
        s[tile].compute_at(s[c], i0)
        i1, j1 = s[tile].op.axis
        outer = []
    (along,) = s[tile].op.reduce_axis
    blocks, steps = s[tile].split(along, block)
    steps, step = s[tile].split(steps, depth)
    s[tile].reorder(blocks, *outer, steps, step, i1, j1)
    s[tile].unroll(i1)
    s[tile].vectorize(j1)
    s[tile].unroll(step)
    for copy in (packed, left):
        if copy is not None:
            s[copy].vectorize(copy.op.axis[2])
    return s, [a, b, c]


def _panels(n: int, width: int, element: Callable[[Any, Any], Any], name: str) -> Any:
    """A copy (panels, n, width) of n columns in panels: the element (p, k, j) is that of row k and column p * width + j, or 0."""

    def copied(p: Any, k: Any, j: Any) -> Any:
        column = p * width + j
        return element(k, column) if n % width == 0 else tvm.tir.if_then_else(column < n, element(k, column), 0.0)

    return te.compute((-(-n // width), n, width), copied, name=name)


def tuned(n: int, trials: int, log: str | None) -> list[Any]:
    """The fastest configurations of a tuning, the fastest first."""
    task = autotvm.task.create("benchmarks/gemm", args=(n,), target="llvm")
    pairs: list[Any] = []
    callbacks: list[Any] = [lambda tuner, inputs, results: pairs.extend(zip(inputs, results, strict=True))]
    callbacks += [autotvm.callback.progress_bar(trials, prefix=f"{n} x {n}")]
    callbacks += [autotvm.callback.log_to_file(log)] if log else []
    runner = autotvm.LocalRunner(timeout=20, number=1, repeat=5, min_repeat_ms=3, cooldown_interval=0)
    autotvm.tuner.XGBTuner(task).tune(
        n_trial=trials,
        measure_option=autotvm.measure_option(builder=autotvm.LocalBuilder(), runner=runner),
        callbacks=callbacks,
    )
    good = sorted([p for p in pairs if not p[1].error_no], key=lambda p: min(p[1].costs))
    with task.target:
        return [(given.config, task.instantiate(given.config)) for given, _ in good[:FINALISTS]]


def peers(a: Any, b: Any) -> dict[str, Callable[[], Any]]:
    """The products by NumPy, and by torch where it is installed."""
    out = np.empty_like(a)
    calls: dict[str, Callable[[], Any]] = {"numpy": lambda: np.matmul(a, b, out=out)}
    try:
        import torch
    except ImportError:
        return calls
    torch.set_num_threads(1)
    left, right, result = torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(np.empty_like(a))
    return calls | {"torch": lambda: torch.matmul(left, right, out=result)}


def measure(n: int, finalists: list[Any], peak: Kernel) -> dict[str, dict[str, float]]:
    """Percent of the peak, median and best, of configurations and peers."""
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    calls, result = peers(a, b), tvm.nd.empty((n, n))
    given = [tvm.nd.array(a), tvm.nd.array(b), result]
    for config, (schedule, args) in finalists:
        call = tvm.build(schedule, args, "llvm")
        call(*given)
        np.testing.assert_allclose(result.numpy(), a @ b, rtol=1e-3, atol=1e-3)
        calls[f"configuration {config.index}"] = lambda call=call: call(*given)
    seconds: dict[str, list[float]] = {name: [] for name in ("peak", *calls)}
    calls = {"peak": lambda: peak.run(peak.args), **calls}
    flops = dict.fromkeys(calls, 2.0 * n**3) | {"peak": peak.flops}
    least = min(flops.values())
    for _ in range(ROUNDS):
        for name, call in calls.items():
            # About as long as a call of the product, so that all have the same chance of an interruption.
            repeat = round(flops["numpy"] / least) if name == "peak" else 1
            begun = time.thread_time()
            for _ in range(repeat):
                call()
            seconds[name].append((time.thread_time() - begun) / repeat)
    rates = {name: [flops[name] / s for s in taken] for name, taken in seconds.items()}
    return {
        name: {
            "gflops": max(rate) / 1e9,
            "of_peak_median": statistics.median(rate) / statistics.median(rates["peak"]),
            "of_peak_best": max(rate) / max(rates["peak"]),
        }
        for name, rate in rates.items()
    }


def main(argv: list[str] | None = None) -> None:
    """Tunes the template for each size, and prints what it reaches."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks autotvm_gemm", description=__doc__)
    parser.add_argument("--sizes", default="512,1024", help="rows and columns of the matrices (default: 512,1024)")
    parser.add_argument("--trials", type=int, default=200, help="configurations that the tuner measures (default: 200)")
    parser.add_argument("--log", help="append the tuner's measurements to this file")
    takes_json(parser)
    options = parser.parse_args(argv)
    peak, results = peak_kernel(Target("llvm")), {}
    from threadpoolctl import threadpool_limits

    for n in numbers(parser, "--sizes", options.sizes):
        finalists = tuned(n, options.trials, options.log)
        with threadpool_limits(1):
            results[n] = measure(n, finalists, peak)
        print(f"\n{f'{n} x {n}':28} {'GFLOP/s':>8} {'% median':>9} {'% best':>7}")
        for name, row in results[n].items():
            print(f"{name:28} {row['gflops']:8.1f} {100 * row['of_peak_median']:9.1f} {100 * row['of_peak_best']:7.1f}")
        index = max(results[n], key=lambda name: name.startswith("conf") and results[n][name]["of_peak_best"])
        print(f"the fastest, {index}: {next(c for c, _ in finalists if index.endswith(f' {c.index}'))}")
    write_json(options, results)


if __name__ == "__main__":
    main()
