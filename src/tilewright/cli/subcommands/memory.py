"""`tilewright memory`: what a run of a model takes."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli import cli
from tilewright.cli.options import Shapes, model_options


@cli.command("memory")
@model_options
def memory_command(model: Path, shapes: Shapes, target: str, opt_level: int, precision: str) -> None:
    """Show how much memory MODEL takes when it runs, and which tensors fill the peak."""
    from tilewright.cli.models import memory_of

    click.echo(str(memory_of(model, shapes, target, opt_level, precision)))
