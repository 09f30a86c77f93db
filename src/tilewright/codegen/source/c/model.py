"""C text of whole models: kernels, entry, constants, and an interface for C programs, as one file with a header or as an archive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.codegen.backend import Code, WholeModel
from tilewright.codegen.source.c.data import bytes_text
from tilewright.codegen.source.c.module import HEADER, ModuleEmitter, registration
from tilewright.codegen.source.c.names import function_name, plain
from tilewright.codegen.source.c.toolchain import effort_of, flags_text
from tilewright.ir import DataType, GlobalVar, IRModule
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


class Tensor(NamedTuple):
    """An input or an output: its member of the struct, its size, and a description."""

    member: str
    size: int
    comment: str


def _tensors(described: list[dict[str, Any]], names: list[str]) -> list[Tensor]:
    found: dict[str, Tensor] = {}
    for item, name in zip(described, names, strict=True):
        member = plain(name)
        while member in found:
            member += "_"
        dtype, size = DataType(item["dtype"]), 1
        for extent in item["shape"]:
            size *= extent
        size *= 1 if dtype.is_bool else dtype.bytes
        found[member] = Tensor(member, size, f"{dtype}[{', '.join(map(str, item['shape']))}]")
    return list(found.values())


class Interface:
    """The interface for C programs: a struct of inputs, a struct of outputs, and a function."""

    def __init__(self, model: WholeModel) -> None:
        self.name = model.name
        facts = model.facts
        self.inputs = _tensors(facts["inputs"], [t["name"] for t in facts["inputs"]])
        self.outputs = _tensors(facts["outputs"], self._output_names(facts["outputs"]))
        self.workspace = max(int(facts["workspace_bytes"]), 1)

    def _output_names(self, outputs: list[dict[str, Any]]) -> list[str]:
        """The names of the outputs. Outputs without names get those of classic interfaces: output, or output0, output1, ..."""
        plural = len(outputs) > 1
        return [
            t["name"] if t["name"] != f"output_{i}" else f"output{i}" if plural else "output"
            for i, t in enumerate(outputs)
        ]

    def structs(self) -> str:
        """The definitions of both structs."""
        lines = []
        for kind, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            members = [f"  void* {t.member}; /* {t.comment} */" for t in tensors] or ["  void* nothing;"]
            lines += [f"struct {self.name}_{kind} {{", *members, "};"]
        return "\n".join(lines)

    def declaration(self) -> str:
        return f"int32_t {self.name}_run(struct {self.name}_inputs* inputs, struct {self.name}_outputs* outputs)"

    def main_declaration(self) -> str:
        params = [f"void* {t.member}" for t in (*self.inputs, *self.outputs)]
        return f"int32_t {self.name}___tvm_main__({', '.join(params) or 'void'})"

    def header(self, unpacked: bool) -> str:
        """The text of the header that programs include."""
        guard, upper = f"{self.name.upper()}_H_", self.name.upper()
        sizes = [
            f"#define {upper}_{t.member.upper()}_SIZE {t.size} /* bytes of {t.comment} */"
            for t in (*self.inputs, *self.outputs)
        ]
        lines = [
            f"#ifndef {guard}", f"#define {guard}", "#include <stdint.h>", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
            *sizes, f"#define {upper}_WORKSPACE_SIZE {self.workspace} /* bytes of static memory for what lies between kernels */", "",
            self.structs(), "",
            "/* Runs the model: 0, or the code of an error. Not by two threads at once: the workspace is one. */",
            f"{self.declaration()};",
            *(["/* The same, of the addresses of inputs and outputs. */", f"{self.main_declaration()};"] if unpacked else []),
            "", "#ifdef __cplusplus", "}", "#endif", "#endif", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def definitions(self, run: str, constants: str, unpacked: bool) -> str:
        """The functions of the interface. run: the function that takes inputs, outputs, the address of the constants, and the workspace."""
        memory = f"(void*){constants}, &{self.name}_workspace"
        lines = [
            "",
            self.structs(),
            f"static union {{ char bytes[{self.workspace}]; int64_t whole; double real; void* pointer; }}"
            f" {self.name}_workspace TW_ALIGN(64);",
        ]
        function = run
        if unpacked:
            given = ", ".join([*[t.member for t in (*self.inputs, *self.outputs)], memory])
            head = f"TW_EXPORTED {self.main_declaration()}"
            lines += [f"{head};", f"{head} {{", f"  return {run}({given});", "}"]
            function = f"{self.name}___tvm_main__"
        fields = [
            *[f"inputs->{t.member}" for t in self.inputs],
            *[f"outputs->{t.member}" for t in self.outputs],
            *([] if unpacked else [memory]),
        ]
        unused = [f"  (void){kind};" for kind in ("inputs", "outputs") if not getattr(self, kind)]
        head = f"TW_EXPORTED {self.declaration()}"
        lines += [f"{head};", f"{head} {{", *unused, f"  return {function}({', '.join(fields)});", "}"]
        return "\n".join(lines) + "\n"


def _behind(model: WholeModel, interface: Interface) -> str:
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
    parts.append(interface.definitions(model.run if model.unpacked else f"{model.run}_impl", place, model.unpacked))
    return "\n" + "\n".join(parts)


def _emitter(mod: IRModule, target: Target) -> ModuleEmitter:
    emitter = ModuleEmitter(mod, target)
    # The runtime looks for the context even if no kernel needs it.
    emitter.uses_context = True
    return emitter


def one_file(model: WholeModel, target: Target) -> dict[str, Code]:
    """A model as one self-contained C file, and a header for the programs that call it, by their suffixes."""
    interface, functions = Interface(model), dict(model.entry.functions)
    for mod in model.kernels.values():
        functions |= mod.functions
    text = f"{_start(model)}{_emitter(IRModule(functions), target).emit()}{_behind(model, interface)}"
    if model.registered:
        text += registration(_renamed(model), declared=True)
    comment = f"/* {model.name}: a model, see the header beside. Compiled by: cc {flags_text(target).strip()} -c */\n"
    return {".c": Code(comment + alone(text)), ".h": Code(interface.header(model.unpacked))}


def archive(model: WholeModel, target: Target) -> dict[str, Code]:
    """A model as the files of an archive: a C file for each kernel, one for the rest, headers, and a Makefile."""
    interface, start = Interface(model), _start(model)
    texts = {f"{function_name(k)}.c": ModuleEmitter(mod, target).emit() for k, mod in model.kernels.items()}
    texts[f"{model.name}.c"] = _emitter(model.entry, target).emit([GlobalVar(model.run)]) + _behind(model, interface)
    files = {f"src/{file}": Code(start + text, effort_of(target)) for file, text in texts.items()}
    if model.registered:
        files["src/registration.c"] = Code(registration(_renamed(model)))
    files[f"include/{model.name}.h"] = Code(interface.header(model.unpacked))
    return built_from(files, model.name, target)


def _start(model: WholeModel) -> str:
    """What stands before a text: macros that give its symbols a prefix."""
    if model.unpacked:
        return "#define TW_NO_RUNTIME\n"
    if not model.prefix:
        return ""
    functions = [function_name(f) for f in (*model.kernels, model.run)]
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
