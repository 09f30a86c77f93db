"""Projects for this machine: the firmware is a process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.micro.device_runtime import WARNINGS
from tilewright.micro.project_api import server
from tilewright.micro.project_api.server import ProjectOption, ServerError, default_project_options
from tilewright.micro.templates.handler import SOURCES, TemplateHandler, macros, model_texts, runtime_texts
from tilewright.micro.templates.program import Program
from tilewright.micro.transport.base import Transport
from tilewright.micro.transport.subprocess import SubprocessTransport
from tilewright.runtime.linking.c_source import compiler_command

MAKEFILE = """\
# make: build/main, by the compiler of this machine. make CC=...: another one.
CC := {compiler}
WARNINGS := {warnings}
# POSIX: the clock, and files by number.
DEFINES := -D_POSIX_C_SOURCE=200809L {defines}
INCLUDES := -Iruntime/include -Imodel/include
SOURCES := {runtime} main.c host.c
MODEL := $(wildcard model/*.c)
OBJECTS := $(patsubst %.c,build/%.o,$(SOURCES) $(MODEL)) $(wildcard model/*.o)
.DELETE_ON_ERROR:

build/main: $(OBJECTS)
	$(CC) $(OBJECTS) -lm -o $@

build/model/%.o: model/%.c
	@mkdir -p $(@D)
	$(CC) {flags} $(INCLUDES) -c $< -o $@

build/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(WARNINGS) -O2 $(DEFINES) $(INCLUDES) -c $< -o $@

clean:
	rm -rf build

.PHONY: clean
"""


class Handler(TemplateHandler):
    """The firmware is a process of this machine."""

    platform_name = "host"
    options = (
        *[o for o in default_project_options() if o.name != "board"],
        ProjectOption("memory_size_bytes", default=None, type="int", optional=("generate_project",), help="Memory for arrays, in bytes."),
    )  # fmt: skip

    def files(self, program: Program, runtime: Path, options: Mapping[str, Any]) -> dict[str, str | bytes]:
        size, sources = options["memory_size_bytes"], SOURCES[options["project_type"]]
        defines = macros(options, ["-DTW_WIRE_PIECE=8192u", *([f"-DTW_MEMORY={size}u"] if size is not None else [])])
        warnings = [w for w in WARNINGS if w != "-Werror" or options["warning_as_error"]]
        makefile = MAKEFILE.format(
            compiler=" ".join(compiler_command("c")), warnings=" ".join(warnings), defines=" ".join(defines),
            runtime=" ".join([f"runtime/{f}" for f in sources]), flags=" ".join(program.flags),
        )  # fmt: skip
        host = (self.folder / "host.c").read_text()
        own = {"Makefile": makefile, "main.c": program.text, "host.c": host}
        return {**own, **model_texts(program), **runtime_texts(runtime, sources)}

    def build(self, options: Mapping[str, Any]) -> None:
        self.run(["make", "-j", str(os.cpu_count() or 1)], self.checked("build", options), "make")

    def line(self, options: Mapping[str, Any]) -> Transport:
        program = self.folder / "build" / "main"
        if not program.is_file():
            raise ServerError(f"{program} is not there; build the project first")
        return SubprocessTransport([program])


if __name__ == "__main__":
    server.main(Handler(__file__))
