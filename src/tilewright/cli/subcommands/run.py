"""`tilewright run`: a compiled library, once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tilewright.cli import cli
from tilewright.cli.options import seed_option, thread_option, use_threads


@cli.command("run")
@click.argument("library", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An .npz with an array for each input, or NAME.npy.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the outputs to this .npz.")
@thread_option
@seed_option
def run_command(library: Path, inputs: Sequence[Path], output: Path | None, threads: int | None, seed: int) -> None:
    """Run a compiled LIBRARY once; inputs that are not given are random."""
    import numpy as np
    from rich.table import Table

    from tilewright.cli.models import executor_of, load_library
    from tilewright.cli.options import check_writable
    from tilewright.cli.screen import out
    from tilewright.cli.tensors import fill_inputs, output_names, read_inputs, write_outputs

    if output is not None:
        check_writable(output, "--output")
    use_threads(threads)
    executor = executor_of(load_library(library))
    fill_inputs(executor, read_inputs(inputs), seed)
    executor.run()
    results = {name: executor.get_output(i).numpy() for i, name in enumerate(output_names(executor))}
    table = Table("output", "shape", "dtype", "min", "mean", "max")
    for name, value in results.items():
        numbers = value.astype(np.float64)
        stats = [f"{f(numbers):.6g}" for f in (np.min, np.mean, np.max)] if value.size else ["", "", ""]
        table.add_row(name, "x".join(map(str, value.shape)), value.dtype.name, *stats)
    out().print(table)
    if output is not None:
        write_outputs(output, results)
