"""C text of an IRModule: vector types and functions, declarations, constants, functions, exported wrappers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.codegen.backend import AOT
from tilewright.codegen.callees import callee_of, value_type
from tilewright.codegen.source.c.function import FunctionEmitter, parameter_types
from tilewright.codegen.source.c.names import C_LANGUAGE, ctype, floating, function_name, integer, kept, vector
from tilewright.codegen.source.text.identifiers import plain
from tilewright.codegen.source.text.operands import string
from tilewright.ir import DataType, GlobalVar, IRModule
from tilewright.node.field_values import numpy_dtype
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.transform.types.legalize import without_narrow_floats

if TYPE_CHECKING:
    from tilewright.tir.expr import Call


HEADER = "#include <tilewright/kernel.h>"
CALLEE = "extern TW_HIDDEN "
"""The beginning of declarations of functions in other texts."""


class ModuleEmitter:
    """Emits one C file."""

    def __init__(self, mod: IRModule, target: Target) -> None:
        self.mod, self.target = mod, target
        self.functions: list[str] = []
        self.globals: list[str] = []
        self.library: set[str] = set()
        """Functions of the C library that the text calls."""
        self.uses_context = self.uses_module = False
        self._types: dict[str, str] = {}
        self._maps: dict[str, str] = {}
        self._declared: dict[str, str] = {}
        self._defined: set[str] = set()
        self._counts: dict[str, int] = {}

    # --- names and constants for functions

    def count(self, hint: str) -> int:
        """How often this name was asked for before."""
        found = self._counts.get(hint, 0)
        self._counts[hint] = found + 1
        return found

    def vector(self, dtype: DataType) -> str:
        """The name of a vector type. Its definition is added to the text."""
        dtype = kept(dtype)
        name = vector(dtype)
        if name in self._types:
            return name
        lanes = dtype.lanes
        whole = "" if lanes & (lanes - 1) == 0 else "_ANY"
        if dtype.is_bool:
            self._types[name] = f"TW_BOOLS{whole}({name}, {lanes})"
            return name
        masks = self.vector(DataType("bool").with_lanes(lanes))
        element = ctype(dtype.element)
        if dtype.is_float:
            self._types[name] = f"TW_FLOATS{whole}({name}, {element}, int{dtype.bits}_t, {lanes}, {masks})"
        elif dtype.code in ("int", "uint"):
            self._types[name] = f"TW_INTS{whole}({name}, {element}, uint{dtype.bits}_t, {lanes}, {masks})"
        else:
            raise TVMError(f"the C back end has no vectors of {dtype.element}")
        return name

    def _map(self, name: str, text: str) -> str:
        self._maps.setdefault(name, text)
        return name

    def mapped(self, name: str, function: str, result: DataType, args: Sequence[DataType]) -> str:
        """The name of a function on vectors that applies a function on scalars to each lane."""
        r, n = self.vector(result), result.lanes
        types = [x for a in args for x in (self.vector(a), ctype(kept(a).element))]
        whole = f"{self.vector(args[0])}_{name}"
        if len(args) == 4:
            return self._map(whole, f"TW_MAP4({whole}, {r}, {ctype(kept(result).element)}, {n}, {function})")
        given = ", ".join([r, ctype(kept(result).element), *types])
        return self._map(whole, f"TW_MAP{len(args)}({whole}, {given}, {n}, {function})")

    def converted(self, source: DataType, to: DataType, function: str) -> str:
        """The name of a function that converts vectors, by a function on scalars or by C's conversion."""
        a, r, n = self.vector(source), self.vector(to), to.lanes
        half = "h" if "float16" in (source.element, to.element) else ""
        name = f"{a}_to_{half}{r}"
        types = f"{r}, {ctype(kept(to).element)}, {a}, {ctype(kept(source).element)}, {n}"
        if function:
            return self._map(name, f"TW_MAP1({name}, {types}, {function})")
        if n & (n - 1):
            return self._map(name, f"TW_MAP1({name}, {types}, ({ctype(kept(to).element)}))")
        return self._map(name, f"TW_CONVERT({name}, {types})")

    def gathered(self, dtype: DataType, index: DataType) -> str:
        """Adds the functions that gather and scatter lanes by vectors of indices. Returns the name of the type of these vectors."""
        v, i = self.vector(dtype), self.vector(index)
        masks = self.vector(DataType("bool").with_lanes(dtype.lanes))
        types = f"{v}, {ctype(kept(dtype).element)}, {i}, {ctype(index.element)}, {dtype.lanes}, {masks}"
        self._map(f"{v}_gather_{i}", f"TW_GATHER({types})")
        return i

    def reinterpreted(self, source: DataType, to: DataType) -> str:
        """The name of a function that reinterprets the bits of a vector as another type."""
        a, r = self.vector(source), self.vector(to)
        name = f"{a}_as_{r}"
        return self._map(name, f"TW_BITS({name}, {r}, {a})")

    def constant(self, name: str, data: Any, dtype: DataType) -> str:
        """Adds an array of constant data, and returns its name."""
        values = np.ascontiguousarray(data.numpy() if hasattr(data, "numpy") else data, numpy_dtype(dtype.element))
        name = f"{plain(name, C_LANGUAGE)}_{self.count(name)}"
        self.globals.append(
            array_text(
                f"static const {ctype(kept(dtype.element))}", name, values, dtype.element, self.target.cpu.alignment
            )
        )
        return name

    def external(self, symbol: str, result: str, types: Sequence[str]) -> str:
        """Declares a function that is defined elsewhere, and returns its name."""
        name = function_name(symbol)
        label = "" if name == symbol else f" TW_SYMBOL({string(symbol)})"
        self._declared.setdefault(name, f"extern {result} {name}({', '.join(types) or 'void'}){label};")
        return name

    def callee(self, gvar: GlobalVar, caller: FunctionEmitter, call: Call) -> tuple[str, PrimFunc]:
        """(name, declaration) of a function of the module."""
        func = callee_of(self.mod, gvar, caller, call)
        name = body_name(gvar, func)
        if name not in self._defined:
            given = ", ".join(parameter_types(func)) or "void"
            self._declared.setdefault(name, f"{CALLEE}{result_type(func)} {name}({given});")
        return name, func

    # --- functions

    def emit(self, only: Iterable[GlobalVar] | None = None) -> str:
        """The text of the module. only: the functions to define; the others are declared."""
        chosen = list(self.mod.functions) if only is None else list(only)
        for gvar in chosen:
            func = self.mod.functions[gvar]
            if not isinstance(func, PrimFunc):
                raise TVMError(
                    f"C code generation of {gvar.name_hint!r}: the module holds a {type(func).__name__}, but only"
                    " PrimFuncs become C; lower it first"
                )
            self._defined.add(body_name(gvar, func))
        heads = [head for gvar in chosen for head in self._function(gvar)]
        self._check_names(chosen)
        slots = [*(["TW_CONTEXT()"] if self.uses_context else []), *(["TW_OWN_MODULE()"] if self.uses_module else [])]
        before = [HEADER, *slots, *self._types.values(), *self._maps.values()]
        declared = [text for name, text in self._declared.items() if name not in self._defined]
        # Each of several functions may call the others.
        parts = [*before, *declared, *(heads if len(chosen) > 1 else [])]
        return "\n".join(["\n".join(parts), *self.globals, *self.functions]).replace("\n\n\n", "\n\n") + "\n"

    def _check_names(self, chosen: Iterable[GlobalVar]) -> None:
        """Raises TVMError if a function has the name of a C library function that the code calls, which it would replace."""
        for gvar in chosen:
            func = self.mod.functions[gvar]
            assert isinstance(func, PrimFunc)
            name = symbol_of(gvar, func)
            if name in self.library:
                raise TVMError(
                    f"C code generation of {gvar.name_hint!r}: the symbol {name!r} is also the C library function"
                    " that this code calls. Give the PrimFunc another name (its attribute global_symbol)"
                )

    def _function(self, gvar: GlobalVar) -> list[str]:
        """Emits a function, and returns its declarations."""
        func = self.mod.functions[gvar]
        assert isinstance(func, PrimFunc)
        symbol, name = symbol_of(gvar, func), body_name(gvar, func)
        aot = func.attrs.get("calling_conv") == AOT
        func = without_narrow_floats(func)
        emitter = FunctionEmitter(self, symbol)
        emitter.declare(func)
        emitter.body(func.body)
        result = result_type(func)
        exported = "TW_HIDDEN" if aot else "TW_EXPORTED TW_WEAK" if func.attrs.get("tilewright.weak") else "TW_EXPORTED"
        head = f"{exported} {result} {name}"
        whole = f"{head}({', '.join(emitter.params) or 'void'})"
        named = "" if aot else symbol_text(whole, name, symbol)
        self.functions.append(f"\n{named}{emitter.text(head, result)}")
        if aot:
            self._wrapper(symbol, name, func)
        return [named.rstrip() or f"{whole};"]

    def _wrapper(self, symbol: str, name: str, func: PrimFunc) -> None:
        """Emits `int32_t name(void** args)`: args[i] is the data pointer of parameter i, or points to a scalar."""
        given = []
        for k, param in enumerate(func.params):
            pointer = param in func.buffer_map or param.dtype.code == "handle"
            given.append(f"args[{k}]" if pointer else f"*({ctype(param.dtype)}*)args[{k}]")
        outer = function_name(symbol)
        head = f"TW_EXPORTED int32_t {outer}(void** args)"
        unused = "" if given else "  (void)args;\n"
        self.functions.append(
            f"{symbol_text(head, outer, symbol)}{head} {{\n{unused}  return {name}({', '.join(given)});\n}}"
        )


def symbol_text(head: str, name: str, symbol: str) -> str:
    """The text before the definition of a function whose symbol differs from its name."""
    if name == symbol:
        return ""
    if re.fullmatch(r"[\w.$]+", symbol):
        return f"{head} TW_SYMBOL({string(symbol)});\n"
    escaped = symbol.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    quoted = string('"' + escaped + '"')
    return f"{head} TW_ANY_SYMBOL({name}, {string(symbol)}, {quoted});\n"


def array_text(head: str, name: str, values: np.ndarray[Any, Any], dtype: DataType, alignment: int) -> str:
    """The definition of an array of constants, twelve on a line."""
    flat = values.reshape(-1)
    if dtype.is_float and dtype.bits >= 32:
        items: list[str] = [floating(float(v), dtype) for v in flat]
    elif dtype.element == "float16":
        items = [f"0x{int(v):04x}" for v in flat.view(np.uint16)]
    elif dtype.is_bool or dtype.code in ("int", "uint"):
        items = [integer(int(v), dtype) for v in flat]
    else:
        items = [str(int(v)) for v in flat.view(f"u{flat.itemsize}")]
        head = re.sub(r"(static const ).*", rf"\1uint{8 * flat.itemsize}_t", head)
    rows = [", ".join(items[k : k + 12]) for k in range(0, len(items), 12)] or ["0"]
    body = ",\n  ".join(rows)
    return f"{head} {name}[{max(len(items), 1)}] TW_ALIGN({alignment}) = {{\n  {body}\n}};"


def symbol_of(gvar: GlobalVar, func: PrimFunc) -> str:
    """The exported name of a function: its global_symbol, or else its name in the module."""
    return str(func.attrs.get("global_symbol") or gvar.name_hint)


def body_name(gvar: GlobalVar, func: PrimFunc) -> str:
    """The name of the function that takes the parameters directly."""
    symbol = symbol_of(gvar, func)
    return f"{function_name(symbol)}_impl" if func.attrs.get("calling_conv") == AOT else function_name(symbol)


def result_type(func: PrimFunc) -> str:
    """The C type of the result: that of the PrimFunc's result, or int32_t for a return code."""
    dtype = value_type(func)
    return "int32_t" if dtype is None else ctype(dtype)


def emit_module(mod: IRModule | PrimFunc, target: Target | str) -> str:
    """C text of every PrimFunc of a module (lowered, flat, vectorised)."""
    if isinstance(mod, PrimFunc):
        mod = IRModule.from_expr(mod)
    return ModuleEmitter(mod, Target(target)).emit()


def registration(symbols: Sequence[str], declared: bool = False) -> str:
    """C text that registers symbols with the runtime when it is loaded. declared: whether the text around it declares them."""
    names = list(dict.fromkeys(symbols))
    lines = [
        "extern int TVMBackendRegisterSystemLibSymbol(const char* name, void* symbol);",
        *([] if declared else [f"extern char {name};" for name in names]),
        "__attribute__((constructor)) static void tw_register(void) {",
        *[f"  TVMBackendRegisterSystemLibSymbol({string(name)}, (void*)&{name});" for name in names],
        "}",
    ]
    return "\n".join(lines) + "\n"


__all__ = ["CALLEE", "HEADER", "ModuleEmitter", "array_text", "emit_module", "registration", "symbol_of"]
