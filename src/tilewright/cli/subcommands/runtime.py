"""`tilewright runtime`: the native runtime for other machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import shown

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.group("runtime")
def runtime_group() -> None:
    """Build what runs compiled models on machines without Python.

    \b
    tilewright runtime build --target aarch64-linux-gnu -o board
    """


@runtime_group.command("build")
@click.option(
    "--target",
    "name",
    required=True,
    metavar="MACHINE",
    help="The machine: a triple (aarch64-linux-gnu), an architecture (riscv64), or a board (raspberry-pi/5).",
)
@click.option("--rpc", is_flag=True, help="Also build the server for clients on other machines (tilewright_rpc).")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The folder to write to; by default the current one.",
)
@shown
def runtime_build(name: str, rpc: bool, output: Path, form: Form) -> None:
    """Compile the runtime for a machine by zig (`pip install tilewright[cross]`): a shared library, a static archive, and
    with --rpc the program by which clients load, run and measure models there (`./tilewright_rpc server --help`).

    \b
    tilewright runtime build --target aarch64-linux-gnu -o board
    tilewright runtime build --target raspberry-pi/5 --rpc -o board
    """
    from tilewright.cli.screen import in_bytes, progress
    from tilewright.deploy.machines import machine_of
    from tilewright.deploy.native_build import build_runtime

    machine = machine_of(name)
    with progress(f"building the runtime for {machine.name}") as report:
        built = build_runtime(machine, output, rpc, report)
    rows = [
        {"what": what, "file": str(path), "bytes": path.stat().st_size}
        for what, path in built._asdict().items()
        if path is not None
    ]
    form.show(
        {"target": machine.triple, **{str(row["what"]): row for row in rows}},
        rows,
        lambda: [f"{row['file']}: {in_bytes(Path(str(row['file'])).stat().st_size)}" for row in rows],
    )
