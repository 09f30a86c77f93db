"""`tilewright vta`: the accelerator. `explore` looks for the best ones under a budget, `verilog` writes their hardware."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import cli
from tilewright.cli.options import check_writable, shown
from tilewright.support.errors import TVMError

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.cli.screen import Form


@cli.group("vta")
def vta_group() -> None:
    """The configurable accelerator (VTA).

    \b
    tilewright vta explore --network resnet18 --area 6000 --bandwidth 16 -o front.html --png front.png
    """


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = [p.strip() for p in text.split(",")]
    if not all([p.isdecimal() and int(p) > 0 for p in parts]):
        raise click.UsageError(f"{option} takes positive numbers with commas between, such as 16,32, not {text!r}")
    return tuple(dict.fromkeys(map(int, parts)))


def _arrays(text: str) -> tuple[tuple[int, int, int], ...]:
    found = []
    for part in text.split(","):
        sides = part.strip().split("x")
        if len(sides) not in (2, 3) or not all([s.isdecimal() and int(s) > 0 for s in sides]):
            raise click.UsageError(
                f"--arrays takes inputs x outputs, or batch x inputs x outputs, with commas between, such as 16x16,2x16x32, not {part!r}"
            )
        numbers = [int(s) for s in sides]
        found.append((numbers[0] if len(numbers) == 3 else 1, numbers[-2], numbers[-1]))
    return tuple(dict.fromkeys(found))


@vta_group.command("explore", short_help="The best accelerators for a network under a budget.")
@click.option("--network", help="A network, such as mobilenet_v2. Default: resnet18.")
@click.option(
    "--layers",
    "layers_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="JSON file of layers instead.",
)
@click.option("--area", type=float, help="Largest area, in thousands of gate equivalents.")
@click.option(
    "--bandwidth",
    type=int,
    help="Most bytes of DRAM in a cycle: the two largest powers of two up to it are swept. Default: 16.",
)
@click.option(
    "--arrays",
    help="Arrays, such as 16x16,1x16x32. Default: 8x8,8x16,16x16,16x32,32x32,32x64,64x64.",
)
@click.option("--inp", help="KB of the memory of inputs, such as 16,32. Default: 16,32,64.")
@click.option("--wgt", help="KB of the memory of weights. Default: 64,128,256.")
@click.option("--acc", help="KB of the memory of accumulators. Default: 32,64,128.")
@click.option(
    "--config", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="JSON fields that all have."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Page to write, with a drawing.")
@click.option("--png", type=click.Path(path_type=Path), help="Picture to write; needs matplotlib.")
@shown
def explore_command(
    network: str | None, layers_path: Path | None, area: float | None, bandwidth: int | None, arrays: str | None, inp: str | None,
    wgt: str | None, acc: str | None, config: Path | None, output: Path | None, png: Path | None, form: Form,
) -> None:  # fmt: skip
    """Estimate the time of a network on all configurations within a budget, and show those that no other one beats in area, bandwidth and
    time at once.

    Nothing is compiled or simulated: the best tiles of each layer come from a search over an analytic model. Ctrl-C keeps what was found.

    \b
    tilewright vta explore --area 6000 --bandwidth 16 -o front.html --png front.png
    tilewright vta explore --layers layers.json --arrays 16x16,16x32 --inp 16,32,64 --json
    """
    from tilewright.cli.screen import noted, progress
    from tilewright.vta.explore import networks, sweep

    if network is not None and layers_path is not None:
        raise click.UsageError("--network and --layers exclude each other; give one")
    _check_outputs({"--output": output, "--png": png})
    if png is not None:
        _need_matplotlib()
    name = str(layers_path) if layers_path is not None else network or "resnet18"
    try:
        layers = networks.read_layers(layers_path) if layers_path is not None else networks.NETWORKS[name]
        space = _space(area, bandwidth, arrays, {"inp": inp, "wgt": wgt, "acc": acc}, config)
    except KeyError:
        raise TVMError(
            f"there is no network {name}; there are {', '.join(networks.NETWORKS)}, and layers in a file (--layers)"
        ) from None
    except ValueError as error:
        raise TVMError(str(error)) from error
    points: list[sweep.Point] = []
    stopped = False
    try:
        with progress("configurations") as report:
            sweep.explore(space, layers, report, points)
    except KeyboardInterrupt:
        stopped = True
        noted(f"stopped; the Pareto front is that of the {len(points)} configurations so far")
    except ValueError as error:
        raise TVMError(str(error)) from error
    if points:
        _write(points, name, output, png, stopped)
        best = sweep.front(points)
        rows = [p.row() for p in best]
        facts = {"network": name, "configurations": [p.row() for p in points], "front": rows, "complete": not stopped}
        form.show(
            facts,
            rows,
            lambda: [_table(rows), f"{len(points)} configurations, {len(best)} of them on the Pareto front"],
        )
    elif not stopped:
        raise TVMError(
            "no configuration of the sweep has tiles for every layer; take larger memories (--inp, --wgt, --acc)"
        )
    if stopped:
        raise KeyboardInterrupt


def _check_outputs(paths: dict[str, Path | None]) -> None:
    for option, path in paths.items():
        if path is not None:
            check_writable(path, option)


def _need_matplotlib() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise TVMError(
            "--png needs matplotlib, which is not installed (pip install matplotlib); -o writes a page without it"
        )


def _space(
    area: float | None, bandwidth: int | None, arrays: str | None, memories: dict[str, str | None], config: Path | None
) -> Any:
    import json

    from tilewright.vta.config_fields import of_json
    from tilewright.vta.explore.sweep import Space

    given: dict[str, Any] = {m: _numbers(f"--{m}", text) for m, text in memories.items() if text is not None}
    if arrays is not None:
        given["arrays"] = _arrays(arrays)
    if area is not None:
        if not area > 0:
            raise click.UsageError(f"--area is {area:g}; it must be positive")
        given["area"] = area * 1e3
    if bandwidth is not None:
        allowed = [b for b in (1, 2, 4, 8, 16, 32, 64, 128, 256) if b <= bandwidth]
        if not allowed:
            raise click.UsageError(f"--bandwidth is {bandwidth}; it must be at least 1")
        given["bandwidth"] = tuple(allowed[-2:])
    if config is not None:
        try:
            of_json(config.read_text())
            given["fields"] = json.loads(config.read_text())
        except ValueError as error:
            raise ValueError(f"{config}: {error}") from error
    return Space(**given)


def _write(points: list[Any], name: str, output: Path | None, png: Path | None, stopped: bool) -> None:
    from tilewright.cli.screen import told
    from tilewright.vta.explore import page

    try:
        if output is not None:
            output.write_text(page.page(points, name, "The sweep was stopped before its end." if stopped else ""))
            told(f"wrote {output}")
        if png is not None:
            page.picture(points, name, png)
            told(f"wrote {png}")
    except OSError as error:
        raise TVMError(f"cannot write {error.filename}: {error.strerror}") from error


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="left" if column == "array" else "right")
    for row in rows:
        table.add_row(*map(str, row.values()))
    return table


@vta_group.command("verilog", short_help="The hardware of an accelerator.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="JSON fields. Default: the classic ones.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.")
@click.option("--cells", type=click.Choice(["ecp5", "ice40"]), help="Print the cells on this family of FPGAs.")
@shown
def verilog_command(config: Path | None, output: Path | None, cells: str | None, form: Form) -> None:
    """Write the Verilog of an accelerator, whose top is the module `vta`, or count the cells that it takes. Needs the extra `rtl`.

    \b
    tilewright vta verilog --config vta_config.json -o vta.v
    tilewright vta verilog --config vta_config.json --cells ecp5
    """
    from tilewright.cli.screen import told
    from tilewright.vta.config_fields import of_json

    if output is None and cells is None:
        raise click.UsageError("nothing to do; give -o FILE for Verilog, or --cells FAMILY")
    _check_outputs({"--output": output})
    try:
        from tilewright.vta.hardware import synthesis
    except ImportError as error:
        raise TVMError(f"{error.name} is missing; pip install tilewright[rtl] brings it") from error
    try:
        configuration = of_json(config.read_text() if config is not None else "{}")
    except ValueError as error:
        raise TVMError(f"{config}: {error}") from error
    if output is not None:
        try:
            output.write_text(synthesis.verilog(configuration))
        except OSError as error:
            raise TVMError(f"cannot write {error.filename}: {error.strerror}") from error
        told(f"wrote {output}")
    if cells is not None:
        found = synthesis.cells_of(configuration, cells)
        form.show({"family": cells, "cells": found}, [found], lambda: [f"{n:>8} {kind}" for kind, n in found.items()])
