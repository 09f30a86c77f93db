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
from tilewright.support import lazy

_C_TYPES = ("c_array", "c_str", "integer_types", "numeric_types", "py_str", "string_types")
_C_CODES = ("ArgTypeCode", "DataTypeCode", "TVMByteArray", "tvm_shape_index_t")

# `from tvm._ffi.registry import ...` means the same functions.
__path__: list[str] = []
registry = sys.modules[f"{__name__}.registry"] = sys.modules[__name__]
sys.modules[f"{__name__}.libinfo"] = libinfo


def _init_api(namespace: str, target_module_name: str | None = None) -> None:
    """Puts the functions that are registered below `namespace` into a module, by default that of this name."""
    module = sys.modules[target_module_name or namespace]
    prefix = f"{namespace.removeprefix('tvm.')}."
    for name in list_global_func_names():
        if name.startswith(prefix) and "." not in name[len(prefix) :]:
            setattr(module, name[len(prefix) :], get_global_func(name))


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

lazy.faces(
    __name__,
    {
        "base": [
            "register_error",
            "tilewright.support.errors:TVMError",
            "tilewright.te.hybrid:decorate",
            *[f"tilewright.runtime.c_values:{name}" for name in _C_TYPES],
        ],
        "runtime_ctypes": [
            "Device",
            "tilewright.ir:DataType",
            "tilewright.rpc.base:RPC_SESS_MASK",
            *[f"tilewright.runtime.c_values:{name}" for name in _C_CODES],
        ],
    },
)
