"""`tilewright compare`: differences between a model and a reference, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import (
    Build,
    Feed,
    FiniteRange,
    feed_options,
    input_path,
    model_options,
    shown,
    thread_option,
    top_option,
    use_threads,
)

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("compare", short_help="Compare results with a reference, layer by layer.")
@model_options
@feed_options
@thread_option
@click.option(
    "--reference",
    type=click.Choice(["onnxruntime", "torch", "tflite", "tensorflow", "keras", "interp", "float32"]),
    help="The reference: another runtime, the interpreter (interp, for small models), or the float32 build."
    "  [default: at fp32 the runtime of the model's framework, else float32]",
)
@click.option(
    "--library",
    type=input_path,
    help="Compare the outputs of this library, compiled from MODEL, instead of a new build.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of sets of random inputs. An --input file that gives an input a second time begins another set.",
)
@top_option(15, "layers with the largest errors")
@click.option(
    "--tolerance",
    type=FiniteRange(0),
    help="Largest error of an output, as a share of its largest value; exit code 1 above it."
    "  [default: 1e-3 at fp32 with another runtime, else none]",
)
@shown
def compare_command(
    build: Build,
    feed: Feed,
    threads: int | None,
    reference: str | None,
    library: Path | None,
    samples: int,
    top: int,
    tolerance: float | None,
    form: Form,
) -> None:
    """Compare MODEL with a reference, layer by layer, and name the first layer that differs.

    The reference is another runtime (--reference onnxruntime, torch, ...), with which every node is compared. For --precision bf16,
    fp16 and int8 it is the float32 build, with which every kernel is compared. The exit code is 1 if an output differs by more than
    --tolerance, or if a value is infinite or NaN here and finite in the reference. The error names the first such layer.

    \b
    tilewright compare resnet50.onnx --reference onnxruntime --samples 5
    tilewright compare resnet50.onnx --precision bf16
    tilewright compare small.onnx --reference interp
    tilewright compare resnet50.onnx --library resnet50.so --input a.npz --input b.npz
    """
    from tilewright.cli.comparing import compare_models

    use_threads(threads)
    found = compare_models(build, feed, reference, tolerance, samples, library)
    rows = [
        {"kind": kind, **d.to_dict()}
        for kind, part in (("layer", found.layers), ("output", found.outputs))
        for d in part
    ]
    form.show(found.to_dict(), rows, lambda: found.rendered(build.model.name, top))
    found.check()
