"""The commands: each imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from tilewright.cli import cli
from tilewright.cli.options import model_options, seed_option, thread_option
from tilewright.cli.work import (
    compile_model,
    executor_of,
    load_or_compile,
    random_input,
    read_inputs,
    timed,
)
from tilewright.support.errors import TVMError

out = Console()
Shapes = Sequence[tuple[str, tuple[int, ...]]]


@cli.command("compile")
@model_options
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The library to write: .so or .tar.")
def compile_command(model: Path, shapes: Shapes, target: str, opt_level: int, output: Path) -> None:
    """Compile MODEL (.onnx) to a native library."""
    library, seconds = compile_model(model, shapes, target, opt_level)
    start = time.perf_counter()
    library.export_library(str(output))
    seconds["link"] = time.perf_counter() - start
    times = ", ".join([f"{step} {s:.2f} s" for step, s in seconds.items()])
    out.print(f"{output}: {output.stat().st_size / 1e6:.1f} MB ({times})", highlight=False)


@cli.command("run")
@click.argument("library", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-i", "--input", "inputs", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), help="An .npz with an array for each input, or NAME.npy.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the outputs to this .npz.")
@thread_option
@seed_option
def run_command(library: Path, inputs: Sequence[Path], output: Path | None, threads: int | None, seed: int) -> None:
    """Run a compiled LIBRARY once; inputs that are not given are random."""
    use_threads(threads)
    factory, _ = load_or_compile(library, (), "llvm", 3)
    executor = executor_of(factory)
    given = read_inputs(inputs)
    fill_inputs(executor, given, seed)
    executor.run()
    names = output_names(executor)
    results = {name: executor.get_output(i).numpy() for i, name in enumerate(names)}
    table = Table("output", "shape", "dtype", "min", "mean", "max")
    for name, value in results.items():
        numbers = value.astype(np.float64)
        stats = [f"{f(numbers):.6g}" for f in (np.min, np.mean, np.max)] if value.size else ["", "", ""]
        table.add_row(name, "x".join(map(str, value.shape)), value.dtype.name, *stats)
    out.print(table)
    if output is not None:
        np.savez(output, **results)


@cli.command("bench")
@model_options
@thread_option
@seed_option
@click.option("--seconds", type=click.FloatRange(0.1), default=3.0, show_default=True, help="Measuring time for each contestant.")
@click.option("--peer/--no-peer", default=True, show_default=True, help="Also measure ONNX Runtime, when it is installed.")
def bench_command(
    model: Path, shapes: Shapes, target: str, opt_level: int, threads: int | None, seed: int, seconds: float, peer: bool
) -> None:
    """Show the latency distribution of MODEL (.onnx or a compiled .so), beside ONNX Runtime's."""
    use_threads(threads)
    library, prepared = load_or_compile(model, shapes, target, opt_level)
    executor = executor_of(library)
    inputs = fill_inputs(executor, {}, seed)
    runs = {"Tilewright": executor.run}
    if peer and model.suffix == ".onnx":
        session = peer_session(model, threads)
        if session is not None:
            runs["ONNX Runtime"] = lambda: session.run(None, inputs)
    times: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in runs}
    rounds = 6
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(timed(run, seconds / rounds))
    table = Table("milliseconds", "median", "mean", "p5", "p95", "min", "max", "runs", title=model.name)
    for name, parts in times.items():
        t = np.concatenate(parts)
        numbers = [np.median(t), t.mean(), np.percentile(t, 5), np.percentile(t, 95), t.min(), t.max()]
        table.add_row(name, *[f"{n:.3f}" for n in numbers], str(len(t)))
    out.print(table)
    if len(times) > 1:
        mine, theirs = (float(np.median(np.concatenate(parts))) for parts in times.values())
        out.print(f"ratio to ONNX Runtime: {mine / theirs:.2f}", highlight=False)
    out.print(", ".join([f"{step} {s:.2f} s" for step, s in prepared.items()]), highlight=False)


@cli.command("profile")
@model_options
@thread_option
@seed_option
@click.option("--seconds", type=click.FloatRange(0.1), default=3.0, show_default=True, help="Measuring time.")
@click.option("--top", type=click.IntRange(1), default=40, show_default=True, help="Rows to show.")
def profile_command(
    model: Path, shapes: Shapes, target: str, opt_level: int, threads: int | None, seed: int, seconds: float, top: int
) -> None:
    """Show where the time of MODEL (.onnx or a compiled .so) goes, kernel by kernel."""
    from tilewright.cli.profiling import profile_kernels, render_profile

    use_threads(threads)
    library, _ = load_or_compile(model, shapes, target, opt_level)
    executor = executor_of(library)
    fill_inputs(executor, {}, seed)
    executor.run()
    out.print(render_profile(profile_kernels(executor, seconds), top, model.name))


@cli.group("cache")
def cache_group() -> None:
    """Look at or clear the on-disk cache of compiled kernels."""


@cache_group.command("info")
def cache_info() -> None:
    """Show where the cache is and how full."""
    from tilewright.support.cache import default_cache

    cache = default_cache()
    entries = cache.entries()
    out.print(f"{cache.path}: {len(entries)} entries, {sum([e.size for e in entries]) / 1e6:.1f} MB of at most {cache.limit / 1e6:.0f} MB", highlight=False)


@cache_group.command("clear")
def cache_clear() -> None:
    """Remove every entry."""
    from tilewright.support.cache import default_cache

    out.print(f"removed {default_cache().clear()} entries", highlight=False)


def use_threads(threads: int | None) -> None:
    """Limits the pool, when asked to."""
    if threads is not None:
        from tilewright import runtime

        runtime.set_num_threads(threads)


def input_table(executor: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype by input name."""
    shapes, dtypes = executor.get_input_info()
    return {name: (tuple([int(d) for d in shape]), str(dtypes[name])) for name, shape in shapes.items()}


def fill_inputs(executor: Any, given: dict[str, np.ndarray[Any, Any]], seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Sets every input, from `given` or at random; unknown names are refused."""
    table = input_table(executor)
    unknown = sorted(set(given) - set(table))
    if unknown:
        raise TVMError(f"the model has no input {unknown[0]!r}; its inputs are {', '.join(table)}")
    rng = np.random.default_rng(seed)
    values = {name: given[name] if name in given else random_input(shape, dtype, rng) for name, (shape, dtype) in table.items()}
    for name, value in values.items():
        executor.set_input(name, value)
    return values


def output_names(executor: Any) -> list[str]:
    """Names of the outputs in order."""
    return [str(name) for name in executor.get_output_names()]


def peer_session(model: Path, threads: int | None) -> Any:
    """An ONNX Runtime session, or None when the package is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
