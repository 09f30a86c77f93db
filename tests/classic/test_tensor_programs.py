"""Tensor expressions and schedules as tutorials of classic TVM show them: declare, schedule, look, build, run, time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir, topi


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).random(shape, np.float32)


def matmul(size: int) -> tir.PrimFunc:
    k = te.reduce_axis((0, size), "k")
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    c = te.compute((size, size), lambda m, n: te.sum(a[m, k] * b[k, n], axis=k), name="C")
    return te.create_prim_func([a, b, c])


def test_vector_addition(tmp_path: Path) -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.placeholder((n,), name="B")
    c = te.compute(a.shape, lambda i: a[i] + b[i], name="C")
    sch = tir.Schedule(te.create_prim_func([a, b, c]))
    (i,) = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(i, factors=[None, 64])
    sch.parallel(outer)
    sch.vectorize(inner)

    target = tvm.target.Target(target="llvm", host="llvm")
    fadd = tvm.build(sch.mod["main"], target=target, name="myadd")
    dev = tvm.device(target.kind.name, 0)
    for size in (1024, 1000, 1):
        x = tvm.nd.array(random(size).astype(a.dtype), dev)
        y = tvm.nd.array(random(size).astype(b.dtype), dev)
        z = tvm.nd.array(np.zeros(size, dtype=c.dtype), dev)
        fadd(x, y, z)
        tvm.testing.assert_allclose(z.numpy(), x.numpy() + y.numpy())

    assert "define" in fadd.get_source()
    assert "myadd" in fadd.get_source("asm")
    fadd.export_library(str(tmp_path / "myadd.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "myadd.so"))
    for call in (loaded, loaded["myadd"], loaded.entry_func):
        z.copyfrom(np.zeros(1, "float32"))
        call(x, y, z)
        tvm.testing.assert_allclose(z.numpy(), x.numpy() + y.numpy())


def test_timing() -> None:
    f = tvm.build(matmul(32), target="llvm", name="mmult")
    dev = tvm.cpu(0)
    arrays = [tvm.nd.array(random(32, 32), dev), tvm.nd.array(random(32, 32), dev), tvm.nd.empty((32, 32), device=dev)]
    result = f.time_evaluator("mmult", dev, number=2, repeat=3)(*arrays)
    assert len(result.results) == 3
    assert result.min <= result.median <= result.max
    assert result.mean == pytest.approx(np.mean(result.results))
    title, heads, values = str(result).rstrip().split("\n")
    assert title == "Execution time summary:"
    assert heads.split() == ["mean", "(ms)", "median", "(ms)", "max", "(ms)", "min", "(ms)", "std", "(ms)"]
    assert len([float(v) for v in values.split()]) == 5
    assert f.time_evaluator(f.entry_name, dev, number=1)(*arrays).mean > 0


def test_scheduling_a_matrix_product(capsys: pytest.CaptureFixture[str]) -> None:
    mod = tvm.IRModule({"mmult": matmul(64).with_attr("global_symbol", "mmult")})
    sch = tir.Schedule(mod)
    block = sch.get_block("C", func_name="mmult")
    x, y, k = sch.get_loops(block)
    xo, xi = sch.split(x, [None, 32])
    yo, yi = sch.split(y, factors=[2, None])
    ko, ki = sch.split(k, factors=[None, 4])
    sch.reorder(xo, yo, ko, xi, ki, yi)
    sch.unroll(ki)
    sch.vectorize(yi)
    sch.parallel(xo)
    init = sch.decompose_reduction(block, ko)
    assert sch.get(init).name_hint == "C_init"

    sch.mod.show()
    text = capsys.readouterr().out
    for part in (
        "T.parallel(2)",
        "T.vectorized(32)",
        "T.unroll(4)",
        'with T.block("C_update")',
        'with T.block("C_init")',
    ):
        assert part in text
    sch.trace.show()
    assert 'b0 = sch.get_block(name="C", func_name="mmult")' in capsys.readouterr().out
    sch.show()
    assert "decompose_reduction" in capsys.readouterr().out

    f = tvm.build(sch.mod, target="llvm")
    a, b, c = random(64, 64), random(64, 64), tvm.nd.empty((64, 64))
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)
    f["mmult"](tvm.nd.array(b), tvm.nd.array(a), c)
    tvm.testing.assert_allclose(c.numpy(), b @ a, rtol=1e-5)


def test_moving_and_inlining_stages() -> None:
    a = te.placeholder((32, 32), name="A")
    b = te.compute((32, 32), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((32, 32), lambda i, j: b[i, j] + 1.0, name="C")
    sch = tir.Schedule(te.create_prim_func([a, c]), debug_mask="all")
    i, _ = sch.get_loops(sch.get_block("C"))
    sch.compute_at(sch.get_block("B"), i)
    assert len(sch.get_loops(sch.get_block("B"))) == 2
    other = sch.copy()
    sch.compute_inline(sch.get_block("B"))
    cached = sch.cache_write(sch.get_block("C"), 0, "local")
    sch.reverse_compute_at(cached, sch.get_loops(sch.get_block("C"))[0])
    assert "B" in other.mod["main"].script()
    with pytest.raises(tir.ScheduleError, match="there is no block named 'B' in main"):
        sch.get_block("B")

    replayed = tir.Schedule(te.create_prim_func([a, c]))
    sch.trace.apply_to_schedule(replayed, remove_postproc=False)
    tvm.ir.assert_structural_equal(replayed.mod, sch.mod)
    x, out = random(32, 32), tvm.nd.empty((32, 32))
    tvm.build(sch.mod, target="llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), x * 2 + 1)


def test_reductions_with_combiners_of_ones_own() -> None:
    k = te.reduce_axis((0, 10), "k")
    a = te.placeholder((6, 10), name="A")
    product = te.comm_reducer(lambda x, y: x * y, lambda t: tir.const(1, dtype=t), name="product")
    b = te.compute((6,), lambda i: product(a[i, k], axis=k), name="B")
    x, out = random(6, 10), tvm.nd.empty((6,))
    tvm.build(te.create_prim_func([a, b]), target="llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), x.prod(1), rtol=1e-5)

    def combine(x: Any, y: Any) -> tuple[Any, Any]:
        first = x[1] >= y[1]
        return tir.Select(first, x[0], y[0]), tir.Select(first, x[1], y[1])

    argmax = te.comm_reducer(combine, lambda t0, t1: (tir.const(-1, t0), tir.min_value(t1)), name="argmax")
    index = te.placeholder((6, 10), name="index", dtype="int32")
    where, value = te.compute((6,), lambda i: argmax((index[i, k], a[i, k]), axis=k), name="T")
    numbers = np.tile(np.arange(10, dtype="int32"), (6, 1))
    places = tvm.nd.empty((6,), "int32")
    f = tvm.build(te.create_prim_func([index, a, where, value]), target="llvm")
    f(tvm.nd.array(numbers), tvm.nd.array(x), places, out)
    assert (places.numpy() == x.argmax(1)).all()
    assert (out.numpy() == x.max(1)).all()


def test_external_functions() -> None:
    a = te.placeholder((8,), name="A")
    c_library = te.compute((8,), lambda i: tir.call_pure_extern("float32", "expf", a[i]), name="B")
    x, out = random(8), tvm.nd.empty((8,))
    tvm.build(te.create_prim_func([a, c_library]), target="llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), np.exp(x), rtol=1e-6)

    @tvm.register_func("tests.classic.reverse", override=True)
    def reverse(source: tvm.nd.NDArray, result: tvm.nd.NDArray) -> None:
        result.copyfrom(source.numpy()[::-1].copy())

    call = lambda ins, outs: tir.call_packed("tests.classic.reverse", ins[0], outs[0])  # noqa: E731
    b = te.extern((8,), [a], call, name="B")
    tvm.build(te.create_prim_func([a, b]), target="llvm")(tvm.nd.array(x), out)
    assert (out.numpy() == x[::-1]).all()


def test_topi_and_operators_of_tensors() -> None:
    a, b = te.placeholder((20, 6, 6), name="A"), te.placeholder((6, 6), name="B")
    c = topi.nn.softmax(topi.sum(a * 2.0 + b, axis=1))
    assert [int(d) for d in c.shape] == [20, 6]
    x, y, out = random(20, 6, 6), random(6, 6), tvm.nd.empty((20, 6))
    tvm.build(te.create_prim_func([a, b, c]), target="llvm")(tvm.nd.array(x), tvm.nd.array(y), out)
    sums = np.exp((x * 2 + y).sum(1))
    tvm.testing.assert_allclose(out.numpy(), sums / sums.sum(1, keepdims=True), rtol=1e-5)


def test_lowering_with_a_pass_of_ones_own() -> None:
    n = tir.const(128, "int32")
    a = te.placeholder((n,), name="a")
    b = te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: a[i] + b[i], name="c")
    func = te.create_prim_func([a, b, c])
    loops: list[tir.For] = []

    def find_width8(op: Any) -> None:
        if isinstance(op, tir.For) and isinstance(op.extent, tir.IntImm) and op.extent.value % 8 == 0:
            loops.append(op)

    def vectorize8(op: tir.For) -> tir.For | None:
        if op not in loops:
            return None
        name = op.loop_var.name
        lo, li = te.var(name + ".outer"), te.var(name + ".inner")
        body = tir.stmt_functor.substitute(op.body, {op.loop_var: lo * 8 + li})
        body = tir.For(li, 0, 8, tir.ForKind.VECTORIZED, body)
        return tir.For(lo, 0, op.extent.value // 8, tir.ForKind.SERIAL, body)

    @tir.transform.prim_func_pass(opt_level=0)
    def vectorize(f: tir.PrimFunc, mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> tir.PrimFunc:
        tir.stmt_functor.post_order_visit(f.body, find_width8)
        if not loops:
            return f
        return f.with_body(tir.stmt_functor.ir_transform(f.body, None, vectorize8, ["tir.For"]))

    assert "for i in range(128)" in tvm.lower(func, simple_mode=True).script()
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, vectorize)]}):
        assert "c[i_outer * 8:i_outer * 8 + 8] = " in tvm.lower(func).script()
        f = tvm.build(func, target="llvm")
    x, out = random(128), tvm.nd.empty((128,))
    f(tvm.nd.array(x), tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), 2 * x)


def test_ir_builder() -> None:
    n = 16
    a, b = tir.decl_buffer((n,), name="A"), tir.decl_buffer((n,), name="B")
    ib = tvm.tir.ir_builder.create()
    source, result = ib.buffer_ptr(a), ib.buffer_ptr(b)
    with ib.for_range(0, n, name="i") as i:
        with ib.if_scope(i % 2 == 0):
            result[i] = source[i] + 1.0
        with ib.else_scope():
            result[i] = 0.0
    x, out = random(n), tvm.nd.empty((n,))
    tvm.build(tir.PrimFunc([a, b], ib.get()), target="llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), np.where(np.arange(n) % 2 == 0, x + 1, 0))


def test_objects_linked_by_the_compiler() -> None:
    from tilewright.contrib import cc, utils

    f = tvm.build(matmul(8), target="llvm", name="mmult")
    folder = utils.tempdir()
    f.save(folder.relpath("mmult.o"))
    cc.create_shared(folder.relpath("mmult.so"), [folder.relpath("mmult.o")])
    assert sorted(folder.listdir()) == ["mmult.o", "mmult.so"]
    out = tvm.nd.empty((8, 8))
    tvm.runtime.load_module(folder.relpath("mmult.so"))(tvm.nd.array(random(8, 8)), tvm.nd.array(random(8, 8)), out)
    tvm.testing.assert_allclose(out.numpy(), random(8, 8) @ random(8, 8), rtol=1e-5)
    with pytest.raises(tvm.TVMError, match=r"failed:\n.*absent.o"):
        cc.create_shared(folder.relpath("x.so"), [folder.relpath("absent.o")])
    folder.remove()
    assert not folder.path.exists()


def test_decisions_and_traces_as_json() -> None:
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="B")
    func = te.create_prim_func([a, b])
    sch = tir.Schedule(func, seed=3)
    i, j = sch.get_loops("B")
    tile = sch.sample_perfect_tile(i, n=2, max_innermost_factor=8)
    outer, inner = sch.split(i, factors=tile)
    sch.reorder(outer, j, inner)
    sch.annotate(outer, "pragma_auto_unroll_max_step", sch.sample_categorical([0, 16], [0.5, 0.5]))
    assert int(sch.get(tile[0])) * int(sch.get(tile[1])) == 64
    assert [r.name_hint for r in map(sch.get, sch.get_child_blocks(sch.get_block("root")))] == ["B"]

    again = tir.Schedule(func)
    tir.schedule.Trace.apply_json_to_schedule(sch.trace.as_json(), again)
    tvm.ir.assert_structural_equal(again.mod, sch.mod)


def test_partial_reductions() -> None:
    a = te.placeholder((16, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    b = te.compute((16,), lambda i: te.sum(a[i, k], axis=k), name="B")
    sch = tir.Schedule(te.create_prim_func([a, b]))
    _, reduction = sch.get_loops("B")
    _, lanes = sch.split(reduction, [None, 8])
    assert sch.get(sch.rfactor(lanes, 0)).name_hint == "B_rf"
    x, out = random(16, 64), tvm.nd.empty((16,))
    tvm.build(sch.mod, target="llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), x.sum(1), rtol=1e-4)
