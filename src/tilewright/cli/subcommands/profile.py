"""`tilewright profile`: where the time of a model goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import Build, Feed, feed_options, model_options, shown, thread_option, use_threads

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("profile")
@model_options
@feed_options
@thread_option
@click.option(
    "--duration",
    "--seconds",
    "seconds",
    type=click.FloatRange(0.1),
    default=3.0,
    show_default=True,
    help="Measuring time in seconds.",
)
@click.option("--top", type=click.IntRange(1), default=40, show_default=True, help="Rows of the table to show.")
@shown
def profile_command(build: Build, feed: Feed, threads: int | None, seconds: float, top: int, form: Form) -> None:
    """Show where the time of MODEL (a model file or a compiled library) goes, kernel by kernel.

    \b
    tilewright profile resnet50.onnx --threads 1 --top 10
    tilewright profile bert.so --input ids.npz --csv
    """
    from tilewright import runtime
    from tilewright.cli.models import executor_of, load_or_compile
    from tilewright.cli.profiling import peaks_of, profile_kernels, render_profile, rows_of
    from tilewright.cli.screen import progress
    from tilewright.cli.tensors import feed_model, run_checked

    use_threads(threads)
    library, _ = load_or_compile(build)
    executor = executor_of(library)
    feed_model(executor, feed)
    run_checked(executor)
    with progress("measuring") as report:
        kernels = profile_kernels(executor, seconds, runtime.num_threads(), report)
    facts = {
        "model": str(build.model), "threads": runtime.num_threads(), "us": sum([k.microseconds for k in kernels]),
        "peaks_gflops": peaks_of(kernels), "kernels": rows_of(kernels),
    }  # fmt: skip
    form.show(facts, rows_of(kernels), lambda: [render_profile(kernels, top, build.model.name)])
