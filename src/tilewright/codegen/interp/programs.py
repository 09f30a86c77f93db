"""Objects of the interpreter: functions as text that parses back exactly, linked with each other, with kernels and with this process."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.codegen.hosted_code import HostedCode, Kernel
from tilewright.codegen.interp import Interpreter
from tilewright.codegen.interp.expr import CName
from tilewright.codegen.interp.program import compiled
from tilewright.codegen.interp.values import InterpError, Pointer, Races, RawPointer, np_type
from tilewright.ir import DataType, IRModule
from tilewright.node import deep_recursion, load_json, save_json
from tilewright.runtime import _ffi
from tilewright.runtime.dtype import parse_dtype
from tilewright.runtime.errors import error_class
from tilewright.runtime.packed_func import global_func
from tilewright.tir import AttrStmt, For, ForKind, PrimFunc
from tilewright.tir.stmt_functor import any_stmt

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


HEAD = "tilewright program 1 "
KEPT = ("calling_conv", "global_symbol", "tilewright.packed_name")
PACKED = 1
"""Value of the attribute "calling_conv" of packed functions."""


def program_text(mod: IRModule, defined: Iterable[str] | None = None) -> str:
    """A module as text: a line with its symbols and their calling conventions, then the functions as JSON. defined: the names of the
    functions to define (default: all); the others are only declared."""
    names = None if defined is None else set(defined)
    functions, symbols = {}, {}
    for gvar, func in mod.functions.items():
        if not isinstance(func, PrimFunc):
            raise InterpError(f"function {gvar.name_hint} is a {type(func).__name__}; the interpreter runs PrimFuncs")
        functions[gvar] = func.replace(attrs={k: v for k, v in func.attrs.items() if k in KEPT})
        if names is None or gvar.name_hint in names:
            symbols[symbol_of(gvar.name_hint, func)] = [gvar.name_hint, func.attrs.get("calling_conv", 0)]
    with deep_recursion():
        return f"{HEAD}{json.dumps(symbols)}\n{save_json(IRModule(functions))}"


def python_text(text: str) -> str:
    """The Python source of the functions in such a text."""
    mod = load_json(text.partition("\n")[2])
    made = [compiled(g.name_hint, f, False) for g, f in mod.functions.items()]
    return "\n\n".join([f"# {p.name}\n{p.source}" for p in made]) + "\n"


def is_program(data: bytes) -> bool:
    """Whether an object is a text of `program_text`."""
    return data.startswith(HEAD.encode())


def symbol_of(name: str, func: PrimFunc) -> str:
    """The symbol of a function in a module."""
    return str(func.attrs.get("global_symbol") or name)


class Program:
    """An object: its functions by symbol. They are parsed at the first call."""

    def __init__(self, data: bytes, linked: Linked) -> None:
        head, _, self._text = data.decode().removeprefix(HEAD).partition("\n")
        self.symbols: dict[str, tuple[str, Any]] = {s: (name, how) for s, (name, how) in json.loads(head).items()}
        self._linked, self._lock = linked, threading.Lock()
        self._interpreter: Interpreter | None = None

    @property
    def interpreter(self) -> Interpreter:
        """The interpreter of the object. It checks for races if there are parallel loops."""
        with self._lock:
            if self._interpreter is None:
                with deep_recursion():
                    mod = load_json(self._text)
                self._interpreter = self._linked.interpreter(mod, {name for name, _ in self.symbols.values()})
            return self._interpreter


class Linked:
    """Linked programs and kernels. They find each other by symbol, packed functions in the module of the code, and C functions in this
    process."""

    def __init__(self, programs: Iterable[bytes], kernels: Mapping[str, Kernel]) -> None:
        self.kernels = dict(kernels)
        self.slot = (ctypes.c_void_p * 1)()
        self.owner = {symbol: p for p in [Program(data, self) for data in programs] for symbol in p.symbols}

    def interpreter(self, mod: IRModule, defined: set[str]) -> Interpreter:
        """An interpreter for a module that defines the functions `defined`, and declares the others."""
        return _Interpreter(self, mod, defined)

    def code(self, exports: Iterable[str]) -> HostedCode:
        """The symbols `exports` as code of this process."""
        kernels, packed = dict(self.kernels), dict[str, Callable[..., None]]()
        for symbol, program in self.owner.items():
            name, how = program.symbols[symbol]
            if how == PACKED:
                packed[symbol] = partial(self._run_packed, program, name)
            else:
                kernels[symbol] = partial(self._run, program, name)
        return HostedCode(kernels, packed, exports, self.slot)

    def _run(self, program: Program, name: str, args: Any) -> None:
        """Runs a function whose arguments are addresses of tensors and of numbers."""
        interpreter = program.interpreter
        func = interpreter.mod[name]
        values = [
            RawPointer(args[k] or 0)
            if p in func.buffer_map or p.dtype.code == "handle"
            else number_at(args[k], p.dtype)
            for k, p in enumerate(func.params)
        ]
        checked(interpreter, name, values)

    def _run_packed(self, program: Program, name: str, own: int, args: int, count: int, result: int) -> None:
        """Runs a packed function."""
        pointers = [RawPointer(p) if p else None for p in (own, args, result)]
        checked(program.interpreter, name, [*pointers[:2], count, pointers[2]])

    def call(self, symbol: str, func: PrimFunc, args: Sequence[Any]) -> Any:
        """Calls a function of another object; `func` declares it."""
        program = self.owner.get(symbol)
        if program is not None:
            return program.interpreter(*args, entry=program.symbols[symbol][0])
        if symbol not in self.kernels:
            raise InterpError(f"the program calls the function {symbol!r}, which no object defines")
        numbers = {
            k: np.array([v], np_type(p.dtype))
            for k, (p, v) in enumerate(zip(func.params, args, strict=True))
            if not (v is None or isinstance(v, Pointer))
        }
        addresses = [numbers[k].ctypes.data if k in numbers else address_of(v) for k, v in enumerate(args)]
        self.kernels[symbol]((ctypes.c_void_p * len(args))(*addresses))
        return 0

    def call_packed(self, name: str, args: Sequence[Any]) -> Any:
        """Calls a packed function of the code's module, or a global one. Arrays are passed as tensors that share their memory."""
        call = global_func("runtime.CallFrom")
        return call(
            ctypes.addressof(self.slot), name, *[tensor_over(a) if isinstance(a, np.ndarray) else a for a in args]
        )


class _Interpreter(Interpreter):
    """Runs the functions of one object. Calls of other functions go to `Linked`."""

    def __init__(self, linked: Linked, mod: IRModule, defined: set[str]) -> None:
        super().__init__(mod, check_races=any([any_stmt(mod[name].body, _is_parallel) for name in defined]))
        self._linked, self._defined = linked, defined

    def _call(self, races: Races, name: str, args: Sequence[Any]) -> Any:
        if name in self._defined:
            return super()._call(races, name, args)
        func = self.mod[name]
        assert isinstance(func, PrimFunc)
        return self._linked.call(symbol_of(name, func), func, args)

    def call_extern(self, name: str, *args: Any) -> Any:
        return call_c(name, args) if isinstance(name, CName) else self._linked.call_packed(name, args)


def _is_parallel(s: Stmt) -> bool:
    """Whether a statement is a parallel loop, or one of threads."""
    if isinstance(s, For):
        return s.kind in (ForKind.PARALLEL, ForKind.THREAD_BINDING)
    return isinstance(s, AttrStmt) and s.attr_key == "thread_extent"


def checked(interpreter: Interpreter, name: str, args: Sequence[Any]) -> None:
    """Runs a function. A failed assertion of the program raises the kind of error that the assertion names."""
    try:
        code = interpreter(*args, entry=name)
    except InterpError as error:
        if error.failed is None:
            raise
        kind, text = error.failed
        raise error_class(kind)(text) from None
    if code:
        raise InterpError(f"function {name} returned {code}")


def number_at(address: int, dtype: DataType) -> Any:
    """The number at an address."""
    kind = np_type(dtype)
    value = np.frombuffer((ctypes.c_char * kind.itemsize).from_address(address), kind)[0]
    return value if dtype.is_float else bool(value) if dtype.is_bool else int(value)


def address_of(pointer: Pointer | None) -> int:
    """The address of a pointer; 0 for None."""
    if pointer is None or isinstance(pointer, RawPointer):
        return 0 if pointer is None else pointer.address
    return int(pointer.storage.data.ctypes.data) + pointer.offset


def tensor_over(array: np.ndarray[Any, Any]) -> Any:
    """A tensor that shares the memory of an array."""
    code = parse_dtype(array.dtype)
    return _ffi.tensor_from_address(array.ctypes.data, array.shape, None, code, _ffi.Device(1, 0), array)


@cache
def _c_type(dtype: DataType) -> Any:
    if dtype.code == "void":
        return None
    if dtype.code == "handle" or dtype.lanes > 1:
        return ctypes.c_void_p
    if dtype.is_float:
        return {64: ctypes.c_double, 32: ctypes.c_float}[dtype.bits]
    bits = max(8, dtype.bits)
    return getattr(ctypes, f"c_{'u' if dtype.is_uint or dtype.is_bool else ''}int{bits}")


def call_c(name: CName, args: Sequence[Any]) -> Any:
    """Calls a C function of this process."""
    try:
        function = ctypes.CDLL(None)[name]
    except AttributeError:
        raise InterpError(f"the program calls the C function {str(name)!r}, which this process does not have") from None
    function.restype = _c_type(name.result)
    values: list[Any] = []
    for value, dtype in zip(args, name.args, strict=True):
        if isinstance(value, str):
            values.append(ctypes.c_char_p(value.encode()))
        elif value is None or isinstance(value, Pointer):
            values.append(ctypes.c_void_p(address_of(value)))
        else:
            values.append(_c_type(dtype)(value.item() if isinstance(value, np.generic) else value))
    found = function(*values)
    if name.result.is_float:
        return np_type(name.result).type(found)
    return found
