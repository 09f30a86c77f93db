"""`tilewright bench`: the latency distribution of a model, beside a peer's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tilewright.cli import cli
from tilewright.cli.options import Shapes, model_options, seed_option, thread_option, use_threads

ROUNDS = 6


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

    from tilewright.cli.measuring import timed
    from tilewright.cli.models import executor_of, load_or_compile
    from tilewright.cli.screen import out, progress, render_seconds
    from tilewright.cli.tensors import fill_inputs

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
