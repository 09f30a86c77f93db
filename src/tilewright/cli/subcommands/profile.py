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

    Kernels that come from records of `tilewright tune` are marked: with their time over that of the untuned kernel, as the tuner measured
    them.

    \b
    tilewright profile resnet50.onnx --threads 1 --top 10
    tilewright profile bert.so --input ids.npz --csv
    tilewright profile resnet50.onnx --records resnet50.records
    """
    from tilewright import runtime
    from tilewright.cli.profiling import peaks_of, profile_kernels, render_profile, rows_of, tuned_share
    from tilewright.cli.running import run_once
    from tilewright.cli.screen import progress

    executor = run_once(build, feed, threads).executor
    with progress("measuring") as report:
        kernels = profile_kernels(executor, seconds, runtime.num_threads(), report)
    rows = rows_of(kernels)
    facts = {
        "model": str(build.model), "threads": runtime.num_threads(), "us": sum([k.microseconds for k in kernels]),
        "peaks_gflops": peaks_of(kernels), "tuned_share": tuned_share(rows), "kernels": rows,
    }  # fmt: skip
    form.show(facts, rows, lambda: [render_profile(kernels, top, build.model.name)])
