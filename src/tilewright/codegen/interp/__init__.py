"""The interpreter, which is the oracle: runs a PrimFunc at any stage of lowering, on NumPy arrays in place, in Python, with checks."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tilewright.codegen.interp.direct import UnsuitableArgument
from tilewright.codegen.interp.program import Program, compiled
from tilewright.codegen.interp.values import InterpError, Pointer, Races, Storage, np_type
from tilewright.ir import IRModule
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir import Buffer, PrimFunc
from tilewright.tir.transform.loop.scalable import fix_lanes

__all__ = ["InterpError", "Interpreter", "run"]


class _MatchArgs:
    """Checks arguments: calling it gives (pointer, shape, strides in elements) of one; `check` compares its shape."""

    def __call__(self, value: Any, buffer: Buffer | None, name: str) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
        if isinstance(value, Pointer):
            return value, (), ()
        if value is None and buffer is None:
            return None, (), ()
        if not isinstance(value, np.ndarray):
            raise InterpError(f"argument {name} must be a NumPy array, but is {type(value).__name__}")
        if buffer is not None:
            kind = np_type(buffer.dtype)
            if value.dtype != kind:
                raise InterpError(f"argument {name} must have dtype {buffer.dtype}, but has {value.dtype}")
            if value.ndim != len(buffer.shape):
                raise InterpError(f"argument {name} must have {len(buffer.shape)} dimensions, but has {value.ndim}")
        if value.flags.c_contiguous:
            flat = value.reshape(-1)
        else:
            span = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.strides, strict=True)) // value.itemsize
            if min(value.strides) < 0:
                raise InterpError(f"argument {name} has negative strides; pass a contiguous array")
            if buffer is not None and not buffer.strides:
                raise InterpError(f"argument {name} must be contiguous; pass np.ascontiguousarray(...)")
            flat = np.lib.stride_tricks.as_strided(value, (span,), (value.itemsize,))
        strides = tuple(s // value.itemsize for s in value.strides)
        storage = Storage(name, flat, None)
        storage.common = True
        return Pointer(storage), value.shape, strides

    @staticmethod
    def check(value: Any, wanted: tuple[int, ...], name: str) -> None:
        if isinstance(value, np.ndarray) and value.shape != tuple(wanted):
            raise InterpError(f"argument {name} must have shape {tuple(wanted)}, but has {value.shape}")


class Interpreter:
    """Runs the functions of a module. Each is compiled to Python at its first call. Threads may share an interpreter.

    externs: Python callables by the names of C or packed functions; they get pointers as `Pointer`.
    check_races: whether two iterations of a parallel loop, or threads of a launch, that access one element, of which one writes, are an
    error.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        externs: Mapping[str, Callable[..., Any]] | None = None,
        check_races: bool = False,
    ) -> None:
        self.mod = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
        self.externs = dict(externs or {})
        self.check_races = check_races
        self._programs: dict[str, Program] = {}
        self._match = _MatchArgs()

    def program(self, name: str, checked: bool = False) -> Program:
        """The compiled function of that name. checked: all its accesses go through accessors."""
        found = self._programs.get(name)
        if found is None or checked > found.checked:
            func = self.mod[name]
            if not isinstance(func, PrimFunc):
                raise InterpError(f"function {name} is a {type(func).__name__}; the interpreter runs PrimFuncs")
            found = self._programs[name] = compiled(name, fix_lanes(func, 1), checked)
        return found

    def entry_name(self) -> str:
        """The function that runs if none is named: the only one, or "main". Raises InterpError for modules without it."""
        names = [gvar.name_hint for gvar in self.mod.functions]
        if len(names) == 1:
            return names[0]
        if "main" in names:
            return "main"
        raise InterpError(f"the module has several functions, name the one to run: {', '.join(names)}")

    def __call__(self, *args: Any, entry: str | None = None) -> Any:
        name = entry or self.entry_name()
        try:
            with np.errstate(all="ignore"):
                return self._call(Races(self.check_races), name, list(args))
        except InterpError as error:
            raise error if error.located else self._located(error, name) from None

    def _call(self, races: Races, name: str, args: Sequence[Any]) -> Any:
        program = self.program(name, races.on)
        if len(args) != len(program.func.params):
            raise InterpError(f"function {name} takes {len(program.func.params)} arguments, but was given {len(args)}")
        call = partial(self._call, races)
        try:
            return program.entry(args, races, call, self.call_extern, self._match)
        except UnsuitableArgument:
            # Nothing has run yet: a program checks its arguments first.
            program = self.program(name, True)
        return program.entry(args, races, call, self.call_extern, self._match)

    def call_extern(self, name: str, *args: Any) -> Any:
        """Calls a C function (whose name is a `CName`) or a packed function. Raises InterpError for unknown names."""
        if name not in self.externs:
            raise InterpError(f"the program calls the external function {name!r}; pass it in externs={{{name!r}: f}}")
        return self.externs[name](*args)

    def _located(self, error: InterpError, name: str) -> InterpError:
        """The error with the function, the values of the loop variables, and the line of the user's script."""
        found: list[str] = []
        statement = None
        for frame, line in traceback.walk_tb(error.__traceback__):
            filename = frame.f_code.co_filename
            if filename.startswith("<interp "):
                name = filename[8:-1]
                program = self._programs.get(name)
                if program is not None:
                    statement = program.places.get(line, statement)
                    for key, label in program.loops_at(line):
                        # Deep nests are several Python functions, each of which has only the variables that it uses.
                        if key in frame.f_locals and (text := f"{label}={frame.f_locals[key]}") not in found:
                            found.append(text)
        func: Any = self.mod.functions[self.mod.get_global_var(name)]
        where = f"in function {func.attrs.get('tilewright.packed_name', name)}" + (
            f", at {', '.join(found)}" if found else ""
        )
        text = f"{error}\n  {where}"
        told = InterpError(text if statement is None else located(text, statement))
        told.failed, told.located = error.failed, True
        return told


def run(
    mod_or_func: IRModule | PrimFunc,
    args: Sequence[Any],
    entry: str | None = None,
    *,
    externs: Mapping[str, Callable[..., Any]] | None = None,
    check_races: bool = False,
) -> Any:
    """Runs a PrimFunc on NumPy arrays (in place) and scalars. Returns the function's result, which is None for most functions.

    Raises InterpError for an index out of bounds, an uninitialised read, a division by zero, a failed assertion, a
    wrong argument, and with `check_races` for conflicting iterations of a parallel loop or threads.
    """
    if not isinstance(mod_or_func, (IRModule, PrimFunc)):
        raise TVMError(f"interp.run takes an IRModule or a PrimFunc, but was given {type(mod_or_func).__name__}")
    return Interpreter(mod_or_func, externs, check_races)(*args, entry=entry)
