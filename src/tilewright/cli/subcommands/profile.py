"""`tilewright profile`: times of the kernels of a model, measured, or computed for a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

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
@click.option(
    "--static",
    is_flag=True,
    help="Analyse the kernels for a GPU of NVIDIA without one: occupancy, coalescing, bank conflicts, roofline.",
)
@shown
def profile_command(
    build: Build, feed: Feed, threads: int | None, seconds: float, top: int, static: bool, form: Form
) -> None:
    """Measure each kernel of MODEL, a model file or a compiled library: time, rate, and share of the machine's peak.

    The kernels run on the device that they are compiled for. With --static nothing runs, and no GPU is needed.

    Kernels that come from records of `tilewright tune` are marked: with their time over that of the untuned kernel, as the tuner measured
    them.

    \b
    tilewright profile resnet50.onnx --threads 1 --top 10
    tilewright profile bert.so --input ids.npz --csv
    tilewright profile resnet50.onnx --records resnet50.records
    tilewright profile resnet50.onnx --static --target "cuda -arch=sm_90a -model=h200"
    """
    if static:
        _static(build, top, form)
        return
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


def _static(build: Build, top: int, form: Form) -> None:
    """Compiles a model for a GPU, and shows what its kernels use and cost."""
    from tilewright.cli.models import LIBRARIES, checked_target, compile_model
    from tilewright.cli.static_profile import render_static, static_facts, static_rows
    from tilewright.relay.backend.kernel_reports import model_kernel_reports
    from tilewright.support.errors import TVMError

    target = checked_target(build.target)
    if target.kind.name not in ("cuda", "nvptx"):
        raise TVMError(
            "--static analyses kernels for GPUs of NVIDIA: give --target cuda, or such as 'cuda -arch=sm_90a -model=h200', not"
            f" {build.target!r}"
        )
    gpu = target.gpu
    if build.model.suffix in LIBRARIES:
        raise TVMError(f"--static takes a model file: the library {build.model} keeps no programs of its kernels")
    library, _ = compile_model(build)
    kernels = model_kernel_reports(library)
    facts = static_facts(str(build.model), kernels, gpu)
    form.show(facts, static_rows(kernels, gpu), lambda: [render_static(kernels, gpu, top, build.model.name)])
