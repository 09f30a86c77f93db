"""Projects for boards that QEMU emulates: the firmware talks over the board's serial port."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.micro.board import board, known_boards
from tilewright.micro.debug.servers import qemu_program
from tilewright.micro.device_runtime import start_file
from tilewright.micro.export.makefile import makefile, model_flags
from tilewright.micro.linker_script import linker_script
from tilewright.micro.project_api import server
from tilewright.micro.project_api.server import ProjectOption, ServerError, default_project_options
from tilewright.micro.templates.handler import SOURCES, TemplateHandler, macros, model_texts, runtime_texts
from tilewright.micro.templates.program import Program
from tilewright.micro.transport.base import Transport
from tilewright.micro.transport.subprocess import SubprocessTransport
from tilewright.support import linker

FIRMWARE = ("src/memory.c", "start/firmware.c")
STACK = 4096
"""Bytes of stack, or an eighth of a small memory."""
BOARDS = tuple([name for name in known_boards() if (b := board(name)).qemu is not None and b.serial is not None])


class Handler(TemplateHandler):
    """The firmware runs in QEMU; its serial port is QEMU's standard input and output."""

    platform_name = "qemu"
    options = (
        *default_project_options(board={"choices": BOARDS}),
        ProjectOption(
            "instruction_shift", None, None, "int", None, ("open_transport",),
            "QEMU's clock advances 2**shift ns an instruction: measurements are the same in every run.",
        ),
    )  # fmt: skip

    def files(self, program: Program, runtime: Path, options: Mapping[str, Any]) -> dict[str, str | bytes]:
        found = board(options["board"])
        assert found.serial is not None
        start = [start_file(found), f"start/{found.architecture}_fault.c"]
        sources = [*SOURCES[options["project_type"]], *FIRMWARE, f"serial/{found.serial.driver}.c", *start]
        small = found.data.size <= 1 << 16
        sizes = ["-DTW_WIRE_PIECE=256u", "-DTW_RPC_PAGE=32u"] if small else []
        port = [f"-DTW_SERIAL={found.serial.address:#x}u"]
        if found.serial.interrupt is not None:
            port.append(f"-DTW_SERIAL_INTERRUPT={found.serial.interrupt}u")
        defines = macros(options, [*port, *sizes])
        # Packed functions have a fixed set of parameters.
        flags = [*model_flags(" ".join(program.flags)), "-Wno-unused-parameter"]
        text = makefile(found, sources, flags, defines)
        if not options["warning_as_error"]:
            text = text.replace(" -Werror", "")
        own = {
            "Makefile": text,
            "board.ld": linker_script(found, min(STACK, found.data.size // 8)),
            "main.c": program.text + (self.folder / "board.c").read_text(),
        }
        return {**own, **model_texts(program), **runtime_texts(runtime, sources)}

    def build(self, options: Mapping[str, Any]) -> None:
        zig = linker.zig()
        given = [f"ZIG={shlex.join(zig)}"] if zig is not None else []
        self.run(
            ["make", "-j", str(os.cpu_count() or 1), *given, "firmware.elf"], self.checked("build", options), "make"
        )

    def line(self, options: Mapping[str, Any]) -> Transport:
        firmware, found = self.folder / "firmware.elf", board(options["board"])
        if not firmware.is_file():
            raise ServerError(f"{firmware} is not there; build the project first")
        assert found.qemu is not None
        shift = options["instruction_shift"]
        if shift is not None and not 0 <= shift <= 10:
            raise ServerError(f"instruction_shift is {shift}, but QEMU takes 0 to 10")
        clock = [] if shift is None else ["-icount", f"shift={shift}"]
        return SubprocessTransport([
            qemu_program(found.qemu.system), "-M", found.qemu.machine, *found.qemu.options, "-nodefaults", "-display", "none",
            "-monitor", "none", *clock, "-chardev", "stdio,id=wire,signal=off", "-serial", "chardev:wire", "-kernel", firmware,
        ])  # fmt: skip


if __name__ == "__main__":
    server.main(Handler(__file__))
