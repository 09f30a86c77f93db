"""`tilewright compile`: a model file to a native library."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tilewright.cli import cli
from tilewright.cli.options import Shapes, model_options
from tilewright.support.errors import TVMError


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
    from tilewright.cli.models import compile_model
    from tilewright.cli.options import check_writable
    from tilewright.cli.screen import in_bytes, out, render_seconds
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
