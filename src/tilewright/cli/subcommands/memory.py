"""`tilewright memory`: the memory that a run of a model takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.cli import cli
from tilewright.cli.options import Build, Feed, feed_options, model_options, shown

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("memory", short_help="Show the memory that a run takes.")
@model_options
@feed_options
@shown
def memory_command(build: Build, feed: Feed, form: Form) -> None:
    """Show the memory that a run of MODEL, a model file or a compiled library, takes, and the tensors at its peak.

    If all dimensions are static, this is the memory plan, and nothing is compiled. A model with dynamic dimensions is compiled for the
    virtual machine and run on the inputs (--input, --run-shape, or random ones), and the peak of its tensors is measured.

    \b
    tilewright memory resnet50.onnx
    tilewright memory bert.onnx --run-shape input_ids=1,128 --json
    """
    from tilewright.cli.memory import memory_of

    found = memory_of(build, feed)
    facts: dict[str, Any] = {"model": str(build.model), **found.facts}
    form.show(facts, [{"part": name, "bytes": size} for name, size in found.totals.items()], lambda: [found.text])
