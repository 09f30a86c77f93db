"""`tilewright run`: one run of a compiled library or a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    import numpy as np
    from rich.table import Table

    from tilewright.cli.running import run_once
    from tilewright.cli.tensors import outputs_of, write_outputs

    if output is not None:
        check_writable(output, "--output")
    results = outputs_of(run_once(build, feed, threads).executor)
    rows = []
    for name, value in results.items():
        row = {"output": name, "shape": "x".join(map(str, value.shape)), "dtype": value.dtype.name}
        numbers = value.astype(np.float64)
        for column, f in (("min", np.min), ("mean", np.mean), ("max", np.max)):
            row[column] = f"{f(numbers):.6g}" if value.size else ""
        rows.append(row)

    def tables() -> list[Table]:
        table = Table("output", "shape", "dtype", "min", "mean", "max")
        for row in rows:
            table.add_row(*row.values())
        return [table]

    if output is not None:
        write_outputs(output, results)
    form.show({"library": str(build.model), "outputs": [plain(r) for r in rows]}, rows, tables)


def plain(row: dict[str, str]) -> dict[str, object]:
    """A row for JSON: the shape as a list, figures as numbers."""
    numbers = {k: float(row[k]) if row[k] else None for k in ("min", "mean", "max")}
    return {**row, "shape": [int(d) for d in row["shape"].split("x")] if row["shape"] else [], **numbers}
