"""`tilewright profile`: times of the kernels of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.cli import cli
from tilewright.cli.options import (
    Build,
    Feed,
    duration_option,
    feed_options,
    model_options,
    shown,
    thread_option,
    top_option,
)

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("profile", short_help="Measure each kernel of a model.")
@model_options
@feed_options
@thread_option
@duration_option
@top_option(40, "kernels")
@shown
def profile_command(build: Build, feed: Feed, threads: int | None, seconds: float, top: int, form: Form) -> None:
    """Measure each kernel of MODEL, a model file or a compiled library: time, rate, and share of the machine's peak.

    \b
    tilewright profile resnet50.onnx --threads 1 --top 10
    tilewright profile bert.so --input ids.npz --csv
    """
    from tilewright import runtime
    from tilewright.cli.profiling import peaks_of, profile_kernels, render_profile, rows_of
    from tilewright.cli.running import run_once
    from tilewright.cli.screen import progress

    executor = run_once(build, feed, threads).executor
    with progress("measuring") as report:
        kernels = profile_kernels(executor, seconds, runtime.num_threads(), report)
    facts = {
        "model": str(build.model), "threads": runtime.num_threads(), "us": sum([k.microseconds for k in kernels]),
        "peaks_gflops": peaks_of(kernels), "kernels": rows_of(kernels),
    }  # fmt: skip
    form.show(facts, rows_of(kernels), lambda: [render_profile(kernels, top, build.model.name)])
