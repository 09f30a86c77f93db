"""`tilewright run`: one run of a compiled library or a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import cli
from tilewright.cli.options import (
    Build,
    Feed,
    check_writable,
    feed_options,
    model_options,
    output_path,
    shown,
    thread_option,
)

if TYPE_CHECKING:
    from tilewright.cli.screen import Form
    from tilewright.cli.tensors import Array

STATISTICS = ("min", "mean", "max")
FIGURES = ("output", "shape", "dtype", *STATISTICS)


@cli.command("run", short_help="Run a library or a model file once.")
@model_options
@feed_options
@click.option("-o", "--output", type=output_path, help="Write the outputs to this .npz file.")
@thread_option
@shown
def run_command(build: Build, feed: Feed, output: Path | None, threads: int | None, form: Form) -> None:
    """Run MODEL once: a compiled library, or a model file, which is compiled first.

    \b
    tilewright run resnet50.so --input picture.npz --output scores.npz
    tilewright run bert.so --run-shape input_ids=2,64
    tilewright run small.onnx --target interp
    """
    from rich.table import Table

    from tilewright.cli.running import run_once
    from tilewright.cli.tensors import outputs_of, write_outputs

    if output is not None:
        check_writable(output, "--output")
    results = outputs_of(run_once(build, feed, threads).executor)
    rows = [summary(name, value) for name, value in results.items()]

    def tables() -> list[Any]:
        table = Table(*FIGURES)
        for row in rows:
            table.add_row(*[row[column] for column in FIGURES])
        return [table, *[f"{row['output']}: {row['strings']}" for row in rows if "strings" in row]]

    if output is not None:
        write_outputs(output, results)
    outputs = [plain(row, value) for row, value in zip(rows, results.values(), strict=True)]
    form.show({"library": str(build.model), "outputs": outputs}, rows, tables)


def summary(name: str, value: Array) -> dict[str, str]:
    """An output as a row: figures of numbers, or strings as JSON writes them."""
    import numpy as np

    row = {"output": name, "shape": "x".join(map(str, value.shape)), "dtype": value.dtype.name}
    if value.dtype == object:
        return {**row, "dtype": "string", **dict.fromkeys(STATISTICS, ""), "strings": strings_text(value.tolist())}
    numbers = value.astype(np.float64)
    for column in STATISTICS:
        row[column] = f"{getattr(np, column)(numbers):.6g}" if value.size else ""
    return row


def strings_text(strings: object) -> str:
    """Nested lists of strings on one line; what no terminal shows (line ends, bytes that are no UTF-8) is escaped."""
    text = json.dumps(strings, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()


def plain(row: dict[str, str], value: Array) -> dict[str, object]:
    """A row for JSON: the shape and strings as lists, figures as numbers."""
    numbers = {k: float(row[k]) if row[k] else None for k in STATISTICS}
    strings = {"strings": value.tolist()} if "strings" in row else {}
    return {**row, "shape": list(value.shape), **numbers, **strings}
