"""The description of a compiled library, read from the file, which may be for another machine."""

from __future__ import annotations

import json
import lzma
import tarfile
import zlib
from pathlib import Path
from typing import Any

from rich.table import Table

from tilewright.cli.models import LIBRARIES
from tilewright.cli.screen import in_bytes
from tilewright.runtime.linking.archive_file import members
from tilewright.runtime.linking.symbol_file import SymbolFile, symbol_file
from tilewright.runtime.linking.symbols import CONSTANTS, METADATA, TARGET
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import TVMError, said
from tilewright.support.linker import STATIC
from tilewright.support.object_kind import WASM, ObjectKind

FUNCTION = "__tvm_ffi_"
"""Prefix of the symbols of functions that a host may call."""


def package_of(path: Path) -> dict[str, Any] | None:
    """The description in a package in the model library format; None for other files."""
    if path.suffix != ".tar" or not path.is_file():
        return None
    from tilewright.micro.package_format import NoArchiveError, package_metadata

    try:
        return package_metadata(path)
    except (ValueError, NoArchiveError, OSError, EOFError, zlib.error, lzma.LZMAError):
        return None


def inspected(path: Path) -> dict[str, Any]:
    """Inputs, outputs, target, features, version, executor and sizes of a library. Raises TVMError for other files."""
    if path.suffix not in LIBRARIES:
        raise TVMError(
            f"{path} is not a compiled library ({', '.join(LIBRARIES)}); for a model file use: tilewright import {path} --check"
        )
    if not path.is_file():
        raise TVMError(f"{path} is no file, so it is no library")
    try:
        with open(path, "rb") as file:
            kind = ObjectKind.of(file.read(64))
        if path.suffix not in STATIC and (kind is None or kind.container != WASM):
            global_func("runtime.CheckSeal")(str(path))
    except ValueError as error:
        raise TVMError(str(error)) from error
    try:
        parts = [symbol_file(data) for data in contents(path)]
        texts = {name: found for name in (METADATA, TARGET) for p in parts if (found := _ending(p, name))}
        facts = {name: json.loads(text.rstrip(b"\0")) for name, text in texts.items()}
    except (ValueError, tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise TVMError(f"{path} cannot be inspected: {said(error)}; copy or compile it again") from error
    model = facts.get(METADATA, {})
    target = model.get("target") or facts.get(TARGET)
    functions = sorted({s.removeprefix(FUNCTION) for p in parts for s in p.symbols if s.startswith(FUNCTION)})
    if not model and not target and not functions:
        raise TVMError(f"{path} was not written by this compiler: it describes no model, target or functions")
    kernels = model.get("kernels", [])
    return {
        "library": str(path),
        "executor": model.get("executor"),
        "version": model.get("version"),
        "opt_level": model.get("opt_level"),
        "inputs": model.get("inputs", []),
        "outputs": model.get("outputs", []),
        "target": target or {},
        "functions": functions,
        "kernels": len(kernels),
        "distinct_kernels": len({k["name"] for k in kernels}),
        "kernels_from_records": len({k["name"] for k in kernels if "record" in k}),
        "flops": sum([int(k["flops"]) for k in kernels]) if model.get("executor") != "vm" else None,
        "bytes": {
            "file": path.stat().st_size,
            "code": sum([p.code_bytes for p in parts]),
            "constants": model.get("constants_bytes", sum([p.size(CONSTANTS) for p in parts])),
            "workspace": model.get("workspace_bytes"),
        },
    }


def _ending(part: SymbolFile, name: str) -> bytes | None:
    """The content of a symbol, which may have a prefix ("system_lib_prefix")."""
    return next((part.content(s) for s in part.symbols if s.endswith(name)), None)


def contents(path: Path) -> list[bytes]:
    """The object files of an archive, or the file itself."""
    if path.suffix in STATIC:
        return list(members(path.read_bytes()).values())
    if path.suffix != ".tar":
        return [path.read_bytes()]
    with tarfile.open(path) as archive:
        parts = [archive.extractfile(m) for m in archive.getmembers() if m.isfile() and m.name.endswith(".o")]
        return [m.read() for m in parts if m is not None]


def type_of(t: dict[str, Any]) -> str:
    """The element type of an input or output."""
    return "string" if t.get("strings") else t["dtype"] or "not a tensor"


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Inputs and outputs as rows."""
    return [
        {"kind": kind[:-1], "name": t["name"], "dtype": type_of(t), "shape": "x".join(map(str, t["shape"] or ()))}
        for kind in ("inputs", "outputs")
        for t in found[kind]
    ]  # fmt: skip


RUNNERS = {
    "aot": "one compiled entry",
    "graph": "the graph, kernel by kernel",
    "vm": "the virtual machine",
    "kernels": "kernels of a graph only",
}


def rendered(found: dict[str, Any]) -> list[Any]:
    """The description as tables and lines."""
    size, target = found["bytes"], found["target"]
    parts: list[Any] = []
    if found["executor"]:
        by = f"{found['executor']} ({RUNNERS.get(found['executor'], 'unknown')})"
        version = f"; written by tilewright {found['version']}" if found["version"] else ""
        parts.append(f"{found['library']}: runs by {by}; opt level {found['opt_level']}{version}")
    else:
        parts.append(f"{found['library']}: functions, no model: {', '.join(found['functions']) or 'none by name'}")
    rows = rows_of(found)
    if rows:
        table = Table("", "name", "type", "shape")
        for r in rows:
            table.add_row(r["kind"], r["name"], r["dtype"], r["shape"] or "scalar")
        parts.append(table)
    if target:
        parts.append(f"target: {target.get('triple', '')}, CPU {target.get('cpu') or 'generic'}")
        parts.append(f"CPU features: {', '.join(target.get('features', [])) or 'none beyond the architecture'}")
    if found["kernels"]:
        calls = f" calls of {found['distinct_kernels']}" if found["executor"] != "vm" else ""
        recorded = f", {n} of them from records" if (n := found["kernels_from_records"]) else ""
        parts.append(f"kernels: {found['kernels']}{calls}{recorded}")
    sizes = (
        f"sizes: file {in_bytes(size['file'])}, code {in_bytes(size['code'])}, constants {in_bytes(size['constants'])}"
    )
    parts.append(
        sizes + (f", workspace of a run {in_bytes(size['workspace'])}" if size["workspace"] is not None else "")
    )
    return parts
