"""Packages in the model library format, for people: what is in them, and how much memory they take."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

from rich.table import Table

from tilewright.cli.screen import in_bytes


def described(path: Path, metadata: dict[str, Any]) -> dict[str, Any]:
    """What a package holds, as plain values."""
    with tarfile.open(path) as tar:
        files = {m.name.removeprefix("./"): m.size for m in tar if m.isfile()}
    return {
        "package": str(path),
        "format": "model library format",
        "version": metadata["version"],
        "modules": metadata["modules"],
        "files": files,
        "bytes": path.stat().st_size,
    }


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each model, and for each of its functions."""
    rows = []
    for name, module in found["modules"].items():
        memory = module["memory"]
        if "functions" not in memory:
            rows += [
                _row(name, f, {"io_size_bytes": sum([t["size_bytes"] for t in tensors])})
                for f, tensors in memory.items()
            ]
            continue
        rows += [_row(name, "main", main) for main in memory["functions"]["main"]]
        for operator in memory["functions"]["operator_functions"]:
            sizes = {k: v for part in ("workspace", "constants", "io") for k, v in operator[part][0].items()}
            rows.append(_row(name, operator["function_name"], sizes))
    return rows


def _row(module: str, function: str, sizes: dict[str, Any]) -> dict[str, Any]:
    return {
        "module": module,
        "function": function,
        "inputs and outputs": sizes.get("io_size_bytes", 0),
        "constants": sizes.get("constants_size_bytes", 0),
        "workspace": sizes.get("workspace_size_bytes", 0),
    }


def rendered(found: dict[str, Any]) -> list[Any]:
    """The description as lines and a table of bytes."""
    lines: list[Any] = [f"{found['package']}: {in_bytes(found['bytes'])}, a package of {len(found['files'])} files"]
    for name, module in found["modules"].items():
        run = ", ".join(module["executors"]) or "functions"
        needs = (
            ", ".join([f"{d['short_name']} {d['version_spec']}" for d in module["external_dependencies"]]) or "nothing"
        )
        lines.append(f"{name}: {run}; needs {needs}; {'; '.join(module['target'])}")
    table = Table(title="bytes of memory", box=None, pad_edge=False, title_justify="left")
    rows = rows_of(found)
    for column in rows[0] if rows else ():
        table.add_column(column, justify="left" if column in ("module", "function") else "right", overflow="fold")
    for row in rows:
        table.add_row(*[f"{v:,}" if isinstance(v, int) else v for v in row.values()])
    return [*lines, table]


__all__ = ["described", "rendered", "rows_of"]
