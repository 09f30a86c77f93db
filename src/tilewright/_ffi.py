"""The registry of functions, and where the library and its headers are, under the places where programs for classic TVM look for them
(`tvm._ffi`, `tvm._ffi.registry`, `tvm._ffi.libinfo`)."""

from __future__ import annotations

import sys

from tilewright.runtime import (
    Device,
    Object,
    PackedFunc,
    get_global_func,
    libinfo,
    list_global_func_names,
    register_error,
    register_extension,
    register_func,
    register_object,
    remove_global_func,
)

# `from tvm._ffi.registry import ...` means the same functions.
__path__: list[str] = []
registry = sys.modules[f"{__name__}.registry"] = sys.modules[__name__]
sys.modules[f"{__name__}.libinfo"] = libinfo

__all__ = [
    "Device",
    "Object",
    "PackedFunc",
    "get_global_func",
    "libinfo",
    "list_global_func_names",
    "register_error",
    "register_extension",
    "register_func",
    "register_object",
    "registry",
    "remove_global_func",
]
