"""`tilewright compile`: compiles a model file to a native library."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import Build, check_writable, model_options, output_path, shown

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("compile", short_help="Compile a model file to a native library.")
@model_options
@click.option(
    "-o",
    "--output",
    required=True,
    type=output_path,
    help=(
        "File to write: a library (.so, .dylib, .dll or .wasm, linked; .a, static; .tar or .o, objects), or the kernels as text (.ll, LLVM"
        " IR; .s, assembly)."
    ),
)
@click.option(
    "--report",
    type=output_path,
    help="Also write an HTML report: the passes in order, their times, what each changed, and the memory plan.",
)
@shown
def compile_command(build: Build, output: Path, report: Path | None, form: Form) -> None:
    """Compile MODEL (ONNX, PyTorch, ...; see `tilewright import --help`) to a native library, or to its kernels as text.

    \b
    tilewright compile resnet50.onnx -o resnet50.so
    tilewright compile bert.onnx --shape input_ids=1,128 --precision bf16 -o bert.so
    tilewright compile silero_vad.onnx --value sr=16000 -o vad.so
    tilewright compile resnet50.onnx --precision int8 --calibrate pictures.npz -o resnet50.so
    """
    from tilewright.cli.models import check_library, compile_model
    from tilewright.cli.screen import in_bytes, render_seconds
    from tilewright.ir.instrument import HtmlReport

    # Checked before minutes of compiling, not after.
    check_library(output, build.target)
    if report is not None:
        check_writable(report, "--report")
    watching = [HtmlReport(report, build.model.name, held=True)] if report is not None else []
    try:
        library, seconds = compile_model(build, watching)
    except BaseException:
        # The report shows how far compiling came.
        for watch in watching:
            if watch.events:
                watch.write()
        raise
    start = time.perf_counter()
    library.export_library(str(output))
    seconds["link"] = time.perf_counter() - start
    for watch in watching:
        watch.write({"importing the model": seconds["import"], "linking the library": seconds["link"]})
    size = output.stat().st_size
    facts = {
        "model": str(build.model), "library": str(output), "executor": library.metadata["executor"],
        "precision": build.precision, "bytes": size,
    }  # fmt: skip
    row = {**facts, **{f"{step}_seconds": s for step, s in seconds.items()}}
    form.show({**facts, "seconds": seconds}, [row], lambda: [f"{output}: {in_bytes(size)} ({render_seconds(seconds)})"])
