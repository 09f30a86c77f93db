"""Firmware, compiled and linked in this process, to know what it takes before anything is flashed."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tilewright.micro.board import Board
from tilewright.micro.device_runtime import (
    FIRMWARE,
    SIZE,
    WARNINGS,
    compile_files,
    helpers,
    objects_for,
    runtime_objects,
)
from tilewright.micro.export.makefile import model_flags
from tilewright.micro.export.sources import ModelFiles, given_by_program
from tilewright.micro.linking.link import Image, Place, link


class Firmware(NamedTuple):
    """Linked firmware, and of which machine it is."""

    image: Image
    machine: int


def main_source(files: ModelFiles) -> str:
    """The program of a project: it runs the model once on inputs that others write, and is there to be changed."""
    given = given_by_program(files.interface)
    return "\n".join([
        "/* Runs the model once: write the inputs before, read the outputs behind it. */",
        '#include "tilewright/micro.h"', f'#include "{files.interface.name}.h"', "",
        *given.memories, "",
        "/* For kernels whose temporaries are too large for the stack. */",
        "#ifndef TEMPORARIES", "#define TEMPORARIES 16", "#endif",
        "static uint8_t temporaries[TEMPORARIES] __attribute__((aligned(16)));", "",
        "int main(void);", "int main(void) {", *given.structs,
        "  tw_start(temporaries, sizeof temporaries);",
        f"  return (int){given.call};", "}", "",
    ])  # fmt: skip


def runtime_files(files: ModelFiles) -> tuple[str, ...]:
    """The sources of the runtime that a model needs."""
    return (*FIRMWARE, *(("src/graph.c",) if any(["tw_graph_run" in t for t in files.sources.values()]) else ()))


def in_memories(board: Board) -> Place:
    """Places sections one after another: code and constants in the memory for code, variables in that for data."""
    at = {"code": board.code.start, "data": board.data.start}

    def place(kind: str, size: int, alignment: int) -> int:
        memory = "code" if kind in ("vectors", "text", "rodata") or board.code == board.data else "data"
        found = -(-at[memory] // alignment) * alignment
        at[memory] = found + size
        return found

    return place


def build(board: Board, files: ModelFiles, level: str = "", main: str | None = None) -> Firmware:
    """Firmware for a board, as the Makefile of a project builds it with zig. main: the program, other than that of `main_source`.

    Raises MicroError where something does not compile, LinkError where a symbol is missing. What does not fit is linked all the same.
    """
    headers = {path.removeprefix("model/include/"): text for path, text in files.headers.items()}
    sources = [(path, text.encode()) for path, text in files.sources.items()]
    objects = objects_for(board, files.objects)
    objects += compile_files(board, sources, tuple(model_flags(files.flags, level)), headers)
    program = [("main.c", (main or main_source(files)).encode())]
    objects += compile_files(board, program, (*WARNINGS, *SIZE), headers)
    objects += runtime_objects(board, runtime_files(files))
    # The linker script defines these; their values do not matter to what the firmware takes.
    edges = ("data_load", "data_start", "data_end", "bss_start", "bss_end", "heap_start", "heap_end", "stack_top")
    outside = {f"tw_{edge}": board.data.end & ~15 for edge in edges}
    roots = ["tw_reset", *(["tw_vectors"] if board.architecture == "cortex_m" else [])]
    image = link(objects, roots, in_memories(board), outside, partial(helpers, board))
    return Firmware(image, objects[0].machine)


__all__ = ["Firmware", "build", "in_memories", "main_source", "runtime_files"]
