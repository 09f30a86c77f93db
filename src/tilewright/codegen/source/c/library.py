"""Loading of objects into this process: they are linked into a library, which the system's loader opens."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tilewright.support.errors import TVMError
from tilewright.support.files import filling, temporary_folder
from tilewright.support.linker import link_shared


class LoadedLibrary:
    """Objects in this process. symbols: addresses by name. The code stays loaded until the process ends, since threads and other things
    that it started may outlive this object."""

    def __init__(self, objects: Iterable[bytes], exports: Iterable[str]) -> None:
        with temporary_folder("tilewright-c-") as folder:
            files = []
            with filling(folder):
                for k, data in enumerate(objects):
                    files.append(Path(folder) / f"{k}.o")
                    files[-1].write_bytes(data)
            output = Path(folder) / "lib.so"
            link_shared(files, output)
            try:
                self._library = ctypes.CDLL(str(output))
            except OSError as error:
                raise TVMError(f"the compiled code could not be linked into this process: {error}") from None
        self.symbols: dict[str, int] = {}
        for name in dict.fromkeys(exports):
            try:
                self.symbols[name] = ctypes.addressof(ctypes.c_char.in_dll(self._library, name))
            except ValueError:
                raise TVMError(f"the compiled code could not be linked into this process: no symbol {name}") from None

    def function(self, name: str, *argtypes: Any, restype: Any = ctypes.c_int32) -> Any:
        """An exported symbol as a ctypes function."""
        function: Any = ctypes.CFUNCTYPE(restype, *argtypes)(self.symbols[name])
        function._keep = self
        return function


def load_objects(objects: Iterable[bytes], exports: Iterable[str]) -> LoadedLibrary:
    """Links objects into this process, and looks up the addresses of `exports`. Raises TVMError if the linker refuses."""
    return LoadedLibrary(objects, exports)
