"""Programs written by hand: decorators, captured values, macros, every form of statement and declaration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.codegen import interp
from tilewright.node import assert_structural_equal, first_mismatch
from tilewright.script import ir as I
from tilewright.script import tir as T

M, N = 4, 8


@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle) -> None:
    """The classic first program; regions and the root block go without saying."""
    T.func_attr({"tir.noalias": True})
    A = T.match_buffer(a, [M, N], dtype="float32")
    B = T.match_buffer(b, (N, M))
    C = T.match_buffer(c, (M, M))
    for i, j, k in T.grid(M, M, N):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_matmul_runs_and_states_its_regions() -> None:
    block = matmul.body.block.body.body.body.body.block
    assert [str(r) for r in block.reads] == ["A[vi, vk]", "B[vk, vj]"]
    assert [str(r) for r in block.writes] == ["C[vi, vj]"]
    assert matmul.body.block.name_hint == "root" and matmul.attrs == {"global_symbol": "matmul", "tir.noalias": True}
    a, b = np.arange(32, dtype="float32").reshape(4, 8), np.ones((8, 4), "float32")
    c = np.zeros((4, 4), "float32")
    interp.run(matmul, [a, b, c])
    np.testing.assert_allclose(c, a @ b)


def test_create_prim_func_gives_the_same_program() -> None:
    te = tvm.te
    a, b = te.placeholder((M, N), name="A"), te.placeholder((N, M), name="B")
    k = te.reduce_axis((0, N), "k")
    c = te.compute((M, M), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    made = te.create_prim_func([a, b, c]).with_attr("global_symbol", "matmul")
    assert_structural_equal(made, matmul)


@I.ir_module
class Module:
    I.module_attrs({"version": 2})

    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), n: T.int32):
        x = cls.helper(n, dtype="int32")  # noqa: F821
        A[x] = T.float32(1)
        Module.helper(n)

    @T.prim_func(private=True)
    def helper(x: T.int32) -> T.int32:
        T.ret(x + 1)


def test_module() -> None:
    assert isinstance(Module, tvm.IRModule) and Module.attrs == {"version": 2}
    assert [g.name_hint for g in Module.functions] == ["main", "helper"]
    main, helper = Module["main"], Module["helper"]
    assert main.attrs["global_symbol"] == "main" and "global_symbol" not in helper.attrs
    assert isinstance(main, tir.PrimFunc)
    assert str(main.body).startswith('x: T.int32 = cls.helper(n, dtype="int32")')
    assert helper.ret_type == tvm.ir.PrimType("int32")
    back = tvm.script.from_source(Module.script())
    assert first_mismatch(Module, back) is None


def make_scaled(n: int, dtype: str, factor: float) -> tir.PrimFunc:
    shape = (n, 2)

    @T.prim_func(private=True)
    def scaled(A: T.Buffer(shape, dtype), B: T.Buffer(shape, dtype)):
        for i in range(n):
            for j in range(shape[1]):
                if n > 4:
                    B[i, j] = A[i, j] * T.Cast(dtype, factor)
                else:
                    B[i, j] = A[i, j]

    result: tir.PrimFunc = scaled
    return result


def test_captured_values() -> None:
    big, small = make_scaled(8, "float16", 2.0), make_scaled(2, "float32", 2.0)
    assert "A[i, j] * " in str(big.body) and "*" not in str(small.body)
    assert big.buffer_map[big.params[0]].dtype == "float16"


X = 10


@T.macro
def hygienic(A, i):  # type: ignore[no-untyped-def]
    A[i] = T.float32(X)


@T.macro(hygienic=False)
def unhygienic(A):  # type: ignore[no-untyped-def]
    A[i] = T.float32(X)  # noqa: F821


@T.macro
def doubled(value, by=2):  # type: ignore[no-untyped-def]
    return value * by


def test_macros() -> None:
    @T.prim_func(private=True)
    def used(A: T.Buffer((8,), "float32")):
        for i in range(8):
            hygienic(A, i)
        X = T.meta_var(20)  # noqa: F841
        for i in range(8):
            hygienic(A, i)
            unhygienic(A)
            A[doubled(i, by=3)] = A[doubled(i)]

    @T.prim_func(private=True)
    def expected(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = T.float32(10)
        for i in range(8):
            A[i] = T.float32(10)
            A[i] = T.float32(20)
            A[i * 3] = A[i * 2]

    assert first_mismatch(used, expected) is None


@T.prim_func(private=True)
def everything(a: T.handle, s: T.handle, p: T.handle("float32", "global"), n: T.int32, q: T.float32):
    m = T.int64()
    A = T.match_buffer(a, (64, 64), "float32", align=128, offset_factor=16)
    S = T.match_buffer(s, (m, m * T.int64(2)), "float16", strides=("s0", 1), elem_offset=0, scope="global")
    P = T.Buffer((64,), data=p)
    tx = T.env_thread("threadIdx.x")
    bx = T.launch_thread("blockIdx.x", 4)
    T.launch_thread(tx, 32)
    T.attr(A.data, "storage_alignment", 128)
    assert n > 0, "n is positive"
    x = q * T.float32(2)
    y: T.float32 = 3
    h: T.handle("float32") = T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 4, "w" == "w" and 2)
    with T.allocate([64], "float32", "shared") as buf:
        buf_1 = T.Buffer((64,), "float32", data=buf, scope="shared")
        buf_1[tx] = x + y
        buf_1[0:4] = buf_1[4:8] + T.Broadcast(T.float32(1), 4)
        buf_1[0:8:2] = T.float32x4(0)
    table = T.allocate_const([1.0, 2.0], "float32", [2])
    table_1 = T.Buffer((2,), "float32", data=table)
    W = T.decl_buffer((4,), "int32")
    W[0] += 1
    while W[0] < 10:
        W[0] = W[0] * 2
    for i in T.serial(2, 10, annotations={"pragma": 1}):
        for j in T.thread_binding(0, 8, thread="threadIdx.y"):
            for k in T.vectorized(4):
                P[k] = T.if_then_else(i < 3 and not j == 2, P[k], table_1[0])  # noqa: SIM201
    for i in T.unroll(T.int64(2)):
        for j in T.parallel(T.int64(1), m):
            S[i, j] = T.Select(i == j, T.float16(0), S[j, i]) if True else 0.0
    P[0] = P[1] if n > 3 else P[2]
    T.evaluate(T.Let(h_i + 1, where={h_i: n})) if False else T.evaluate(n)  # noqa: F821
    T.call_extern("int32", "f", h, T.address_of(A[0, 0]), A.elem_offset, S.strides[0])
    T.tvm_storage_sync("shared")
    T.ptx_mma("float32", "m8n8k4", "row", "col", "fp16", "fp16", "fp32", p, 0, p, 0, p, 0, False)
    T.ptx_commit_group()
    P.vstore([T.Ramp(0, 1, 4)], P.vload([T.Ramp(4, 1, 4)], predicate=T.Broadcast(T.bool(True), 4)))
    P[T.min(n, 3)] = T.exp(T.float32(1)) + T.max(x, y) + T.Cast("float32", T.reinterpret("int32", x))
    P[bx] = T.float32("inf") + T.fmod(x, y) + T.pow(x, 2.0) + T.abs(x) - -y
    P[T.shift_left(n, 2)] = T.float32(n // 2 % 3 & 1 | 2 ^ n) + T.Shuffle([P[0:4]], [2])
    T.evaluate(T.truncdiv(n, 3) + T.truncmod(n, 3) + T.floordiv(n, 3) + T.Div(n, 2))
    T.evaluate(T.reduce(T.comm_reducer(lambda u, v: u + v, [T.float32(0)]), [x], [], [], True, 0))


def test_every_construct_parses_and_prints_back() -> None:
    text = everything.script()
    back = tvm.script.from_source(text, check_well_formed=False)
    assert first_mismatch(everything, back, map_free_vars=True) is None
    for piece in (
        'T.launch_thread("blockIdx.x", 4)',
        "buf_1[0:8:2] = T.Broadcast(T.float32(0), 4)",
        'T.thread_binding(8, thread="threadIdx.y")',
        "W_1[0] = W_1[0] + 1",
        "T.ptx_commit_group()",
        'for i in T.serial(2, 10, annotations={"pragma": 1}):',
        'strides=("s0", 1)',
    ):
        assert piece in text, f"{piece} is not in\n{text}"


def test_blocks_in_full() -> None:
    @T.prim_func(private=True)
    def f(A: T.Buffer((64, 64)), B: T.Buffer((64,), "float32")):
        with T.block("root"):
            T.block_attr({"meta": 1})
            S = T.alloc_buffer([16, 16], scope="shared", axis_separators=[1])
            for i0, j0 in T.grid(4, 4):
                with T.block("outer"):
                    vi = T.axis.S(4, i0)
                    vj = T.axis.spatial((0, 4), j0)
                    T.reads(A[vi * 16 : vi * 16 + 16, vj * 16 : vj * 16 + 16])
                    T.writes([S, B[vi * 16 : vi * 16 + 16]])
                    V = T.match_buffer(A[vi * 16 : (vi + 1) * 16, vj * 16 : vj * 16 + 16], (16, 16), offset_factor=1)
                    for i in range(16):
                        with T.block("inner"):
                            v = T.axis.spatial(16, i)
                            r = T.axis.reduce(1, 0)
                            T.where(vi * 16 + i < 60)
                            with T.init():
                                B[vi * 16 + v] = 0.0
                            B[vi * 16 + v] += V[v, r]
                            S[v, 0] = B[vi * 16 + v]

    outer = f.body.block.body.body.body.block
    assert str(outer.match_buffers[0].source) == "A[vi * 16:vi * 16 + 16, vj * 16:vj * 16 + 16]"
    inner = outer.body.body.block
    assert [str(r) for r in inner.writes] == ["B[vi * 16 + v]", "S[v, 0]"]
    assert f.body.block.annotations == {"meta": 1} and f.body.block.reads == ()
    assert first_mismatch(f, tvm.script.from_source(f.script())) is None


def test_int64_loops_and_free_extents() -> None:
    @T.prim_func(private=True)
    def f(a: T.handle, n: T.int64):
        A = T.match_buffer(a, (n,))
        for i in range(n):
            for j in T.serial(0, T.int64(4)):
                A[i + j] = 1

    loop: Any = f.body
    assert loop.loop_var.dtype == "int64" and loop.body.loop_var.dtype == "int64" and loop.body.min.dtype == "int64"


def test_from_source() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((n,), "int32")):
    for i in range(n):
        A[i] = i
"""
    f = tvm.script.from_source(text, {"T": T, "n": 5})
    assert f.buffer_map[f.params[0]].shape[0].value == 5

    def g(A: T.Buffer((5,), "int32")):  # type: ignore[no-untyped-def]
        for i in range(5):
            A[i] = i

    assert first_mismatch(tvm.script.from_source(g).body, f.body, map_free_vars=True) is None
    assert tvm.script.parser.tir is T and tvm.script.parser.ir is I


def test_words_outside_of_programs() -> None:
    assert str(T.float32(1)) == "T.float32(1)" and T.int8x4.dtype == "int8x4"
    assert T.Buffer((4,), "int8").dtype == "int8"
    assert isinstance(T.int64(), tir.Var)
    with pytest.raises(tvm.TVMError, match="T.reads means something only inside of a program that is being parsed"):
        T.reads()
