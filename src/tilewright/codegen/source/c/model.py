"""C text of whole models: kernels, entry, constants, and an interface for C programs, as one file with a header or as an archive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tilewright.codegen.backend import Code, WholeModel
from tilewright.codegen.source.c.data import bytes_text
from tilewright.codegen.source.c.interface import Interface
from tilewright.codegen.source.c.module import HEADER, ModuleEmitter, registration
from tilewright.codegen.source.c.names import function_name
from tilewright.codegen.source.c.toolchain import effort_of, flags_text
from tilewright.ir import GlobalVar, IRModule
from tilewright.runtime.linking.c_source import include_folder
from tilewright.runtime.linking.renaming import prefixed
from tilewright.runtime.linking.symbols import CONSTANTS, CONTEXT, LIBRARY, METADATA
from tilewright.target import Target

LITTLE_ENDIAN = """\
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the constants are little-endian"
#endif
"""
MAKEFILE = """\
# make: lib{name}.a, which C programs are linked with. make {name}.so: a shared library.
CC ?= cc
CFLAGS ?= $(shell cat flags)
OBJECTS := $(patsubst %.c,%.o,$(wildcard src/*.c)) $(wildcard *.o)
.DELETE_ON_ERROR:

lib{name}.a: $(OBJECTS)
	$(AR) rcs $@ $^

{name}.so: $(OBJECTS)
	$(CC) -shared -o $@ $^ -lm

%.o: %.c
	$(CC) $(CFLAGS) -fPIC -Iinclude -c $< -o $@
"""


def _behind(model: WholeModel, interface: Interface | None) -> str:
    """The text that follows the entry: constants, description, interface."""
    parts, place = [], "0"
    if model.constants.size:
        parts.append(LITTLE_ENDIAN)
        name = f"{model.name}_constants" if model.unpacked else CONSTANTS
        parts.append(bytes_text("TW_EXPORTED const", name, model.constants))
        place = f"&{name}"
    if not model.unpacked:
        # CPU and features are decided by the user who compiles the text.
        facts = {**model.facts, "target": {**model.facts["target"], "cpu": "", "features": []}}
        parts.append(bytes_text("TW_EXPORTED const", METADATA, json.dumps(facts).encode() + b"\0"))
    if interface is not None:
        parts.append(interface.definitions(model.run if model.unpacked else f"{model.run}_impl", place, model.unpacked))
    return "\n" + "\n".join(parts)


def _emitter(mod: IRModule, target: Target) -> ModuleEmitter:
    emitter = ModuleEmitter(mod, target)
    # The runtime looks for the context even if no kernel needs it.
    emitter.uses_context = True
    return emitter


def one_file(model: WholeModel, target: Target) -> dict[str, Code]:
    """A model as one self-contained C file, and a header for the programs that call it, by their suffixes."""
    interface, functions = Interface.of(model), dict(model.entry.functions)
    for mod in model.kernels.values():
        functions |= mod.functions
    text = f"{_start(model)}{_emitter(IRModule(functions), target).emit()}{_behind(model, interface)}"
    if model.registered:
        text += registration(_renamed(model), declared=True)
    comment = f"/* {model.name}: a model, see the header beside. Compiled by: cc {flags_text(target).strip()} -c */\n"
    return {".c": Code(comment + alone(text)), ".h": Code(interface.header(model.unpacked))}


def archive(model: WholeModel, target: Target) -> dict[str, Code]:
    """A model as the files of an archive: a C file for each kernel, one for the rest, headers, and a Makefile. The rest of kernels for the
    graph executor has no entry, and no interface for programs."""
    start = _start(model)
    interface = Interface.of(model) if model.run else None
    texts = {f"{function_name(k)}.c": ModuleEmitter(mod, target).emit() for k, mod in model.kernels.items()}
    own = [GlobalVar(model.run)] if model.run else []
    texts[f"{model.name}.c"] = _emitter(model.entry, target).emit(own) + _behind(model, interface)
    files = {f"src/{file}": Code(start + text, effort_of(target)) for file, text in texts.items()}
    if model.registered:
        files["src/registration.c"] = Code(registration(_renamed(model)))
    if interface is not None:
        files[f"include/{model.name}.h"] = Code(interface.header(model.unpacked))
    return built_from(files, model.name, target)


def _start(model: WholeModel) -> str:
    """What stands before a text: macros that give its symbols a prefix."""
    if model.unpacked:
        return "#define TW_NO_RUNTIME\n"
    if not model.prefix:
        return ""
    functions = [function_name(f) for f in (*model.kernels, model.run) if f]
    names = [*functions, *[f"{f}_impl" for f in functions], CONTEXT, LIBRARY, METADATA, CONSTANTS]
    return "".join([f"#define {name} {prefixed(name, model.prefix)}\n" for name in dict.fromkeys(names)])


def _renamed(model: WholeModel) -> list[str]:
    return [prefixed(name, model.prefix) for name in model.registered]


def alone(text: str) -> str:
    """A text with the content of tilewright/kernel.h in place of its #include."""
    return text.replace(f"{HEADER}\n", f"{_kernel_header()}\n", 1)


def _kernel_header() -> str:
    return Path(include_folder(), "tilewright", "kernel.h").read_text()


def built_from(files: Mapping[str, Code], name: str, target: Target) -> dict[str, Code]:
    """C files together with the header, the flags and a Makefile to compile them."""
    return {
        "Makefile": Code(MAKEFILE.format(name=name)),
        "flags": Code(flags_text(target)),
        "include/tilewright/kernel.h": Code(_kernel_header()),
        **files,
    }


__all__ = ["alone", "archive", "built_from", "one_file"]
