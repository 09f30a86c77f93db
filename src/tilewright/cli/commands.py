"""The commands: each imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import cli
from tilewright.cli.options import (
    model_argument,
    model_options,
    seed_option,
    shape_option,
    target_option,
    thread_option,
)
from tilewright.support.errors import TVMError

if TYPE_CHECKING:
    from rich.console import Console

Shapes = Sequence[tuple[str, tuple[int, ...]]]
ROUNDS = 6


def out() -> Console:
    """Standard output; wide enough for the tables where it is no terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 140, highlight=False)


@cli.command("compile")
@model_options
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The library to write: .so (linked), or .tar and .o (objects); or its kernels as text: .ll (LLVM IR), .s (assembly).",
)
@click.option(
    "--executor",
    type=click.Choice(["aot", "graph"]),
    default="aot",
    show_default=True,
    help="What the library runs by: one compiled entry, or the graph kernel by kernel.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write this HTML file: every pass in order with its time and what it changed, and the memory plan.",
)
def compile_command(
    model: Path,
    shapes: Shapes,
    target: str,
    opt_level: int,
    precision: str,
    output: Path,
    executor: str,
    report: Path | None,
) -> None:
    """Compile MODEL (ONNX, PyTorch, ...: see `tilewright import`) to a native library."""
    from tilewright.cli.work import check_writable, compile_model, in_bytes
    from tilewright.ir.instrument import HtmlReport

    # Said before minutes of compiling, not after.
    if output.suffix not in (".so", ".tar", ".o", ".ll", ".s"):
        raise TVMError(
            f"--output {output}: the name ends in {output.suffix or 'nothing'}, but must end in .so, .tar, .o, .ll or .s"
        )
    check_writable(output, "--output")
    if report is not None:
        check_writable(report, "--report")
    watching = [HtmlReport(report, model.name)] if report is not None else []
    library, seconds = compile_model(model, shapes, target, opt_level, watching, executor, precision)
    start = time.perf_counter()
    library.export_library(str(output))
    seconds["link"] = time.perf_counter() - start
    out().print(f"{output}: {in_bytes(output.stat().st_size)} ({render_seconds(seconds)})")


@cli.command("run")
@click.argument("library", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An .npz with an array for each input, or NAME.npy.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the outputs to this .npz.")
@thread_option
@seed_option
def run_command(library: Path, inputs: Sequence[Path], output: Path | None, threads: int | None, seed: int) -> None:
    """Run a compiled LIBRARY once; inputs that are not given are random."""
    import numpy as np
    from rich.table import Table

    from tilewright.cli.work import (
        check_writable,
        executor_of,
        fill_inputs,
        load_library,
        output_names,
        read_inputs,
        write_outputs,
    )

    if output is not None:
        check_writable(output, "--output")
    use_threads(threads)
    executor = executor_of(load_library(library))
    fill_inputs(executor, read_inputs(inputs), seed)
    executor.run()
    results = {name: executor.get_output(i).numpy() for i, name in enumerate(output_names(executor))}
    table = Table("output", "shape", "dtype", "min", "mean", "max")
    for name, value in results.items():
        numbers = value.astype(np.float64)
        stats = [f"{f(numbers):.6g}" for f in (np.min, np.mean, np.max)] if value.size else ["", "", ""]
        table.add_row(name, "x".join(map(str, value.shape)), value.dtype.name, *stats)
    out().print(table)
    if output is not None:
        write_outputs(output, results)


@cli.command("bench")
@model_options
@thread_option
@seed_option
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=3.0, show_default=True, help="Measuring time for each contestant."
)
@click.option(
    "--peer/--no-peer", default=True, show_default=True, help="Also measure ONNX Runtime, when it is installed."
)
def bench_command(
    model: Path,
    shapes: Shapes,
    target: str,
    opt_level: int,
    precision: str,
    threads: int | None,
    seed: int,
    seconds: float,
    peer: bool,
) -> None:
    """Show the latency distribution of MODEL (a model file or a compiled .so), beside ONNX Runtime's."""
    import numpy as np
    from rich.table import Table

    from tilewright.cli.work import executor_of, fill_inputs, load_or_compile, progress, timed

    use_threads(threads)
    library, prepared = load_or_compile(model, shapes, target, opt_level, precision)
    executor = executor_of(library)
    inputs = fill_inputs(executor, {}, seed)
    runs: dict[str, Callable[[], Any]] = {"Tilewright": executor.run}
    if peer and model.suffix == ".onnx":
        session = peer_session(model, threads)
        if session is not None:
            runs["ONNX Runtime"] = lambda: session.run(None, inputs)
    times: dict[str, list[Any]] = {name: [] for name in runs}
    with progress("measuring") as report:
        for done in range(ROUNDS):
            report(done, ROUNDS, "measuring")
            for name, run in runs.items():
                times[name].append(timed(run, seconds / ROUNDS))
    table = Table("milliseconds", "median", "mean", "p5", "p95", "min", "max", "runs", title=model.name)
    for name, parts in times.items():
        t = np.concatenate(parts)
        numbers = [np.median(t), t.mean(), np.percentile(t, 5), np.percentile(t, 95), t.min(), t.max()]
        table.add_row(name, *[f"{n:.4g}" for n in numbers], str(len(t)))
    console = out()
    console.print(table)
    if len(times) > 1:
        mine, theirs = (float(np.median(np.concatenate(parts))) for parts in times.values())
        console.print(f"ratio to ONNX Runtime: {mine / theirs:.2f}")
    console.print(render_seconds(prepared))


@cli.command("profile")
@model_options
@thread_option
@seed_option
@click.option("--seconds", type=click.FloatRange(0.1), default=3.0, show_default=True, help="Measuring time.")
@click.option("--top", type=click.IntRange(1), default=40, show_default=True, help="Rows to show.")
def profile_command(
    model: Path,
    shapes: Shapes,
    target: str,
    opt_level: int,
    precision: str,
    threads: int | None,
    seed: int,
    seconds: float,
    top: int,
) -> None:
    """Show where the time of MODEL (a model file or a compiled .so) goes, kernel by kernel."""
    from tilewright import runtime
    from tilewright.cli.profiling import profile_kernels, render_profile
    from tilewright.cli.work import executor_of, fill_inputs, load_or_compile, progress

    use_threads(threads)
    library, _ = load_or_compile(model, shapes, target, opt_level, precision)
    executor = executor_of(library)
    fill_inputs(executor, {}, seed)
    executor.run()
    with progress("measuring") as report:
        kernels, peak = profile_kernels(executor, seconds, runtime.num_threads(), report)
    out().print(render_profile(kernels, peak, top, model.name))


@cli.command("memory")
@model_options
def memory_command(model: Path, shapes: Shapes, target: str, opt_level: int, precision: str) -> None:
    """Show how much memory MODEL takes when it runs, and which tensors fill the peak."""
    from tilewright.cli.work import memory_of

    click.echo(str(memory_of(model, shapes, target, opt_level, precision)))


@cli.command("compare")
@model_options
@thread_option
@seed_option
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An .npz with an array for each input, or NAME.npy; inputs that are not given are random.",
)
@click.option(
    "--reference",
    type=click.Choice(["onnxruntime", "torch", "tflite", "tensorflow", "keras", "float32"]),
    help="What to compare with: the model in another runtime, layer by layer, or the build in float32."
    "  [default: at fp32 the runtime of the model's own framework, else float32]",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=15,
    show_default=True,
    help="Layers to show: those with the largest errors.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    help="Exit with 1 where an output differs by more than this share of its largest value."
    "  [default: 1e-3 at fp32 with another runtime, else none]",
)
@click.option("--json", "as_json", is_flag=True, help="Print all layers as JSON, and no table.")
def compare_command(
    model: Path,
    shapes: Shapes,
    target: str,
    opt_level: int,
    precision: str,
    threads: int | None,
    seed: int,
    inputs: Sequence[Path],
    reference: str | None,
    top: int,
    tolerance: float | None,
    as_json: bool,
) -> None:
    """Show how far MODEL is from a reference, layer by layer, which layer is the first that departs, and what overflows.

    The reference is another runtime (--reference onnxruntime, torch, ...), whose results of every node are compared with ours, or,
    for narrow types, the build in float32, kernel by kernel. Exits with 1 if an output is further off than --tolerance, or if a number
    is lost: infinite or NaN, and finite in the reference; the message names the first layer at fault.
    """
    from tilewright.cli.comparing import compare_models
    from tilewright.cli.work import read_inputs

    use_threads(threads)
    found = compare_models(model, shapes, target, opt_level, precision, read_inputs(inputs), seed, reference, tolerance)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=1))
    else:
        console = out()
        for part in found.rendered(model.name, top):
            console.print(part)
    found.check()


@cli.command("import")
@model_argument
@shape_option
@target_option
@click.option(
    "--check",
    is_flag=True,
    help="Only report: operators, what is not supported and where, inputs, weights, operations, memory, what was handled. Nothing is"
    " compiled. Exits with 0 where the model can be imported, else with 1.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report of --check as JSON.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the relay program: .json (whole, with weights), else its text.  [default: text to standard output]",
)
@click.option(
    "--params", type=click.Path(dir_okay=False, path_type=Path), help="Also write the weights that are parameters here."
)
def import_command(
    model: Path,
    shapes: Shapes,
    target: str,
    check: bool,
    as_json: bool,
    output: Path | None,
    params: Path | None,
) -> None:
    """Import MODEL as a relay program, or say beforehand what would come of it (--check).

    \b
    tilewright import model.onnx --check
    tilewright import model.pt2 --check --json
    tilewright import model.onnx --shape x=1,3,224,224 -o model.relay

    Formats, by the file's ending or content: ONNX (.onnx); PyTorch (.pt2 of torch.export.save; .pt, .pth, .ts, .torchscript of
    torch.jit.save, with --shape for each input); TFLite (.tflite, .lite); TensorFlow (folders of a SavedModel, .pb of a frozen graph);
    Keras (.keras, .h5, .hdf5).
    """
    from tilewright.cli.importing import check_model, import_model

    if check or as_json:
        if output is not None or params is not None:
            raise click.UsageError("--check only reports; give -o and --params without it")
        sys.exit(check_model(model, shapes, target, as_json, out()))
    import_model(model, shapes, output, params)


@cli.group("cache")
def cache_group() -> None:
    """Look at or clear the on-disk cache of compiled kernels."""


@cache_group.command("info")
def cache_info() -> None:
    """Show where the cache is and how full."""
    from tilewright.cli.work import in_bytes
    from tilewright.support.cache import default_cache

    cache = default_cache()
    entries = cache.entries()
    used = sum([e.size for e in entries])
    click.echo(f"{cache.path}: {len(entries)} entries, {in_bytes(used)} of at most {in_bytes(cache.limit)}")


@cache_group.command("clear")
def cache_clear() -> None:
    """Remove every entry."""
    from tilewright.support.cache import default_cache

    click.echo(f"removed {default_cache().clear()} entries")


def render_seconds(steps: dict[str, float]) -> str:
    """`import 0.5 s, compile 3.2 s`."""
    return ", ".join([f"{step} {s:.2f} s" for step, s in steps.items()])


def use_threads(threads: int | None) -> None:
    """Limits the pool, when asked to; a number in the environment that is none is refused before anything is compiled."""
    from tilewright import runtime

    try:
        if threads is None:
            runtime.num_threads()
        else:
            runtime.set_num_threads(threads)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def peer_session(model: Path, threads: int | None) -> Any:
    """An ONNX Runtime session, or None when the package is not installed or does not take the model."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own kinds, which share no base
        click.echo(f"warning: ONNX Runtime does not take the model, so it is not measured: {error}", err=True)
        return None
