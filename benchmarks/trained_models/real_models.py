"""Trained models out of packages' wheels, each beside the runtime that it was made for: imported, compiled, compared, measured.

    python -m benchmarks real_models [--packages silero-vad,magika] [--models vad] [--wheels DIR] [--json FILE]

The list (`real_models.toml` beside this file) names packages, versions and files; wheels are downloaded and unpacked, nothing in them is
installed or run. Each model runs in a process of its own: ONNX Runtime, LiteRT, PyTorch, Keras or TensorFlow answers random inputs of a
fixed seed, and so do our builds: one with all dynamic dimensions kept, one with the sizes of the first case. Variables are carried
from run to run. Ratios are our latency over the runtime's: medians of runs taken in turn, inputs and outputs handed over in each. A model
passes where every build answers every case as its runtime does, within 1e-3 of the largest value of an output, and integers exactly.
Where floats differ by more, both are judged by a run of the model that rounds less (`exact.py`), over several draws of each
case: ours may be no farther from that than twice the runtime's. Ends with 1 where a model does not pass.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.options import names, takes_json, thread_count, write_json
from benchmarks.peers import Unavailable
from benchmarks.trained_models.exact import Run as ExactRun
from benchmarks.trained_models.exact import exact_run
from benchmarks.trained_models.packages import Array, RealModel, fetch, inputs_of, listed
from benchmarks.trained_models.runtimes import Prepared, prepared

WHEELS = models.CACHE.parent / "wheels"
TOLERANCE = 1e-3
"""Largest difference from the model's own runtime, relative to the largest value of an output, that is no error."""
ROUGHEST = 0.1
"""Farthest that a runtime may be from the run that rounds less, for that run to judge: else it is taken to compute something else."""
DRAWS = 6
"""Inputs of each case by which two answers are judged: one alone may round luckily."""
LIMIT = 1.1
"""Latency over the runtime's from which on a model is shown as slow."""
STEPS = 4
"""Runs of a model with variables."""
TIME_LIMIT = 900
"""Seconds for one model, where --limit says nothing else."""

Run = Callable[[list[Array]], list[Array]]


class Build:
    """A model compiled by us: ahead of time where all sizes are known, else for the virtual machine."""

    def __init__(self, path: Path, shapes: dict[str, Any], carried: bool, numbers: dict[str, Array]) -> None:
        from tilewright.relay.frontend.common import formats
        from tilewright.relay.frontend.common.module import is_static
        from tilewright.relay.frontend.tflite import from_tflite

        self.stage = "import"
        start = time.perf_counter()
        if carried:
            mod, params = from_tflite(path, shapes or None, variables="carried")
        else:
            form = formats.format_of(path)
            mod, params = form.load_fixed(path, shapes, numbers) if numbers else form.load(path, shapes)
        self.module, self.params = mod, params
        self.import_s = time.perf_counter() - start
        self.static = is_static(mod)
        self.names = [p.name_hint for p in mod["main"].params if p.name_hint not in params]
        self.stage = "compile"
        self.run: Run | None = None
        self.carrying: Callable[[Sequence[Array]], Run] | None = None
        """Of what variables hold at first: a run on the other inputs, which hands on what they hold inside, as the model's runtime does."""

    def compile(self) -> None:
        """Makes `run`, and `carrying` where all sizes are known."""
        import tilewright as tvm
        from tilewright import relay
        from tilewright.contrib import graph_executor
        from tilewright.runtime.vm import VirtualMachine

        start = time.perf_counter()
        with tvm.transform.PassContext(opt_level=3):
            if self.static:
                library = relay.build(self.module, target="llvm", params=self.params)
                executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
            else:
                machine = VirtualMachine(relay.vm.compile(self.module, "llvm", params=self.params), tvm.cpu())
        self.compile_s = time.perf_counter() - start
        self.stage = "run"
        given = self.names

        def run_static(inputs: list[Array]) -> list[Array]:
            for name, x in zip(given, inputs, strict=True):
                executor.set_input(name, x)
            executor.run()
            return [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]

        def carrying(state: Sequence[Array]) -> Run:
            held = [tvm.nd.array(v) for v in state]
            own, first = given[: -len(held)], executor.get_num_outputs() - len(held)
            for name, value in zip(given[len(own) :], held, strict=True):
                executor.set_input_zero_copy(name, value)

            def run(inputs: list[Array]) -> list[Array]:
                for name, x in zip(own, inputs, strict=True):
                    executor.set_input(name, x)
                executor.run()
                for k, value in enumerate(held):
                    executor.get_output(first + k, value)
                return [executor.get_output(k).numpy() for k in range(first)]

            return run

        def run_machine(inputs: list[Array]) -> list[Array]:
            arrays = {name: tvm.nd.array(x) for name, x in zip(given, inputs, strict=True)}
            return _flat(machine.run(**arrays))

        self.run = run_static if self.static else run_machine
        self.carrying = carrying if self.static else None


def _flat(value: Any) -> list[Array]:
    return [value.numpy()] if hasattr(value, "numpy") else [x for field in value for x in _flat(field)]


def difference(mine: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The largest difference of two answers, by the largest magnitude of each output; infinite where shapes, types, integers or
    infinities differ."""
    worst = 0.0
    if len(mine) != len(theirs):
        return np.inf
    for a, b in zip(mine, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return np.inf
        if b.dtype.kind not in "fc":
            worst = worst if np.array_equal(a, b) else np.inf
            continue
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
            return np.inf
        if finite.any():
            scale = max(float(np.abs(b[finite]).max()), 1e-6)
            worst = max(worst, float(np.abs(a[finite].astype(np.float64) - b[finite]).max()) / scale)
    return worst


def survey(model: RealModel, wheels: Path, threads: int, seconds: float) -> dict[str, Any]:
    """What became of one model: its runtime; of each build the seconds, the difference and the ratio, or the stage that failed and why."""
    path = model.path(wheels)
    result: dict[str, Any] = {"package": model.package, "version": model.version, "file": model.file, "builds": []}
    try:
        own = prepared(path, threads)
        result["runtime"] = own.title
        cases: list[dict[str, Any]] = model.cases or [dict(own.shapes)]
        inputs = [inputs_of(case, own.dtypes, seed) for seed, case in enumerate(cases)]
        if own.state or len(inputs) == 1:
            inputs += [inputs_of(cases[0], own.dtypes, 100 + step) for step in range(STEPS - 1 if own.state else 1)]
        expected = [own.run(x) for x in inputs]
    except Unavailable as error:
        return {**result, "unavailable": str(error)}
    numbers = {n: x for n, x in inputs[0].items() if n in own.numbers}
    first = {n: x.shape for n, x in inputs[0].items() if n not in numbers}
    alike = [
        k
        for k, case in enumerate(inputs)
        if all([case[n].shape == shape for n, shape in first.items()])
        and all([case[n] == x for n, x in numbers.items()])
    ]
    # TorchScript says no shapes, and a model without cases has no dynamic dimensions.
    kinds = ["dynamic", "pinned"] if model.cases and path.suffix != ".jit" else ["pinned"]
    for kind in kinds:
        entry: dict[str, Any] = {"build": kind}
        build = None
        chosen = range(len(inputs)) if kind == "dynamic" else alike
        try:
            entry["stage"] = "import"
            shapes: dict[str, Any] = model.dynamic_shapes if kind == "dynamic" else dict(first) if model.cases else {}
            build = Build(path, shapes, bool(own.state), numbers)
            entry |= {"import_s": build.import_s, "executor": "aot" if build.static else "vm", "stage": "compile"}
            build.compile()
            entry |= {"compile_s": build.compile_s, "stage": "run"}
            entry["difference"] = compared(build, own, [(inputs[k], expected[k]) for k in chosen])
            right = entry["difference"] <= TOLERANCE
            if not right and not own.state and (exact := exact_run(path)) is not None:
                drawn = cases if kind == "dynamic" else cases[:1]
                entry["judged"] = distances(build, own, exact, drawn)
                right = no_farther(*entry["judged"])
            entry["stage"] = "passed" if right else "numbers"
            if entry["stage"] == "passed":
                entry |= measured(build, own, inputs[0], seconds)
        except Exception as error:  # whatever goes wrong is what the survey is to tell
            entry["error"] = f"{type(error).__name__}: {error}"
            entry["traceback"] = traceback.format_exc(limit=-6)
        result["builds"].append(entry)
        if kind == "dynamic" and build is not None and build.static:
            break
    return result


def arguments(build: Build, inputs: dict[str, Array], state: Sequence[Array]) -> list[Array]:
    """The inputs in the order of the build's; those of the same name by it."""
    values = list(inputs.values())
    if set(build.names) <= set(inputs):
        values = [inputs[name] for name in build.names]
    return [*values, *state]


def compared(build: Build, own: Prepared, runs: Sequence[tuple[dict[str, Array], list[Array]]]) -> float:
    """The largest difference over runs one after another."""
    assert build.run is not None
    state = list(own.state.values())
    worst = 0.0
    for inputs, expected in runs:
        found = build.run(arguments(build, inputs, state))
        if own.state or own.keeps:
            found, kept = found[: len(expected)], found[len(expected) :]
            state = kept if own.state else state
        worst = max(worst, difference(found, expected))
    return worst


def distances(build: Build, own: Prepared, exact: ExactRun, cases: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """(ours, the runtime's) largest difference from a run that rounds less."""
    assert build.run is not None
    ours = theirs = 0.0
    for case in cases:
        for seed in range(DRAWS):
            inputs = inputs_of(case, own.dtypes, seed)
            wanted = exact(inputs)
            ours = max(ours, difference(build.run(arguments(build, inputs, ())), wanted))
            theirs = max(theirs, difference(own.run(inputs), wanted))
    return ours, theirs


def no_farther(ours: float, theirs: float) -> bool:
    """Whether differences from a run that rounds less say that ours is right."""
    return theirs <= ROUGHEST and ours <= max(TOLERANCE, 2 * theirs)


def measured(build: Build, own: Prepared, inputs: dict[str, Array], seconds: float) -> dict[str, float]:
    """Median milliseconds of both, taken in turn, and the median of their ratios."""
    assert build.run is not None
    run, state = build.run, list(own.state.values())
    if state and build.carrying is not None:
        run, state = build.carrying(state), []
    mine = arguments(build, inputs, state)
    own.run(inputs)
    run(mine)
    times: tuple[list[float], list[float]] = ([], [])
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times[0]) < 5:
        begin = time.perf_counter()
        run(mine)
        middle = time.perf_counter()
        own.run(inputs)
        times[0].append((middle - begin) * 1e3)
        times[1].append((time.perf_counter() - middle) * 1e3)
    ours, theirs = np.array(times[0]), np.array(times[1])
    return {
        "milliseconds": float(np.median(ours)),
        "runtime_milliseconds": float(np.median(theirs)),
        "ratio": float(np.median(ours / theirs)),
    }


def surveyed(model: RealModel, wheels: Path, threads: int, seconds: float, limit: float) -> dict[str, Any]:
    """`survey` in a process of its own, ended after so many seconds (limit)."""
    command = [sys.executable, "-m", "benchmarks", "real_models", "--worker", "--packages", model.package]
    command += ["--models", model.file, "--wheels", str(wheels), "--threads", str(threads), "--seconds", str(seconds)]
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "3"}
    known = {"package": model.package, "version": model.version, "file": model.file, "builds": []}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {**known, "died": f"not done after {limit:g} s"}
    if done.returncode:
        return {**known, "died": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def verdict(result: dict[str, Any]) -> str:
    """passed; the first stage that failed; died; or unavailable, where its own runtime has no answer."""
    if "unavailable" in result:
        return "unavailable"
    if "died" in result:
        return "died"
    return next((str(b["stage"]) for b in result["builds"] if b["stage"] != "passed"), "passed")


def row(result: dict[str, Any], build: dict[str, Any] | None) -> list[str]:
    """The cells of a build."""
    name = f"{result['package']}: {Path(result['file']).name}"
    if build is None:
        return [name, result.get("runtime", ""), "", "", "", "", result.get("unavailable") or result["died"]]
    color = "green" if build["stage"] == "passed" else "red"
    slow = "yellow" if build.get("ratio", 0) > LIMIT else color
    seconds = "".join([f"{build[k]:.1f} " for k in ("import_s", "compile_s") if k in build])
    said = build.get("error", "other numbers").replace("[", "\\[")
    judged = "{:.0e} from the exact run; the runtime {:.0e}".format(*build["judged"]) if "judged" in build else ""
    return [
        name,
        result["runtime"],
        f"{build['build']} {build.get('executor', '')}",
        seconds,
        f"[{color}]{build['difference']:.1e}" if "difference" in build else "",
        f"[{slow}]{build['ratio']:.2f}" if "ratio" in build else "",
        judged if build["stage"] == "passed" else f"[red]{build['stage']}: {' '.join(said.split())[:160]} {judged}",
    ]


def show(results: list[dict[str, Any]]) -> None:
    """A line for each build, and the count."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="trained models beside the runtimes that they were made for")
    for column in ("model", "runtime", "build", "import, compile s", "difference", "ratio", ""):
        table.add_column(column, justify="right" if column in ("difference", "ratio") else "left")
    for r in results:
        for build in r["builds"] or [None]:
            table.add_row(*row(r, build))
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(table)
    counts = Counter(map(verdict, results))
    rest = "".join([f", {n} {what}" for what, n in counts.items() if what != "passed"])
    ratios = [b["ratio"] for r in results for b in r["builds"] if "ratio" in b]
    slow = len([x for x in ratios if x > LIMIT])
    console.print(
        f"{counts['passed']} of {len(results)} models of {len({r['package'] for r in results})} packages pass{rest}; builds slower"
        f" than {LIMIT:g} times: {slow} of {len(ratios)}"
        + (f", geometric mean of ratios {np.exp(np.mean(np.log(ratios))):.2f}" if ratios else "")
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks real_models", description=__doc__.splitlines()[0])
    known = list(dict.fromkeys(m.package for m in listed()))
    parser.add_argument("--packages", help="names with commas between; all of the list without it")
    parser.add_argument("--models", default="", help="only files whose path in the wheel has this in it")
    parser.add_argument("--wheels", type=Path, default=WHEELS, help="where wheels are unpacked (default: build/wheels)")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time for each build")
    parser.add_argument(
        "--limit", type=float, default=TIME_LIMIT, help="seconds for one model, more on a busy machine (%(default)s)"
    )
    takes_json(parser)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    threads = thread_count(parser, options.threads)
    packages = names(parser, "--packages", options.packages, known) if options.packages else None
    chosen = [m for m in listed(packages) if options.models in m.file]
    if not chosen:
        parser.error(f"--models: no file of the list has {options.models!r} in its path")
    if options.worker:
        exact = [m for m in chosen if m.file == options.models]
        print(json.dumps(survey(exact[0], options.wheels, threads, options.seconds)))
        return 0
    failed = fetch(chosen, options.wheels)
    for package, why in failed.items():
        print(f"{package}: {why}", file=sys.stderr)
    results = []
    for k, m in enumerate(chosen):
        if m.package in failed:
            results.append(
                {
                    "package": m.package,
                    "version": m.version,
                    "file": m.file,
                    "builds": [],
                    "unavailable": failed[m.package],
                }
            )
            continue
        results.append(surveyed(m, options.wheels, threads, options.seconds, options.limit))
        print(f"{k + 1} of {len(chosen)}: {m.file}: {verdict(results[-1])}", file=sys.stderr, flush=True)
        write_json(options, results)
    show(results)
    write_json(options, results)
    return int(any(verdict(r) not in ("passed", "unavailable") for r in results) or bool(failed))
