"""Every word of T and I that TVM v0.18 documents: it parses, what it made prints, and the print parses back to it."""

from __future__ import annotations

from inspect import signature

import pytest

from tests.generators.roundtrip import assert_roundtrip
from tilewright.ir import Op
from tilewright.node import first_mismatch
from tilewright.script import from_source
from tilewright.script import ir as I
from tilewright.script import tir as T

SCALARS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "float32", "float64", "e4m3_float8", "e5m2_float8"]
DTYPES = [
    *(name + lanes for name in SCALARS + FLOATS for lanes in ("", "x4", "x8", "x16", "x32", "x64")),
    *("bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "boolean"),
]
ONE_FLOAT = """acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 exp10 floor log log1p log2 log10 nearbyint round rsqrt
    sigmoid sin sinh sqrt tan tanh trunc fabs abs isfinite isinf isnan""".split()
TWO_FLOATS = "atan2 copysign fmod hypot ldexp nextafter pow power min max".split()
TWO_INTS = """bitwise_and bitwise_or bitwise_xor shift_left shift_right floordiv floormod truncdiv truncmod ceildiv indexdiv
    indexmod add subtract multiply min max""".split()
NODES = "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE".split()

# word -> lines of a function's body
WORDS: dict[str, str] = {
    **{name: f"T.evaluate(T.{name}(1))" for name in DTYPES},
    **{name: f"F[0] = T.Cast('float32', T.{name}(x))" for name in ONE_FLOAT},
    **{name: f"F[0] = T.{name}(x, F[1])" for name in TWO_FLOATS if name != "ldexp"},
    "ldexp": "F[0] = T.ldexp(x, n)",
    **{name: f"J[0] = T.{name}(n, J[1])" for name in TWO_INTS},
    **{name: f"T.evaluate(T.{name}(n, J[1]))" for name in NODES},
    # functions and their parameters
    "func_attr": 'T.func_attr({"tir.noalias": True, "n": 3, "name": "f", "xs": [1, 2], "d": {"a": None}})\nT.evaluate(0)',
    "func_ret": "T.func_ret(T.int32)\nT.ret(n)",
    "func_name": 'T.func_name("other")\nT.evaluate(0)',
    "arg": 'c = T.arg("c", T.int64())\nD = T.arg("D", T.Buffer((4,), "int8"))\nD[c] = T.int8(1)',
    "match_buffer": 'B = T.match_buffer(h, (4, 4), "float16", strides=("s", 1), elem_offset=None, scope="shared", align=16,'
    ' offset_factor=2, buffer_type="auto_broadcast", axis_separators=[1])\nB[0, 0] = T.float16(1)',
    "target": 'T.func_attr({"target": T.target("llvm -mcpu=skylake", host="llvm")})\nT.evaluate(0)',
    "index_map": 'T.func_attr({"m": T.index_map(lambda i, *j: [j[0], i], ndim=2)})\nT.evaluate(0)',
    # buffers
    "Buffer": 'B = T.Buffer((8, 8), "float32", data=p, strides=(8, 1), elem_offset=n, align=32, offset_factor=1)\nB[n, 0] = x',
    "buffer": "B = T.buffer((8,), data=p)\nB[n] = x",
    "buffer_decl": 'B = T.buffer_decl((8,), "float32", p)\nB[n] = x',
    "decl_buffer": "B = T.decl_buffer((8,), data=p)\nB[n] = x\nC = T.decl_buffer((8,), scope='shared')\nC[n] = x",
    "alloc_buffer": 'B = T.alloc_buffer((8,), "float16", scope="local", align=128)\nB[n] = T.float16(0)',
    "buffer_store": "T.buffer_store(F, x, [n])",
    "BufferLoad": "T.evaluate(T.BufferLoad(F, [n]))",
    "BufferRegion": "with T.block('b'):\n    T.reads(T.BufferRegion(F, [T.Range(0, n)]))\n    T.writes()\n    T.evaluate(0)",
    "buffer_var": "v = T.buffer_var('float32', 'shared')\nT.attr(v, 'volatile_scope', 1)\nT.evaluate(0)",
    "handle": 'v: T.handle("float32", "shared") = T.reinterpret("handle", T.uint64(0))\nw: T.handle = p\nT.evaluate(T.isnullptr(v))',
    "Ptr": 'v: T.Ptr["float32", "shared"] = p\nw: T.Ptr("int8") = p\nT.evaluate(T.isnullptr(v))',
    "ptr": "with T.LetStmt(p, var=T.ptr('float32', 'local')) as v:\n    T.evaluate(T.isnullptr(v))",
    "var": "v = T.var('int64')\nwith T.LetStmt(T.int64(3), var=v):\n    T.evaluate(v)",
    "realize": "T.realize(F[0:n], 'global', n < 3)\nF[0] = x",
    "ProducerLoad": "T.evaluate(T.ProducerLoad(X, [n]))",
    "ProducerRealize": "T.ProducerRealize(X[0:n], True, 'local')\nX[n] = x",
    # blocks
    "block": 'with T.block("b"):\n    F[0] = x\nwith T.block("c") as []:\n    F[1] = x',
    "init": "with T.block():\n    with T.init():\n        F[0] = 0.0\n    F[0] += x",
    "where": "with T.block():\n    T.where(n < 3)\n    F[0] = x",
    "reads": "with T.block():\n    T.reads([F[0:4], J])\n    T.writes(F[n], A[0:4, n])\n    F[0] = x",
    "writes": "with T.block():\n    T.reads()\n    T.writes([])\n    F[0] = x",
    "block_attr": 'with T.block():\n    T.block_attr({"a": [1, "b", {"c": 0.5}], "d": n})\n    F[0] = x',
    "axis": "for i, j in T.grid(8, 8):\n    with T.block():\n        v = T.axis.spatial(8, i)\n        w = T.axis.reduce((1, 9), j + 1)\n"
    "        a = T.axis.scan(4, 0)\n        b = T.axis.opaque(4, n)\n        c = T.axis.S(T.int64(8), T.int64(0))\n"
    "        d = T.axis.R((0, n), i)\n"
    "        F[v] = F[w] + F[a + b + d]\nfor i, j, k in T.grid(8, 8, n):\n    with T.block():\n"
    '        v, w, a = T.axis.remap("SRS", [i, j, k])\n        F[v] = F[w] + F[a]',
    # loops and conditions
    "serial": "for i in T.serial(n):\n    F[i] = x\nfor i in T.serial(2, n, annotations={'a': 1}):\n    F[i] = x",
    "parallel": "for i in T.parallel(n):\n    F[i] = x\nfor i in T.parallel(2, n, annotations={'a': 1}):\n    F[i] = x",
    "vectorized": "for i in T.vectorized(4):\n    F[i] = x\nfor i in T.vectorized(2, 6, annotations={'a': 1}):\n    F[i] = x",
    "unroll": "for i in T.unroll(4):\n    F[i] = x\nfor i in T.unroll(2, 6, annotations={'a': 1}):\n    F[i] = x",
    "thread_binding": "for i in T.thread_binding(4, thread='threadIdx.x', annotations={'a': 1}):\n    F[i] = x\n"
    "for i in T.thread_binding(1, 5, 'threadIdx.y'):\n    F[i] = x\nfor i in T.thread_binding(4, 'blockIdx.x'):\n    F[i] = x",
    "grid": "for i, j, k in T.grid(4, n, (2, 4)):\n    F[i + j + k] = x\nfor i in T.grid(4):\n    F[i] = x",
    "If": "with T.If(n < 3):\n    with T.Then():\n        F[0] = x\n    with T.Else():\n        F[1] = x",
    "Then": "with T.If(n < 3):\n    with T.Then():\n        F[0] = x",
    "Else": "with T.If(n < 3):\n    with T.Then():\n        T.evaluate(0)\n    with T.Else():\n        F[1] = x",
    "While": "with T.While(F[0] < x):\n    F[0] = F[0] + 1.0\nwhile F[0] < x:\n    F[0] = F[0] + 1.0",
    # scopes
    "Assert": 'with T.Assert(n < 3, "no"):\n    F[0] = x\nassert n < 4, f"at most {3}"\nF[1] = x',
    "LetStmt": "with T.LetStmt(n + 1) as y:\n    J[0] = y\nz = T.LetStmt(n + 2, T.int32)\nJ[1] = z",
    "Let": "v = T.int32()\nJ[0] = T.Let(v + 1, where={v: n})",
    "let": "v = T.int32()\nJ[0] = T.let(v, n, v * 2)",
    "allocate": "a = T.allocate([4, n], 'float32', 'shared', n < 3, annotations={'a': 1})\nB = T.Buffer((4,), data=a, scope='shared')\n"
    "B[0] = x\nwith T.allocate(8, 'bool') as b:\n    T.evaluate(T.isnullptr(b))",
    "allocate_const": "a = T.allocate_const([1, 2], 'int32', [2], annotations={'a': 1})\nB = T.Buffer((2,), 'int32', data=a)\nJ[0] = B[0]",
    "attr": "T.attr(A.data, 'k', n)\nwith T.attr(T.iter_var(T.int32(), (0, 4), 'DataPar', ''), 'pragma', 'x'):\n    F[0] = x\n"
    "with T.attr(0, 'a', 1), T.attr('s', 'b', x), T.attr([n, 1], 'c', 2):\n    F[0] = x",
    "env_thread": "t = T.env_thread('threadIdx.x')\nT.launch_thread(t, 32)\nF[t] = x",
    "launch_thread": "b = T.launch_thread('blockIdx.x', 32)\nwith T.launch_thread('threadIdx.x', n) as t:\n    F[t + b] = x",
    "iter_var": "T.attr(T.iter_var(T.int32(), None, 'ThreadIndex', 'threadIdx.x'), 'thread_extent', 4)\nF[0] = x",
    "evaluate": "T.evaluate(n)\nT.evaluate(0)",
    "prefetch": "T.evaluate(T.prefetch(T.address_of(F[0]), 0, 3, 1))\nT.prefetch(A, [T.Range(0, n), T.Range(n, n + 4)])",
    # values
    "void": "T.call_extern(T.void, 'f')\nT.call_extern('void', 'f')",
    "cast": "J[0] = T.cast(x, 'int32')",
    "Cast": "J[0] = T.Cast('int32', x)\nT.evaluate(T.Cast('int32', n))",
    "const": "J[0] = T.const(3)",
    "IntImm": "T.evaluate(T.IntImm('int64', 3))",
    "FloatImm": "T.evaluate(T.FloatImm('float64', 0.1))",
    "StringImm": "T.evaluate(T.StringImm('a\"b'))",
    "Var": "T.evaluate(T.Let(n, where={T.Var('v', 'int32'): n}))",
    "SizeVar": "v = T.int32(is_size_var=True)\nB = T.match_buffer(h, (v, 4))\nT.evaluate(T.Let(n, where={T.SizeVar('s', 'int32'): v}))",
    "IterVar": "T.attr(T.IterVar(None, 'threadIdx.z', 1, 'threadIdx.z'), 'thread_extent', 4)\nF[0] = x",
    "Not": "T.evaluate(T.Not(n < 3))\nT.evaluate(not n < 3)",
    "And": "T.evaluate(T.And(n < 3, n > 1))\nT.evaluate(n < 3 and n > 1)\nT.evaluate(1 < n < 3)",
    "Or": "T.evaluate(T.Or(n < 3, n > 1))\nT.evaluate(n < 3 or n > 1)",
    "all": "T.evaluate(T.all(n < 3, n > 1, x > 2.0))",
    "any": "T.evaluate(T.any(n < 3, n > 1))",
    "Select": "F[0] = T.Select(n < 3, x, T.float32(0))",
    "if_then_else": "F[0] = T.if_then_else(n < 3, x, 0.0)\nF[1] = x if n < 3 else F[2]",
    "Ramp": "F[T.Ramp(0, 2, 4)] = F[T.Ramp(n, 1, 4)]\nT.evaluate(T.Ramp(n, -1, 4))",
    "ramp": "T.evaluate(T.ramp(n, 2, 4))",
    "Broadcast": "F[0:4] = T.Broadcast(x, 4)",
    "broadcast": "F[0:4] = T.broadcast(x, 4)",
    "Shuffle": "F[0:2] = T.Shuffle([F[0:4], F[4:8]], [1, 6])",
    "Call": "T.evaluate(T.Call('float32', 'tir.exp', [x]))",
    "Any": "T.evaluate(T.Any())",
    "Range": "T.attr(T.Range(0, n), 'r', 1)\nT.attr(T.Range(n), 'r', 1)\nF[0] = x",
    "min_value": "J[0] = T.min_value('int32')",
    "max_value": "J[0] = T.max_value('int32')",
    "infinity": "F[0] = T.infinity('float32')",
    "reinterpret": "J[0] = T.reinterpret('int32', x)",
    "clz": "J[0] = T.clz(n)",
    "popcount": "J[0] = T.popcount(n)",
    "bitwise_not": "J[0] = T.bitwise_not(n)\nJ[1] = ~n",
    "div": "F[0] = T.div(x, 2.0)\nT.evaluate(T.div(n, 2))",
    "likely": "if T.likely(n < 3):\n    F[0] = x",
    "ignore_loop_partition": "if T.ignore_loop_partition(n < 3):\n    F[0] = x",
    "q_multiply_shift": "J[0] = T.q_multiply_shift(n, n, 31, 2)",
    "q_multiply_shift_per_axis": "J[0] = T.q_multiply_shift_per_axis(n, n, n, n, 31, True, False)",
    "ret": "T.ret(n)",
    "isnullptr": "T.evaluate(T.isnullptr(h))",
    "comm_reducer": "T.evaluate(T.reduce(T.comm_reducer(lambda a, b: a + b, [T.float32(0)]), [x], [], [], True, 0))",
    "CommReducer": "T.evaluate(T.reduce(T.CommReducer([u], [w], [u * w], [T.float32(1)]), [x], [], [], True, 0))",
    "reduce": "k = T.int32()\nr = T.comm_reducer(lambda a, b, c, d: (a + c, T.max(b, d)), [T.float32(0), T.float32(-1)])\n"
    "T.evaluate(T.reduce(r, source=[x, x], init=[x, x],"
    " axis=[T.iter_var(k, T.Range(0, 8), 'CommReduce', '')], condition=n < 3, value_index=1))",
    "vscale": "J[0] = T.vscale() * 4",
    "get_active_lane_mask": "T.evaluate(T.get_active_lane_mask('boolx4', n, 8))",
    "meta_var": "k = T.meta_var(3)\nfor i in range(k):\n    F[i] = x",
    # calls
    "call_packed": "T.call_packed('f', n, x, F, 's')",
    "call_cpacked": "T.call_cpacked('f', n, h)",
    "call_packed_lowered": "T.call_packed_lowered('f', h, h, 0, 1)",
    "call_cpacked_lowered": "T.call_cpacked_lowered('f', h, h, 0, 1)",
    "call_extern": "F[0] = T.call_extern('float32', 'f', x, F.data, F.access_ptr('rw'))",
    "call_pure_extern": "F[0] = T.call_pure_extern('float32', 'f', x)",
    "call_intrin": "F[0] = T.call_intrin('float32', 'tir.exp', x)",
    "call_llvm_intrin": "F[0] = T.call_llvm_intrin('float32', 'llvm.fabs', x)",
    "call_llvm_pure_intrin": "F[0] = T.call_llvm_pure_intrin('float32', 'llvm.fabs', T.uint32(1), x)",
    "address_of": "T.evaluate(T.address_of(A[n, 0]))\nT.evaluate(T.address_of(F))",
    "lookup_param": "T.evaluate(T.lookup_param('p0'))",
    "tvm_access_ptr": "T.evaluate(T.tvm_access_ptr(T.type_annotation('float32'), p, 0, n, 1))",
    "type_annotation": "T.evaluate(T.type_annotation('float16x4'))",
    "tvm_throw_last_error": "T.evaluate(T.tvm_throw_last_error())",
    "tvm_stack_alloca": "s: T.handle = T.tvm_stack_alloca('arg_value', 4)\nT.evaluate(0)",
    "tvm_stack_make_shape": "T.evaluate(T.tvm_stack_make_shape(n, 4))",
    "tvm_stack_make_array": "T.evaluate(T.tvm_stack_make_array(p, T.tvm_stack_make_shape(n), 0, 1, T.float32(0), 0))",
    "tvm_check_return": "T.tvm_check_return(0, -1, T.call_extern('int32', 'f'))",
    "tvm_tuple": "T.evaluate(T.tvm_tuple(n, 'a', x))",
    "tvm_struct_set": "T.evaluate(T.tvm_struct_set(h, 0, 2, n))",
    "tvm_struct_get": "J[0] = T.tvm_struct_get(h, 0, 2, 'int32')",
    "tvm_thread_invariant": "if T.tvm_thread_invariant(n < 3):\n    F[0] = x",
    "tvm_thread_allreduce": "T.tvm_thread_allreduce(T.uint32(1), x, True, F.data, n)",
    "tvm_load_matrix_sync": "T.tvm_load_matrix_sync(p, 16, 16, 16, 0, F.access_ptr('r'), 16, 'row_major')",
    "tvm_mma_sync": "T.tvm_mma_sync(p, 0, p, 0, p, 0, p, 0)",
    "tvm_bmma_sync": "T.tvm_bmma_sync(p, 0, p, 0, p, 0, p, 0)",
    "tvm_fill_fragment": "T.tvm_fill_fragment(p, 16, 16, 16, 0, T.float32(0))",
    "tvm_store_matrix_sync": "T.tvm_store_matrix_sync(p, 16, 16, 16, 0, F.access_ptr('w'), 16, 'row_major')",
    "tvm_storage_sync": "T.tvm_storage_sync('shared')",
    "tvm_warp_shuffle": "F[0] = T.tvm_warp_shuffle(T.uint32(1), x, 0, 32, 32)",
    "tvm_warp_shuffle_up": "F[0] = T.tvm_warp_shuffle_up(T.uint32(1), x, 1, 32, 32)",
    "tvm_warp_shuffle_down": "F[0] = T.tvm_warp_shuffle_down(T.uint32(1), x, 1, 32, 32)",
    "tvm_warp_activemask": "T.evaluate(T.tvm_warp_activemask())",
    "tvm_call_packed": "T.tvm_call_packed('f', n)",
    "ptx_mma": "T.ptx_mma('float32', 'm16n8k16', 'row', 'col', 'fp16', 'fp16', 'fp32', p, 0, p, 0, p, 0, False)",
    "ptx_mma_sp": "T.ptx_mma_sp('float32', 'm16n8k16', 'row', 'col', 'fp16', 'fp16', 'fp32', p, 0, p, 0, p, 0, p, 0, 0, False)",
    "ptx_ldmatrix": "T.ptx_ldmatrix('float16', False, 4, '.b16', p, 0, F.access_ptr('r'), n)",
    "ptx_cp_async": "T.ptx_cp_async('float32', p, n, p, 0, 16)\nT.call_intrin('float32', 'tir.ptx_cp_async', p, n, p, 0, 16, n < 3)",
    "ptx_cp_async_bulk": "T.ptx_cp_async_bulk('float32', p, n, p, 0, 16, 0)",
    "ptx_wait_group": "T.ptx_wait_group(0)",
    "ptx_commit_group": "T.ptx_commit_group()",
    "ptx_cp_async_barrier": "T.ptx_cp_async_barrier(0)",
    "ptx_init_barrier_thread_count": "T.ptx_init_barrier_thread_count(0, 32)",
    "ptx_arrive_barrier": "T.ptx_arrive_barrier(0)",
    "ptx_arrive_barrier_expect_tx": "T.ptx_arrive_barrier_expect_tx(0, 16)",
    "ptx_wait_barrier": "T.ptx_wait_barrier(0)",
    "create_barriers": "T.create_barriers(4)",
    "mma_store": "T.mma_store('float32', 16, 16, F.access_ptr('w'), p, 0, 16)",
    "mma_fill": "T.mma_fill('float32', 8, p, 0)",
    "vectorlow": "T.evaluate(T.vectorlow('float32x2', F[0:4]))",
    "vectorhigh": "T.evaluate(T.vectorhigh('float32x2', F[0:4]))",
    "vectorcombine": "T.evaluate(T.vectorcombine('float32x8', F[0:4], F[4:8]))",
    "dp4a": "J[0] = T.dp4a(T.int8x4(1), T.int8x4(2), n)",
    "assume": "T.evaluate(T.assume(n < 3))",
    "undef": "T.evaluate(T.undef())",
    "TVMBackendAllocWorkspace": "w: T.handle = T.TVMBackendAllocWorkspace(1, 0, T.uint64(64), 2, 32)\nT.evaluate(0)",
    "TVMBackendFreeWorkspace": "T.evaluate(T.TVMBackendFreeWorkspace(1, 0, h))",
    "start_profile_intrinsic": "T.start_profile_intrinsic(3)",
    "end_profile_intrinsic": "T.end_profile_intrinsic(3)",
    "anylist_getitem": "T.evaluate(T.anylist_getitem(h, 0))",
    "anylist_resetitem": "T.evaluate(T.anylist_resetitem(h, 0))",
    "anylist_setitem_call_packed": "T.anylist_setitem_call_packed(h, 0, 'f', n)",
    "anylist_setitem_call_cpacked": "T.anylist_setitem_call_cpacked(h, 0, 'f', n)",
    "handle_add_byte_offset": "T.evaluate(T.handle_add_byte_offset(h, 16))",
    "atomic_add": "T.atomic_add('float32', T.address_of(F[0]), x)",
    "large_uint_imm": "T.evaluate(T.large_uint_imm('uint64', T.uint32(1), T.uint32(2)))",
    "nd_mem_alloc_with_scope": "w: T.handle = T.nd_mem_alloc_with_scope('global', 1, T.tvm_stack_make_shape(4))\nT.evaluate(0)",
    "texture2d_load": "T.evaluate(T.call_intrin('float32x4', 'tir.texture2d_load', h, n, n))",
    "texture2d_store": "T.evaluate(T.call_intrin('float32x4', 'tir.texture2d_store', h, n, n, F[0:4]))",
    "make_filled_simdgroup_matrix": "T.make_filled_simdgroup_matrix(p, 0, x)",
    "simdgroup_load": "T.simdgroup_load(p, 0, F.access_ptr('r'), 8, transpose_matrix=True)",
    "simdgroup_store": "T.simdgroup_store(p, 0, F.access_ptr('w'), 8)",
    "simdgroup_multiply_accumulate": "T.simdgroup_multiply_accumulate(p, 0, p, 0, p, 0, p, 0)",
    "ptx_ldg32": "T.ptx_ldg32('float32', p, n < 3, F[0], 0)",
    "get_vscale_expr": "J[0] = T.get_vscale_expr('float32')",
    "logaddexp": "F[0] = T.logaddexp(x, F[1])",
    "llvm_lookup_intrinsic_id": "F[0] = T.call_llvm_pure_intrin('float32', T.llvm_lookup_intrinsic_id('llvm.fabs.f32'), x)",
    "dma_copy": "T.dma_copy(0, h, h, 16, False)",
    "dma_wait": "T.dma_wait(0, 0)",
    "dma_start_group": "T.dma_start_group(0)",
    "dma_end_group": "T.dma_end_group(0)",
    "mem_copy": "T.evaluate(T.call_intrin('int32', 'tir.mem_copy', h, h, 16))",
}  # fmt: skip
# Words that are tested where programs are whole: test_metaprogramming.py.
DECORATORS = {"prim_func", "macro"}

HEAD = """\
X = metadata["te.Tensor"][0]
u = T.float32()
w = T.float32()

@T.prim_func
def f(A: T.Buffer((64, 64)), F: T.Buffer((64,), "float32"), J: T.Buffer((64,), "int32"), h: T.handle, p: T.handle("float32"),
      n: T.int32, x: T.float32):
"""


def parse(body: str):  # type: ignore[no-untyped-def]
    import tilewright as tvm

    names = {"T": T, "I": I, "metadata": {"te.Tensor": [tvm.te.placeholder((8,), name="X")]}}
    text = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    return from_source(text, names, check_well_formed=False)


@pytest.mark.parametrize("word", WORDS)
def test_word(word: str) -> None:
    func = parse(WORDS[word])
    assert_roundtrip(func)
    # What was printed is stable: it prints as itself.
    back = from_source(func.script(), check_well_formed=False)
    assert back.script() == func.script()


def test_no_word_is_left_out() -> None:
    """What `dir(T)` offers is tested, except for other names of words, and intrinsics beyond the documented ones."""
    aliases = {"extent_of", "truediv", "PrimFunc", "fma", "erfc", "sum", "prod", "vector_shuffle", "set_error"}
    intrinsics = {name for name in dir(T) if f"tir.{name}" in Op.list_op_names()}
    assert sorted(set(dir(T)) - set(WORDS) - DECORATORS - aliases - intrinsics) == []
    assert [name for name in (*WORDS, *DECORATORS) if not hasattr(T, name)] == []


MODULE_WORDS = (
    "ir_module module_attrs module_get_attrs module_global_infos GlobalVar Op Range TupleType load_json".split()
)


@pytest.mark.parametrize("word", MODULE_WORDS)
def test_words_of_modules(word: str) -> None:
    assert hasattr(I, word) and word in I.__all__


def test_words_with_two_spellings_make_the_same() -> None:
    for one, other in (
        ("F[0] = T.power(x, x)", "F[0] = T.pow(x, x)"),
        ("J[0] = T.floordiv(n, 3)", "J[0] = n // 3"),
        ("if n < 3:\n    F[0] = x\nelse:\n    F[1] = x", WORDS["If"]),
        ("while F[0] < x:\n    F[0] = F[0] + 1.0", "with T.While(F[0] < x):\n    F[0] = F[0] + 1.0"),
        ("T.evaluate(T.bool(1))", "T.evaluate(T.boolean(True))"),
        ("for i in range(n):\n    F[i] = x", "for i in T.serial(0, n):\n    F[i] = x"),
        ("F[0] = T.exp(x, dtype='float32')", "F[0] = T.exp(x)"),
        ("F[0] = T.if_then_else(n < 3, x, 0.0, dtype='float32')", "F[0] = x if n < 3 else 0.0"),
        ("F[0] = T.call_extern('f', x, dtype='float32')", "F[0] = T.call_extern('float32', 'f', x)"),
        ("F[0] = T.call_extern(dtype='float32', func_name='f')", "F[0] = T.call_extern('float32', 'f')"),
        ("F[0] = T.call_intrin('tir.exp', x, dtype='float32')", "F[0] = T.call_intrin('float32', 'tir.exp', x)"),
        ("J[0] = T.reinterpret(x, dtype='int32')", "J[0] = T.reinterpret('int32', x)"),
        ("T.ptx_cp_async(p, n, p, 0, 16, dtype='float32')", "T.ptx_cp_async('float32', p, n, p, 0, 16)"),
        ("J[0] = T.tvm_struct_get(h, 0, 2, dtype='int32')", "J[0] = T.tvm_struct_get(h, 0, 2, 'int32')"),
        ("T.tvm_storage_sync('shared', dtype='int32')", "T.tvm_storage_sync('shared')"),
        ("B = T.alloc_buffer((4,), T.int8)\nB[0] = T.int8(1)", "B = T.alloc_buffer((4,), 'int8')\nB[0] = T.int8(1)"),
        ("J[0] = T.cast(x, T.int32)", "J[0] = T.cast(x, 'int32')"),
        ("w: T.Ptr[T.float32] = p\nT.evaluate(0)", "w: T.handle('float32') = p\nT.evaluate(0)"),
        ("F[n] += x", "F[n] = F[n] + x"),
    ):
        assert first_mismatch(parse(one), parse(other)) is None, f"{one}\n{other}"


def test_words_for_buffers_take_the_same_parameters() -> None:
    alike = [list(signature(w).parameters.values()) for w in (T.Buffer, T.alloc_buffer, T.decl_buffer)]
    assert alike[0] == alike[1] == alike[2]
    param, shape, *rest = signature(T.match_buffer).parameters.values()
    assert (param.name, shape.name, shape.default) == ("param", "shape", None)
    assert rest == alike[0][1:]
