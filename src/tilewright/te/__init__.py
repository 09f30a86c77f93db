"""Tensor expressions: tensors declared by what their elements are, and their form as TensorIR functions."""

from tilewright.te import hybrid
from tilewright.te.autodiff import gradient
from tilewright.te.compute import (
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
from tilewright.te.operation import BaseComputeOp, ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp
from tilewright.te.primfunc import create_prim_func
from tilewright.te.schedule import Schedule, Stage, create_schedule
from tilewright.te.tag import TagScope, tag_scope
from tilewright.te.tensor import Tensor, TensorSlice, install_elementwise
from tilewright.te.tensor_intrin import TensorIntrin, decl_tensor_intrin
from tilewright.tir.arithmetic import const, div, floordiv, floormod, truncdiv, truncmod
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

__all__ = [name for name in dir() if not name.startswith("_")]
