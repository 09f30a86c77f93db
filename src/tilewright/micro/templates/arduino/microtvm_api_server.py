"""Projects for the Arduino IDE: a sketch, which `arduino-cli` builds and flashes. It talks over the serial port."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tilewright.micro.project_api import server
from tilewright.micro.project_api.server import MADE, ProjectOption, ServerError, default_project_options
from tilewright.micro.templates.handler import (
    SERIAL_OPTIONS,
    SOURCES,
    TemplateHandler,
    macros,
    runtime_texts,
    serial_line,
)
from tilewright.micro.templates.program import Program
from tilewright.micro.transport.base import Transport

PACKAGE = "https://arduino.github.io/arduino-cli"
_INCLUDE = re.compile(r'(#include\s+)["<]tilewright/([\w.]+)[">]')


class Handler(TemplateHandler):
    """The firmware is a sketch. The IDE knows no folders of headers: all sources and headers lie in one."""

    platform_name, to_root = "arduino", "../"
    options = (
        *default_project_options(board={"help": "The board, as arduino-cli calls it: PACKAGE:ARCHITECTURE:BOARD."}),
        ProjectOption("memory_size_bytes", None, None, "int", None, MADE, "Memory for arrays, in bytes."),
        *SERIAL_OPTIONS,
    )

    def files(self, program: Program, runtime: Path, options: Mapping[str, Any]) -> dict[str, str | bytes]:
        if any([path.endswith(".o") for path in program.files]):
            raise ServerError("a sketch is made of C source: compile the model for the target c")
        size = options["memory_size_bytes"]
        own = ["-DTW_WIRE_PIECE=128u", *([f"-DTW_MEMORY={size}u"] if size is not None else [])]
        given = [d.removeprefix("-D").replace("=", " ", 1) for d in macros(options, own)]
        settings = "\n".join([
            "/* The settings of the project. */", "#ifndef TW_SETTINGS_H_", "#define TW_SETTINGS_H_", *[f"#define {d}" for d in given],
            "#endif", "",
        ])  # fmt: skip
        sources = {
            **{
                p: d
                for p, d in runtime_texts(runtime, SOURCES[options["project_type"]]).items()
                if "/freestanding/" not in p
            },
            **program.files,
            "program.c": program.text,
        }
        texts = {f"src/{PurePosixPath(path).name}": _flat(data) for path, data in sources.items()}
        texts["src/micro.h"] = '#include "settings.h"\n' + texts["src/micro.h"]
        sketch = (self.folder / "sketch.ino").read_text().replace("SPEED", str(options["serial_speed"]))
        return {"project.ino": sketch, "src/settings.h": settings, **texts}

    def generate_project(
        self, model_library_format_path: Path, standalone_crt_dir: Path, project_dir: Path, options: Mapping[str, Any]
    ) -> None:
        if not re.fullmatch(r"[A-Za-z][\w.-]*", project_dir.name):
            raise ServerError(
                f"a sketch has the name of its folder, which begins with a letter and has no spaces: {project_dir.name!r}"
            )
        super().generate_project(model_library_format_path, standalone_crt_dir, project_dir, options)
        (project_dir / "project.ino").rename(project_dir / f"{project_dir.name}.ino")

    def build(self, options: Mapping[str, Any]) -> None:
        chosen = self.checked("build", options)
        self.run(["arduino-cli", "compile", "--fqbn", chosen["board"], "--output-dir", "build", "."], chosen, PACKAGE)

    def flash(self, options: Mapping[str, Any]) -> None:
        chosen = self.checked("flash", options)
        port = chosen["serial_port"]
        if port is None:
            raise ServerError("flash needs the option 'serial_port': the port that the board is at")
        command = ["arduino-cli", "upload", "--fqbn", chosen["board"], "--input-dir", "build", "-p", port, "."]
        self.run(command, chosen, PACKAGE)

    def line(self, options: Mapping[str, Any]) -> Transport:
        return serial_line(options)


def _flat(data: str | bytes) -> str:
    """A source or header whose includes are those of one folder."""
    text = data if isinstance(data, str) else data.decode()
    return _INCLUDE.sub(r'\1"\2"', text)


if __name__ == "__main__":
    server.main(Handler(__file__))
