"""Projects for Zephyr: a folder that its tool `west` builds and flashes. The firmware talks over the board's console port."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.micro.export.makefile import model_flags
from tilewright.micro.project_api import server
from tilewright.micro.project_api.server import MADE, ProjectOption, default_project_options
from tilewright.micro.templates.handler import (
    SERIAL_OPTIONS,
    SOURCES,
    TemplateHandler,
    macros,
    model_texts,
    runtime_texts,
    serial_line,
)
from tilewright.micro.templates.program import Program
from tilewright.micro.transport.base import Transport

CMAKE = """\
cmake_minimum_required(VERSION 3.20.0)
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project(tilewright_firmware C)

file(GLOB MODEL CONFIGURE_DEPENDS model/*.c)
file(GLOB OBJECTS CONFIGURE_DEPENDS model/*.o)
target_sources(app PRIVATE
  src/main.c src/program.c
  {runtime}
  ${{MODEL}})
target_include_directories(app PRIVATE runtime/include model/include)
target_compile_definitions(app PRIVATE {defines})
target_link_libraries(app PRIVATE ${{OBJECTS}})
set_source_files_properties(${{MODEL}} PROPERTIES COMPILE_OPTIONS "{flags}")
"""
CONFIGURATION = """\
# The console port belongs to the program.
CONFIG_SERIAL=y
CONFIG_CONSOLE=n
CONFIG_UART_CONSOLE=n
CONFIG_PRINTK=n
CONFIG_LOG=n
CONFIG_REBOOT=y
CONFIG_FPU={fpu}
CONFIG_MAIN_STACK_SIZE={stack}
"""
PACKAGE = "pip install west, and Zephyr's SDK"


class Handler(TemplateHandler):
    """The firmware is an application of Zephyr."""

    platform_name, to_root = "zephyr", "../"
    options = (
        *default_project_options(board={"help": "The board, as Zephyr calls it."}),
        ProjectOption("memory_size_bytes", None, None, "int", None, MADE, "Memory for arrays, in bytes."),
        ProjectOption("main_stack_size", None, 4096, "int", None, MADE, "Stack, in bytes."),
        ProjectOption("fpu", None, True, "bool", None, MADE, "Whether the board has a unit for floats."),
        *SERIAL_OPTIONS,
    )

    def files(self, program: Program, runtime: Path, options: Mapping[str, Any]) -> dict[str, str | bytes]:
        size, sources = options["memory_size_bytes"], SOURCES[options["project_type"]]
        defines = macros(options, [f"-DTW_MEMORY={size}u"] if size is not None else [])
        return {
            "CMakeLists.txt": CMAKE.format(
                runtime="\n  ".join([f"runtime/{f}" for f in sources]),
                defines=" ".join([d.removeprefix("-D") for d in defines]),
                flags=";".join([f for f in model_flags(" ".join(program.flags)) if not f.startswith("-g")]),
            ),
            "prj.conf": CONFIGURATION.format(fpu="y" if options["fpu"] else "n", stack=options["main_stack_size"]),
            "src/main.c": (self.folder / "main.c").read_text(),
            "src/program.c": program.text,
            **model_texts(program),
            **runtime_texts(runtime, sources),
        }

    def build(self, options: Mapping[str, Any]) -> None:
        chosen = self.checked("build", options)
        self.run(["west", "build", "--pristine", "auto", "-b", chosen["board"], "-d", "build", "."], chosen, PACKAGE)

    def flash(self, options: Mapping[str, Any]) -> None:
        self.run(["west", "flash", "-d", "build"], self.checked("flash", options), PACKAGE)

    def line(self, options: Mapping[str, Any]) -> Transport:
        return serial_line(options)


if __name__ == "__main__":
    server.main(Handler(__file__))
