"""`tilewright compare`: a model beside a reference, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import (
    Build,
    Feed,
    feed_options,
    input_path,
    model_options,
    shown,
    thread_option,
    use_threads,
)

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("compare")
@model_options
@feed_options
@thread_option
@click.option(
    "--reference",
    type=click.Choice(["onnxruntime", "torch", "tflite", "tensorflow", "keras", "interp", "float32"]),
    help="What to compare with: the model in another runtime or in the interpreter (interp, for small models), layer by layer, or the"
    " build in float32."
    "  [default: at fp32 the runtime of the model's own framework, else float32]",
)
@click.option(
    "--library",
    type=input_path,
    help="Compare the outputs of this compiled library, which was made of MODEL, in place of a build.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Compare on so many sets of random inputs. Files of --input that give an input again are further sets, too.",
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
    """Show how far MODEL is from a reference, layer by layer, which layer is the first that departs, and what overflows.

    The reference is another runtime (--reference onnxruntime, torch, ...), whose results of every node are compared with ours, or,
    for narrow types, the build in float32, kernel by kernel. Exits with 1 if an output is further off than --tolerance, or if a number
    is lost: infinite or NaN, and finite in the reference; the message names the first layer at fault.

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
