"""`tilewright compile`: compiles a model file to a native library."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import Build, check_writable, model_options, output_path, shown
from tilewright.support.errors import TVMError

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
    from tilewright.cli.models import compile_model
    from tilewright.cli.screen import in_bytes, render_seconds
    from tilewright.codegen.backend import back_end_of
    from tilewright.ir.instrument import HtmlReport
    from tilewright.support.linker import need_writer
    from tilewright.target import Target

    # Checked before minutes of compiling, not after.
    if output.suffix not in (".so", ".dylib", ".dll", ".wasm", ".a", ".lib", ".tar", ".o", ".ll", ".s"):
        raise TVMError(
            f"--output {output}: the suffix is {output.suffix or 'empty'}, but must be .so, .dylib, .dll, .wasm, .a, .tar, .o, .ll or .s"
        )
    check_writable(output, "--output")
    if report is not None:
        check_writable(report, "--report")
    if output.suffix not in (".ll", ".s"):
        made_for = Target(build.target)
        need_writer(output, back_end_of(made_for, "tilewright compile").object_kind(made_for))
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
