"""LLVM IR text of an IRModule: functions, exported wrappers, strings, constants and the runtime's context."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewright.codegen.backend import AOT
from tilewright.codegen.callees import callee_of, value_type
from tilewright.codegen.llvm.expressions.mathematics import C_FUNCTION
from tilewright.codegen.llvm.expressions.types import llvm_type, memory_type, splat
from tilewright.codegen.llvm.expressions.types import symbol as quoted
from tilewright.codegen.llvm.functions.context import context_definition, shared_variable
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.function import COLD, FunctionEmitter
from tilewright.codegen.llvm.functions.loops import SCALAR, SCALAR_LOOPS, VECTOR_LOOPS, VECTORS
from tilewright.codegen.llvm.functions.source_lines import LineOf
from tilewright.codegen.llvm.functions.tell import TELL, TELL_NUMBER, TELL_NUMBERS
from tilewright.codegen.llvm.native.effort import WHOLE, effort
from tilewright.codegen.llvm.native.target_machine import data_layout, llvm_triple
from tilewright.codegen.llvm.vector_math.half import half_helpers
from tilewright.ir import DataType, GlobalVar, IRModule
from tilewright.node import nodes_of
from tilewright.node.field_values import numpy_dtype
from tilewright.runtime.linking.symbols import LIBRARY
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.target.triples import is_bare
from tilewright.tir import BufferLoad, BufferStore, Call, For, ForKind, PrimFunc, Var
from tilewright.tir.transform.types.legalize import without_float8


class ModuleEmitter:
    """Emits one LLVM module. line_of: the lines of statements in the printed program, whose instructions are marked."""

    def __init__(self, mod: IRModule, target: Target, line_of: LineOf | None = None) -> None:
        self.mod, self.target, self.line_of = mod, target, line_of
        self.iptr = f"i{target.cpu.pointer_bits}"
        self.alignment = target.cpu.alignment
        self.declare: dict[str, str] = {}
        self.functions: list[str] = []
        self.globals: list[str] = []
        self.uses_context = self.uses_module = False
        self.helpers: set[str] = set()
        self.hosted = not any(part in target.triple for part in ("none", "unknown-unknown", "wasm"))
        self.steps_pointers = (target.cpu.arch == "wasm" or target.cpu.pairs or target.cpu.byte_dots) and effort(
            mod
        ) < WHOLE
        """Whether loops advance pointers themselves: LLVM does that for other processors, and vectorises loops that do not."""
        self._strings: dict[str, str] = {}
        self._constants: dict[str, str] = {}
        self._taken: set[str] = set()
        self._defined: set[str] = set()

    # --- names and constants for functions

    def fresh(self, name: str) -> str:
        """A new symbol of the module, of plain characters."""
        name = re.sub(r"[^-a-zA-Z0-9$._]", "_", name)
        k = 0
        while f"{name}{k}" in self._taken:
            k += 1
        self._taken.add(f"{name}{k}")
        return f"{name}{k}"

    def string(self, text: str) -> str:
        """Adds a NUL-terminated string, and returns its address."""
        found = self._strings.get(text)
        if found is None:
            found = self._strings[text] = f"@.str{len(self._strings)}"
            data = text.encode() + b"\0"
            self.globals.append(f'{found} = private unnamed_addr constant [{len(data)} x i8] c"{_escape(data)}"')
        return found

    def constant(self, data: Any, dtype: DataType) -> str:
        """Adds constant data, aligned as the target aligns tensors, and returns its address."""
        values = data.numpy() if hasattr(data, "numpy") else data
        raw = np.ascontiguousarray(values, numpy_dtype(dtype.element)).tobytes()
        name = f"@.const{len(self.globals)}"
        self.globals.append(
            f'{name} = private unnamed_addr constant [{len(raw)} x i8] c"{_escape(raw)}", align {self.alignment}'
        )
        return name

    def splat_constant(self, dtype: DataType, literal: str) -> str:
        """Adds a constant vector with one value in all lanes, and returns its address."""
        t = memory_type(dtype)
        value = literal if dtype.lanes == 1 else splat(dtype, literal)
        key = f"{t} {value}"
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = f"@.splat{len(self._constants)}"
            self.globals.append(f"{found} = private unnamed_addr constant {key}, align {self.alignment}")
        return found

    def pointer_align(self, func: PrimFunc, param: Var) -> int:
        """The alignment of a handle parameter that is the data of buffers in the body; 1 if no buffer uses it."""
        accesses: list[BufferLoad | BufferStore] = nodes_of(func.body, BufferLoad, BufferStore)
        found = [a.buffer.data_alignment for a in accesses if a.buffer.data is param]
        return min([*found, self.alignment]) if found else 1

    def callee(self, gvar: GlobalVar, caller: Frame, call: Call) -> tuple[str, list[str], str, bool]:
        """(symbol, parameter types, result type, whether the result is a return code) of a function that `call` calls. Raises TVMError if
        arguments do not fit."""
        func = callee_of(self.mod, gvar, caller, call)
        symbol = body_symbol(gvar, func)
        types = ["ptr" if p in func.buffer_map else llvm_type(p.dtype) for p in func.params]
        result = result_type(func)
        if symbol not in self._defined:
            self.declare.setdefault(symbol, f"declare {result} @{quoted(symbol)}({', '.join(types)})")
        return symbol, types, result, value_type(func) is None

    # --- functions

    def emit(self, only: Iterable[GlobalVar] | None = None) -> str:
        """The text of the module. only: the functions to define; the others are declared."""
        chosen = list(self.mod.functions) if only is None else list(only)
        for gvar in chosen:
            func = self.mod.functions[gvar]
            if isinstance(func, PrimFunc):
                self._defined.add(body_symbol(gvar, func))
                self._taken.add(gvar.name_hint)
        for gvar in chosen:
            func = self.mod.functions[gvar]
            if not isinstance(func, PrimFunc):
                raise TVMError(
                    f"LLVM code generation of {gvar.name_hint!r}: the module holds a {type(func).__name__}, but only"
                    " PrimFuncs become native code; lower it first"
                )
            self._function(gvar, func)
        parts = [f'target datalayout = "{data_layout(self.target)}"', f'target triple = "{llvm_triple(self.target)}"']
        if self.uses_context:
            parts.append(context_definition(self.target))
        if self.uses_module:
            parts.append(f"@{LIBRARY} = {shared_variable(self.target)} ptr null")
        parts += self.globals
        self._check_names(chosen)
        parts += [text for symbol, text in self.declare.items() if symbol not in self._defined]
        parts += self.functions
        parts += [text for text in (TELL, TELL_NUMBER, TELL_NUMBERS) if text in self.helpers]
        if any(["half" in text for text in self.functions]):
            parts.append(half_helpers(self.target))
        if any([SCALAR in text for text in self.functions]):
            parts.append(SCALAR_LOOPS)
        if any([VECTORS in text for text in self.functions]):
            parts.append(VECTOR_LOOPS)
        return "\n".join(parts) + "\n"

    def _check_names(self, chosen: Iterable[GlobalVar]) -> None:
        """Raises TVMError if a function has the name of a C library function that the code calls, which it would replace."""
        for gvar in chosen:
            func = self.mod.functions[gvar]
            name = symbol_of(gvar, func) if isinstance(func, PrimFunc) else ""
            if self.declare.get(name, "").endswith(C_FUNCTION):
                raise TVMError(
                    f"LLVM code generation of {gvar.name_hint!r}: the symbol {name!r} is also the C library function"
                    " that this code calls. Give the PrimFunc another name (its attribute global_symbol)"
                )

    def _function(self, gvar: GlobalVar, func: PrimFunc) -> None:
        name = symbol_of(gvar, func)
        # LLVM has no float8 types: they are stored as bytes, and computed in float32.
        func = without_float8(func)
        emitter = FunctionEmitter(self, name)
        emitter.frame.result = result_type(func)
        emitter.declare_params(func)
        emitter.body(func.body)
        symbol = body_symbol(gvar, func)
        linkage = "hidden " if symbol != name else "weak " if func.attrs.get("tilewright.weak") else ""
        launcher = type(func.body) is For and func.body.kind == ForKind.PARALLEL
        header = f"define {linkage}{emitter.frame.result} @{quoted(symbol)}"
        self.functions.append(
            emitter.text(header, COLD if launcher or "tilewright.packed_name" in func.attrs else "nounwind")
        )
        if func.attrs.get("calling_conv") == AOT:
            self._wrapper(name, symbol, func)

    def _wrapper(self, name: str, symbol: str, func: PrimFunc) -> None:
        """Emits `int32_t name(void** args)`: args[i] is the data pointer of parameter i, or points to a scalar."""
        # Programs without an operating system mostly call the body, and their linkers leave out sections that nobody needs.
        apart = is_bare(self.target.triple) and re.fullmatch(r"[\w.$]+", name) is not None
        kind = f'nounwind minsize section ".text.{name}"' if apart else COLD
        call = "tail call" if apart else "call"
        lines = [f"define i32 @{quoted(name)}(ptr %args) {kind} {{"]
        args = []
        for k, param in enumerate(func.params):
            lines.append(f"  %s{k} = getelementptr ptr, ptr %args, i32 {k}")
            lines.append(f"  %a{k} = load ptr, ptr %s{k}")
            if param in func.buffer_map or param.dtype.code == "handle":
                args.append(f"ptr %a{k}")
            else:
                t = llvm_type(param.dtype)
                lines.append(f"  %v{k} = load {memory_type(param.dtype)}, ptr %a{k}")
                if param.dtype.is_bool:
                    lines.append(f"  %b{k} = trunc i8 %v{k} to i1")
                args.append(f"{t} %{'b' if param.dtype.is_bool else 'v'}{k}")
        lines += [
            f"  %code = {call} i32 @{quoted(symbol)}({', '.join(args)}){' noinline' if apart else ''}",
            "  ret i32 %code",
            "}",
        ]
        self.functions.append("\n".join(lines))


def symbol_of(gvar: GlobalVar, func: PrimFunc) -> str:
    """The exported name of a function: its global_symbol, or else its name in the module."""
    return str(func.attrs.get("global_symbol") or gvar.name_hint)


def body_symbol(gvar: GlobalVar, func: PrimFunc) -> str:
    """The symbol of the function that takes the parameters directly."""
    name = symbol_of(gvar, func)
    return f"{name}.impl" if func.attrs.get("calling_conv") == AOT else name


def result_type(func: PrimFunc) -> str:
    """The LLVM type of the result: that of the PrimFunc's result, or i32 for a return code."""
    dtype = value_type(func)
    return "i32" if dtype is None else llvm_type(dtype)


_PRINTABLE = {byte: chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}" for byte in range(256)}


def _escape(data: bytes) -> str:
    return "".join([_PRINTABLE[byte] for byte in data])


def emit_module(mod: IRModule | PrimFunc, target: Target | str, line_of: LineOf | None = None) -> str:
    """LLVM IR text of every PrimFunc of a module (lowered, flat, vectorised). line_of: as ModuleEmitter takes it."""
    if isinstance(mod, PrimFunc):
        mod = IRModule.from_expr(mod)
    return ModuleEmitter(mod, Target(target), line_of).emit()


def emit_units(mod: IRModule, target: Target | str) -> list[tuple[str, str]]:
    """(name, text) of a module for each function, which can be compiled separately. Calls between them are external."""
    target = Target(target)
    return [(gvar.name_hint, ModuleEmitter(mod, target).emit([gvar])) for gvar in mod.functions]
