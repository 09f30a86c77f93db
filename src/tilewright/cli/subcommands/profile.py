"""`tilewright profile`: where the time of a model goes."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli import cli
from tilewright.cli.options import Shapes, model_options, seed_option, thread_option, use_threads


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
    from tilewright.cli.models import executor_of, load_or_compile
    from tilewright.cli.profiling import profile_kernels, render_profile
    from tilewright.cli.screen import out, progress
    from tilewright.cli.tensors import fill_inputs

    use_threads(threads)
    library, _ = load_or_compile(model, shapes, target, opt_level, precision)
    executor = executor_of(library)
    fill_inputs(executor, {}, seed)
    executor.run()
    with progress("measuring") as report:
        kernels = profile_kernels(executor, seconds, runtime.num_threads(), report)
    out().print(render_profile(kernels, top, model.name))
