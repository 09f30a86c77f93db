"""`tilewright run`: a compiled library, or a model, once."""

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
    use_threads,
)

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("run")
@model_options
@feed_options
@click.option("-o", "--output", type=output_path, help="Write the outputs to this .npz.")
@thread_option
@shown
def run_command(build: Build, feed: Feed, output: Path | None, threads: int | None, form: Form) -> None:
    """Run MODEL (a compiled library, or a model file, which is compiled first) once. Inputs that are not given are random, and a line says
    so; --strict refuses that.

    \b
    tilewright run resnet50.so --input picture.npz --output scores.npz
    tilewright run bert.so --run-shape input_ids=2,64
    tilewright run small.onnx --target interp
    """
    import numpy as np
    from rich.table import Table

    from tilewright.cli.models import executor_of, load_or_compile
    from tilewright.cli.tensors import feed_model, outputs_of, run_checked, write_outputs

    if output is not None:
        check_writable(output, "--output")
    use_threads(threads)
    library, _ = load_or_compile(build)
    executor = executor_of(library)
    feed_model(executor, feed)
    run_checked(executor)
    results = outputs_of(executor)
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
    """A row as values: extents as a list, numbers as numbers."""
    numbers = {k: float(row[k]) if row[k] else None for k in ("min", "mean", "max")}
    return {**row, "shape": [int(d) for d in row["shape"].split("x")] if row["shape"] else [], **numbers}
