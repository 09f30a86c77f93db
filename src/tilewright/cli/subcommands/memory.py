"""`tilewright memory`: what a run of a model takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.cli import cli
from tilewright.cli.options import Build, Feed, feed_options, model_options, shown

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("memory")
@model_options
@feed_options
@shown
def memory_command(build: Build, feed: Feed, form: Form) -> None:
    """Show how much memory MODEL (a model file or a compiled library) takes when it runs, and which tensors fill the peak.

    Where sizes are known, that is the plan, and nothing is compiled. Where they are open, the model is compiled for the virtual
    machine, runs on the inputs (--input, --run-shape, or random ones), and what its tensors took at once is measured.

    \b
    tilewright memory resnet50.onnx
    tilewright memory bert.onnx --run-shape input_ids=1,128 --json
    """
    from tilewright.cli.memory import memory_of

    found = memory_of(build, feed)
    facts: dict[str, Any] = {"model": str(build.model), **found.facts}
    form.show(facts, [{"part": name, "bytes": size} for name, size in found.totals.items()], lambda: [found.text])
