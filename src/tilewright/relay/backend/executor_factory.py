"""What relay.build answers: the compiled model, its metadata, the executors made from it, and its export as a library."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.codegen.llvm import compile_object, load_objects
from tilewright.ir import IRModule
from tilewright.relay.backend.kernels import kernel_text, lowered, scheduled
from tilewright.relay.backend.plan import Plan
from tilewright.support.errors import TVMError
from tilewright.support.linker import write_library
from tilewright.target import Target

CONTEXT = "__tilewright_context"


class ExecutorFactoryModule:
    """A compiled model.

    `lib["default"](device)` makes an executor; `export_library("model.so")` writes the library; `lib.lib` is the module of
    its kernels; `ir_mod` the relay module after all passes; `metadata` describes inputs, outputs and kernels. Unpacks as
    (graph JSON, library, parameters), as older programs expect.
    """

    def __init__(
        self, ir_mod: IRModule, target: Target, libmod_name: str, plan: Plan, metadata: dict[str, Any], objects: Sequence[bytes], symbols: Sequence[str]
    ) -> None:
        self.ir_mod, self.target, self.libmod_name, self.plan, self.metadata = ir_mod, target, libmod_name, plan, metadata
        self.objects, self.symbols = list(objects), list(symbols)
        self._module: Any = None
        self._constants: Any = None

    @property
    def graph_json(self) -> str:
        """The metadata as JSON text."""
        return json.dumps(self.metadata)

    def get_graph_json(self) -> str:
        return self.graph_json

    def get_executor_config(self) -> str:
        return self.graph_json

    def get_params(self) -> dict[str, Any]:
        """Parameters that a host must still set: none, they are constants in the library."""
        return {}

    def get_lib(self) -> Any:
        return self.lib

    def constants(self) -> Any:
        """All constants as one array of bytes."""
        if self._constants is None:
            self._constants = self.plan.constants_blob()
        return self._constants

    @property
    def lib(self) -> Any:
        """The library loaded into this process."""
        if self._module is None:
            self._check_host()
            from tilewright import runtime

            loaded = load_objects(self.objects, [*self.symbols, CONTEXT])
            blob = runtime.NDArray.from_dlpack(self.constants()) if self.plan.constants_bytes else None
            self._module = runtime.Module.from_aot(loaded.symbols, self.graph_json, blob, keep_alive=loaded)
        return self._module

    def _check_host(self) -> None:
        if not self.target.is_host:
            raise TVMError(
                f"this model was compiled for {self.target}, which is not this machine, so it cannot run here;"
                ' write it with export_library("model.so") and run it there'
            )

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """`["default"]` makes executors from a device; other names are functions of the library."""
        return self.lib[name]  # type: ignore[no-any-return]

    @property
    def module(self) -> ExecutorFactoryModule:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter((self.graph_json, self, self.get_params()))

    def export_library(self, file_name: str | Path, fcompile: Any = None, addons: Any = None, workspace_dir: Any = None, **kwargs: Any) -> str:
        """Write a library: .so (shared library; constants and metadata inside), .tar (its objects) or .o. Returns the path."""
        output = Path(file_name)
        objects = {f"kernel{i}.o": data for i, data in enumerate(self.objects)}
        objects["metadata.o"] = compile_object(self._metadata_text(), self.target)
        if self.plan.constants_bytes:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "constants.bin"
                self.constants().tofile(path)
                objects["constants.o"] = compile_object(data_object_text(self.target, "__tilewright_constants", path), self.target)
        write_library(objects, output, cross=not self.target.is_host)
        return str(output)

    def _metadata_text(self) -> str:
        raw = self.graph_json.encode() + b"\0"
        text = "".join([chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in raw])
        head = f'target triple = "{self.target.triple}"\n'
        return f'{head}@__tilewright_metadata = constant [{len(raw)} x i8] c"{text}", align 16\n'

    def get_source(self, kind: str = "ll") -> str:
        """LLVM IR ("ll") or scheduled TIR ("tir") of all kernels."""
        with self.target:
            return "\n".join([self.kernel_source(k, kind) for k in dict.fromkeys([c.kernel.name for c in self.plan.calls])])

    def kernel_source(self, name: str, kind: str = "ll") -> str:
        """One kernel as unscheduled ("te"), scheduled ("tir") or lowered ("lowered") TIR, or as LLVM IR ("ll")."""
        kernel = next((c.kernel for c in self.plan.calls if c.kernel.name == name), None)
        if kernel is None:
            raise TVMError(f"the model has no kernel {name!r}; it has {', '.join(dict.fromkeys([c.kernel.name for c in self.plan.calls]))}")
        with self.target:
            if kind == "te":
                return str(kernel.func)
            if kind == "tir":
                return str(scheduled(kernel.func, self.target))
            if kind == "lowered":
                return str(lowered(scheduled(kernel.func, self.target), self.target))
            return kernel_text(kernel, self.target)


def data_object_text(target: Target, symbol: str, path: Path) -> str:
    """LLVM IR of an object that holds a file's bytes under a symbol, 64-byte aligned; the bytes never become text."""
    lines = [
        '.section .rodata.tilewright,"a",@progbits' if "arm" not in target.arch else '.section .rodata.tilewright,"a",%progbits',
        f".globl {symbol}",
        ".p2align 6",
        f"{symbol}:",
        f'.incbin "{path}"',
    ]
    body = "\n".join(['module asm "' + line.replace('"', "\\22") + '"' for line in lines])
    return f'target triple = "{target.triple}"\n{body}\n'


class CompiledExecutor:
    """`relay.create_executor("graph", mod)`: compiles main; `evaluate()` answers a function from arrays to arrays."""

    def __init__(self, build: Callable[..., ExecutorFactoryModule], mod: IRModule, device: Any, target: Any) -> None:
        self.factory = build(mod, target)
        self.device = device

    def evaluate(self, expr: Any = None, binds: Any = None) -> Callable[..., Any]:
        """A function of main's arguments."""
        from tilewright import runtime

        device = self.device if self.device is not None else runtime.cpu(0)
        executor = self.factory["default"](device)
        names = [i["name"] for i in self.factory.metadata["inputs"]]
        count = len(self.factory.metadata["outputs"])

        def run(*args: Any, **kwargs: Any) -> Any:
            given = dict(zip(names, args, strict=False)) | kwargs
            for name, value in given.items():
                executor["set_input"](name, value)
            executor["run"]()
            results = [executor["get_output"](i) for i in range(count)]
            return results[0] if count == 1 else results

        return run
