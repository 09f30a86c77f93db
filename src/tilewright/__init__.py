"""Tilewright: the classic TVM stack as one Python compiler that emits native code.

`import tilewright as tvm` gives the names of the classic package. Rooms are imported when they are first used.
"""

from typing import TYPE_CHECKING

from tilewright.support import lazy
from tilewright.support.deferred import defer
from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION as __version__

if TYPE_CHECKING:
    from tilewright import (
        arith,
        auto_scheduler,
        autotvm,
        contrib,
        driver,
        error,
        ir,
        meta_schedule,
        node,
        relay,
        rpc,
        runtime,
        script,
        support,
        target,
        te,
        testing,
        tir,
        topi,
        tuning,
        vta,
    )
    from tilewright.driver import build, lower
    from tilewright.ir import DataType, IRModule, instrument, transform
    from tilewright.runtime import (
        Device,
        NDArray,
        Object,
        cl,
        convert,
        cpu,
        cuda,
        device,
        ext_dev,
        get_global_func,
        gpu,
        hexagon,
        load_param_dict,
        metal,
        micro_dev,
        opencl,
        register_extension,
        register_func,
        register_object,
        rocm,
        save_param_dict,
        vpi,
        vulkan,
        webgpu,
    )
    from tilewright.runtime import ndarray as nd
    from tilewright.runtime import ndarray as ndarray

_ROOMS = (
    "arith", "auto_scheduler", "autotvm", "cli", "codegen", "contrib", "driver", "error", "formats", "generic",
    "ir", "meta_schedule", "micro", "node",
    "relay", "rpc", "runtime", "script", "support", "target", "te", "testing", "tir", "topi", "tuning", "utils", "vta",
)  # fmt: skip
_RUNTIME = (
    "Device", "NDArray", "Object", "cl", "convert", "cpu", "cuda", "device", "ext_dev", "get_global_func", "gpu", "hexagon",
    "load_param_dict", "metal", "micro_dev", "mtl", "opencl", "register_extension", "register_func", "register_object", "rocm",
    "save_param_dict", "vpi", "vulkan", "webgpu",
)  # fmt: skip

# What declares operators and programs names these rooms, which only compiling needs.
defer("tilewright.driver", "tilewright.te", "tilewright.topi", "tilewright.scheduling")
defer(*[f"tilewright.topi.{room}" for room in ("image", "nn", "random", "vision")])

_POOLS = (
    "ConstantMemoryPools",
    "ConstantPoolInfo",
    "PoolInfo",
    "PoolInfoProperties",
    "WorkspaceMemoryPools",
    "WorkspacePoolInfo",
)

lazy.declare(
    "tilewright",
    {name: f"tilewright.{name}" for name in _ROOMS}
    | {name: f"tilewright.ir.memory_pools:{name}" for name in _POOLS}
    | {name: f"tilewright.runtime:{name}" for name in _RUNTIME}
    | {
        "DataType": "tilewright.ir:DataType",
        "DataTypeCode": "tilewright.runtime.c_values:DataTypeCode",
        "IRModule": "tilewright.ir:IRModule",
        "build": "tilewright.driver:build",
        "instrument": "tilewright.ir.instrument",
        "lower": "tilewright.driver:lower",
        "nd": "tilewright.runtime.ndarray",
        "parser": "tilewright.relay.parser",
        "ndarray": "tilewright.runtime.ndarray",
        "_ffi": "tilewright._ffi",
        "transform": "tilewright.ir.transform",
        "tvm_wrap_excepthook": "tilewright.runtime.errors:tvm_wrap_excepthook",
    },
)
# Programs are written in words of layers above the script room.
lazy.declare_all("tilewright.script.tir", "tilewright.tir.parser.vocabulary")
lazy.declare_all("tilewright.script.ir_builder.tir", "tilewright.tir.parser.builder")
_FRAMES = (
    "AllocateConstFrame", "AllocateFrame", "AssertFrame", "AttrFrame", "BlockFrame", "BlockInitFrame", "DeclBufferFrame", "ElseFrame",
    "ForFrame", "IfFrame", "LaunchThreadFrame", "LetFrame", "PrimFuncFrame", "RealizeFrame", "TIRFrame", "ThenFrame", "WhileFrame",
)  # fmt: skip
lazy.faces(
    "tilewright.script.ir_builder.tir", {"frame": [f"tilewright.tir.parser.builder_frames:{name}" for name in _FRAMES]}
)
lazy.declare(
    "tilewright.tir.parser",
    {name: f"tilewright.tir.analysis:{name}" for name in ("get_block_access_region", "undefined_vars")}
    | {"problems": "tilewright.tir.analysis.well_formed:problems"}
    | {"IndexMap": "tilewright.tir.schedule.index_map:IndexMap"},
)
lazy.declare(
    "tilewright.ir.module",
    {name: f"tilewright.relay.prelude.standard_library:{name}" for name in ("import_from_std", "import_file")},
)
lazy.declare("tilewright.relay.testing", {"enabled_targets": "tilewright.testing:enabled_targets"})
lazy.declare("tilewright.support", {"FrontendTestModule": "tilewright.runtime.python_module:FrontendTestModule"})
# Hooks that rewrite calls of operators.
_REWRITES = (
    "batch_matmul_legalize",
    "bias_add_legalize",
    "bitserial_conv2d_legalize",
    "conv2d_legalize",
    "conv2d_transpose_legalize",
    "conv3d_transpose_legalize",
    "dense_legalize",
    "matmul_legalize",
    "add_alter_layout",
    "conv2d_alter_layout",
    "conv2d_transpose_alter_layout",
    "conv3d_alter_layout",
    "dense_alter_layout",
    "qnn_conv2d_alter_layout",
    "qnn_dense_alter_layout",
    "qnn_requantize_alter_layout",
    "sparse_dense_alter_layout",
    "layout_transform",
)
lazy.declare("tilewright.topi.nn", {name: f"tilewright.relay.op.target_rewrites:{name}" for name in _REWRITES})
lazy.declare("tilewright.topi.x86", {"int8_int8_legalize": "tilewright.relay.op.target_rewrites:int8_int8_legalize"})
for _module, _hook in (("math", "erf_legalize"), ("transform", "take_legalize")):
    for _place in ("tilewright.topi", f"tilewright.topi.{_module}"):
        lazy.declare(_place, {_hook: f"tilewright.relay.op.target_rewrites:{_hook}"})
lazy.declare("tilewright.te.elementwise", {"broadcasting": "tilewright.topi.broadcast:OPERATORS"})
# Values as programs hold them: numbers become constants of tir.
lazy.declare(
    "tilewright.runtime",
    {"const": "tilewright.tir:const", "DataType": "tilewright.ir:DataType", "ObjectPath": "tilewright.node:ObjectPath"},
)
lazy.declare(
    "tilewright.ir",
    {name: f"tilewright.ir.memory_pools:{name}" for name in ("ConstantInfo", *_POOLS)}
    | {name: f"tilewright.ir.container:{name}" for name in ("Array", "Map")},
)
# Data types are of relay, and classic `tvm.ir` names them.
lazy.faces("tilewright.ir", {"adt": ("tilewright.relay.adt:Constructor", "tilewright.relay.adt:TypeData")})
lazy.declare("tilewright.ir", {name: f"tilewright.relay.adt:{name}" for name in ("Constructor", "TypeData")})
# Schedules, passes and analyses are layers above the nodes of tir, but part of `tvm.tir` to those who use it.
lazy.declare(
    "tilewright.tir",
    {
        name: f"tilewright.tir.schedule:{name}"
        for name in (
            "BlockDependenceInfo",
            "BlockRV",
            "BlockScope",
            "ExprRV",
            "IndexMap",
            "LoopRV",
            "Schedule",
            "ScheduleError",
            "ScheduleState",
            "StmtSRef",
            "TensorIntrin",
            "Trace",
        )
    },  # fmt: skip
)

# The tasks of a model are found by relay, a layer above templates.
lazy.declare(
    "tilewright.autotvm.task",
    {
        name: f"tilewright.relay.backend.autotvm_tasks:{name}"
        for name in ("extract_from_multiple_program", "extract_from_program")
    },
)
lazy.faces(
    "tilewright.autotvm.task",
    {
        "relay_integration": (
            "tilewright.relay.backend.autotvm_tasks:extract_from_multiple_program",
            "tilewright.relay.backend.autotvm_tasks:extract_from_program",
        )
    },
)
_GRAPH_TUNER = {
    "base_graph_tuner": "BaseGraphTuner get_infer_layout layout_transform",
    "dynamic_programming_tuner": "DPTuner",
    "pbqp_tuner": "PBQPTuner",
}
lazy.faces(
    "tilewright.autotvm.graph_tuner",
    {
        module: [f"tilewright.relay.backend.graph_tuner.tuner:{name}" for name in names.split()]
        for module, names in _GRAPH_TUNER.items()
    },
)
lazy.declare(
    "tilewright.tir.analysis",
    {"get_vtcm_compaction_passes": "tilewright.tir.transform.memory.vtcm:get_vtcm_compaction_passes"},
)
lazy.declare("tilewright.target", {"datatype": "tilewright.tir.transform.types.custom_datatypes"})
lazy.declare(
    "tilewright.tir.transform", {"DefaultGPUSchedule": "tilewright.tir.schedule.default_gpu:DefaultGPUSchedule"}
)

__getattr__, __dir__ = lazy.late("tilewright")

__all__ = ["TVMError", "__version__", *lazy.names("tilewright")]
