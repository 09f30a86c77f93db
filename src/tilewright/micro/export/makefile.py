"""The Makefile of a folder with firmware, and the flags of its compilers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tilewright.codegen.source.c.toolchain import MATH, machine_options
from tilewright.micro.board import Board
from tilewright.micro.device_runtime import SIZE, WARNINGS, definitions
from tilewright.runtime.linking.c_source import compiler_command

MODEL = ("-ffreestanding", "-ffunction-sections", "-fdata-sections", "-g1", "-gdwarf-4")
"""Flags of gcc and clang for a model's sources, besides those of its target. firmware.elf has their lines; nothing of these is in flash."""
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
# gcc takes a loop that copies for a call of memcpy.
SIZE += -fno-tree-loop-distribute-patterns
else
CC := $(ZIG) cc
MACHINE := {zig_machine}
LINK := -Wl,-e,tw_reset
endif
MODEL_FLAGS := {model}

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


def model_flags(flags: str, level: str = "") -> list[str]:
    """Flags for a model's sources that gcc and clang share. flags: those of the model, as text. level: the optimisation, such as "-O3"; ""
    for that of the model."""
    own = next((f for f in shlex.split(flags) if f.startswith("-O")), "-O2")
    return [level or own, *MATH, *MODEL]


def makefile(found: Board, runtime: Sequence[str], flags: Sequence[str], defines: Sequence[str] = ()) -> str:
    """The Makefile of a folder with firmware: main.c, the model in `model`, the runtime in `runtime`. runtime: its sources; flags: of the
    compiler for the model; defines: macros besides those that tell of the board."""
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
        defines=" ".join([*definitions(found), *defines]), gcc_machine=" ".join(machine), zig_machine=" ".join(zig),
        model=" ".join(flags), runtime=" ".join([f"runtime/{p}" for p in runtime]),
        run=run, run_help=run_help, run_phony=phony,
    )  # fmt: skip


__all__ = ["MODEL", "makefile", "model_flags"]
