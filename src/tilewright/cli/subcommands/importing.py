"""`tilewright import`: a model as a relay program, or a report on the model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import Shapes, model_argument, output_path, shape_option, shown, target_option

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("import", short_help="Check a model file, or write it as a relay program.")
@model_argument
@shape_option
@target_option
@click.option(
    "--check",
    is_flag=True,
    help="Print a report instead of the program: inputs, operators, unsupported operators and their nodes, weights, FLOP, memory,"
    " compatibility notes. Nothing is compiled. The exit code is 0 if the model can be imported, else 1.",
)
@click.option(
    "-o",
    "--output",
    type=output_path,
    help="Write the relay program to this file: as JSON for the suffix .json, else as text.  [default: print the text]",
)
@click.option(
    "--params",
    type=output_path,
    help="Write the weights that are parameters of the program to this file, in the form of relay.save_param_dict.",
)
@shown
def import_command(
    model: Path,
    shapes: Shapes,
    target: str,
    check: bool,
    output: Path | None,
    params: Path | None,
    form: Form,
) -> None:
    """Import MODEL and write it as a relay program, or check whether it can be imported (--check; --json and --csv imply it).

    \b
    tilewright import model.onnx --check
    tilewright import model.pt2 --check --json
    tilewright import model.onnx --shape x=1,3,224,224 -o model.relay

    Formats, by suffix or content: ONNX (.onnx); PyTorch (.pt2 from torch.export.save; .pt, .pth, .ts, .jit, .torchscript from
    torch.jit.save, with --shape for each input); TFLite (.tflite, .lite); TensorFlow (folder of a SavedModel, .pb of a frozen graph);
    Keras (.keras, .h5, .hdf5).
    """
    from tilewright.cli.importing import check_model, import_model

    if check or form.as_json or form.as_csv:
        if output is not None or params is not None:
            raise click.UsageError("--check writes no files; leave out -o and --params, or --check")
        sys.exit(check_model(model, shapes, target, form))
    import_model(model, shapes, output, params)
