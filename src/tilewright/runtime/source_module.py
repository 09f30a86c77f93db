"""Modules of C or C++ source: compiled when something of them is called, and into the library when they are exported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.runtime.linking.c_source import C_FORMATS, CXX_FORMATS, CSource, link_by_compiler
from tilewright.runtime.module import Module, load_module
from tilewright.support.files import temporary_folder


class _Loaded:
    """Finds the functions of a module of C source; the code is compiled and loaded when the first is asked for."""

    def __init__(self, source: CSource) -> None:
        self.source = source
        self.module: Module | None = None
        self.told: dict[str, Callable[..., Any]] = {
            "get_symbol": lambda: self.source.func_names[0] if self.source.func_names else "",
            "get_func_names": lambda: self.source.func_names,
            "get_const_vars": lambda: self.source.const_vars,
        }

    def __call__(self, name: str) -> Any:
        if name in self.told:
            return self.told[name] if name != "get_const_vars" or self.source.const_vars else None
        if not re.search(rf"\b{re.escape(name)}\b", self.source.code):
            return None
        found = self.library()
        return found.get_function(name) if found.implements_function(name) else None

    def library(self) -> Module:
        """The code, loaded into this process."""
        if self.module is None:
            with temporary_folder("tilewright-load-") as folder:
                made, library = folder / "code.o", folder / "lib.so"
                made.write_bytes(self.source.compiled())
                link_by_compiler([str(made)], library, self.source.language, None, self.source.cc)
                self.module = load_module(library)
        return self.module


def c_source_module(
    code: str, fmt: str = "c", func_names: Sequence[str] | None = None, const_vars: Sequence[str] | None = None
) -> Module:
    """A module of C (fmt "c") or C++ ("cc", "cpp") source that defines packed functions.

    func_names: the functions in it. const_vars: names of constants that it receives before its first call, as one list of
    tensors given to the function `__init_<first function>`. Packed functions are made by the macros of tilewright/packed.h in
    C, by TVM_DLL_EXPORT_TYPED_FUNC of tvm/runtime/packed_func.h in C++. The code is compiled by the system's compiler, or the
    one in the package ziglang, when one of its functions is called, and into the library when that is exported.
    """
    if not isinstance(code, str):
        raise TypeError(f"a module of C source is made of its text, but was given {type(code).__name__}")
    if fmt not in (*C_FORMATS, *CXX_FORMATS):
        raise ValueError(
            f"source of the format {fmt!r} cannot be compiled; the formats are {', '.join((*C_FORMATS, *CXX_FORMATS))}"
        )
    source = CSource(code, fmt, func_names or (), const_vars or ())
    return Module.from_functions(_Loaded(source), "c", source)
