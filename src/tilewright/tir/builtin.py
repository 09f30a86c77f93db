"""Calls to the intrinsics of the runtime and of devices, by their classic names and arguments."""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, GlobalVar, Op, PrimExpr, PrimExprLike, as_prim_expr
from tilewright.ir.dtype import ScalableLanes
from tilewright.ir.span import BaseSpan
from tilewright.tir.arithmetic import _operands, const
from tilewright.tir.expr import Call, StringImm
from tilewright.tir.op import PURE, READS, UPDATES

for _effect, _names in (
    (PURE, "ignore_loop_partition"),
    (READS, "anylist_getitem"),
    (
        UPDATES,
        """TVMBackendAllocWorkspace TVMBackendFreeWorkspace anylist_resetitem anylist_setitem_call_packed
        anylist_setitem_call_cpacked make_filled_simdgroup_matrix simdgroup_load simdgroup_store
        simdgroup_multiply_accumulate ptx_ldg32""",
    ),
):
    for _name in _names.split():
        _op = Op(f"tir.{_name}")
        if _op.get_attr("TCallEffectKind") is None:
            _op.set_attr("TCallEffectKind", _effect)


def _call(dtype: str, name: str, *args: Any) -> Call:
    return Call(DataType(dtype), name, args)


# --- calls of functions


def call_packed_lowered(*args: Any, span: BaseSpan | None = None) -> Call:
    """A call to a packed function by name, its arguments on the stack: (name, values, type codes, begin, end)."""
    return Call(DataType("int32"), "tvm_call_packed_lowered", args, span)


def call_cpacked_lowered(*args: Any, span: BaseSpan | None = None) -> Call:
    """As call_packed_lowered, of a function linked under its C name."""
    return Call(DataType("int32"), "tvm_call_cpacked_lowered", args, span)


def call_tir(global_var: GlobalVar, *args: Any) -> Call:
    """A call to another PrimFunc of the module."""
    if not isinstance(global_var, GlobalVar):
        raise TypeError(f"call_tir takes a GlobalVar, but was given {type(global_var).__name__}: {global_var!r}")
    known = getattr(getattr(global_var, "_checked_type", None), "ret_type", None)
    return Call(DataType(str(getattr(known, "dtype", "void") or "void")), global_var, args)


def trace(args: Any, trace_action: str = "tvm.default_trace_action") -> Call:
    """The last value, of which a packed function is told with all the others when it is computed.

    What that function returns takes the place of the value; the default one prints, and returns nothing.
    """
    if trace_action == "tvm.default_trace_action":
        from tilewright.runtime import register_func

        register_func(trace_action, lambda *told: print(list(told)), override=True)
    values = tuple([as_prim_expr(a, "argument of trace") for a in args])
    if not values:
        raise TypeError("trace takes at least one value")
    return Call(values[-1].dtype, "tvm_call_trace_packed", (StringImm(trace_action), *values))


def tvm_check_return(expected: int, return_unexpected: int, nested_call: PrimExpr) -> Call:
    """Checks what a call returns; any other value than `expected` returns `return_unexpected`."""
    return _call("int32", "tvm_check_return", expected, return_unexpected, nested_call)


# --- memory of the calling convention


def tvm_stack_alloca(dtype_str: str, num: int) -> Call:
    """Storage on the stack for `num` shapes, arrays, values or type codes."""
    return _call("handle", "tvm_stack_alloca", dtype_str, num)


def tvm_stack_make_shape(*args: PrimExprLike) -> Call:
    """A shape on the stack."""
    return _call("handle", "tvm_stack_make_shape", *args)


def tvm_stack_make_array(
    data: PrimExprLike,
    shape: PrimExprLike,
    strides: PrimExprLike,
    ndim: PrimExprLike,
    arr_dtype: PrimExprLike,
    elem_offset: PrimExprLike,
) -> Call:
    """A tensor descriptor on the stack."""
    return _call("handle", "tvm_stack_make_array", data, shape, strides, ndim, arr_dtype, elem_offset)


def tvm_tuple(*value: Any) -> Call:
    """Several values as one argument."""
    return _call("handle", "tvm_tuple", *value)


def tvm_struct_get(arr: Any, index: int, field: int, dtype: str) -> Call:
    """A field of an element of an array of structures."""
    return _call(dtype, "tvm_struct_get", arr, index, field)


def tvm_struct_set(arr: PrimExprLike, index: int, field: int, value: PrimExprLike) -> Call:
    """Writes a field of an element of an array of structures."""
    return _call("int32", "tvm_struct_set", arr, index, field, value)


def tvm_access_ptr(
    ptype: PrimExpr, data: PrimExprLike, offset: PrimExprLike, extent: PrimExprLike, rw_mask: int
) -> Call:
    """A pointer to elements of some storage; rw_mask: 1 reads, 2 writes."""
    return _call("handle", "tvm_access_ptr", ptype, data, offset, extent, rw_mask)


def tvm_throw_last_error() -> Call:
    """Raises the error that the runtime has kept."""
    return _call("handle", "tvm_throw_last_error")


def TVMBackendAllocWorkspace(
    device_type: PrimExprLike, device_id: PrimExprLike, nbytes: PrimExprLike, dtype_code_hint: int, dtype_bits_hint: int
) -> Call:
    """Bytes from the device's workspace."""
    args = (device_type, device_id, as_prim_expr(nbytes).astype("uint64"), dtype_code_hint, dtype_bits_hint)
    return _call("handle", "TVMBackendAllocWorkspace", *args)


def TVMBackendFreeWorkspace(device_type: PrimExprLike, device_id: PrimExprLike, ptr: Any) -> Call:
    """Gives bytes back to the device's workspace."""
    return _call("int32", "TVMBackendFreeWorkspace", device_type, device_id, ptr)


def lookup_param(param_name: str, span: BaseSpan | None = None) -> Call:
    """The pointer to a parameter that is linked into the module."""
    return Call(DataType("handle"), "lookup_param", (StringImm(param_name),), span)


def anylist_getitem(list_handle: Any, index: Any) -> Call:
    """An item of a list of values of any type."""
    return _call("handle", "anylist_getitem", list_handle, index)


def anylist_resetitem(list_handle: Any, index: Any) -> Call:
    """Clears an item of a list of values."""
    return _call("int32", "anylist_resetitem", list_handle, index)


def anylist_setitem_call_packed(list_handle: Any, index: Any, func_name: str, *args: Any) -> Call:
    """Sets an item to what a packed function gives."""
    return _call("int32", "anylist_setitem_call_packed", list_handle, index, func_name, *args)


def anylist_setitem_call_cpacked(list_handle: Any, index: Any, func_name: str, *args: Any) -> Call:
    """As anylist_setitem_call_packed, of a function linked under its C name."""
    return _call("int32", "anylist_setitem_call_cpacked", list_handle, index, func_name, *args)


# --- what is known, and hints


def assume(cond: PrimExprLike | None = None) -> Call:
    """Says that a condition holds; without effect where it does."""
    return _call("bool", "assume", const(True, "bool") if cond is None else cond)


def undef() -> Call:
    """A value of which nothing is known."""
    return _call("int32", "undef")


def tvm_thread_invariant(cond: Any) -> Call:
    """A condition that is the same for all threads of a block."""
    return _call("bool", "tvm_thread_invariant", cond)


def ignore_loop_partition(predicate: PrimExprLike) -> Call:
    """A condition for which no loop is partitioned."""
    return _call("bool", "ignore_loop_partition", predicate)


def start_profile_intrinsic(id: int) -> Call:
    """Where the profiler starts to count a part of the program."""
    return _call("handle", "start_profile_intrinsic", id)


def end_profile_intrinsic(id: int) -> Call:
    """Where it ends."""
    return _call("handle", "end_profile_intrinsic", id)


# --- threads


def tvm_storage_sync(storage_scope: str) -> Call:
    """Waits until all threads have made their accesses of storage of that scope."""
    return _call("int32", "tvm_storage_sync", storage_scope)


def tvm_warp_activemask() -> Call:
    """The lanes of the warp that run."""
    return _call("uint32", "tvm_warp_activemask")


def _shuffle(
    name: str,
    mask: PrimExprLike,
    value: PrimExprLike,
    which: PrimExprLike,
    width: PrimExprLike,
    warp_size: PrimExprLike,
) -> Call:
    value = as_prim_expr(value, f"value of {name}")
    return Call(value.dtype, name, (mask, value, which, width, warp_size))


def tvm_warp_shuffle(
    mask: PrimExprLike, value: PrimExprLike, warp_id: PrimExprLike, width: PrimExprLike, warp_size: PrimExprLike
) -> Call:
    """The value of another lane of the warp."""
    return _shuffle("tvm_warp_shuffle", mask, value, warp_id, width, warp_size)


def tvm_warp_shuffle_up(mask: Any, value: Any, offset: Any, width: Any, warp_size: Any) -> Call:
    """The value of the lane `offset` below."""
    return _shuffle("tvm_warp_shuffle_up", mask, value, offset, width, warp_size)


def tvm_warp_shuffle_down(
    mask: PrimExprLike, value: PrimExprLike, offset: PrimExprLike, width: PrimExprLike, warp_size: PrimExprLike
) -> Call:
    """The value of the lane `offset` above."""
    return _shuffle("tvm_warp_shuffle_down", mask, value, offset, width, warp_size)


def tvm_thread_allreduce(*freduce_args: PrimExprLike) -> Call:
    """A reduction over threads: (count, values, condition, results, thread axes); the reducer is the scope's."""
    return _call("handle", "tvm_thread_allreduce", *freduce_args)


# --- fragments and matrix units


def tvm_load_matrix_sync(
    fragment: PrimExprLike, m: Any, n: Any, k: Any, index: Any, buffer_ptr: PrimExprLike, stride: Any, layout: Any
) -> Call:
    """Loads a fragment of a matrix unit, by a warp."""
    return _call("handle", "tvm_load_matrix_sync", fragment, m, n, k, index, buffer_ptr, stride, layout)


def tvm_store_matrix_sync(
    fragment: Any, m: Any, n: Any, k: Any, index: Any, buffer_ptr: Any, stride: Any, layout: Any
) -> Call:
    """Stores a fragment, by a warp."""
    return _call("handle", "tvm_store_matrix_sync", fragment, m, n, k, index, buffer_ptr, stride, layout)


def tvm_mma_sync(
    fragment_d: Any,
    index_d: Any,
    fragment_a: Any,
    index_a: Any,
    fragment_b: Any,
    index_b: Any,
    fragment_c: Any,
    index_c: Any,
) -> Call:
    """d = a * b + c on fragments."""
    args = (fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c)
    return _call("handle", "tvm_mma_sync", *args)


def tvm_bmma_sync(
    fragment_d: Any,
    index_d: Any,
    fragment_a: Any,
    index_a: Any,
    fragment_b: Any,
    index_b: Any,
    fragment_c: Any,
    index_c: Any,
) -> Call:
    """As tvm_mma_sync, on single bits."""
    args = (fragment_d, index_d, fragment_a, index_a, fragment_b, index_b, fragment_c, index_c)
    return _call("handle", "tvm_bmma_sync", *args)


def tvm_fill_fragment(fragment: Any, m: Any, n: Any, k: Any, index: Any, value: Any) -> Call:
    """Fills a fragment of a matrix unit with a value."""
    return _call("handle", "tvm_fill_fragment", fragment, m, n, k, index, value)


def ptx_mma(
    dtype: str, shape: str, A_layout: str, B_layout: str, A_dtype: str, B_dtype: str, C_dtype: str,
    multiplicand_a: Any, a_index: Any, multiplicand_b: Any, b_index: Any, accumulator: Any, c_index: Any,
    saturate: bool, operator: str | None = None,
) -> Call:  # fmt: skip
    """The PTX instruction mma: a warp multiplies tiles that are spread over its registers."""
    args = (
        shape, A_layout, B_layout, A_dtype, B_dtype, C_dtype, multiplicand_a, a_index, multiplicand_b, b_index,
        accumulator, c_index, saturate,
    )  # fmt: skip
    return _call(dtype, "ptx_mma", *args, *([] if operator is None else [operator]))


def ptx_mma_sp(
    dtype: str, shape: str, A_layout: str, B_layout: str, A_dtype: str, B_dtype: str, C_dtype: str,
    multiplicand_a: Any, a_index: Any, multiplicand_b: Any, b_index: Any, accumulator: Any, c_index: Any,
    metadata: Any, meta_index: Any, sparse_selector: Any, saturate: bool,
) -> Call:  # fmt: skip
    """The PTX instruction mma.sp, whose first operand is two in four sparse."""
    args = (
        shape, A_layout, B_layout, A_dtype, B_dtype, C_dtype, multiplicand_a, a_index, multiplicand_b, b_index,
        accumulator, c_index, metadata, meta_index, sparse_selector, saturate,
    )  # fmt: skip
    return _call(dtype, "ptx_mma_sp", *args)


def mma_store(dtype: str, m: Any, n: Any, dst_ptr: Any, src_ptr: Any, src_offset: Any, dst_stride: Any) -> Call:
    """Stores the accumulators of ptx_mma as a tile."""
    return _call(dtype, "mma_store", m, n, dst_ptr, src_ptr, src_offset, dst_stride)


def mma_fill(dtype: str, local_size: Any, local_ptr: Any, offset: Any) -> Call:
    """Fills the accumulators of ptx_mma with zeros."""
    return _call(dtype, "mma_fill", local_size, local_ptr, offset)


def ptx_ldmatrix(
    dtype: str, trans: bool, num: Any, type: str, local_ptr: Any, local_offset: Any, smem_ptr: Any, smem_offset: Any
) -> Call:
    """The PTX instruction ldmatrix: `num` tiles of 8 x 8 from shared memory into the registers of a warp."""
    return _call(dtype, "ptx_ldmatrix", trans, num, type, local_ptr, local_offset, smem_ptr, smem_offset)


def make_filled_simdgroup_matrix(d: Any, index: Any, value: Any, col: int = 8, row: int = 8) -> Call:
    """A Metal simdgroup matrix of one value."""
    return _call("handle", "make_filled_simdgroup_matrix", d, index, value, col, row)


def simdgroup_load(
    d: Any, index: Any, ptr: Any, stride: Any, col: int = 8, row: int = 8, transpose_matrix: bool = False
) -> Call:
    """Loads a Metal simdgroup matrix."""
    return _call("handle", "simdgroup_load", d, index, ptr, stride, col, row, transpose_matrix)


def simdgroup_store(
    d: Any, index: Any, ptr: Any, stride: Any, col: int = 8, row: int = 8, transpose_matrix: bool = False
) -> Call:
    """Stores a Metal simdgroup matrix."""
    return _call("handle", "simdgroup_store", d, index, ptr, stride, col, row, transpose_matrix)


def simdgroup_multiply_accumulate(
    d: Any, index_d: Any, a: Any, index_a: Any, b: Any, index_b: Any, c: Any, index_c: Any
) -> Call:
    """d = a * b + c on Metal simdgroup matrices."""
    return _call("handle", "simdgroup_multiply_accumulate", d, index_d, a, index_a, b, index_b, c, index_c)


# --- asynchronous copies


def ptx_cp_async(
    dtype: str,
    shared_ptr: PrimExprLike,
    shared_offset: PrimExprLike,
    global_ptr: PrimExprLike,
    global_offset: PrimExprLike,
    bytes: Any,
) -> Call:
    """The PTX instruction cp.async: bytes from global to shared memory, without registers."""
    return _call(dtype, "ptx_cp_async", shared_ptr, shared_offset, global_ptr, global_offset, bytes)


def ptx_cp_async_bulk(
    dtype: str, shared_ptr: Any, shared_offset: Any, global_ptr: Any, global_offset: Any, bytes: Any, barrier_id: Any
) -> Call:
    """The PTX instruction cp.async.bulk, which tells a barrier when it is done."""
    return _call(dtype, "ptx_cp_async_bulk", shared_ptr, shared_offset, global_ptr, global_offset, bytes, barrier_id)


def ptx_commit_group() -> Call:
    """Ends a group of asynchronous copies."""
    return _call("void", "ptx_commit_group")


def ptx_wait_group(num: int) -> Call:
    """Waits until at most `num` groups of copies are unfinished."""
    return _call("void", "ptx_wait_group", num)


def ptx_cp_async_barrier(barrier_id: Any) -> Call:
    """Tells a barrier when the copies so far are done."""
    return _call("void", "ptx_cp_async_barrier", barrier_id)


def ptx_init_barrier_thread_count(barrier_id: Any, thread_count: int) -> Call:
    """Says for how many threads a barrier waits."""
    return _call("void", "ptx_init_barrier_thread_count", barrier_id, thread_count)


def ptx_arrive_barrier(barrier_id: Any) -> Call:
    """Arrives at a barrier."""
    return _call("void", "ptx_arrive_barrier", barrier_id)


def ptx_arrive_barrier_expect_tx(barrier_id: Any, byte_count: int) -> Call:
    """Arrives at a barrier that also waits for so many bytes."""
    return _call("void", "ptx_arrive_barrier_expect_tx", barrier_id, byte_count)


def ptx_wait_barrier(barrier_id: Any) -> Call:
    """Waits at a barrier."""
    return _call("void", "ptx_wait_barrier", barrier_id)


def create_barriers(barrier_count: int) -> Call:
    """Makes barriers in shared memory."""
    return _call("void", "create_barriers", barrier_count)


# --- vectors and fixed point


def vectorlow(dtype: str, vec: Any) -> Call:
    """The lower half of a vector."""
    return _call(dtype, "vectorlow", vec)


def vectorhigh(dtype: str, vec: Any) -> Call:
    """The upper half of a vector."""
    return _call(dtype, "vectorhigh", vec)


def vectorcombine(dtype: str, vec1: Any, vec2: Any) -> Call:
    """Two vectors as one."""
    return _call(dtype, "vectorcombine", vec1, vec2)


def dp4a(vec1: Any, vec2: Any, acc: Any = 0) -> Call:
    """acc plus the dot product of four bytes by four bytes, as int32 (uint32 of unsigned vectors)."""
    first, second = as_prim_expr(vec1, "vec1 of dp4a"), as_prim_expr(vec2, "vec2 of dp4a")
    unsigned = first.dtype.is_uint and second.dtype.is_uint
    kind = "uint32" if unsigned else "int32"
    return _call(
        kind, "dp4a", first, second, as_prim_expr(acc, "acc of dp4a", dtype=kind) if isinstance(acc, int) else acc
    )


def vscale() -> Call:
    """How many times 128 bits the vectors of the machine hold, known when it runs."""
    return _call("int32", "vscale")


def get_vscale_expr(dtype: str, min_size: int = 128) -> PrimExpr:
    """The lanes of a scalable vector of at least `min_size` bits: vscale() times a constant."""
    lanes: PrimExpr = vscale() * (min_size // DataType(dtype).bits)
    return lanes


def lane_count(lanes: int) -> PrimExpr:
    """The lanes of a data type as an expression: a number, or vscale() times one."""
    return vscale() * lanes.factor if isinstance(lanes, ScalableLanes) else const(lanes, "int32")


def get_active_lane_mask(dtype: str, base: Any, limit: Any) -> Call:
    """Lane k: base + k < limit."""
    return _call(dtype, "get_active_lane_mask", base, limit)


def q_multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> Call:
    """As q_multiply_shift, with left and right shifts that are values of their own."""
    return _call("int32", "q_multiply_shift_per_axis", x, y, ls, rs, q, is_lshift_required, is_rshift_required)


def logaddexp(a: Any, b: Any, span: BaseSpan | None = None) -> PrimExpr:
    """log(exp(a) + exp(b)), without overflow."""
    from tilewright.tir.arithmetic import maximum, minimum
    from tilewright.tir.op import exp, log1p

    a, b = _operands(a, b, "logaddexp")
    if not a.dtype.is_float:
        raise TypeError(f"logaddexp takes floats, but was given {a.dtype}: {a!r}, {b!r}")
    high: PrimExpr = maximum(a, b) + log1p(exp(minimum(a, b) - maximum(a, b)))
    return high


def ptx_ldg32(
    dtype: str, local_ptr: PrimExprLike, guard: PrimExprLike, global_load: PrimExprLike, local_offset: PrimExprLike
) -> Call:
    """A guarded load of 32 bits from global memory into a register."""
    return _call(dtype, "ptx_ldg32", local_ptr, guard, global_load, local_offset)
