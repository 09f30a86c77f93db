"""A model as a sketch for the Arduino IDE: the model as one C file, the part of the runtime that it calls, and a program that runs it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tilewright.codegen.source.c.interface import Interface
from tilewright.micro.device_runtime import source_folder
from tilewright.micro.errors import MicroError
from tilewright.micro.export.sources import given_by_program, interface_of
from tilewright.relay.backend.executor_factory import ExecutorFactoryModule
from tilewright.support.files import write_whole

SKETCH = """\
// Runs the model once a second. Write the inputs, and read the outputs, in loop().
#include "{name}.h"
#include "micro.h"

{memories}

// For kernels whose temporaries are too large for the stack.
static uint8_t temporaries[16] __attribute__((aligned(16)));

void setup() {{
  Serial.begin(115200);
  tw_start(temporaries, sizeof temporaries);
}}

void loop() {{
{structs}
  unsigned long begun = micros();
  int32_t code = {call};
  unsigned long taken = micros() - begun;
  Serial.print("code ");
  Serial.print(code);
  Serial.print(", microseconds ");
  Serial.println(taken);
  delay(1000);
}}
"""


def export_arduino(lib: ExecutorFactoryModule, folder: str | os.PathLike[str]) -> Path:
    """Writes a sketch into a folder, whose name is the sketch's: FOLDER.ino, the model (tvmgen_NAME.c and .h), and the runtime (runtime.c,
    micro.h). Returns the path of the sketch.

    lib: a model of relay.build for the target c and the ahead-of-time executor, such as of `Board.target("c")`. Raises MicroError for
    others, and for names of folders that the IDE does not take.
    """
    where = Path(folder)
    if not re.fullmatch(r"[A-Za-z][\w.-]*", where.name):
        raise MicroError(
            f"a sketch has the name of its folder, which begins with a letter and has no spaces, but is {where.name!r}"
        )
    if lib.target.kind.name != "c" or lib.metadata["executor"] != "aot" or len(lib.devices) > 1:
        raise MicroError(
            f"a sketch is made of a model for the target c and the executor aot, but this one is for {lib.target} and"
            f" {lib.metadata['executor']}"
        )
    interface, root = interface_of(lib), source_folder()
    model = lib.written(False)
    runtime = (root / "src" / "runtime.c").read_text().replace('"tilewright/micro.h"', '"micro.h"')
    files = {
        f"{where.name}.ino": _sketch(interface),
        f"{interface.name}.c": model[".c"].text,
        f"{interface.name}.h": model[".h"].text,
        "runtime.c": runtime,
        "micro.h": (root / "include" / "tilewright" / "micro.h").read_text(),
    }
    where.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_whole(where / name, text.encode())
    return where / f"{where.name}.ino"


def _sketch(interface: Interface) -> str:
    given = given_by_program(interface, "static ", "// {}")
    return SKETCH.format(
        name=interface.name, memories="\n".join(given.memories), structs="\n".join(given.structs), call=given.call
    )


__all__ = ["export_arduino"]
