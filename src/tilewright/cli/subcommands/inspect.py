"""`tilewright inspect`: the description that a compiled library holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import input_path, shown

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("inspect", short_help="Describe a compiled library.")
@click.argument("library", type=input_path)
@shown
def inspect_command(library: Path, form: Form) -> None:
    """Show the inputs, outputs, target, CPU features, version, executor and sizes of a compiled LIBRARY, or of a package.

    The file is read and not executed, so it may be for another machine.

    \b
    tilewright inspect resnet50.so
    tilewright inspect resnet50.so --json
    """
    from tilewright.cli import packages
    from tilewright.cli.inspecting import inspected, package_of, rendered, rows_of

    metadata = package_of(library)
    if metadata is not None:
        package = packages.described(library, metadata)
        form.show(package, packages.rows_of(package), lambda: packages.rendered(package))
        return
    found = inspected(library)
    form.show(found, rows_of(found), lambda: rendered(found))
