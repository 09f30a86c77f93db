"""A folder with all that firmware is made of: `make` builds it with arm-none-eabi-gcc, riscv64-unknown-elf-gcc or zig."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.micro.board import Board, board
from tilewright.micro.device_runtime import source_folder, start_file
from tilewright.micro.export.firmware import build, main_source, runtime_files
from tilewright.micro.export.makefile import makefile, model_flags
from tilewright.micro.export.report import Report, check_pools
from tilewright.micro.export.sources import ModelFiles, model_files
from tilewright.micro.linker_script import linker_script
from tilewright.relay.backend.executor_factory import ExecutorFactoryModule
from tilewright.support.files import write_whole


def export_project(
    lib: ExecutorFactoryModule,
    which: str | os.PathLike[str] | Mapping[str, Any] | Board,
    folder: str | os.PathLike[str],
    pools: Mapping[str, str] | None = None,
    level: str = "",
    check: bool = True,
) -> Report:
    """Writes firmware that runs a model on a board, as a folder in which `make` builds it, with a report (report.txt, report.json).

    lib: a model of relay.build for `Board.target("c")` or `Board.target("llvm")`. which: as `board` takes it. pools: by pool ("workspace",
    "constants"), the memory of the board that it lies in, other than those for data and code. level: the optimisation of the model's source
    ("-Os"), other than its own. check: whether firmware that does not fit is refused, before anything is written.

    Returns the report. Raises DoesNotFit, BoardError for pools that there are none of, MicroError for models that are no firmware,
    StackError for code whose stack has no bound.
    """
    found = board(which)
    chosen = check_pools(found, {**(lib.metadata.get("memory_pools") or {}), **(pools or {})})
    files = model_files(lib)
    report = Report(found, build(found, files, level), files, lib.metadata, chosen)
    if check:
        report.require()
    for path, data in _files(found, files, report, chosen, level).items():
        target = Path(folder) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, data)
    return report


def firmware_report(
    lib: ExecutorFactoryModule,
    which: str | os.PathLike[str] | Mapping[str, Any] | Board,
    pools: Mapping[str, str] | None = None,
    level: str = "",
) -> Report:
    """What firmware with a model takes of a board. The arguments are those of `export_project`; nothing is written, and all that does
    not fit is in the report."""
    found = board(which)
    chosen = check_pools(found, {**(lib.metadata.get("memory_pools") or {}), **(pools or {})})
    files = model_files(lib)
    return Report(found, build(found, files, level), files, lib.metadata, chosen)


def _files(found: Board, files: ModelFiles, report: Report, pools: Mapping[str, str], level: str) -> dict[str, bytes]:
    root = source_folder()
    placed = {
        pool: (memory, {"workspace": f".bss.{files.workspace}", "constants": f".rodata.{files.constants}"}[pool])
        for pool, memory in pools.items()
    }
    runtime = [*runtime_files(files), start_file(found)]
    texts = {
        "Makefile": makefile(found, runtime, model_flags(files.flags, level)),
        "board.ld": linker_script(found, report.stack, placed),
        "main.c": main_source(files),
        "report.txt": report.text(),
        "report.json": json.dumps(report.as_dict(), indent=1) + "\n",
        **files.sources,
        **files.headers,
    }
    written = {path: text.encode() for path, text in texts.items()} | files.objects
    for path in [*runtime, "include/tilewright/micro.h", "freestanding/string.h"]:
        written[f"runtime/{path}"] = (root / path).read_bytes()
    return written


__all__ = ["export_project", "firmware_report"]
