"""Programs in the forms that classic documentation writes them in: they parse, and come back from their text."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tests.generators.roundtrip import assert_roundtrip
from tilewright.script import tir as T


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def main(
        A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024, 1024), "float32"), C: T.Buffer((1024, 1024), "float32")
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": T.bool(True)})
        # with T.block("root"):
        for i, j, k in T.grid(1024, 1024, 1024):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def mma(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"global_symbol": "default_function", "tir.noalias": True})
    A = T.match_buffer(a, [16, 8], dtype="float16")
    B = T.match_buffer(b, [8, 8], dtype="float16")  # noqa: F841
    C = T.match_buffer(c, [16, 8], dtype="float16")
    brow = T.env_thread("blockIdx.y")
    bcol = T.env_thread("blockIdx.x")
    tx = T.env_thread("threadIdx.x")
    T.launch_thread(brow, 1)
    T.launch_thread(bcol, 1)
    T.launch_thread(tx, 32)
    MultiA = T.decl_buffer([4], "float16", scope="local")
    MultiB = T.decl_buffer([2], "float16", scope="local")
    Accum = T.decl_buffer([4], "float16", scope="local")
    for i in range(4):
        Accum[i] = T.float32(0)
    for mma_multi_a_col in T.vectorized(4):
        MultiA[mma_multi_a_col] = A[
            ((tx % 32) // 4) + mma_multi_a_col // 2 * 8, (tx % 32) % 4 * 2 + mma_multi_a_col % 2
        ]
    T.evaluate(
        T.ptx_mma(
            "m16n8k8",
            "row",
            "col",
            "fp16",
            "fp16",
            "fp16",
            MultiA.data,
            0,
            MultiB.data,
            0,
            Accum.data,
            0,
            False,
            dtype="float16",
        )
    )
    for i in range(4):
        C[(tx % 32) // 4 + i // 2 * 8, (tx % 32) % 4 * 2 + i % 2] = Accum[i]


@T.prim_func
def ldm(A: T.Buffer((16, 16), "float16"), B: T.Buffer((16, 16), "float16"), num: T.int32):
    T.func_attr({"global_symbol": "default_function", "tir.noalias": True})
    bx = T.env_thread("blockIdx.x")
    tx = T.env_thread("threadIdx.x")
    T.launch_thread(bx, 1)
    T.launch_thread(tx, 32)
    with T.block():
        A_shared = T.alloc_buffer([16, 16], "float16", scope="shared")
        A_local = T.alloc_buffer([8], "float16", scope="local")
        T.reads(A[0:16, 0:16])
        T.writes(B[0:16, 0:16])
        T.evaluate(
            T.ptx_ldmatrix(
                False, 4, ".b16", A_local.data, 0, A_shared.data, 16 * (tx % 16) + 8 * (tx // 16), dtype="float16"
            )
        )
        T.evaluate(T.ptx_cp_async(A_shared.data, tx * 128 + 8 * 4, A.data, tx * 128 + 8 * 4, 16, dtype="float16"))


@T.prim_func
def sparse(a: T.handle, indptr: T.handle, n: T.int32, nnz: T.int32):
    I_ptr = T.match_buffer(indptr, (n + 1,), "int32")
    A = T.match_buffer(a, (nnz,), "float32")
    for i in T.serial(n):
        with T.block("outer"):
            vi = T.axis.spatial(n, i)
            T.reads(I_ptr[vi : vi + 2], A[0:nnz])
            T.writes(A[0:nnz])
            for j in T.serial(I_ptr[vi], I_ptr[vi + 1]):
                with T.block("inner"):
                    vj = T.axis.spatial(nnz, j)
                    T.reads(A[vj])
                    T.writes(A[vj])
                    A[vj] = A[vj] * T.float32(2)


@T.prim_func
def intrin(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (16, 16), "float16", align=64, offset_factor=16, scope="wmma.matrix_a")
    C = T.match_buffer(c, (16, 16), "float16", strides=[T.int32(16), 1], scope="shared", offset_factor=1)  # noqa: F841
    s1 = T.int32()
    s0 = T.int32()
    B = T.match_buffer(b, (16, 16), "float16", align=64, offset_factor=16, scope="shared", strides=[s1, s0])
    with T.block("root"):
        T.reads(B[0:16, 0:16])
        T.writes(A[0:16, 0:16])
        T.evaluate(
            T.tvm_load_matrix_sync(
                A.data,
                16,
                16,
                16,
                A.elem_offset // 256 + A.elem_offset % 256 // 16,
                B.access_ptr("r"),
                s1,
                "row_major",
                dtype="handle",
            )
        )


@pytest.mark.parametrize(
    "program", [MyModule, mma, ldm, sparse, intrin], ids=["module", "mma", "ldmatrix", "sparse", "intrin"]
)
def test_comes_back(program: Any) -> None:
    assert_roundtrip(program)


def test_threads_and_fragments() -> None:
    text = mma.script()
    assert 'tx = T.launch_thread("threadIdx.x", 32)' in text and "def default_function(A: T.Buffer((16, 8)" in text
    assert (
        'T.ptx_mma("float16", "m16n8k8", "row", "col", "fp16", "fp16", "fp16", MultiA, 0, MultiB, 0, Accum, 0, T.bool(False))'
        in text
    )


def test_strides_are_the_variables_of_their_names() -> None:
    buffer = intrin.buffer_map[intrin.params[1]]
    assert intrin.body.block.body.value.args[6] is buffer.strides[0] and buffer.strides[0].name == "s1"
