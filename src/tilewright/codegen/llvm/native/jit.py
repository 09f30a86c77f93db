"""Loading of objects into this process. LLVM's ORC JIT links them in memory, without a linker and files."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from llvmlite import binding

from tilewright.codegen.llvm.native.target_machine import initialize, target_machine
from tilewright.support.errors import TVMError
from tilewright.target import Target

_names = itertools.count()
_jit: Any = None


def _compiler() -> Any:
    global _jit
    if _jit is None:
        initialize()
        _jit = binding.create_lljit_compiler(target_machine(Target("llvm")), use_jit_link=True)
    return _jit


class LoadedObjects:
    """Objects in this process. symbols: addresses by name. The code stays in memory as long as this object."""

    def __init__(
        self, objects: Iterable[bytes], exports: Iterable[str], imports: Mapping[str, int] | None = None
    ) -> None:
        builder = binding.JITLibraryBuilder()
        for data in objects:
            builder.add_object_img(data)
        builder.add_current_process()
        for name, address in (imports or {}).items():
            builder.import_symbol(name, address)
        wanted = list(dict.fromkeys(exports))
        for name in wanted:
            builder.export_symbol(name)
        try:
            self._tracker = builder.link(_compiler(), f"tilewright{next(_names)}")
        except RuntimeError as error:
            raise TVMError(f"the compiled code could not be linked into this process: {error}") from None
        self.symbols: dict[str, int] = {name: self._tracker[name] for name in wanted}

    def function(self, name: str, *argtypes: Any, restype: Any = ctypes.c_int32) -> Any:
        """An exported symbol as a ctypes function."""
        function: Any = ctypes.CFUNCTYPE(restype, *argtypes)(self.symbols[name])
        function._keep = self  # keeps the code in memory as long as the function
        return function


def load_objects(
    objects: Iterable[bytes], exports: Iterable[str], imports: Mapping[str, int] | None = None
) -> LoadedObjects:
    """Links objects into this process, and looks up the addresses of `exports`. imports: addresses of symbols that the objects use."""
    return LoadedObjects(objects, exports, imports)
