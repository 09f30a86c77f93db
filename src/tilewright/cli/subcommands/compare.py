"""`tilewright compare`: a model beside a reference, layer by layer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from tilewright.cli import cli
from tilewright.cli.options import Shapes, model_options, seed_option, thread_option, use_threads


@cli.command("compare")
@model_options
@thread_option
@seed_option
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An .npz with an array for each input, or NAME.npy; inputs that are not given are random.",
)
@click.option(
    "--reference",
    type=click.Choice(["onnxruntime", "torch", "tflite", "tensorflow", "keras", "float32"]),
    help="What to compare with: the model in another runtime, layer by layer, or the build in float32."
    "  [default: at fp32 the runtime of the model's own framework, else float32]",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=15,
    show_default=True,
    help="Layers to show: those with the largest errors.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    help="Exit with 1 where an output differs by more than this share of its largest value."
    "  [default: 1e-3 at fp32 with another runtime, else none]",
)
@click.option("--json", "as_json", is_flag=True, help="Print all layers as JSON, and no table.")
def compare_command(
    model: Path,
    shapes: Shapes,
    target: str,
    opt_level: int,
    precision: str,
    threads: int | None,
    seed: int,
    inputs: Sequence[Path],
    reference: str | None,
    top: int,
    tolerance: float | None,
    as_json: bool,
) -> None:
    """Show how far MODEL is from a reference, layer by layer, which layer is the first that departs, and what overflows.

    The reference is another runtime (--reference onnxruntime, torch, ...), whose results of every node are compared with ours, or,
    for narrow types, the build in float32, kernel by kernel. Exits with 1 if an output is further off than --tolerance, or if a number
    is lost: infinite or NaN, and finite in the reference; the message names the first layer at fault.
    """
    from tilewright.cli.comparing import compare_models
    from tilewright.cli.screen import out
    from tilewright.cli.tensors import read_inputs

    use_threads(threads)
    found = compare_models(model, shapes, target, opt_level, precision, read_inputs(inputs), seed, reference, tolerance)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=1))
    else:
        console = out()
        for part in found.rendered(model.name, top):
            console.print(part)
    found.check()
