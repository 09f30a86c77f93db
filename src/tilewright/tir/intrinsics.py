"""Intrinsics by the names that programs call them by: `T.exp(x)`, `T.ptx_mma("float32", ...)`, `T.tvm_storage_sync("shared")`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from tilewright.ir import DataType, Op, PrimExpr, as_prim_expr
from tilewright.tir import arithmetic, op
from tilewright.tir.expr import Call

# How the type of a result follows from the arguments, for intrinsics without a function of their own.
_SAME_AS_FIRST_NAMES = """exp10 erfc shift_left shift_right bitwise_and bitwise_or bitwise_xor bitwise_not min max sum
    vector_shuffle"""
_DTYPE_FIRST_NAMES = """ptx_mma ptx_mma_sp ptx_ldmatrix ptx_cp_async ptx_cp_async_bulk ptx_ldg32 mma_store mma_fill vectorlow
    ptx_wgmma_fence ptx_wgmma_wait_group vectorhigh vectorcombine large_uint_imm get_active_lane_mask call_spirv_pure_glsl450 atomic_add"""
_HANDLE_NAMES = "tvm_context_id nd_mem_alloc_with_scope tensor_map"
_VOID_NAMES = """ptx_wait_barrier_parity ptx_fence_barrier_init ptx_fence_proxy_async ptx_tma_load ptx_wgmma ptx_wgmma_rs
    ptx_wgmma_commit_group ptx_setmaxnreg"""
_INT_NAMES = """tvm_call_packed_lowered tvm_call_cpacked_lowered tvm_call_trace_packed dma_copy dma_wait dma_start_group
    dma_end_group prefetch"""
_SAME_AS_FIRST = frozenset(_SAME_AS_FIRST_NAMES.split()) | frozenset(op.ACTIVATIONS)
_DTYPE_FIRST = frozenset(_DTYPE_FIRST_NAMES.split())
_FIXED: dict[str, str] = {
    **dict.fromkeys(_HANDLE_NAMES.split(), "handle"),
    **dict.fromkeys(_INT_NAMES.split(), "int32"),
    **dict.fromkeys(_VOID_NAMES.split(), "void"),
}
# Names in programs that differ from the intrinsic's.
RENAMED = {"fabs": "abs", "tvm_call_packed": "call_packed", "tvm_call_cpacked": "call_cpacked"}
# Words whose first argument is the type of the result.
DTYPE_FIRST = _DTYPE_FIRST | {
    "call_extern",
    "call_pure_extern",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "reinterpret",
}
_FUNCTION_NAMES = """exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sigmoid tanh sinh cosh tan sin cos asin acos atan
    asinh acosh atanh atan2 pow power hypot copysign nextafter ldexp fmod erf floor ceil round trunc nearbyint abs
    isnan isinf isfinite popcount clz likely if_then_else fma ret reinterpret address_of isnullptr type_annotation
    handle_add_byte_offset q_multiply_shift call_extern call_pure_extern call_packed call_cpacked call_llvm_intrin
    call_llvm_pure_intrin call_intrin min max all any ceildiv indexdiv indexmod min_value max_value infinity"""
_ARITHMETIC_NAMES = """bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right floordiv floormod truncdiv
    truncmod div add subtract multiply"""
_FUNCTIONS, _ARITHMETIC = frozenset(_FUNCTION_NAMES.split()), frozenset(_ARITHMETIC_NAMES.split())


@cache
def intrinsic(name: str) -> Callable[..., Any] | None:
    """The function that `T.<name>` is; None when no intrinsic has that name."""
    from tilewright.tir import builtin

    name = RENAMED.get(name, name)
    if name in _FUNCTIONS | _ARITHMETIC:
        found: Callable[..., Any] = getattr(op if name in _FUNCTIONS else arithmetic, name)
        return found
    made = vars(builtin).get(name)
    if callable(made) and made.__module__ == builtin.__name__ and not name.startswith("_"):
        return cast(Callable[..., Any], made)
    if f"tir.{name}" not in Op._known:
        return None
    known = Op.get(f"tir.{name}")
    if name in _DTYPE_FIRST:
        return lambda dtype, *args: Call(DataType(dtype), known, args)

    def call(*args: Any) -> Call:
        values = tuple([as_prim_expr(a, f"argument {i} of {name}") for i, a in enumerate(args)])
        return Call(_result_type(name, values), known, values)

    call.__name__ = call.__qualname__ = name
    return call


def _result_type(name: str, args: tuple[PrimExpr, ...]) -> DataType:
    fixed = _FIXED.get(name)
    if fixed is not None:
        return DataType(fixed)
    if name in _SAME_AS_FIRST and args:
        return args[0].dtype
    raise TypeError(
        f'the type of {name} does not follow from its arguments; write T.call_intrin("<type>", "tir.{name}", ...)'
    )
