"""Python interface of the native runtime: arrays, devices, functions, modules, threads."""

from __future__ import annotations

from tilewright.runtime import _ffi
from tilewright.runtime.dtype import dtype_name, parse_dtype, to_numpy_dtype
from tilewright.runtime.errors import error_kind, make_error, register_error

_ffi.set_hooks(make_error, error_kind, parse_dtype, dtype_name)

from tilewright.runtime._ffi import Object  # noqa: E402
from tilewright.runtime.benchmark import BenchmarkResult  # noqa: E402
from tilewright.runtime.device import (  # noqa: E402
    Device,
    cl,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    hexagon,
    metal,
    micro_dev,
    mtl,
    opencl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)
from tilewright.runtime.extension import register_extension, register_object  # noqa: E402
from tilewright.runtime.host_functions import registry as _host_functions  # noqa: E402
from tilewright.runtime.linking.module_source import ModuleSource  # noqa: E402
from tilewright.runtime.module import (  # noqa: E402
    Module,
    config_threadpool,
    enabled,
    load_module,
    load_static_library,
    num_threads,
    set_num_threads,
    system_lib,
    time_function,
)
from tilewright.runtime.ndarray import NDArray, array, empty, from_dlpack, numpyasarray  # noqa: E402
from tilewright.runtime.packed_func import (  # noqa: E402
    PackedFunc,
    convert,
    convert_to_packed_func,
    get_global_func,
    list_global_func_names,
    register_func,
    register_global_func,
    remove_global_func,
)
from tilewright.runtime.params import (  # noqa: E402
    load_param_dict,
    load_param_dict_from_file,
    save_param_dict,
    save_param_dict_to_file,
)
from tilewright.runtime.values import ShapeTuple, String  # noqa: E402
from tilewright.support import lazy  # noqa: E402

# Constants are made by a layer above; compilers of source are started by few.
lazy.declare(
    __name__,
    {
        "ObjectGeneric": "tilewright.node.object_generic:ObjectGeneric",
        "ObjectPathPair": "tilewright.node.object_path:ObjectPathPair",
        "ObjectTypes": "tilewright.node.object_generic:ObjectTypes",
        "Report": "tilewright.runtime.profiling:Report",
        "Scriptable": "tilewright.node:Node",
        "c_source_module": "tilewright.runtime.source_module:c_source_module",
        "convert_to_object": "tilewright.node.object_generic:convert_to_object",
    },
)
_GENERIC = ("ObjectGeneric", "ObjectTypes", "convert", "convert_to_object")
_PATHS = (
    "ArrayIndexPath", "AttributeAccessPath", "MapValuePath", "MissingArrayElementPath", "MissingMapEntryPath", "ObjectPath",
    "ObjectPathPair", "RootPath",
)  # fmt: skip
_NODE_API = ("AsRepr", "LoadJSON", "NodeGetAttr", "NodeListAttrNames", "SaveJSON")
lazy.faces(
    __name__,
    {
        "object": ("Object",),
        "object_generic": [f"tilewright.node.object_generic:{name}" for name in _GENERIC],
        "object_path": [f"tilewright.node.object_path:{name}" for name in _PATHS],
        "_ffi_node_api": [f"tilewright.node.named_functions:{name}" for name in _NODE_API],
        "script_printer": ("Scriptable", "tilewright.script.printer:PrinterConfig"),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)


def _c_source_module_create(*args: object) -> Module:
    from tilewright.runtime.source_module import c_source_module

    return c_source_module(*args)  # type: ignore[arg-type]


def _nvrtc() -> list[str]:
    """NVRTC of a Python package or of a toolkit, which the system's loader does not know, and options for it."""
    from tilewright.support.cuda_files import include_folders, nvrtc_path

    return [str(nvrtc_path() or ""), *[f"--include-path={folder}" for folder in include_folders()]]


register_func("runtime.CSourceModuleCreate", _c_source_module_create, override=True)
register_func("runtime.cuda.nvrtc", _nvrtc, override=True)

__all__ = [
    "BenchmarkResult",
    "Device",
    "Module",
    "ModuleSource",
    "NDArray",
    "Object",
    "PackedFunc",
    "ShapeTuple",
    "String",
    "array",
    "c_source_module",
    "cl",
    "config_threadpool",
    "convert",
    "convert_to_packed_func",
    "cpu",
    "cuda",
    "device",
    "dtype_name",
    "empty",
    "enabled",
    "ext_dev",
    "from_dlpack",
    "get_global_func",
    "gpu",
    "hexagon",
    "micro_dev",
    "list_global_func_names",
    "load_module",
    "load_static_library",
    "load_param_dict",
    "load_param_dict_from_file",
    "metal",
    "mtl",
    "num_threads",
    "numpyasarray",
    "opencl",
    "parse_dtype",
    "register_error",
    "register_extension",
    "register_func",
    "register_global_func",
    "register_object",
    "remove_global_func",
    "rocm",
    "save_param_dict",
    "save_param_dict_to_file",
    "set_num_threads",
    "system_lib",
    "time_function",
    "to_numpy_dtype",
    "vpi",
    "vulkan",
    "webgpu",
]
