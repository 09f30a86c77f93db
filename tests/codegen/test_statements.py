"""Statements natively against the interpreter: loops, registers, conditionals, masks, calls, parallel loops, checks."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.small_programs import Array, aligned, buffer1d, native
from tilewright.codegen import interp
from tilewright.codegen.backend import AOT
from tilewright.codegen.llvm import compile_object, emit_module, load_objects
from tilewright.ir import DataType, GlobalVar, IRModule
from tilewright.script import from_source
from tilewright.support.errors import TVMError
from tilewright.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    Block,
    BlockRealize,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    Let,
    LetStmt,
    PrimFunc,
    Ramp,
    Shuffle,
    Stmt,
    StringImm,
    Var,
    While,
    const,
    decl_buffer,
    if_then_else,
    stmt_seq,
)
from tilewright.tir import op as T


def load(buffer: Buffer, index: Any) -> Any:
    return BufferLoad(buffer, (index,))


def store(buffer: Buffer, value: Any, index: Any) -> Stmt:
    return BufferStore(buffer, value, (index,))


def loop(extent: Any, body: Any, kind: int = ForKind.SERIAL, name: str = "i") -> Stmt:
    var = Var(name)
    return For(var, 0, extent, kind, body(var))


def local(size: int, body: Any, dtype: str = "float32", scope: str = "local") -> Stmt:
    buffer = decl_buffer((size,), dtype, "tmp", scope=scope)
    return Allocate(buffer.data, DataType(dtype), (size,), const(True), body(buffer))


def f32(value: float) -> Any:
    return const(value, "float32")


def compare(func: PrimFunc, arrays: Sequence[Array], opt_level: int = 1, rtol: float = 1e-6) -> list[Array]:
    """Runs both ways on copies; the native arrays, which must agree."""
    func = func.with_attr("global_symbol", "main")
    got = [aligned(a, str(a.dtype)) for a in arrays]
    expected = [a.copy() for a in arrays]
    interp.run(func, expected)
    assert native(func, got, opt_level=opt_level) == 0
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=rtol, atol=1e-6)
    return got


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


A, B, C = buffer1d("A", 256), buffer1d("B", 256), buffer1d("C", 256)


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.UNROLLED])
def test_registers_through_loops_and_conditionals(kind: int) -> None:
    def body(acc: Buffer) -> Stmt:
        return stmt_seq(
            loop(4, lambda i: store(acc, f32(0.0), i), ForKind.UNROLLED),
            loop(64, lambda k: loop(4, lambda i: IfThenElse(
                T.all(k > 3, i < 3), store(acc, load(acc, i) + load(A, k * 4 + i) * load(B, k), i),
                store(acc, load(acc, i) - f32(1.0), i)), ForKind.UNROLLED), kind),
            loop(4, lambda i: store(C, load(acc, i), i), ForKind.UNROLLED),
        )  # fmt: skip

    func = PrimFunc([A, B, C], local(4, body))
    text = emit_module(func.with_attr("global_symbol", "main"), "llvm")
    assert "alloca" not in text
    compare(func, [floats(256), floats(256, seed=1), np.zeros(256, np.float32)], rtol=1e-5)


def test_dynamic_extent_keeps_registers() -> None:
    n = Var("n")

    def body(acc: Buffer) -> Stmt:
        return stmt_seq(
            store(acc, f32(5.0), 0),
            loop(n, lambda i: store(acc, load(acc, 0) + load(A, i), 0)),
            store(C, load(acc, 0), 0),
        )

    func = PrimFunc([n, A, C], local(1, body), attrs={"global_symbol": "main"})
    for count in (0, 1, 9):
        a, c = aligned(floats(256), "float32"), aligned(np.zeros(256), "float32")
        size = np.array([count], np.int32)
        assert native(func, [size, a, c]) == 0
        expected = np.zeros(256, np.float32)
        interp.run(func, [count, a, expected])
        np.testing.assert_allclose(c, expected, rtol=1e-5)


def test_while_and_memory_local() -> None:
    def body(t: Buffer) -> Stmt:
        step = stmt_seq(store(t, load(t, 0) + 3, 0), store(C, load(A, load(t, 0)), load(t, 0)))
        return stmt_seq(store(t, const(0), 0), While(load(t, 0) < 90, step))

    compare(PrimFunc([A, C], local(1, body, "int32")), [floats(256), np.zeros(256, np.float32)])


def test_indirect_local_stays_in_memory() -> None:
    def body(t: Buffer) -> Stmt:
        return stmt_seq(
            loop(16, lambda i: store(t, load(A, i), (i * 5) % 16)),
            loop(16, lambda i: store(C, load(t, i) * f32(2.0), i)),
        )

    func = PrimFunc([A, C], local(16, body))
    assert "alloca" in emit_module(func.with_attr("global_symbol", "main"), "llvm")
    for level in (1, 2, 3):
        compare(func, [floats(256), np.zeros(256, np.float32)], opt_level=level)


def test_vector_access_patterns() -> None:
    index = buffer1d("index", 256, "int32")
    unit = Ramp(const(3), const(1), 8)
    body = stmt_seq(
        store(C, load(A, Ramp(const(5), const(3), 8)), unit),
        store(C, load(A, unit), Ramp(const(32), const(2), 8)),
        store(C, load(A, load(index, Ramp(const(0), const(1), 8))), Ramp(const(64), const(1), 8)),
        store(C, load(A, Broadcast(const(7), 8)), Ramp(const(80), const(1), 8)),
        store(C, load(A, unit), load(index, Ramp(const(8), const(1), 8)) + Broadcast(const(100), 8)),
        store(C, load(A, Ramp(const(20), const(-1), 8)), Ramp(const(140), const(1), 8)),
        store(C, Shuffle([load(A, unit)], [const(7 - k) for k in range(8)]), Ramp(const(150), const(1), 8)),
    )
    picks = np.concatenate(
        [np.random.default_rng(2).permutation(8), np.random.default_rng(3).permutation(8), np.zeros(240)]
    )
    compare(PrimFunc([A, index, C], body), [floats(256), picks.astype(np.int32), np.zeros(256, np.float32)])


def test_masks() -> None:
    lanes = Ramp(const(0), const(1), 8)
    mask = lanes < Broadcast(const(5), 8)
    for stride in (1, 2):
        index = Ramp(const(250 if stride == 1 else 4), const(stride), 8)
        body = stmt_seq(
            BufferStore(C, BufferLoad(A, (index,), mask), (Ramp(const(0), const(1), 8),)),
            BufferStore(C, BufferLoad(A, (Ramp(const(9), const(1), 8),)), (index,), mask),
        )
        compare(PrimFunc([A, C], body), [floats(256), np.zeros(256, np.float32)])


@pytest.mark.parametrize("lanes", [1, 8])
def test_padded_loads_read_nothing_outside(lanes: int) -> None:
    x = buffer1d("x", 40)

    def at(i: Any) -> Any:
        return i if lanes == 1 else Ramp(i, const(1), lanes)

    def body(i: Any) -> Stmt:
        zero = f32(0.0) if lanes == 1 else Broadcast(f32(0.0), lanes)
        inside = T.all(i >= 1, i < 5)
        return store(C, if_then_else(inside, load(x, at((i - 1) * 8)), zero), at(i * 8))

    text = emit_module(PrimFunc([x, C], loop(6, body), attrs={"global_symbol": "main"}), "llvm")
    assert text.count("phi") == 1, "a padded load must not branch"
    compare(PrimFunc([x, C], loop(6, body)), [floats(40), np.zeros(256, np.float32)])


def test_lazy_values() -> None:
    body = loop(
        20, lambda i: store(C, if_then_else(i < 10, load(A, i) * load(A, i + 1), load(B, i - 10) + f32(1.0)), i)
    )
    compare(PrimFunc([A, B, C], body), [floats(256), floats(256, seed=1), np.zeros(256, np.float32)])
    body = loop(20, lambda i: IfThenElse(T.any(i > 15, load(A, i) > f32(0.0)), store(C, f32(1.0), i)))
    compare(PrimFunc([A, C], body), [floats(256), np.zeros(256, np.float32)])


def test_lets_and_constants() -> None:
    x, y = Var("x", "float32"), Var("y", "float32")
    table = Var("table", "handle")
    t = Buffer(table, DataType("float32"), (const(4),), (), const(0), "t")

    def body(i: Any) -> Stmt:
        value = Let(y, load(A, i), y * y + load(t, i % 4))
        return LetStmt(x, value, store(C, x + x, i))

    data = np.arange(4, dtype=np.float32)
    compare(PrimFunc([A, C], AllocateConst(table, DataType("float32"), (const(4),), data, loop(32, body))),
            [floats(256), np.zeros(256, np.float32)])  # fmt: skip


def test_strided_multidimensional_buffers_and_bools() -> None:
    x = decl_buffer((4, 6), "float32", "x", strides=(const(8), const(1)), elem_offset=const(3))
    x = x.replace(data=A.data)
    flags = decl_buffer((4, 6), "bool", "flags")
    body = loop(4, lambda i: loop(6, lambda j: stmt_seq(
        BufferStore(flags, BufferLoad(x, (i, j)) > f32(0.0), (i, j)),
        BufferStore(C, T.Select(BufferLoad(flags, (i, j)), f32(1.0), f32(2.0)), (i * 6 + j,)))))  # fmt: skip
    compare(PrimFunc([A, flags, C], body), [floats(256), np.zeros((4, 6), bool), np.zeros(256, np.float32)])


def kernel_module() -> IRModule:
    x, y = buffer1d("x", 16), buffer1d("y", 16)
    double = PrimFunc([x, y], loop(16, lambda i: store(y, load(x, i) * f32(2.0), i)), attrs={"calling_conv": AOT})
    p, q = Var("p", "handle"), Var("q", "handle")
    shifted = T.handle_add_byte_offset(p, const(64))
    body = stmt_seq(
        Evaluate(Call(DataType("void"), GlobalVar("double"), (p, q))),
        Evaluate(Call(DataType("void"), GlobalVar("double"), (q, shifted))),
    )
    return IRModule({"double": double, "entry": PrimFunc([p, q], body, attrs={"calling_conv": AOT})})


@pytest.mark.parametrize("split", [False, True])
def test_calls_between_functions(split: bool) -> None:
    from tilewright.codegen.llvm import emit_units

    mod = kernel_module()
    texts = [text for _, text in emit_units(mod, "llvm")] if split else [emit_module(mod, "llvm")]
    loaded = load_objects([compile_object(text, "llvm") for text in texts], ["entry", "double"])
    p, q = aligned(np.arange(32), "float32"), aligned(np.zeros(16), "float32")
    args = (ctypes.c_void_p * 2)(p.ctypes.data, q.ctypes.data)
    assert loaded.function("entry", ctypes.c_void_p)(args) == 0
    np.testing.assert_array_equal(q, np.arange(16) * 2)
    np.testing.assert_array_equal(p[16:], np.arange(16) * 4)
    expected = np.arange(32, dtype=np.float32)
    interp.run(mod, [expected, np.zeros(16, np.float32)], entry="entry")
    np.testing.assert_array_equal(p, expected)


def parallel_func(extent: int = 37) -> PrimFunc:
    scale = Var("scale", "float32")
    body = loop(
        extent, lambda i: loop(4, lambda j: store(C, load(A, i * 4 + j) * scale, i * 4 + j)), ForKind.PARALLEL, "p"
    )
    return PrimFunc([A, B, C], LetStmt(scale, load(B, 3), body), attrs={"global_symbol": "main", "calling_conv": AOT})


TASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int32, TASK, ctypes.c_void_p, ctypes.c_int32)


@pytest.mark.parametrize("tasks", [0, 1, 3, 64])
def test_parallel_loops(tasks: int) -> None:
    """Serial when the context is empty (0), else shared among `tasks`."""
    text = emit_module(parallel_func(), "llvm")
    assert "noalias" in text.split("define internal i32 @main.parallel0(")[1].split("{")[0]
    loaded = load_objects([compile_object(text, "llvm")], ["main", "__tilewright_context"])
    seen = []

    def launch(task: Any, data: int, count: int) -> int:
        seen.append(count)
        return max(task(k, tasks, data) for k in range(tasks))

    callback = LAUNCH(launch)
    if tasks:
        context = (ctypes.c_void_p * 8).from_address(loaded.symbols["__tilewright_context"])
        context[0] = ctypes.cast(callback, ctypes.c_void_p).value
    arrays = [
        aligned(floats(256), "float32"),
        aligned(floats(256, seed=1), "float32"),
        aligned(np.zeros(256), "float32"),
    ]
    args = (ctypes.c_void_p * 3)(*[a.ctypes.data for a in arrays])
    assert loaded.function("main", ctypes.c_void_p)(args) == 0
    assert seen == ([-37] if tasks else [])  # at most as many pieces as the loop has iterations
    expected = arrays[0] * arrays[1][3]
    expected[37 * 4 :] = 0
    np.testing.assert_array_equal(arrays[2], expected)


def test_assertions_return_an_error_and_tell_why() -> None:
    body = AssertStmt(load(A, 0) > f32(0.0), StringImm("A[0] must be positive"), store(C, f32(1.0), 0))
    func = PrimFunc([A, C], body, attrs={"global_symbol": "main", "calling_conv": AOT})
    loaded = load_objects([compile_object(emit_module(func, "llvm"), "llvm")], ["main", "__tilewright_context"])
    told: list[tuple[bytes, bytes]] = []
    report = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)(lambda kind, text: told.append((kind, text)))
    a, c = aligned(-np.ones(256), "float32"), aligned(np.zeros(256), "float32")
    args = (ctypes.c_void_p * 2)(a.ctypes.data, c.ctypes.data)
    run = loaded.function("main", ctypes.c_void_p)
    assert run(args) == -1
    context = (ctypes.c_void_p * 8).from_address(loaded.symbols["__tilewright_context"])
    context[1] = ctypes.cast(report, ctypes.c_void_p).value
    assert run(args) == -1
    assert told == [(b"AssertionError", b"A[0] must be positive")]
    a[0] = 1
    assert run(args) == 0
    with pytest.raises(interp.InterpError, match="A\\[0\\] must be positive"):
        interp.run(func, [-a, c])


def test_large_temporaries_come_from_the_heap() -> None:
    n = 200_000

    def body(t: Buffer) -> Stmt:
        return stmt_seq(
            loop(n, lambda i: store(t, T.cast_to(i, "float32"), i)),
            loop(256, lambda i: store(C, load(t, n - 1 - i), i)),
        )

    func = PrimFunc([C], local(n, body, scope="global"), attrs={"global_symbol": "main"})
    c = aligned(np.zeros(256), "float32")
    assert native(func, [c]) == 0
    np.testing.assert_array_equal(c, n - 1 - np.arange(256))


def test_unsupported_constructs_name_node_and_function() -> None:
    i, vi = Var("i"), Var("vi")
    block = Block([IterVar((0, 8), vi, 0)], [], [], "B", store(C, f32(0.0), vi))
    func = PrimFunc([C], For(i, 0, 8, 0, BlockRealize([i], const(True), block)), attrs={"global_symbol": "scale"})
    with pytest.raises(TVMError, match="function 'scale': BlockRealize must be lowered before code generation"):
        emit_module(func, "llvm")
    bound = For(i, 0, 8, ForKind.THREAD_BINDING, store(C, f32(0.0), i), IterVar(None, Var("t"), 1, "threadIdx.x"))
    with pytest.raises(TVMError, match="a CPU has no GPU threads"):
        emit_module(PrimFunc([C], bound, attrs={"global_symbol": "g"}), "llvm")
    body = Evaluate(T.call_intrin("int32", "tir.ptx_wait_group", const(0)))
    with pytest.raises(TVMError, match=r"no rule for the intrinsic tir\.ptx_wait_group"):
        emit_module(PrimFunc([C], body, attrs={"global_symbol": "g"}), "llvm")


def test_noalias_false_reloads() -> None:
    x, y = buffer1d("x", 4), buffer1d("y", 4)
    body = stmt_seq(store(y, load(x, 0) + f32(1.0), 0), store(y, load(x, 0) + f32(1.0), 1))
    func = PrimFunc([x, y], body, attrs={"global_symbol": "main", "tir.noalias": False})
    same = aligned(np.zeros(4), "float32")
    assert native(func, [same, same]) == 0
    np.testing.assert_array_equal(same[:2], [1, 2])


def test_objects_share_one_context() -> None:
    """Kernels compiled apart each refer to the context; linked together they share it."""
    from tilewright.codegen.llvm import emit_units

    mod = IRModule(
        {
            "one": parallel_func().with_attr("global_symbol", "one"),
            "two": parallel_func(5).with_attr("global_symbol", "two"),
        }
    )
    objects = [compile_object(text, "llvm") for _, text in emit_units(mod, "llvm")]
    loaded = load_objects(objects, ["one", "two", "__tilewright_context"])
    seen = []
    callback = LAUNCH(lambda task, data, count: seen.append(count) or task(0, 1, data))
    context = (ctypes.c_void_p * 8).from_address(loaded.symbols["__tilewright_context"])
    context[0] = ctypes.cast(callback, ctypes.c_void_p).value
    arrays = [aligned(floats(256), "float32") for _ in range(3)]
    args = (ctypes.c_void_p * 3)(*[a.ctypes.data for a in arrays])
    assert loaded.function("one", ctypes.c_void_p)(args) == 0
    assert loaded.function("two", ctypes.c_void_p)(args) == 0
    assert seen == [-37, -5]


def test_elements_outside_of_a_register_are_those_that_conditions_exclude() -> None:
    func = from_source("""
@T.prim_func
def main(a: T.Buffer((2,), "float32"), out: T.Buffer((2,), "float32")):
    s = T.allocate([2], "float32", "local")
    t = T.Buffer((2,), "float32", data=s)
    t[0] = a[0]
    t[1] = a[1]
    if a[0] < T.float32(0):
        t[-1] = t[2]
    out[0] = t[0]
    out[1] = t[1]
""")
    args = [aligned([1, 2], "float32"), aligned([0, 0], "float32")]
    native(func, args)
    np.testing.assert_array_equal(args[1], [1, 2])


def test_a_register_of_truth_values_read_by_more_lanes_than_it_has() -> None:
    """Lanes outside are masked; the vectors were joined as if they lay in memory, where a truth value is a byte."""
    func = from_source("""
@T.prim_func
def main(a: T.Buffer((2,), "int32"), out: T.Buffer((2,), "bool")):
    s = T.allocate([2], "bool", "local")
    t = T.Buffer((2,), "bool", data=s)
    t[0:2] = a[0:2] < T.Broadcast(1, 2)
    inside = T.Ramp(0, 1, 8) < T.Broadcast(2, 8)
    out.vstore([T.Ramp(0, 1, 8)], not t.vload([T.Ramp(0, 1, 8)], predicate=inside), predicate=inside)
""")
    args = [aligned([0, 5], "int32"), aligned([0, 0], "bool")]
    native(func, args)
    np.testing.assert_array_equal(args[1], [False, True])


@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL])
def test_numbers_that_a_loop_does_not_change_are_read_before_it(kind: int, changes: bool) -> None:
    def body(t: Buffer) -> Stmt:
        def element(r: Var, j: Var) -> Stmt:
            found = store(C, load(A, r * 16 + j) / (load(t, 0) / f32(7.0)), r * 16 + j)
            return stmt_seq(found, store(t, load(t, 0) + f32(1.0), 0)) if changes else found

        # Elements at places that are not known keep the buffer in memory.
        sums = loop(32, lambda i: store(t, load(t, i % 2) * f32(0.5) + load(A, i), i % 2))
        return stmt_seq(store(t, f32(1.0), 0), store(t, f32(2.0), 1), sums,
                        loop(1 if changes else 16, lambda r: loop(16, lambda j: element(r, j)), kind))  # fmt: skip

    func = PrimFunc([A, C], local(2, body))
    text = emit_module(func.with_attr("global_symbol", "main"), "llvm")
    innermost = [part.split("br i1")[0] for part in re.split(r"\nloop\d+:", text)[1:]]
    assert ("fdiv float" in text) and max([part.count("fdiv float") for part in innermost]) == (2 if changes else 1)
    compare(func, [np.abs(floats(256)), np.zeros(256, np.float32)])


def built(source: str, *arrays: Array) -> list[Array]:
    """What a program leaves in its arguments."""
    module, given = tvm.build(from_source(source), target="llvm"), [tvm.nd.array(a) for a in arrays]
    module["main"](*given)
    return [a.numpy() for a in given]


def test_what_a_store_reads_for_its_place_is_old_after_it() -> None:
    found = built("""
@T.prim_func
def main(x: T.Buffer((4,), "int32"), y: T.Buffer((1,), "int32")):
    x[x[0]] = 7
    y[0] = x[0]
""", np.zeros(4, np.int32), np.zeros(1, np.int32))  # fmt: skip
    assert found[0].tolist() == [7, 0, 0, 0] and found[1].tolist() == [7]


def test_what_a_mask_reads_is_old_after_the_store() -> None:
    found = built("""
@T.prim_func
def main(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
    x.vstore([T.Ramp(0, 1, 4)], T.Broadcast(9, 4), predicate=x[0:4] > T.Broadcast(1, 4))
    y[0:4] = x[0:4]
""", np.arange(4, dtype=np.int32), np.zeros(4, np.int32))  # fmt: skip
    assert found[1].tolist() == [0, 1, 9, 9]


def test_loads_stay_behind_the_checks_before_them() -> None:
    with pytest.raises(AssertionError, match="far"):
        built("""
@T.prim_func
def main(x: T.Buffer((4,), "int32"), y: T.Buffer((64,), "float32"), z: T.Buffer((4,), "float32")):
    v = x[0]
    z[0] = T.float32(1)
    for j in range(16):
        assert v < 4, "far"
        y[j * 4:j * 4 + 4] = T.Broadcast(z[v], 4)
""", np.full(4, 1 << 30, np.int32), np.zeros(64, np.float32), np.zeros(4, np.float32))  # fmt: skip


def test_pointers_into_a_buffer_are_other_names_of_its_memory() -> None:
    _, y = built("""
@T.prim_func
def main(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
    p: T.handle("int32") = T.address_of(x[2])
    q = T.Buffer((4,), "int32", data=p)
    for i in range(4):
        y[i] = x[2]
        q[0] = i + 1
        y[i + 4] = x[2]
""", np.zeros(8, np.int32), np.zeros(8, np.int32))  # fmt: skip
    assert y.tolist() == [0, 1, 2, 3, 1, 2, 3, 4]


@pytest.mark.parametrize("target", ["llvm", "c", "interp"])
def test_integers_that_functions_return_are_no_codes(target: str) -> None:
    program = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def squared(x: T.int32) -> T.int32:
        return x * x - 4

    @T.prim_func
    def main(A: T.Buffer((8,), "int32")):
        for i in T.parallel(8):
            A[i] = Module.squared(i)
"""
    a = tvm.nd.array(np.zeros(8, "int32"))
    tvm.build(from_source(program), target=target)["main"](a)
    np.testing.assert_array_equal(a.numpy(), np.arange(8) ** 2 - 4)
