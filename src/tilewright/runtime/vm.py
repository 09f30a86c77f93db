"""The virtual machine: runs compiled programs with control flow, data types, closures and dynamic sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.runtime import container as container
from tilewright.runtime.benchmark import BenchmarkResult
from tilewright.runtime.container import ADT
from tilewright.runtime.device import Device, cpu
from tilewright.runtime.dtype import native_order
from tilewright.runtime.module import Module, time_function
from tilewright.runtime.ndarray import array


class Executable:
    """A program for the virtual machine: bytecode, and the library of the kernels that it calls."""

    def __init__(self, code: bytes, lib: Module) -> None:
        if not isinstance(code, bytes):
            raise TypeError(f"load_exec takes the bytecode as bytes, but was given {type(code).__name__}")
        self.code, self._lib = code, lib
        # Damage is told here, not by the first machine.
        described = (
            json.loads(lib["get_metadata"]()).get("devices") if lib.implements_function("get_metadata") else None
        )
        self._devices = [Device(kind, number) for kind, number in described or [(1, 0)]]
        self["default"](*self._devices)

    @property
    def lib(self) -> Module:
        """The library of the kernels and constants."""
        return self._lib

    def get_function_params(self, func_name: str) -> list[str]:
        """The names of the parameters of a function. Raises the machine's error for an unknown one."""
        machine = self["default"](*self._devices)
        names = machine["get_function_param_name"]
        return [names(func_name, i) for i in range(machine["get_function_arity"](func_name))]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """`["default"]` makes a machine from the devices; other names are functions of the library."""
        if name != "default":
            return self.lib[name]
        held = array(np.frombuffer(self.code, np.uint8))
        load = self.lib["load_executable"]
        return lambda *devices: load(*devices, held)

    def save(self) -> tuple[bytearray, Module]:
        """(bytecode, library of the kernels and constants)."""
        return bytearray(self.code), self.lib

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: Module) -> Executable:
        """The program of bytecode and a library that were saved apart. Raises ValueError when the bytecode is damaged."""
        return Executable(bytes(bytecode), lib)


def _value(value: Any) -> Any:
    """An argument, which the machine only reads: arrays in it are in this machine's byte order."""
    if isinstance(value, np.ndarray):
        return native_order(value)
    return [_value(v) for v in value] if isinstance(value, (list, tuple)) else value


class VirtualMachine:
    """Runs the functions of an executable (of relay.vm.compile) or of a library that holds one.

    A program over several devices takes a list of them all. `depth_limit` is how deep calls that are not in tail position may nest.
    Several threads may invoke one machine; what set_input sets belongs to the machine."""

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2

    def __init__(self, exe: Any, device: Any = None, memory_cfg: Any = None, depth_limit: int | None = None) -> None:
        devices = list(device) if isinstance(device, (list, tuple)) else [device if device is not None else cpu(0)]
        self.device = devices[0]
        self.module = exe["default"](*devices)
        if not self.module.implements_function("invoke"):
            raise ValueError(
                f"this library holds a model for the {self.module.type_key}, which is not a program of the virtual machine; run it"
                " with contrib.graph_executor"
            )
        if depth_limit is not None:
            self.module["set_depth_limit"](depth_limit)
        self._invoke = self.module["invoke"]

    def _arguments(self, func_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments in order. Names that the function does not have are ignored: one table of inputs serves several programs."""
        if not kwargs:
            return [_value(a) for a in args]
        count = self.module["get_function_arity"](func_name)
        names = [self.module["get_function_param_name"](func_name, i) for i in range(count)]
        rest = [n for n in names if n not in kwargs]
        if len(args) != len(rest):
            missing, unknown = rest[len(args) :], [k for k in kwargs if k not in names]
            raise TypeError(
                f"{func_name} takes {', '.join(names)}; not given: {', '.join(missing) or 'none'}"
                + (f"; unknown names: {', '.join(unknown)}" if unknown else "")
            )
        given = {**dict(zip(rest, args, strict=True)), **kwargs}
        return [_value(given[n]) for n in names]

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """The result of a function: an NDArray, or an ADT of them. Arguments may be given by position and by name; without any, they are
        those of set_input."""
        return self._invoke(func_name, *self._arguments(func_name, args, kwargs))

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The result of main."""
        return self.invoke("main", *args, **kwargs)

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """The result of a function that another one returned."""
        return self.module["invoke_closure"](closure, *map(_value, args))

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Sets all arguments of a function, for calls without arguments."""
        self.module["set_input"](func_name, *self._arguments(func_name, args, kwargs))

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Sets one argument: (index or name, value), or name=value."""
        key, value = args if args else next(iter(kwargs.items()))
        self.module["set_one_input"](func_name, key, _value(value))

    def set_outputs(self, func_name: str, *args: Any) -> None:
        """Tensors that invoke_stateful writes the results into."""
        self.module["set_outputs"](func_name, *args)

    def invoke_with_outputs(self, func_name: str, input_args: Any, output_args: Sequence[Any]) -> None:
        """Runs a function and writes the results into tensors. input_args: arguments by name or in order; none for those of set_input."""
        if input_args:
            named = isinstance(input_args, Mapping)
            self.set_input(func_name, *([] if named else input_args), **(input_args if named else {}))
        self.set_outputs(func_name, *output_args)
        try:
            self.invoke_stateful(func_name)
        finally:
            self.set_outputs(func_name)

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Runs a function on the arguments, or on what set_input set; get_outputs returns the result."""
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        self.module["invoke_stateful"](func_name)

    def get_outputs(self) -> list[Any]:
        """The results of invoke_stateful."""
        return [self.module["get_output"](i) for i in range(self.module["get_num_outputs"]())]

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """The place of a parameter."""
        index: int = self.module["get_input_index"](input_name, func_name)
        return index

    def benchmark(
        self,
        device: Any,
        *args: Any,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Times a function on these arguments natively; with `end_to_end` the arguments' hand-over is part of it."""
        given = self._arguments(func_name, args, kwargs)
        plan = (number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown)
        if end_to_end:
            return time_function(lambda: self._invoke(func_name, *given), *plan)
        self.module["set_input"](func_name, *given)
        timed: BenchmarkResult = self.module.time_evaluator("invoke_stateful", device, *plan)(func_name)
        return timed


__all__ = ["ADT", "Executable", "VirtualMachine"]
