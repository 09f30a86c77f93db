"""The registry of functions under the place where programs for classic TVM look for it (`tvm._ffi`, `tvm._ffi.registry`)."""

from __future__ import annotations

import sys

from tilewright.runtime import (
    Device,
    Object,
    PackedFunc,
    get_global_func,
    list_global_func_names,
    register_error,
    register_func,
    remove_global_func,
)

# `from tvm._ffi.registry import ...` means the same functions.
__path__: list[str] = []
registry = sys.modules[f"{__name__}.registry"] = sys.modules[__name__]

__all__ = [
    "Device",
    "Object",
    "PackedFunc",
    "get_global_func",
    "list_global_func_names",
    "register_error",
    "register_func",
    "registry",
    "remove_global_func",
]
