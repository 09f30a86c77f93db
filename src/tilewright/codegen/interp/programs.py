"""Programs as objects: functions as text that comes back exactly, linked with each other, with kernels and with what this process has."""

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
from tilewright.node import Visitor, deep_recursion, load_json, on, save_json
from tilewright.runtime import _ffi
from tilewright.runtime.dtype import parse_dtype
from tilewright.runtime.errors import error_class
from tilewright.runtime.packed_func import global_func
from tilewright.tir import AttrStmt, Block, BufferStore, Evaluate, For, ForKind, PrimFunc

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


HEAD = "tilewright program 1 "
KEPT = ("calling_conv", "global_symbol", "tilewright.packed_name")
PACKED = 1
"""Value of "calling_conv" of packed functions."""


def program_text(mod: IRModule, defined: Iterable[str] | None = None) -> str:
    """A module as text: a line that tells its symbols and how they are called, and the functions as JSON. defined: the names of the
    functions that it has, all unless they are given; others are only declared."""
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
    """The Python source that functions run as."""
    mod = load_json(text.partition("\n")[2])
    made = [compiled(g.name_hint, f, False) for g, f in mod.functions.items()]
    return "\n\n".join([f"# {p.name}\n{p.source}" for p in made]) + "\n"


def is_program(data: bytes) -> bool:
    """Whether an object is such a text."""
    return data.startswith(HEAD.encode())


def symbol_of(name: str, func: PrimFunc) -> str:
    """The symbol of a function in a module."""
    return str(func.attrs.get("global_symbol") or name)


class Program:
    """An object: its functions by symbol, read when the first of them is called."""

    def __init__(self, data: bytes, linked: Linked) -> None:
        head, _, self._text = data.decode().removeprefix(HEAD).partition("\n")
        self.symbols: dict[str, tuple[str, Any]] = {s: (name, how) for s, (name, how) in json.loads(head).items()}
        self._linked, self._lock = linked, threading.Lock()
        self._interpreter: Interpreter | None = None

    @property
    def interpreter(self) -> Interpreter:
        """The interpreter that runs it. Races are looked for if there are parallel loops."""
        with self._lock:
            if self._interpreter is None:
                with deep_recursion():
                    mod = load_json(self._text)
                self._interpreter = self._linked.interpreter(mod, {name for name, _ in self.symbols.values()})
            return self._interpreter


class Linked:
    """Programs and kernels that find each other by their symbols, packed functions by the module that they belong to, and C functions in
    this process."""

    def __init__(self, programs: Iterable[bytes], kernels: Mapping[str, Kernel]) -> None:
        self.kernels = dict(kernels)
        self.slot = (ctypes.c_void_p * 1)()
        self.owner = {symbol: p for p in [Program(data, self) for data in programs] for symbol in p.symbols}

    def interpreter(self, mod: IRModule, defined: set[str]) -> Interpreter:
        """An interpreter of a module of which these functions are defined in it."""
        return _Interpreter(self, mod, defined)

    def code(self, exports: Iterable[str]) -> HostedCode:
        """The symbols as code of this process."""
        kernels, packed = dict(self.kernels), dict[str, Callable[..., None]]()
        for symbol, program in self.owner.items():
            name, how = program.symbols[symbol]
            if how == PACKED:
                packed[symbol] = partial(self._run_packed, program, name)
            else:
                kernels[symbol] = partial(self._run, program, name)
        return HostedCode(kernels, packed, exports, self.slot)

    def _run(self, program: Program, name: str, args: Any) -> None:
        """A function whose arguments are addresses of tensors and of numbers."""
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
        """A packed function."""
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
        """Calls a packed function of the module that the code belongs to, or a global one. Arrays go as tensors over the same memory."""
        call = global_func("runtime.CallFrom")
        return call(
            ctypes.addressof(self.slot), name, *[tensor_over(a) if isinstance(a, np.ndarray) else a for a in args]
        )


class _Interpreter(Interpreter):
    """The functions of one object; others are called through what links them."""

    def __init__(self, linked: Linked, mod: IRModule, defined: set[str]) -> None:
        look = _Parallel()
        for name in defined:
            look.visit(mod[name].body)
        super().__init__(mod, check_races=look.found)
        self._linked, self._defined = linked, defined

    def _call(self, races: Races, name: str, args: Sequence[Any]) -> Any:
        if name in self._defined:
            return super()._call(races, name, args)
        func = self.mod[name]
        assert isinstance(func, PrimFunc)
        return self._linked.call(symbol_of(name, func), func, args)

    def call_extern(self, name: str, *args: Any) -> Any:
        return call_c(name, args) if isinstance(name, CName) else self._linked.call_packed(name, args)


class _Parallel(Visitor):
    """Whether there are loops whose iterations run at one time."""

    found = False

    @on(For)
    def _for(self, s: For) -> None:
        self.found |= s.kind in (ForKind.PARALLEL, ForKind.THREAD_BINDING)
        self.visit(s.body)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        self.found |= s.attr_key == "thread_extent"
        self.visit(s.body)

    @on(Block)
    def _block(self, block: Block) -> None:
        self.visit(block.init)
        self.visit(block.body)

    @on(BufferStore, Evaluate)
    def _leaf(self, s: Stmt) -> None:
        pass


def checked(interpreter: Interpreter, name: str, args: Sequence[Any]) -> None:
    """Runs a function; an assertion of the program is the error that it stands for."""
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
    """The address that a pointer stands for."""
    if pointer is None or isinstance(pointer, RawPointer):
        return 0 if pointer is None else pointer.address
    return int(pointer.storage.data.ctypes.data) + pointer.offset


def tensor_over(array: np.ndarray[Any, Any]) -> Any:
    """A tensor over the memory of an array."""
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
