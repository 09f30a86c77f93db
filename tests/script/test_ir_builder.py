"""Programs built by `with` statements: each is the same as the script beside it."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tilewright.node import assert_structural_equal
from tilewright.script import from_source
from tilewright.script.ir_builder import IRBuilder
from tilewright.script.ir_builder import ir as I
from tilewright.script.ir_builder import tir as T


def test_blocks_loops_and_buffers() -> None:
    with IRBuilder() as ib, T.prim_func():
        T.func_name("scale")
        T.func_attr({"tir.noalias": True})
        a, n = T.arg("a", T.handle()), T.arg("n", T.int32())
        out = T.arg("out", T.Buffer((8, 8), "float32"))
        A = IRBuilder.name("A", T.match_buffer(a, (8, n), "float32"))
        C = T.alloc_buffer((8,), scope="local")
        with T.grid(8, n) as (i, j):
            IRBuilder.name_many(["i", "j"], [i, j])
            with T.block("x"):
                vi = T.axis.spatial(8, i)
                vj = T.axis.reduce(n, j)
                T.where(j < 3)
                T.reads(A[vi, vj])
                T.writes(C[vi])
                T.block_attr({"a": 1})
                with T.init():
                    T.buffer_store(C, 0.0, [vi])
                T.buffer_store(C, C[vi] + A[vi, vj], [vi])
        with T.parallel(0, 4) as k:
            T.buffer_store(out, C[k], [k, 0])
    expected = from_source("""
@T.prim_func
def scale(a: T.handle, n: T.int32, out: T.Buffer((8, 8), "float32")):
    T.func_attr({"tir.noalias": True})
    A = T.match_buffer(a, (8, n), "float32")
    C = T.alloc_buffer((8,), scope="local")
    for i, j in T.grid(8, n):
        with T.block("x"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.reduce(n, j)
            T.where(j < 3)
            T.reads(A[vi, vj])
            T.writes(C[vi])
            T.block_attr({"a": 1})
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vj]
    for k in T.parallel(4):
        out[k, 0] = C[k]
""")
    built = ib.get()
    assert_structural_equal(built, expected)
    assert [p.name for p in built.params] == ["a", "n", "out_handle"] and "for i, j in T.grid(8, n)" in built.script()


def test_scopes() -> None:
    with IRBuilder() as ib, T.prim_func(is_private=True):
        A = T.arg("A", T.Buffer((8,), "float32"))
        n = T.arg("n", T.int32())
        with (
            T.launch_thread("threadIdx.x", 4) as tx,
            T.allocate([4], "float32", "local") as data,
            T.decl_buffer((4,), data=data, scope="local") as B,
        ):
            with T.If(n < 3):
                with T.Then():
                    T.buffer_store(B, A[tx], [0])
                with T.Else():
                    T.buffer_store(B, 1.0, [0])
            with T.While(B[0] < T.float32(2)):
                T.buffer_store(B, B[0] + T.float32(1), [0])
            with (
                T.LetStmt(n + 1) as m,
                T.Assert(m < 8, "m"),
                T.attr(A.data, "k", 1),
                T.thread_binding(0, 4, thread="threadIdx.y") as ty,
            ):
                T.evaluate(m + ty)
    expected = from_source("""
@T.prim_func(private=True)
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 4)
    data = T.allocate([4], "float32", "local")
    B = T.decl_buffer((4,), data=data, scope="local")
    if n < 3:
        B[0] = A[tx]
    else:
        B[0] = 1.0
    while B[0] < 2.0:
        B[0] = B[0] + 1.0
    m = n + 1
    assert m < 8, "m"
    T.attr(A.data, "k", 1)
    for ty in T.thread_binding(4, thread="threadIdx.y"):
        T.evaluate(m + ty)
""")
    assert_structural_equal(ib.get(), expected)


def test_modules() -> None:
    with IRBuilder() as ib, I.ir_module():
        I.module_attrs({"version": 1})
        with T.prim_func():
            T.func_name("main")
            T.func_ret(T.int32())
            T.evaluate(T.ret(3))
        with T.prim_func():
            T.func_name("other")
            T.evaluate(0)
    module = ib.get()
    assert isinstance(module, tvm.IRModule) and module.attrs == {"version": 1}
    assert [g.name_hint for g in module.functions] == ["main", "other"]
    assert module["main"].ret_type == tvm.ir.PrimType("int32")


def misuse_nothing() -> Any:
    with IRBuilder() as ib:
        pass
    return ib.get()


def misuse_with_in_a_text() -> Any:
    with T.block("b"):
        pass


def misuse_nested() -> Any:
    with IRBuilder(), T.prim_func(), T.prim_func():
        pass


def misuse_init() -> Any:
    with IRBuilder(), T.prim_func(), T.init():
        pass


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (misuse_nothing, "IRBuilder.get: nothing has been built; write `with T.prim_func():` inside of the builder"),
        (misuse_with_in_a_text, "a block means something only inside of a program that is being parsed"),
        (misuse_nested, "T.prim_func of a builder stands in the builder or in I.ir_module, not in another function"),
        (misuse_init, "T.init stands directly in a block, but this is in the function main"),
        (IRBuilder.current, "IRBuilder.current: no builder is being used; write `with IRBuilder() as ib:`"),
    ],
)
def test_misuse(misuse: Any, message: str) -> None:
    with pytest.raises(tvm.TVMError) as error:
        misuse()
    assert str(error.value) == message and not IRBuilder.is_in_scope()


def test_a_text_may_be_read_while_building() -> None:
    with IRBuilder() as ib, T.prim_func():
        T.func_name("f")
        inner = from_source("@T.prim_func\ndef g(n: T.int32):\n    T.evaluate(n)")
        T.evaluate(len(inner.params))
    assert str(ib.get().body) == "T.evaluate(1)"
