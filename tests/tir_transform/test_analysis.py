"""Analyses: GPU limits, bounds, purity, anchor blocks, bytes, flops, regions, undefined variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tir_transform.thread.test_threads import allocate, gemm, module, shared, thread
from tilewright import te, tir
from tilewright.driver import lower
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import analysis
from tilewright.tir.analysis.gpu import gpu_code_errors


def kernel(threads: tuple[int, int], size: int, dtype: str = "float32", vthreads: int = 1) -> Any:
    s = shared("S", size, dtype)
    local = shared("L", 4, "float32", "local")
    b = tir.decl_buffer((64,), "float32", "B")
    it = tir.IterVar((0, vthreads), tir.Var("v", "int32"), tir.IterVar.ThreadIndex, "vthread")

    def body(tx: Any) -> Any:
        store = tir.BufferStore(b, tir.const(1.0, "float32"), [tx])
        return tir.AttrStmt(it, "virtual_thread", vthreads, allocate(s, allocate(local, store)))

    nest = thread("threadIdx.y", threads[1], lambda ty: thread("threadIdx.x", threads[0], body))
    return module(thread("blockIdx.x", 1000, lambda bx: nest), b)["main"]


@pytest.mark.parametrize(
    ("limit", "allowed", "refused", "text"),
    [
        ("max_threads_per_block", 128, 127, "threads of a block: 128, more than the 127 of max_threads_per_block"),
        ("max_thread_x", 32, 31, "threadIdx.x has the extent 32, more than the 31 of max_thread_x"),
        ("max_thread_y", 4, 3, "threadIdx.y has the extent 4, more than the 3 of max_thread_y"),
        ("max_thread_z", 1, 0, None),
        ("max_shared_memory_per_block", 4096, 4095, "bytes of shared memory: 4096, more than"),
        ("max_local_memory_per_block", 16, 15, "bytes of local memory: 16, more than"),
        ("max_vthread", 3, 2, "virtual threads: 3, more than"),
        ("max_vector_bytes", 16, 15, "bytes of a vector of S: 16, more than"),
        ("max_kernels", 1, 0, "kernels: 1, more than"),
    ],
)
def test_verify_gpu_code(limit: str, allowed: int, refused: int, text: str | None) -> None:
    func = kernel((32, 4), 256, "float32x4", 3)
    assert analysis.verify_gpu_code(func, {limit: allowed})
    errors = gpu_code_errors(func, {limit: refused})
    assert (not errors) if text is None else (len(errors) == 1 and errors[0].startswith(text))
    assert analysis.verify_gpu_code(func, {limit: refused}) is (text is None)


def test_gpu_limits_have_names() -> None:
    with pytest.raises(TVMError, match="unknown limits max_treads; known: max_local_memory_per_block, "):
        analysis.verify_gpu_code(kernel((1, 1), 1), {"max_treads": 3})


def simple(index: Any, extent: int = 8, condition: Any = None) -> Any:
    a, i = tir.decl_buffer((8,), "float32", "A"), tir.Var("i", "int32")
    body: Any = tir.BufferStore(a, tir.const(1.0, "float32"), [index(i)])
    if condition is not None:
        body = tir.IfThenElse(condition(i), body)
    return module(tir.For(i, 0, extent, 0, body), a)


def test_out_of_bounds_checker() -> None:
    check = analysis.OOBChecker()
    for good in (simple(lambda i: i), simple(lambda i: 7 - i), simple(lambda i: i, 16, lambda i: i < 8)):
        assert check(good) is good
    with pytest.raises(ValueError, match=r"out of bounds memory access in main:\n  write of A\[i \+ 1\]: dimension 0"):
        check(simple(lambda i: i + 1))
    with pytest.raises(ValueError, match=r"has 8 elements, but the index i - 1 leaves 0\.\.7"):
        check(simple(lambda i: i - 1))
    with pytest.raises(ValueError, match="out of bounds"):
        check(simple(lambda i: i + 8, 8, lambda i: i < 4))
    program = te.create_prim_func([x := te.placeholder((9, 5)), te.compute((9, 5), lambda i, j: x[8 - i, j])])
    check(lower(program))
    check(IRModule({"main": program}))


def test_purity() -> None:
    n = tir.Var("n", "int32")
    pure = tir.PrimFunc([n], tir.Evaluate(tir.ret(n + 1)))
    assert analysis.is_pure_function(pure) and analysis.assert_pure_function(pure)
    func = simple(lambda i: i)["main"]
    assert not analysis.is_pure_function(func)
    with pytest.raises(TVMError, match="main is not pure: it writes A"):
        analysis.assert_pure_function(func)
    call = tir.PrimFunc([n], tir.Evaluate(tir.call_extern("int32", "f", n)))
    with pytest.raises(TVMError, match="is not pure: it calls tir.call_extern"):
        analysis.assert_pure_function(call)


def test_anchor_block() -> None:
    a, b = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    r, q = te.reduce_axis((0, 8), name="r"), te.reduce_axis((0, 8), name="q")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((8,), lambda i: te.sum(c[i, q], axis=q), name="D")
    e = te.compute((8,), lambda i: d[i] + 1.0, name="E")
    found = analysis.find_anchor_block(IRModule({"main": te.create_prim_func([a, b, e])}))
    assert found is not None and found.name_hint == "C"
    x = te.placeholder((4,))
    plain = te.create_prim_func([x, te.compute((4,), lambda i: x[i])])
    assert analysis.find_anchor_block(IRModule({"main": plain})) is None


def test_bytes_and_flops() -> None:
    data = tir.Var("c", "handle")
    constant = tir.AllocateConst(data, "float32", [5], np.zeros(5, "float32"), tir.Evaluate(tir.const(0, "int32")))
    func = tir.PrimFunc([], constant)
    assert analysis.calculate_constant_bytes(func, 1) == 20 and analysis.calculate_constant_bytes(func, 16) == 32
    two = allocate(shared("S", 3), allocate(shared("L", 2, "float64", "local"), tir.Evaluate(tir.const(0, "int32"))))
    assert analysis.calculate_workspace_bytes(tir.PrimFunc([], two), 8) == 16 + 16
    assert analysis.calculate_allocated_bytes(tir.PrimFunc([], two)) == {"main": {"shared": 12, "local": 16}}
    assert analysis.estimate_tir_flops(gemm().mod) == 2 * 32**3


def test_memory_of_a_device_belongs_to_its_kernels() -> None:
    host = simple(lambda i: i)["main"].with_attr("target", Target("cuda"))
    assert not analysis.verify_memory(host)
    assert analysis.verify_memory(simple(lambda i: i)["main"].with_attr("target", Target("llvm")))
    assert analysis.verify_memory(kernel((8, 1), 8).with_attr("target", Target("cuda")))


def test_undefined_variables() -> None:
    n, m, i = (tir.Var(name, "int32") for name in "nmi")
    loop = tir.For(i, 0, n, 0, tir.Evaluate(tir.call_extern("int32", "f", i, m)))
    assert analysis.undefined_vars(loop) == [n, m]
    assert analysis.undefined_vars(loop, [n]) == [m]
    assert analysis.undefined_vars(tir.PrimFunc([n, m], loop)) == []
    assert analysis.verify_ssa(tir.PrimFunc([n, m], loop))
    assert not analysis.verify_ssa(tir.PrimFunc([n, m], tir.SeqStmt([loop, loop])))


def test_regions_and_places_of_access() -> None:
    func = te.create_prim_func([x := te.placeholder((8, 4), name="x"), te.compute((8,), lambda i: x[i, 1] + x[i, 3])])
    realize = func.body.block.body.body
    reads, writes, opaque = analysis.get_block_access_region(realize.block)
    (v,) = realize.block.iter_vars
    assert [str(r.min) for r in reads[0].region] == [v.var.name, "1"] and int(reads[0].region[1].extent) == 3
    assert [w.buffer.name for w in writes] == ["compute"] and opaque == ()
    places = analysis.detect_buffer_access_lca(func)
    assert all([place is realize.block for place in places.values()]) and len(places) == 2


def test_equal_expressions_name_the_same_buffers() -> None:
    a, b = tir.decl_buffer((4,), name="A"), tir.decl_buffer((4,), name="B")
    i, j = tir.Var("i", "int32"), tir.Var("i", "int32")
    load = tir.BufferLoad(a, (i,))
    assert tir.analysis.expr_deep_equal(load + 1.0, tir.BufferLoad(a, (i,)) + 1.0)
    for other in (tir.BufferLoad(b, (i,)), tir.BufferLoad(a, (j,)), tir.BufferLoad(a, (i + 1,))):
        assert not tir.analysis.expr_deep_equal(load + 1.0, other + 1.0)
