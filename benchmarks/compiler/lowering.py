"""Time of each step from a tensor expression to object code, and the IR nodes per second that it takes in.

    python -m benchmarks lowering [--programs scheduled_gemm,softmax] [--rounds 7] [--models resnet50,bert_base] [--json out.json]

Phases: `te` (tensor expression to PrimFunc), `schedule` (its schedule applied), `lower` (the passes of `tilewright.lower`),
`finish` (target, calling convention, intrinsics), `emit` (LLVM IR text), `object` (LLVM: parse, optimise, machine code).
Kernels of models are lowered as the graph compiler does it, after its own passes. Each step is run `--rounds` times in this
process after one warm-up and its median taken, in milliseconds of the thread's CPU time, so that a busy machine does not
count; nothing comes from the on-disk cache. "nodes" are the IR objects of the step's input, each counted once however often
it is shared; nodes/s is the lowered functions' nodes (what enters `emit`) over the time from `schedule` to `emit`. Passes are
timed apart, one by one, by an instrument in a run of their own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.options import names, takes_json, write_json
from tilewright import te, topi
from tilewright.codegen.llvm import compile_object, emit_module
from tilewright.codegen.llvm.native.effort import effort
from tilewright.driver import host_pipeline, lower, lower_for
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.node import deep_recursion, post_order_visit
from tilewright.relay.backend.kernels.machine_code import lowered
from tilewright.scheduling import schedule_kernel
from tilewright.support.collection import paused_collection
from tilewright.target import Target
from tilewright.tir import PrimFunc

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

PHASES = ("te", "schedule", "lower", "finish", "emit", "object")
MODELS = ("bert_base", "resnet50")
Scheduled = tuple[Any, list[Any]]


def naive_gemm() -> Scheduled:
    import gemm_te

    s, args = gemm_te.naive(1024, 1024, 1024)
    return s, list(args)


def scheduled_gemm() -> Scheduled:
    """The fast step of examples/gemm_te.py: packed panels, a tile of C in registers, unrolled and vectorised."""
    import gemm_te

    s, args = gemm_te.write_cached(1026, 1024, 1024)
    return s, list(args)


def conv2d_nchwc() -> Scheduled:
    data, weight = te.placeholder((1, 4, 58, 58, 16)), te.placeholder((4, 4, 3, 3, 16, 16))
    return None, [data, weight, topi.nn.relu(topi.nn.conv2d_NCHWc(data, weight, 1, 0, 1, "NCHW16c", "NCHW16c"))]


def softmax() -> Scheduled:
    x = te.placeholder((128, 1024))
    return None, [x, topi.nn.softmax(x)]


def elementwise_chain() -> Scheduled:
    """Fifty stages, each inlined into the next."""
    x = te.placeholder((1024, 1024))
    y = x
    for i in range(50):
        y = te.compute(
            y.shape, lambda *at, y=y, i=i: te.max(y(*at) * (0.5 + i), 0.25) + x(*at) if i % 10 == 9 else y(*at) + 1.0
        )
    return None, [x, y]


PROGRAMS: dict[str, Callable[[], Scheduled]] = {
    "naive_gemm": naive_gemm,
    "scheduled_gemm": scheduled_gemm,
    "conv2d_nchwc": conv2d_nchwc,
    "softmax": softmax,
    "elementwise_chain": elementwise_chain,
}


def to_text(schedule: Any, args: list[Any], target: Target) -> tuple[dict[str, float], dict[str, Any], str]:
    """One run over all steps but the last: milliseconds of each, what went into each, and the text."""
    clock = _Clock()
    with deep_recursion():
        if schedule is None:
            func = clock("te", te.create_prim_func, args)
            func = clock("schedule", schedule_kernel, func.with_attr("global_symbol", "main"), target)
            mod = clock("lower", lambda f: lower_for(lower(f), target), func)
        else:
            # A TE schedule starts from a PrimFunc of its own, so the plain one is made only to be counted and timed.
            clock("te", te.create_prim_func, args)
            func = clock("schedule", schedule.to_prim_func, args)
            mod = clock("lower", lambda f: lower_for(lower(f), target), func)
        mod = clock("finish", host_pipeline(target), mod)
        text = clock("emit", emit_module, mod, target)
    return clock.ms, clock.taken, text


def kernel_text(func: PrimFunc, target: Target) -> tuple[dict[str, float], dict[str, Any], str]:
    """As `to_text`, for a kernel of a model as the graph compiler made it."""
    clock = _Clock()
    with deep_recursion():
        scheduled = clock("schedule", schedule_kernel, func, target)
        mod = clock("lower", lowered, scheduled, target)
        text = clock("emit", emit_module, mod, target)
    return clock.ms, clock.taken, text


class _Clock:
    """Runs steps; keeps the milliseconds of each and its input."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self.taken: dict[str, Any] = {}

    def __call__(self, phase: str, step: Callable[..., Any], *args: Any) -> Any:
        start = time.thread_time()
        result = step(*args)
        self.ms[phase] = 1e3 * (time.thread_time() - start)
        self.taken[phase] = args[0]
        return result


def nodes(program: Any) -> int:
    """IR objects of a PrimFunc, of the functions of a module, or of tensors; each once."""
    if isinstance(program, PrimFunc):
        count = 0

        def see(node: Any) -> None:
            nonlocal count
            count += 1

        with deep_recursion():
            post_order_visit(program.body, see)
        return count
    if isinstance(program, IRModule):
        return sum([nodes(f) for f in program.functions.values() if isinstance(f, PrimFunc)])
    return 0


class PassTimes:
    """An instrument: milliseconds by pass, added up."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self._start = 0.0

    def run_before_pass(self, mod: Any, info: Any) -> None:
        self._start = time.thread_time()

    def run_after_pass(self, mod: Any, info: Any) -> None:
        if info.name not in ("tir.lower", "tir.host"):
            self.ms[info.name] = self.ms.get(info.name, 0.0) + 1e3 * (time.thread_time() - self._start)


def by_pass(programs: Sequence[Any], rounds: int) -> dict[str, float]:
    """Median milliseconds of each pass of `lower`, over the programs together."""
    seen: list[dict[str, float]] = []
    for _ in range(rounds):
        times = PassTimes()
        # As in a build: a search for cycles would be charged to whichever pass it hits.
        with PassContext(instruments=[times]), deep_recursion(), paused_collection():
            for program in programs:
                lower(program)
        seen.append(times.ms)
    return {name: statistics.median([s[name] for s in seen]) for name in seen[0]}


def measure(
    name: str, runs: Sequence[Callable[[], tuple[dict[str, float], dict[str, Any], str]]], target: Target, rounds: int
) -> dict[str, Any]:
    """A row of the table: medians over the rounds, added over the runs (one for each function of the program)."""
    ms = dict.fromkeys(PHASES, 0.0)
    count = dict.fromkeys(PHASES, 0)
    text_lines, object_bytes, inputs = 0, 0, []
    for run in runs:
        _, taken, text = run()
        for phase, program in taken.items():
            count[phase] += nodes(program)
        inputs.append(taken["lower"])
        text_lines += text.count("\n")
        # As `build` does it, and as the graph compiler does.
        level = effort(taken["emit"]) if name in PROGRAMS else 1
        object_bytes += len(compile_object(text, target, level))
        rows = [run()[0] for _ in range(rounds)]
        for phase in rows[0]:
            ms[phase] += statistics.median([r[phase] for r in rows])
        clock = _Clock()
        for _ in range(min(rounds, 3)):
            clock("object", compile_object, text, target, level)
            rows.append(dict(clock.ms))
        ms["object"] += statistics.median([r["object"] for r in rows if "object" in r])
    python = sum([ms[p] for p in PHASES[1:-1]])
    return {
        "program": name,
        "functions": len(runs),
        "ms": ms,
        "nodes": count,
        "text_lines": text_lines,
        "object_bytes": object_bytes,
        "python_ms": python,
        "lower_to_object_ms": sum([ms[p] for p in PHASES[2:]]),
        "nodes_per_s": 1e3 * count["emit"] / python,
        "passes_ms": by_pass(inputs, min(rounds, 3)),
    }


def of_program(name: str, target: Target, rounds: int) -> dict[str, Any]:
    """The row of one tensor program; its expressions are made anew for each round."""
    return measure(name, [lambda: to_text(*PROGRAMS[name](), target)], target, rounds)


def kernels_of(model: str, target: Target) -> list[PrimFunc]:
    """The distinct kernels of a benchmark model, not scheduled yet."""
    from benchmarks import models
    from tilewright import relay

    shapes = {name: value.shape for name, value in models.inputs(model).items()}
    mod, params = relay.frontend.from_onnx(models.make(model), shape=shapes)
    return kernels_of_program(mod, target, params)


def kernels_of_program(mod: IRModule, target: Target, params: Any = None) -> list[PrimFunc]:
    """The distinct kernels of a program, not scheduled yet."""
    from tilewright.relay.backend.compilation import optimize
    from tilewright.relay.backend.planning.plan import make_plan
    from tilewright.relay.backend.te_compiler import TECompiler

    with PassContext(opt_level=3), target:
        optimized, _ = optimize(mod, target, params)
        compiler = TECompiler(target)
        with deep_recursion():
            make_plan(optimized, compiler)
    return [k.func for k in compiler.kernels.values()]


def of_model(name: str, target: Target, rounds: int) -> dict[str, Any]:
    """The row of all kernels of a model."""
    runs = [lambda f=f: kernel_text(f, target) for f in kernels_of(name, target)]
    return measure(name, runs, target, rounds)


def show(results: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=180)
    table = Table(title="from tensor expression to object code: CPU milliseconds (nodes that each step takes in)")
    for column in ("program", "functions", *PHASES, "lower..object", "nodes/s", "lines of LLVM IR"):
        table.add_column(column, justify="left" if column == "program" else "right", no_wrap=True)
    for r in results:
        cells = [f"{r['ms'][p]:.1f}" + (f" ({r['nodes'][p]})" if r["nodes"][p] else "") for p in PHASES]
        total, rate = f"{r['lower_to_object_ms']:.1f}", f"{r['nodes_per_s']:.0f}"
        table.add_row(r["program"], str(r["functions"]), *cells, total, rate, str(r["text_lines"]))
    console.print(table)
    passes = list(dict.fromkeys(p for r in results for p in r["passes_ms"]))
    table = Table(title="lower, by pass: CPU milliseconds")
    for column in ("pass", *[r["program"] for r in results]):
        table.add_column(column, justify="left" if column == "pass" else "right", no_wrap=True)
    for p in passes:
        table.add_row(p, *[f"{r['passes_ms'].get(p, 0.0):.2f}" for r in results])
    console.print(table)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks lowering", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="of " + ", ".join(PROGRAMS))
    parser.add_argument("--models", default=",".join(MODELS), help='models of benchmarks/models.py; "" for none')
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--target", default="llvm")
    takes_json(parser)
    options = parser.parse_args(argv)
    target = Target(options.target)
    programs = names(parser, "--programs", options.programs, PROGRAMS)
    results = [of_program(n, target, options.rounds) for n in programs]
    results += [of_model(n, target, options.rounds) for n in options.models.split(",") if n]
    show(results)
    write_json(options, results)
    return 0
