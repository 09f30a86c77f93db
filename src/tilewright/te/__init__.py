"""Tensor expressions: tensors declared by formulas of their elements, schedules for them, and their TensorIR functions."""

from tilewright.support import lazy
from tilewright.te import hybrid
from tilewright.te.autodiff import gradient
from tilewright.te.compute import (
    AXIS_SEPARATOR,
    any_dim,
    compute,
    extern,
    extern_primfunc,
    placeholder,
    reduce_axis,
    scan,
    size_var,
    thread_axis,
    var,
)
from tilewright.te.elementwise import elementwise
from tilewright.te.operation import (
    BaseComputeOp,
    ComputeOp,
    ExternOp,
    HybridOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    TensorComputeOp,
)
from tilewright.te.primfunc import create_prim_func
from tilewright.te.schedule import Schedule, SpecializedCondition, Stage, create_schedule
from tilewright.te.tag import TagScope, tag_scope
from tilewright.te.tensor import Tensor, TensorSlice, install_elementwise
from tilewright.te.tensor_intrin import TensorIntrin, TensorIntrinCall, decl_tensor_intrin
from tilewright.tir.arithmetic import (
    add,
    const,
    div,
    floordiv,
    floormod,
    multiply,
    subtract,
    truncdiv,
    truncmod,
)
from tilewright.tir.builtin import trace
from tilewright.tir.op import (
    abs,
    acos,
    acosh,
    all,
    any,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    comm_reducer,
    cos,
    cosh,
    erf,
    exp,
    floor,
    fmod,
    if_then_else,
    indexdiv,
    indexmod,
    isfinite,
    isinf,
    isnan,
    log,
    log2,
    log10,
    max,
    max_value,
    min,
    min_value,
    nearbyint,
    popcount,
    power,
    prod,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    sum,
    tan,
    tanh,
    trunc,
)

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "AXIS_SEPARATOR", "BaseComputeOp", "ComputeOp", "ExternOp", "HybridOp", "Operation", "PlaceholderOp", "ScanOp",
    "Schedule", "SpecializedCondition", "Stage", "TagScope", "Tensor", "TensorComputeOp", "TensorIntrin",
    "TensorIntrinCall", "TensorSlice", "abs", "acos", "acosh", "add", "all", "any", "any_dim", "asin", "asinh", "atan", "atanh",
    "ceil", "comm_reducer", "compute", "const", "cos", "cosh", "create_prim_func", "create_schedule",
    "decl_tensor_intrin", "div", "elementwise", "erf", "exp", "extern", "extern_primfunc", "floor", "floordiv",
    "floormod", "fmod", "gradient", "hybrid", "if_then_else", "indexdiv", "indexmod", "install_elementwise",
    "isfinite", "isinf", "isnan", "log", "log10", "log2", "max", "max_value", "min", "min_value", "multiply",
    "nearbyint", "placeholder", "popcount", "power", "prod", "reduce_axis", "round", "rsqrt", "scan", "sigmoid",
    "sin", "sinh", "size_var", "sqrt", "subtract", "sum", "tag_scope", "tan", "tanh", "thread_axis", "trace", "trunc",
    "truncdiv", "truncmod", "var",
]  # fmt: skip
