"""Intrinsics of tir and the functions that build calls to them."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir import DataType, FloatImm, FuncType, IntImm, Op, PrimExpr, PrimExprLike, PrimType, as_prim_expr
from tilewright.ir.expr import GlobalVar, register_global_call
from tilewright.ir.span import BaseSpan
from tilewright.support import lazy
from tilewright.tir.arithmetic import (
    _operands,
    cast_to,
    const,
    floordiv,
    floormod,
    logical_and,
    logical_or,
    maximum,
    minimum,
)
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import (
    ARITY,
    BufferLoad,
    Call,
    CommReducer,
    IterVar,
    Let,
    Reduce,
    Select,
    StringImm,
    Var,
)

PURE, READS, UPDATES = "pure", "reads", "updates"
"""The effect of a call: none, reading state, or changing state."""

ACTIVATIONS = ("gelu", "silu", "one_plus_erf", "one_plus_tanh")
"""Functions of float32 that FuseActivations finds: x * (1 + erf(x / sqrt(2))) / 2, x * sigmoid(x), 1 + erf(x), 1 + tanh(x)."""

_MATH = """exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sigmoid tanh sinh cosh tan sin cos asin acos atan
    asinh acosh atanh atan2 pow hypot copysign nextafter ldexp fmod erf erfc floor ceil round trunc nearbyint fabs
    isnan isinf isfinite popcount clz"""
_PURE = """if_then_else likely shift_left shift_right bitwise_and bitwise_or bitwise_xor bitwise_not reinterpret large_uint_imm
    q_multiply_shift q_multiply_shift_per_axis vectorlow vectorhigh vectorcombine dp4a isnullptr address_of
    handle_add_byte_offset type_annotation call_pure_extern call_llvm_pure_intrin lookup_param
    tvm_struct_get vscale get_active_lane_mask fma min max abs sum prod vector_shuffle tvm_tuple tensor_map"""
_UPDATES = """tvm_access_ptr ret call_extern call_packed call_packed_lowered call_cpacked call_cpacked_lowered call_llvm_intrin
    call_spirv_pure_glsl450 tvm_struct_set tvm_stack_alloca tvm_stack_make_shape tvm_stack_make_array
    tvm_call_packed tvm_call_packed_lowered tvm_call_cpacked tvm_call_cpacked_lowered tvm_call_trace_packed
    tvm_throw_last_error tvm_storage_sync tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down
    tvm_warp_activemask tvm_thread_allreduce tvm_thread_invariant tvm_check_return tvm_context_id
    tvm_load_matrix_sync tvm_mma_sync tvm_bmma_sync tvm_fill_fragment tvm_store_matrix_sync
    prefetch atomic_add nd_mem_alloc_with_scope undef start_profile_intrinsic end_profile_intrinsic
    anylist_getitem assume texture2d_store texture2d_load mem_copy dma_copy dma_wait dma_start_group dma_end_group
    ptx_mma ptx_mma_sp ptx_ldmatrix ptx_cp_async ptx_cp_async_bulk ptx_commit_group ptx_wait_group
    ptx_cp_async_barrier ptx_init_barrier_thread_count ptx_arrive_barrier ptx_arrive_barrier_expect_tx
    ptx_wait_barrier create_barriers mma_store mma_fill call_extern_effect set_error
    ptx_wait_barrier_parity ptx_fence_barrier_init ptx_fence_proxy_async ptx_tma_load ptx_wgmma ptx_wgmma_rs ptx_wgmma_fence
    ptx_wgmma_commit_group ptx_wgmma_wait_group ptx_setmaxnreg"""

for _effect, _names in ((PURE, _MATH), (PURE, _PURE), (PURE, " ".join(ACTIVATIONS)), (UPDATES, _UPDATES)):
    for _name in _names.split():
        Op(f"tir.{_name}").set_attr("TCallEffectKind", _effect)
for _name in ("tvm_struct_get", "tvm_access_ptr", "lookup_param", "tvm_context_id"):
    Op(f"tir.{_name}").set_attr("TCallEffectKind", READS)


for _count, _names in (
    (1, " ".join(ACTIVATIONS)),
    (1, """exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sigmoid tanh sinh cosh tan sin cos asin acos atan asinh acosh
        atanh erf erfc floor ceil round trunc nearbyint fabs isnan isinf isfinite popcount clz likely ret isnullptr
        reinterpret bitwise_not address_of assume tvm_thread_invariant lookup_param"""),
    (2, """atan2 pow hypot copysign nextafter ldexp fmod shift_left shift_right bitwise_and bitwise_or bitwise_xor
        handle_add_byte_offset"""),
    (3, "if_then_else fma"),
    (4, "q_multiply_shift tvm_struct_set"),
    (5, "tvm_access_ptr tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down"),
    (0, "type_annotation tvm_throw_last_error tvm_warp_activemask undef"),
):  # fmt: skip
    for _name in _names.split():
        ARITY[Op.get(f"tir.{_name}")] = _count


def call_effect(call: Call) -> str:
    """The effect of a call."""
    if isinstance(call.op, GlobalVar):
        return UPDATES
    effect: str = call.op.get_attr("TCallEffectKind") or UPDATES  # type: ignore[attr-defined]
    return effect


def is_pure(expr: PrimExpr) -> bool:
    """Whether evaluating the expression changes nothing (loads count as pure)."""
    from tilewright.node import post_order_visit

    found = [True]

    def look(node: Any) -> None:
        if isinstance(node, Call) and call_effect(node) == UPDATES:
            found[0] = False

    post_order_visit(expr, look)
    return found[0]


def call_intrin(dtype: str, func_name: str | Op, *args: Any, span: BaseSpan | None = None) -> Call:
    """A call to an intrinsic by its name, such as "tir.exp"."""
    return Call(DataType(dtype), func_name, args, span)


def call_extern(dtype: str, func_name: str, *args: Any, span: BaseSpan | None = None) -> Call:
    """A call to a C function of that name."""
    return Call(DataType(dtype), "call_extern", (StringImm(func_name), *args), span)


def call_pure_extern(dtype: str, func_name: str, *args: Any, span: BaseSpan | None = None) -> Call:
    """A call to a C function that has no effects."""
    return Call(DataType(dtype), "call_pure_extern", (StringImm(func_name), *args), span)


def call_packed(*args: Any, span: BaseSpan | None = None) -> Call:
    """A call to a packed function: its global name, then its arguments (buffers are passed as tensors)."""
    return Call(DataType("int32"), "tvm_call_packed", _packed_args(args), span)


def call_cpacked(*args: Any, span: BaseSpan | None = None) -> Call:
    """A call to a packed function linked under its C name."""
    return Call(DataType("int32"), "tvm_call_cpacked", _packed_args(args), span)


def _packed_args(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([_pack_buffer(a) if isinstance(a, Buffer) else a for a in args])


def _pack_buffer(buffer: Buffer) -> Call:
    handle = DataType("handle")
    shape = Call(handle, "tvm_stack_make_shape", buffer.shape)
    strides = Call(handle, "tvm_stack_make_shape", buffer.strides) if buffer.strides else const(0, "int64")
    args = (buffer.data, shape, strides, len(buffer.shape), const(0, buffer.dtype), buffer.elem_offset)
    return Call(handle, "tvm_stack_make_array", args)


def call_llvm_intrin(dtype: str, name: str, *args: Any, span: BaseSpan | None = None) -> Call:
    """A call to an LLVM intrinsic by its full name, overload suffixes included."""
    return Call(DataType(dtype), "call_llvm_intrin", (StringImm(name), *_without_count(args)), span)


def call_llvm_pure_intrin(dtype: str, name: str, *args: PrimExprLike, span: BaseSpan | None = None) -> Call:
    """A call to an LLVM intrinsic that has no effects."""
    return Call(DataType(dtype), "call_llvm_pure_intrin", (StringImm(name), *_without_count(args)), span)


def _without_count(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Classic programs give the number of arguments first, as a uint32; here it goes without saying."""
    first = args[0] if args else None
    counts = isinstance(first, IntImm) and first.dtype == "uint32" and first.value == len(args) - 1
    return args[1:] if counts else args


def _accepts_prim(args: tuple[Any, ...]) -> bool:
    return builtins.all([isinstance(a, (PrimExpr, int, float, str, IterVar)) for a in args])


def result_dtype(gvar: GlobalVar) -> DataType:
    """What a function of the module is declared to return; void where nothing is declared."""
    declared = getattr(gvar, "_checked_type", None)
    ret = declared.ret_type if isinstance(declared, FuncType) else None
    return ret.dtype if isinstance(ret, PrimType) else DataType("void")


register_global_call(_accepts_prim, lambda gvar, args: Call(result_dtype(gvar), gvar, args))


def type_annotation(dtype: str) -> Call:
    """A type as an argument of a call."""
    return Call(DataType(dtype), "type_annotation", ())


def ret(val: PrimExprLike, span: BaseSpan | None = None) -> Call:
    """Returns a value from the function."""
    value = as_prim_expr(val)
    return Call(value.dtype, "ret", (value,), span)


def reinterpret(dtype: str, value: PrimExprLike, span: BaseSpan | None = None) -> Call:
    """The same bits read as another type."""
    return Call(DataType(dtype), "reinterpret", (as_prim_expr(value),), span)


def address_of(buffer_load: PrimExprLike, span: BaseSpan | None = None) -> Call:
    """The address of a buffer element, or of a buffer's first."""
    if isinstance(buffer_load, Buffer):
        buffer_load = BufferLoad(buffer_load, tuple([IntImm("int32", 0)] * len(buffer_load.shape)))
    return Call(DataType("handle"), "address_of", (buffer_load,), span)


def handle_add_byte_offset(handle: Any, offset: Any) -> Call:
    """A pointer that many bytes further."""
    return Call(DataType("handle"), "handle_add_byte_offset", (handle, offset))


def isnullptr(x: Any, span: BaseSpan | None = None) -> Call:
    """Whether a handle is null."""
    return Call(DataType("bool"), "isnullptr", (x,), span)


def likely(cond: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """The condition, marked as true in nearly all iterations, which LoopPartition uses."""
    cond = as_prim_expr(cond)
    return cond if isinstance(cond, IntImm) else Call(cond.dtype, "likely", (cond,), span)


def if_then_else(cond: PrimExprLike, t: PrimExprLike, f: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """One of two values by a scalar condition; only the chosen one is evaluated."""
    cond = as_prim_expr(cond, "condition of if_then_else")
    if not cond.dtype.is_bool or cond.dtype.lanes != 1:
        raise TypeError(f"if_then_else takes a scalar bool condition, but was given {cond.dtype}: {cond!r}")
    yes, no = _operands(t, f, "if_then_else")
    if isinstance(cond, IntImm):
        return yes if cond.value else no
    return Call(yes.dtype, "if_then_else", (cond, yes, no), span)


def _unary(name: str, folds: Callable[[float], float] | None, keeps_int: bool = False) -> Callable[..., PrimExpr]:
    def build(x: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
        value = as_prim_expr(x, f"argument of {name}")
        if not value.dtype.is_float:
            if keeps_int:
                return value
            value = cast_to(value, DataType("float32").with_lanes(value.dtype.lanes))
        if folds is not None and isinstance(value, FloatImm):
            return const(folds(value.value), value.dtype)
        return Call(value.dtype, name, (value,), span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{name}(x), element by element; integers are converted to float32 first."
    if keeps_int:
        build.__doc__ = f"{name}(x), element by element; integers are returned as they are."
    return build


def _round_even(x: float) -> float:
    return float(np.rint(x))


exp, exp2, exp10 = _unary("exp", None), _unary("exp2", None), _unary("exp10", None)
log, log2, log10, log1p = _unary("log", None), _unary("log2", None), _unary("log10", None), _unary("log1p", None)
sqrt, rsqrt, sigmoid, tanh = _unary("sqrt", None), _unary("rsqrt", None), _unary("sigmoid", None), _unary("tanh", None)
sin, cos, tan = _unary("sin", None), _unary("cos", None), _unary("tan", None)
sinh, cosh, asin, acos = _unary("sinh", None), _unary("cosh", None), _unary("asin", None), _unary("acos", None)
atan, asinh, acosh, atanh = _unary("atan", None), _unary("asinh", None), _unary("acosh", None), _unary("atanh", None)
erf = _unary("erf", None)
floor, ceil = _unary("floor", math.floor, True), _unary("ceil", math.ceil, True)
trunc, round, nearbyint = (
    _unary("trunc", math.trunc, True),
    _unary("round", _round_even, True),
    _unary("nearbyint", _round_even, True),
)


def _predicate(name: str, folds: Callable[[float], bool], of_int: bool) -> Callable[..., PrimExpr]:
    def build(x: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
        x = as_prim_expr(x, f"argument of {name}")
        if not x.dtype.is_float:
            return const(int(of_int), DataType("bool").with_lanes(x.dtype.lanes))
        if isinstance(x, FloatImm):
            return const(int(folds(x.value)), "bool")
        return Call(DataType("bool").with_lanes(x.dtype.lanes), name, (x,), span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{name}(x), as a bool, element by element."
    return build


isnan = _predicate("isnan", math.isnan, False)
isinf = _predicate("isinf", math.isinf, False)
isfinite = _predicate("isfinite", math.isfinite, True)


def _binary(name: str) -> Callable[..., PrimExpr]:
    def build(x1: Any, x2: Any, span: BaseSpan | None = None) -> PrimExpr:
        a, b = _operands(x1, x2, name)
        return Call(a.dtype, name, (a, b), span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{name}(x1, x2), element by element."
    return build


atan2, hypot, copysign, nextafter, _pow, _fmod = (
    _binary("atan2"),
    _binary("hypot"),
    _binary("copysign"),
    _binary("nextafter"),
    _binary("pow"),
    _binary("fmod"),
)


def power(x: Any, y: Any, span: BaseSpan | None = None) -> PrimExpr:
    """x to the power of y, element by element."""
    return _pow(x, y, span)


pow = power


def fmod(x: Any, y: Any, span: BaseSpan | None = None) -> PrimExpr:
    """The remainder of x / y with the sign of x, element by element."""
    return _fmod(x, y, span)


def ldexp(x1: Any, x2: Any, span: BaseSpan | None = None) -> PrimExpr:
    """x1 * 2 ** x2; the exponent x2 is an int32."""
    x = as_prim_expr(x1)
    return Call(x.dtype, "ldexp", (x, as_prim_expr(x2)), span)


def abs(x: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """The absolute value."""
    value = as_prim_expr(x, "argument of abs")
    if isinstance(value, FloatImm):
        return const(math.fabs(value.value), value.dtype)
    if isinstance(value, IntImm):
        return const(-value.value if value.value < 0 else value.value, value.dtype)
    if value.dtype.is_float:
        return Call(value.dtype, "fabs", (value,), span)
    if value.dtype.is_uint:
        return value
    return Select(value >= const(0, value.dtype), value, -value)


def popcount(x: Any, span: BaseSpan | None = None) -> PrimExpr:
    """The number of one bits."""
    x = as_prim_expr(x)
    return Call(x.dtype, "popcount", (x,), span)


def clz(x: Any) -> PrimExpr:
    """The number of leading zero bits, as int32."""
    x = as_prim_expr(x)
    return Call(DataType("int32").with_lanes(x.dtype.lanes), "clz", (x,))


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> Call:
    """round(x * y * 2 ** -s) in fixed point: y is a fraction of q bits, ties away from zero."""
    return Call(DataType("int32"), "q_multiply_shift", (x, y, q, s))


def fma(a: Any, b: Any, c: Any) -> PrimExpr:
    """a * b + c with one rounding."""
    a = as_prim_expr(a)
    return Call(a.dtype, "fma", (a, b, c))


def all(*args: Any, span: BaseSpan | None = None) -> PrimExpr:
    """The conjunction of conditions."""
    return _connect(logical_and, args, "all")


def any(*args: Any, span: BaseSpan | None = None) -> PrimExpr:
    """The disjunction of conditions."""
    return _connect(logical_or, args, "any")


def _connect(f: Callable[[Any, Any], PrimExpr], args: tuple[Any, ...], name: str) -> PrimExpr:
    if not args:
        raise ValueError(f"tir.{name} takes at least one condition")
    result = as_prim_expr(args[0], f"argument of {name}")
    for arg in args[1:]:
        result = f(result, arg)
    return result


def min_value(dtype: str, span: BaseSpan | None = None) -> PrimExpr:
    """The lowest value of a type (the lowest finite one for floats)."""
    kind = DataType(dtype)
    if kind.is_float:
        return const(-_finfo_max(kind), kind)
    return const(-(1 << (kind.bits - 1)) if kind.code == "int" else 0, kind)


def max_value(dtype: str, span: BaseSpan | None = None) -> PrimExpr:
    """The highest finite value of a type."""
    kind = DataType(dtype)
    if kind.is_float:
        return const(_finfo_max(kind), kind)
    return const((1 << (kind.bits - (kind.code == "int"))) - 1, kind)


def _finfo_max(dtype: DataType) -> float:
    import ml_dtypes

    from tilewright.node.field_values import numpy_dtype

    return float(ml_dtypes.finfo(numpy_dtype(dtype.element)).max)  # type: ignore[no-untyped-call]


def infinity(dtype: str, span: BaseSpan | None = None) -> PrimExpr:
    """Positive infinity of a float type."""
    return const(math.inf, dtype)


def min(a: Any, b: Any = None, axis: Any = None, **kwargs: Any) -> PrimExpr:
    """The smaller of two values; with `axis`, the minimum over reduction axes. Of floats NaN where one of them is."""
    return (
        minimum(a, b) if axis is None and not _is_axis(b) else _min_over(a, axis if axis is not None else b, **kwargs)
    )


def max(a: PrimExprLike, b: Any = None, axis: Any = None, **kwargs: Any) -> PrimExpr:
    """The larger of two values; with `axis`, the maximum over reduction axes. Of floats NaN where one of them is."""
    return (
        maximum(a, b) if axis is None and not _is_axis(b) else _max_over(a, axis if axis is not None else b, **kwargs)
    )


def _is_axis(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and isinstance(value[0], IterVar)
    return isinstance(value, IterVar) and value.iter_type == IterVar.CommReduce


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A reduction from a combiner of two values (or tuples of them) and the identity for given dtypes.

    The result is called as `f(expr, axis, where=None, init=None)`; tuples of expressions give a tuple.
    """

    def reduce(expr: Any, axis: Any, where: PrimExprLike | None = None, init: Any = None) -> Any:
        axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        for a in axes:
            if not isinstance(a, IterVar):
                raise TypeError(
                    f"{name}: a reduction axis comes from te.reduce_axis, but was given {type(a).__name__}: {a!r}"
                )
        several = isinstance(expr, (tuple, list))
        sources = tuple([as_prim_expr(e) for e in (expr if several else (expr,))])
        lhs = tuple([Var(f"x{i}" if several else "x", s.dtype) for i, s in enumerate(sources)])
        rhs = tuple([Var(f"y{i}" if several else "y", s.dtype) for i, s in enumerate(sources)])
        if several:
            result, identity = fcombine(lhs, rhs), fidentity(*[s.dtype for s in sources])
        else:
            result, identity = (fcombine(lhs[0], rhs[0]),), (fidentity(sources[0].dtype),)
        combiner = CommReducer(lhs, rhs, tuple(result), tuple(identity))
        condition = const(True) if where is None else as_prim_expr(where)
        inits = () if init is None else tuple(init if isinstance(init, (tuple, list)) else (init,))
        outputs = tuple([Reduce(combiner, sources, axes, condition, i, inits) for i in range(len(sources))])
        return outputs if several else outputs[0]

    def reducer(expr: Any, axis: Any, where: PrimExprLike | None = None, init: Any = None, *args: Any) -> Any:
        if isinstance(axis, (PrimExpr, int, float)) or (
            isinstance(axis, (tuple, list)) and axis and not isinstance(axis[0], IterVar)
        ):
            # Two operands instead of an operand and an axis: combine them at once.
            result = expr
            for other in (axis, *([where] if where is not None else []), *([init] if init is not None else []), *args):
                result = (
                    fcombine(*_operands(result, other, name))
                    if not isinstance(result, tuple)
                    else fcombine(result, other)
                )
            return result
        return reduce(expr, axis, where, init)

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"The {name} of expr over reduction axes, where a condition holds."
    return reducer


sum: Callable[..., PrimExpr] = comm_reducer(lambda x, y: x + y, lambda t: const(0, t), name="sum")
prod: Callable[..., PrimExpr] = comm_reducer(lambda x, y: x * y, lambda t: const(1, t), name="prod")


def lowest(dtype: str) -> PrimExpr:
    """The smallest value of a type: minus infinity if the type has it."""
    kind = DataType(dtype)
    return const(-math.inf, kind) if kind.is_float and kind.bits >= 16 else min_value(dtype)


def highest(dtype: str) -> PrimExpr:
    """The largest value of a type: infinity if the type has it."""
    kind = DataType(dtype)
    return const(math.inf, kind) if kind.is_float and kind.bits >= 16 else max_value(dtype)


_min_over = comm_reducer(minimum, highest, name="min")
_max_over = comm_reducer(maximum, lowest, name="max")


def let(var: Var, value: Any, body: Any) -> PrimExpr:
    """The body, with the variable standing for the value."""
    return Let(var, value, body)


def ceildiv(lhs: Any, rhs: Any, span: BaseSpan | None = None) -> PrimExpr:
    """lhs / rhs rounded up, for a positive divisor."""
    return floordiv(lhs + (rhs - 1), rhs)


def indexdiv(a: Any, b: Any, span: BaseSpan | None = None) -> PrimExpr:
    """a / b where both are known to be non-negative."""
    return floordiv(a, b)


def indexmod(a: Any, b: Any, span: BaseSpan | None = None) -> PrimExpr:
    """a % b where both are known to be non-negative."""
    return floormod(a, b)


# What stands in other modules here, classic programs import from this one, too.
__getattr__, __dir__ = lazy.late(__name__, otherwise=lazy.names_of("tilewright.tir"))
