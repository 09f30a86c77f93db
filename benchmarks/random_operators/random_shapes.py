"""Operators of random sizes, beside ONNX Runtime and torch: shapes that nobody tuned for.

    python -m benchmarks random_shapes --families gemm,conv --cases 300 --seed 1 --json results.jsonl

Each case is a model of one operator, compiled once. All contestants read the same memory of NumPy arrays and, where they can,
write to such memory; each is called in its fastest public way (ours: arrays bound once, then `run`; ONNX Runtime: IO binding;
torch: `out=` where there is one), so what a call costs belongs to the figure. Bursts of calls are interleaved; the medians
count. With several threads each burst waits until those of the contestant before it have stopped to spin.

Results are lines of JSON that accumulate: a run that is cut off goes on where it was, and `--only 0..49` takes part of the cases.
`--libraries DIR` keeps compiled models, `--prepare` only makes them; a measuring run then compiles nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import names, new_file, thread_count
from benchmarks.random_operators.cases import Array, Case, aligned, arrays, onnx_model
from benchmarks.random_operators.families import FAMILIES, draw

BURST = 4e-4
"""Seconds of a burst of calls, at least."""
ROUNDS = (5, 25)
"""Bursts of each contestant: at least, at most."""
REST = 0.005
"""Seconds before a burst of several threads."""
PEERS = ("onnxruntime", "torch")


def build(case: Case, model: Any, path: Path | None) -> Any:
    """The compiled model: from `path` where it has been kept, else compiled, and kept there."""
    import tilewright as tvm
    from tilewright import relay

    if path is not None and path.exists():
        return tvm.runtime.load_module(str(path))
    mod, params = relay.frontend.from_onnx(model)
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm", params=params)
    if path is not None:
        # Written elsewhere and renamed, so that a run that is cut off leaves no half of a library.
        part = path.with_name(f"part{os.getpid()}-{path.name}")
        library.export_library(str(part))
        part.rename(path)
    return library


def tensor_of(array: Array) -> Any:
    """A tensor of torch over the array's memory."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def tilewright_call(library: Any, given: dict[str, Array]) -> tuple[Callable[[], Any], list[Array]]:
    """Inputs and outputs bound once to the memory of arrays: the call, and what it writes."""
    import tilewright as tvm
    from tilewright.contrib import graph_executor

    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for name, array in given.items():
        executor.set_input_zero_copy(name, tvm.nd.from_dlpack(tensor_of(array)))
    results = [executor.get_output(i) for i in range(executor.get_num_outputs())]
    results = [aligned(np.zeros(r.shape, np.dtype(r.dtype))) for r in results]
    for i, result in enumerate(results):
        executor.set_output_zero_copy(i, tvm.nd.from_dlpack(tensor_of(result)))
    return executor["run"], results


def onnxruntime_call(
    case: Case, model: Any, given: dict[str, Array], results: list[Array], threads: int
) -> Callable[[], Any] | None:
    """A session with inputs and outputs bound; nothing where it has no such kernel."""
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as Missing

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Missing:
        return None
    binding = session.io_binding()
    for name, array in given.items():
        binding.bind_cpu_input(name, array)
    for name, result in zip(case.results, results, strict=True):
        binding.bind_output(name, "cpu", 0, result.dtype, result.shape, result.ctypes.data)
    run = session.run_with_iobinding
    return lambda: run(binding)


def time_calls(calls: dict[str, Callable[[], Any]], seconds: float, rest: float) -> dict[str, float]:
    """Median microseconds a call of each contestant, bursts of calls interleaved."""
    clock = time.perf_counter
    counts: dict[str, int] = {}
    for name, call in calls.items():
        call()
        least = float("inf")
        for _ in range(3):
            start = clock()
            call()
            least = min(least, clock() - start)
        counts[name] = max(1, int(BURST / least))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    stop = clock() + seconds
    most, rounds = ROUNDS[1], 0
    while rounds < ROUNDS[0] or (rounds < most and clock() < stop):
        for name, call in calls.items():
            repeat = range(counts[name])
            if rest:
                time.sleep(rest)
            # The first call finds caches full of what the contestant before it used.
            call()
            start = clock()
            for _ in repeat:
                call()
            samples[name].append((clock() - start) / counts[name] * 1e6)
        rounds += 1
    return {name: statistics.median(times) for name, times in samples.items()}


def difference(mine: Array, theirs: Array) -> float:
    """The largest, relative to the largest magnitude."""
    if not theirs.size:
        return 0.0
    a, b = mine.astype(np.float64), theirs.astype(np.float64)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-6))


def as_array(tensor: Any) -> Array:
    return np.asarray(tensor.float().numpy() if tensor.dtype.is_floating_point else tensor.numpy())


def measure(case: Case, path: Path | None, seconds: float, threads: int) -> dict[str, Any]:
    """One case: microseconds a call of each contestant, the ratio to the best peer, the largest difference from the peers."""
    given = arrays(case, 1)
    model = onnx_model(case, given)
    found = measure_libraries(case, model, given, {"tilewright": build(case, model, path)}, seconds, threads)
    return found | {"ratio": ratio_of(found["us"], "tilewright")}


def measure_libraries(
    case: Case, model: Any, given: dict[str, Array], libraries: dict[str, Any], seconds: float, threads: int
) -> dict[str, Any]:
    """Compiled models of a case, by the names of contestants, in turn with the peers: microseconds a call of each, the largest difference
    from the peers."""
    import torch

    inputs = {n: given[n] for n in case.inputs}
    calls: dict[str, Callable[[], Any]] = {}
    ours: list[list[Array]] = []
    for name, library in libraries.items():
        calls[name], written = tilewright_call(library, inputs)
        ours.append(written)
    mine = ours[0]
    theirs = [aligned(np.zeros_like(m)) for m in mine]
    if session := onnxruntime_call(case, model, inputs, theirs, threads):
        calls["onnxruntime"] = session
    with torch.inference_mode():
        if case.torch_call:
            place = tensor_of(aligned(np.zeros_like(mine[0])))
            calls["torch"] = case.torch_call({n: tensor_of(a) for n, a in given.items()}, place)
        for name in libraries:
            calls[name]()
        error = 0.0
        if session:
            session()
            error = max([difference(m, t) for written in ours for m, t in zip(written, theirs, strict=True)])
        if "torch" in calls:
            expected = as_array(calls["torch"]())
            if expected.shape != mine[0].shape:
                raise ValueError(f"{case}: torch's result is {expected.shape}, not {mine[0].shape}")
            error = max([error, *[difference(written[0], expected) for written in ours]])
        times = time_calls(calls, seconds, REST if threads > 1 else 0)
    return {
        "kind": case.kind,
        "name": case.name,
        "flops": case.flops,
        "us": times,
        "error": error,
        "tolerance": case.tolerance,
    }


def ratio_of(us: dict[str, float], name: str) -> float:
    """The time of a contestant relative to the faster peer's."""
    return us[name] / min([us[p] for p in PEERS if p in us])


class Peak:
    """GFLOP/s of independent multiply-adds in registers, measured now and again."""

    def __init__(self, threads: int = 1) -> None:
        from tilewright.cli import peak

        self._peak = peak.Peak(threads)

    def rate(self) -> float:
        self._peak.sample()
        return self._peak.rate / 1e9


def read(path: Path | None) -> dict[str, dict[str, Any]]:
    """Results so far by their keys; a line that was cut off is passed over."""
    found: dict[str, dict[str, Any]] = {}
    if path is None or not path.exists():
        return found
    for line in path.read_text().splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[record["key"]] = record
    return found


def selected(options: argparse.Namespace) -> list[tuple[str, int]]:
    """(family, number) of the cases to run, families mixed so that a part of a run is a sample of all."""
    first, last = 0, options.cases - 1
    if options.only:
        low, _, high = options.only.partition("..")
        first, last = int(low), int(high or low)
    return [(family, i) for i in range(first, last + 1) for family in options.families]


def run(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Measures (or prepares) what is selected and not yet there."""
    results = read(options.json)
    cases = [(f"{family}:{options.seed}:{i}", family, i) for family, i in selected(options)]
    todo = [c for c in cases if c[0] not in results or options.prepare]
    if options.libraries:
        options.libraries.mkdir(parents=True, exist_ok=True)
    begin, peak = time.monotonic(), None if options.prepare or not todo else Peak()
    for done, (key, family, index) in enumerate(todo):
        if options.stop and time.monotonic() - begin > options.stop:
            print(f"stopped after {done} of {len(todo)}; run again to go on", file=sys.stderr)
            break
        case = draw(family, options.seed, index)
        path = options.libraries / f"{key.replace(':', '_')}.so" if options.libraries else None
        if done % 20 == 0:
            left = (time.monotonic() - begin) / done * (len(todo) - done) if done else 0
            eta = f", about {left:.0f} s left" if done else ""
            print(f"{done} of {len(todo)}: {case}{eta}", file=sys.stderr, flush=True)
        if peak is None:
            build(case, onnx_model(case, arrays(case, 1)), path)
            continue
        record = {"key": key, **measure(case, path, options.seconds, options.threads)}
        record["peak"] = peak.rate() if done % 20 == 0 else results[todo[done - 1][0]]["peak"]
        results[key] = record
        if options.json:
            with options.json.open("a") as f:
                f.write(json.dumps(record) + "\n")
    return {key: results[key] for key, _, _ in cases if key in results}


def worst_of(ratios: list[float]) -> float:
    """The ratio that 95 % stay below."""
    return float(np.percentile(ratios, 95))


def show(records: list[dict[str, Any]], worst: int) -> None:
    """Tables: by class, and the worst cases."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 150)
    groups: dict[str, list[dict[str, Any]]] = {}
    for r in records:
        family = r["key"].partition(":")[0]
        groups.setdefault(f"all of {family}", []).append(r)
        groups.setdefault(r["kind"], []).append(r)
    table = Table(title="time relative to the faster of ONNX Runtime and torch")
    for column in ("class", "cases", "median", "worst 5 %", "above 1", "above 1.4", "to ONNX Runtime", "to torch"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for name in sorted(groups, key=lambda n: (not n.startswith("all"), n)):
        rs = groups[name]
        ratios = [r["ratio"] for r in rs]
        single = [[r["us"]["tilewright"] / r["us"][p] for r in rs if p in r["us"]] for p in PEERS]
        to_each = [f"{statistics.median(s):.2f}" if s else "-" for s in single]
        table.add_row(
            name, str(len(rs)), f"{statistics.median(ratios):.2f}", f"{worst_of(ratios):.2f}",
            str(sum(x > 1 for x in ratios)), str(sum(x > 1.4 for x in ratios)), *to_each,
        )  # fmt: skip
    console.print(table)
    table = Table(title="the slowest by ratio")
    for column in ("case", "number", "ratio", "us", "ONNX Runtime", "torch", "GFLOP/s", "% of FMA peak"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for r in sorted(records, key=lambda r: -r["ratio"])[:worst]:
        rate = r["flops"] / r["us"]["tilewright"] / 1e3
        table.add_row(
            f"{r['kind']}: {r['name']}", r["key"], f"{r['ratio']:.2f}",
            *[f"{r['us'][p]:.1f}" if p in r["us"] else "-" for p in ("tilewright", *PEERS)],
            *[f"{rate:.1f}" if rate else "-", f"{100 * rate / r['peak']:.0f}" if rate else "-"],
        )  # fmt: skip
    console.print(table)
    wrong = [r for r in records if not r["error"] <= r["tolerance"]]
    for r in wrong:
        console.print(f"[red]wrong: {r['name']} ({r['key']}) differs from a peer by {r['error']:.1e}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks random_shapes", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--families", default="gemm,conv", help=f'of operators: {", ".join(FAMILIES)}; or "all"')
    parser.add_argument("--cases", type=int, default=300, help="how many of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--seconds", type=float, default=0.08, help="measuring time for each case")
    parser.add_argument("--only", help="numbers of the cases to run: 0..49")
    parser.add_argument("--stop", type=float, help="seconds after which no further case is begun")
    parser.add_argument("--json", type=new_file, help="lines of results, added to; what is there is not measured again")
    parser.add_argument("--libraries", type=Path, help="a folder that keeps compiled models")
    parser.add_argument("--prepare", action="store_true", help="only compile into --libraries")
    parser.add_argument("--worst", type=int, default=25, help="how many of the slowest to show")
    options = parser.parse_args(argv)
    families = ",".join(FAMILIES) if options.families == "all" else options.families
    options.families = names(parser, "--families", families, FAMILIES)
    if options.prepare and not options.libraries:
        parser.error("--prepare needs --libraries")
    options.threads = thread_count(parser, options.threads)
    os.environ |= {"TVM_NUM_THREADS": str(options.threads), "OMP_NUM_THREADS": str(options.threads)}
    if not options.prepare:
        import torch

        torch.set_num_threads(options.threads)
    results = run(options)
    if results and not options.prepare:
        show(list(results.values()), options.worst)
    return int(any(not r["error"] <= r["tolerance"] for r in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
