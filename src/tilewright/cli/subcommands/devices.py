"""`tilewright devices`: the devices of this machine that models can run on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import cli
from tilewright.cli.options import shown

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.cli.screen import Form
    from tilewright.runtime import Device


@cli.command("devices", short_help="List the devices of this machine.")
@click.argument("types", nargs=-1)
@shown
def devices_command(types: tuple[str, ...], form: Form) -> None:
    """List the CPU and the GPUs of this machine that models can run on; where there is none of a type, why. TYPES: only these types
    (cpu, cuda, opencl).

    \b
    tilewright devices
    tilewright devices opencl --json
    """
    from tilewright.runtime.found_devices import TYPES, found_devices
    from tilewright.support.errors import TVMError

    try:
        found = {name: found_devices(name) for name in types or TYPES}
    except ValueError as error:
        raise TVMError(str(error)) from error
    rows = [_row(device) for each in found.values() for device in each.devices]
    missing = {name: each.why for name, each in found.items() if not each.devices}
    lines = [f"{name}: {why}" for name, why in missing.items()]
    form.show({"devices": rows, "missing": missing}, rows, lambda: [*([_table(rows)] if rows else []), *lines])


def _row(device: Device) -> dict[str, Any]:
    return {
        "device": str(device),
        "name": device.device_name,
        "compute_units": device.multi_processor_count,
        "clock_khz": device.max_clock_rate,
        "memory": device.total_global_memory,
        "free": device.available_global_memory,
        "version": device.compute_version,
        "driver": device.driver_version,
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    from tilewright.cli.screen import in_bytes

    table = Table(box=None, pad_edge=False)
    for column in ("device", "name", "compute units", "clock", "memory", "free", "version"):
        table.add_column(column, overflow="fold", justify="left" if column in ("device", "name") else "right")
    for row in rows:
        clock = f"{row['clock_khz'] / 1e6:.2f} GHz" if row["clock_khz"] else ""
        sizes = [in_bytes(row[key]) if row[key] is not None else "" for key in ("memory", "free")]
        table.add_row(
            row["device"], row["name"] or "", str(row["compute_units"] or ""), clock, *sizes, row["version"] or ""
        )
    return table
