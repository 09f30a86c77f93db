"""Result of relay.vm.compile: kernels, bytecode and constants. It runs in this process, or is saved and loaded."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import runtime
from tilewright.codegen.backend import back_end_of
from tilewright.ir import IRModule
from tilewright.relay.backend.byoc.external import ExternalCode
from tilewright.relay.backend.executor_factory import need_host
from tilewright.relay.backend.vm.code import Instruction, Program
from tilewright.runtime.linking.export import export_library
from tilewright.runtime.linking.object_file import data_object
from tilewright.runtime.linking.symbols import CONTEXT
from tilewright.runtime.vm import Executable as LoadedExecutable
from tilewright.target import Target

BYTECODE = "__tilewright_bytecode"


class Executable(LoadedExecutable):
    """A compiled program. `runtime.vm.VirtualMachine(exe, device)` runs it, `export_library("p.so")` writes it with everything that it
    needs; `save()` and `load_exec` pass bytecode and library separately."""

    def __init__(
        self,
        ir_mod: IRModule,
        target: Target,
        program: Program,
        metadata: dict[str, Any],
        objects: Sequence[bytes],
        constants: np.ndarray,
        external: ExternalCode,
    ) -> None:
        self.external = external
        self.ir_mod, self.target, self.program = ir_mod, target, program
        self.code = program.to_bytes(lambda dtype: runtime.parse_dtype(str(dtype)))
        self.metadata = {**metadata, "bytecode_bytes": len(self.code)}
        self.objects = list(objects)
        self._constants = runtime.from_dlpack(constants) if constants.size else None
        self._module: runtime.Module | None = None
        self._loading = threading.Lock()

    @property
    def bytecode(self) -> str:
        """The listing of all functions."""
        return self.program.text()

    @property
    def constants(self) -> str:
        """A listing of the constants."""
        lines = [f"const[{i}]: {self.program.types[t]}" for i, (t, _) in enumerate(self.program.constants)]
        return "\n".join(lines)

    @property
    def primitive_ops(self) -> list[str]:
        """The names of the kernels."""
        return [name for name, _ in self.program.kernels]

    @property
    def globals(self) -> list[str]:
        """The names of the functions that a host may call."""
        return list(self.metadata["entry_points"])

    @property
    def stats(self) -> str:
        """The numbers of functions, instructions, kernels and constants, as text."""
        code = [i for f in self.program.functions for i in f.code if isinstance(i, Instruction)]
        return (
            f"functions: {', '.join(self.globals)}\nkernels: {len(self.program.kernels)}\n"
            f"constants: {len(self.program.constants)}, {self.metadata['constants_bytes']} bytes\n"
            f"instructions: {len(code)}"
        )

    def get_function_params(self, func_name: str) -> list[str]:
        """The names of a function's parameters. Raises ValueError for unknown functions."""
        for f in self.program.functions:
            if f.name == func_name:
                return [name for name, _ in f.params]
        raise ValueError(f"the program has no function {func_name!r}; it has {', '.join(self.globals)}")

    def source(self) -> runtime.ModuleSource:
        """Objects, metadata, bytecode and constants, for export."""
        back_end = back_end_of(self.target)
        kind = back_end.object_kind(self.target)
        described = data_object("__tilewright_metadata", json.dumps(self.metadata).encode() + b"\0", kind)
        code = data_object(BYTECODE, self.code, kind)
        objects = self.objects if back_end.linkable else []
        source = runtime.ModuleSource(objects, {}, self.target.triple, self._constants, self.external.data())
        source.beside = [described, code, *back_end.companions(self.target)]
        if not back_end.linkable:
            source.hold(lambda: back_end.held(self.objects, self._exports))
        return source

    @property
    def _exports(self) -> list[str]:
        """Symbols to look up in the objects."""
        return [*self.primitive_ops, CONTEXT, *self.external.slots()]

    @property
    def lib(self) -> runtime.Module:
        """The library, loaded into this process. One for another machine can be exported, but not called."""
        with self._loading:
            if self._module is None:
                self._module = self._load()
            return self._module

    def _load(self) -> runtime.Module:
        if not self.target.is_native:
            source = self.source()
            source.why_not_here = f"it was compiled for {self.target.triple}"
            return self.external.attach(runtime.Module.from_symbols({}, None, source))
        loaded = back_end_of(self.target).load(self.objects, self._exports)
        held = runtime.array(np.frombuffer(self.code, np.uint8))
        symbols = {**self.external.without_slots(loaded.symbols), BYTECODE: held.data_address}
        keep = (self.external.base(loaded), held)
        return self.external.attach(
            runtime.Module.from_aot(symbols, json.dumps(self.metadata), self._constants, keep, self.source())
        )

    @property
    def mod(self) -> runtime.Module:
        return self.lib

    module = mod

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function "default", which makes a virtual machine for a device."""
        need_host(self.target, "program")
        return self.lib[name]

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        fcompile: Callable[..., Any] | None = None,
        addons: Sequence[str] | None = None,
        workspace_dir: str | None = None,
        **kwargs: Any,
    ) -> str:
        """Writes a library (.so, .tar or .o) with kernels, bytecode and constants. Returns the path."""
        path = os.fspath(file_name)
        export_library(
            path, [self.source(), *self.external.sources()], fcompile, list(addons or ()), workspace_dir, kwargs
        )
        return path

    def save(self) -> tuple[bytearray, runtime.Module]:
        """(bytecode, library of the kernels and constants)."""
        return bytearray(self.code), self.lib
