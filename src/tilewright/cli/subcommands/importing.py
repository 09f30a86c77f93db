"""`tilewright import`: a model as a relay program, or a report on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import Shapes, model_argument, shape_option, shown, target_option

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("import")
@model_argument
@shape_option
@target_option
@click.option(
    "--check",
    is_flag=True,
    help="Only report: operators, what is not supported and where, inputs, weights, operations, memory, what was handled. Nothing is"
    " compiled. Exits with 0 where the model can be imported, else with 1.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the relay program: .json (whole, with weights), else its text.  [default: text to standard output]",
)
@click.option(
    "--params", type=click.Path(dir_okay=False, path_type=Path), help="Also write the weights that are parameters here."
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
    """Import MODEL as a relay program, or say beforehand what would come of it (--check, which --json and --csv imply).

    \b
    tilewright import model.onnx --check
    tilewright import model.pt2 --check --json
    tilewright import model.onnx --shape x=1,3,224,224 -o model.relay

    Formats, by the file's ending or content: ONNX (.onnx); PyTorch (.pt2 of torch.export.save; .pt, .pth, .ts, .torchscript of
    torch.jit.save, with --shape for each input); TFLite (.tflite, .lite); TensorFlow (folders of a SavedModel, .pb of a frozen graph);
    Keras (.keras, .h5, .hdf5).
    """
    from tilewright.cli.importing import check_model, import_model

    if check or form.as_json or form.as_csv:
        if output is not None or params is not None:
            raise click.UsageError("--check only reports; give -o and --params without it")
        sys.exit(check_model(model, shapes, target, form))
    import_model(model, shapes, output, params)
