"""A folder with all that firmware is made of: `make` builds it with arm-none-eabi-gcc, riscv64-unknown-elf-gcc or zig."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.codegen.source.c.toolchain import machine_options
from tilewright.micro.board import Board, board
from tilewright.micro.device_runtime import SIZE, WARNINGS, definitions, source_folder, start_file
from tilewright.micro.export.firmware import build, main_source, model_flags, runtime_files
from tilewright.micro.export.report import Report, check_pools
from tilewright.micro.export.sources import ModelFiles, model_files
from tilewright.micro.linker_script import linker_script
from tilewright.relay.backend.executor_factory import ExecutorFactoryModule
from tilewright.runtime.linking.c_source import compiler_command
from tilewright.support.files import write_whole

_UNITS = {
    "cortex-m4": "fpv4-sp-d16",
    "cortex-m7": "fpv5-d16",
    "cortex-m33": "fpv5-sp-d16",
    "cortex-m55": "auto",
    "cortex-m85": "auto",
}
"""What gcc calls the units for floats."""
MAKEFILE = """\
# make: firmware.elf and firmware.bin, by {gcc} where it is installed, else by zig (pip install ziglang).
# make GCC=... or ZIG=...: other programs.{run_help}
GCC ?= {gcc}
ZIG ?= $(shell command -v zig || echo python3 -m ziglang)
WARNINGS := {warnings}
SIZE := {size}
DEFINES := {defines}
# string.h of the C library comes first, where there is one.
INCLUDES := -Iruntime/include -Imodel/include -idirafter runtime/freestanding

ifneq ($(shell command -v $(GCC) 2> /dev/null),)
CC := $(GCC)
MACHINE := {gcc_machine}
LINK := -nostdlib -nostartfiles -Wl,-z,noexecstack
LIBRARIES := -lm -lc -lgcc
# gcc takes a loop that copies for a call of memcpy, and does not see that the first round of a loop sets what later rounds add to.
SIZE += -fno-tree-loop-distribute-patterns
MODEL_FLAGS := {model} -Wno-maybe-uninitialized
else
CC := $(ZIG) cc
MACHINE := {zig_machine}
LINK := -Wl,-e,tw_reset
MODEL_FLAGS := {model}
endif

RUNTIME := {runtime}
MODEL := $(wildcard model/*.c)
OBJECTS := $(patsubst %.c,build/%.o,$(RUNTIME) $(MODEL) main.c) $(wildcard model/*.o)
.DELETE_ON_ERROR:

all: firmware.elf firmware.bin

firmware.elf: $(OBJECTS) board.ld
	$(CC) $(MACHINE) $(LINK) -T board.ld -Wl,--gc-sections $(OBJECTS) $(LIBRARIES) -o $@

firmware.bin: firmware.elf
	$(if $(filter $(GCC),$(CC)),$(GCC:gcc=objcopy),$(ZIG) objcopy) -O binary $< $@

build/runtime/%.o: runtime/%.c
	@mkdir -p $(@D)
	$(CC) $(MACHINE) $(WARNINGS) $(SIZE) $(DEFINES) $(INCLUDES) -c $< -o $@

build/model/%.o: model/%.c
	@mkdir -p $(@D)
	$(CC) $(MACHINE) -Wall -Wextra -Werror -pedantic $(MODEL_FLAGS) $(INCLUDES) -c $< -o $@

build/main.o: main.c
	@mkdir -p $(@D)
	$(CC) $(MACHINE) $(WARNINGS) $(SIZE) $(DEFINES) $(INCLUDES) -c $< -o $@
{run}
clean:
	rm -rf build firmware.elf firmware.bin

.PHONY: all clean{run_phony}
"""


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
        "Makefile": _makefile(found, files, runtime, level),
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


def _makefile(found: Board, files: ModelFiles, runtime: list[str], level: str) -> str:
    target = found.target()
    cortex = found.architecture == "cortex_m"
    if cortex:
        unit = "" if found.fpu == "none" else _UNITS[target.mcpu]
        if found.fpu == "single":
            unit = unit.replace("v5-d16", "v5-sp-d16")
        floats = ["-mfloat-abi=hard", f"-mfpu={unit}"] if unit else ["-mfloat-abi=soft"]
        machine = [f"-mcpu={target.mcpu}", "-mthumb", *floats]
    else:
        extensions = "".join([e for e in "mafdc" if e in target.features])
        machine = [f"-march=rv32i{extensions}_zicsr", f"-mabi={target.abi}", "-msmall-data-limit=0"]
    compiler = compiler_command("c", target.triple)
    zig = [
        "-target",
        compiler[compiler.index("-target") + 1],
        *machine_options(target, True),
        "-fno-sanitize=all",
        "-fno-pic",
    ]
    qemu = found.qemu
    run = run_help = phony = ""
    if qemu is not None:
        options = " ".join([f"-M {qemu.machine}", *qemu.options])
        run = f"\nrun: firmware.elf\n\tqemu-system-{qemu.system} {options} -nodefaults -display none -kernel firmware.elf\n"
        run_help, phony = " make run: in QEMU.", " run"
    return MAKEFILE.format(
        gcc="arm-none-eabi-gcc" if cortex else "riscv64-unknown-elf-gcc", warnings=" ".join(WARNINGS), size=" ".join(SIZE),
        defines=" ".join(definitions(found)), gcc_machine=" ".join(machine), zig_machine=" ".join(zig),
        model=" ".join(model_flags(files, level)), runtime=" ".join([f"runtime/{p}" for p in runtime]),
        run=run, run_help=run_help, run_phony=phony,
    )  # fmt: skip


__all__ = ["export_project", "firmware_report"]
