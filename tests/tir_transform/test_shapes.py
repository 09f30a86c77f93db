"""The form of lowered programs: what a scheduled kernel looks like after the passes that shape it."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.codegen.interp import run
from tilewright.driver import build, lower, lower_pipeline
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext, Sequential
from tilewright.node import assert_structural_equal, post_order_visit
from tilewright.runtime import array, empty
from tilewright.support.errors import TVMError
from tilewright.tir import transform as T
from tilewright.tir.schedule import Schedule


def blocks_lowered(mod: IRModule) -> IRModule:
    """After the passes that see blocks and regions."""
    passes = takewhile(lambda p: p.info.name != "tir.FlattenBuffer", lower_pipeline().passes)
    return Sequential([*passes])(mod)


def nodes(mod: Any, kind: type) -> list[Any]:
    found: list[Any] = []
    post_order_visit(mod["main"].body, lambda n: found.append(n) if isinstance(n, kind) else None)
    return found


def scheduled_gemm(m: Any, n: int, k: int, rows: int = 6, parallel: bool = False) -> tuple[tir.PrimFunc, Schedule]:
    """C = A @ B, D = 2 * C: register tiles of rows x 32 in a local accumulator, the epilogue in place."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((m, n), lambda i, j: c[i, j] * tir.const(2.0, "float32"), name="D")
    func = te.create_prim_func([a, b, d])
    s = Schedule(func)
    block, out = s.get_block("C"), s.get_block("D")
    s.set_scope(block, 0, "local")
    i, j = s.get_loops(out)
    io, ii = s.split(i, [None, rows])
    jo, ji = s.split(j, [None, 32])
    s.reorder(io, jo, ii, ji)
    if parallel:
        jo = s.fuse(io, jo)
        s.parallel(jo)
    s.compute_at(block, jo)
    ci, cj, ck = s.get_loops(block)[-3:]
    cj0, cj1 = s.split(cj, [None, 16])
    s.reorder(ck, ci, cj0, cj1)
    s.vectorize(cj1)
    s.unroll(ci)
    s.unroll(cj0)
    init = s.decompose_reduction(block, ck)
    ji0, ji1 = s.split(ji, [None, 16])
    s.vectorize(ji1)
    s.unroll(ji0)
    s.unroll(ii)
    loops = s.get_loops(init)
    s.vectorize(loops[-1])
    s.unroll(loops[-2])
    s.unroll(loops[-3])
    return func, s


def check_gemm(mod: Any, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, k)).astype("float32")
    b = rng.integers(-3, 4, (k, n)).astype("float32")
    d = np.zeros((m, n), "float32")
    run(mod, [a, b, d])
    np.testing.assert_array_equal(d, 2 * (a @ b))


def test_gemm_without_tails() -> None:
    _, s = scheduled_gemm(12, 64, 8)
    mod = lower(s.mod)
    check_gemm(mod, 12, 64, 8)
    assert not nodes(mod, tir.IfThenElse)
    (allocation,) = nodes(mod, tir.Allocate)
    assert [int(e) for e in allocation.extents] == [6 * 32]
    stores = nodes(mod, tir.BufferStore)
    assert all([isinstance(x.indices[0], tir.Ramp) and int(x.indices[0].stride) == 1 for x in stores])
    assert [x.value.lanes for x in stores if isinstance(x.value, tir.Broadcast)] == [16]
    scalars = [x for x in nodes(mod, tir.BufferLoad) if x.dtype == "float32"]
    assert [x.buffer.data.name for x in scalars] == ["A"]
    kinds = {f.loop_var.name: f.kind for f in nodes(mod, tir.For)}
    assert tir.ForKind.UNROLLED in kinds.values() and tir.ForKind.VECTORIZED not in kinds.values()


def test_gemm_with_tails_has_main_loops_without_conditions() -> None:
    _, s = scheduled_gemm(20, 72, 8)
    mod = lower(s.mod)
    check_gemm(mod, 20, 72, 8)
    # Rows are split apart; only the lanes of the last columns are masked.
    masked = [x for x in nodes(mod, tir.BufferStore) if x.predicate is not None]
    plain = [x for x in nodes(mod, tir.BufferStore) if x.predicate is None]
    assert len(plain) >= 6 and len(masked) <= 6


def test_parallel_loops_are_versioned_not_split() -> None:
    _, s = scheduled_gemm(20, 64, 8, parallel=True)
    mod = lower(s.mod)
    check_gemm(mod, 20, 64, 8)
    assert len([f for f in nodes(mod, tir.For) if f.kind == tir.ForKind.PARALLEL]) == 1
    guards = nodes(mod, tir.IfThenElse)
    assert guards[-1].else_case is not None


def test_symbolic_rows() -> None:
    m = tir.SizeVar("m", "int32")
    x = te.placeholder((m, 64), name="x")
    y = te.compute((m, 64), lambda i, j: x[i, j] * tir.const(2.0, "float32"), name="y")
    s = Schedule(te.create_prim_func([x, y]))
    i, j = s.get_loops(s.get_block("y"))
    _, ji = s.split(j, [None, 16])
    s.vectorize(ji)
    s.split(i, [None, 4])
    mod = lower(s.mod)
    first = next(n for n in nodes(mod, tir.SeqStmt)).seq[0]
    assert not nodes(IRModule({"main": mod["main"].with_body(first)}), tir.IfThenElse)
    for size in (1, 3, 4, 13):
        a, b = np.random.rand(size, 64).astype("float32"), np.zeros((size, 64), "float32")
        run(mod, [a, b])
        np.testing.assert_array_equal(b, 2 * a)


def sizes_of_parameters(dtype: str = "int32", private: bool = False) -> tir.PrimFunc:
    """A copy over rows that are reversed in between, in storage of its own."""
    n, m = tir.Var("n", dtype), tir.Var("m", dtype)
    a = te.placeholder((n, m), dtype="int8", name="A")
    c = te.compute((m, n), lambda j, i: a[i, m - 1 - j], name="C")
    func = te.create_prim_func([a, te.compute((n, m), lambda i, j: c[m - 1 - j, i], name="B")])
    return func.without_attr("global_symbol") if private else func


def test_indices_of_dynamic_shapes_have_their_bits() -> None:
    """Calls check that 32 bits are enough. What no call checks is indexed with 64."""

    def index_types(func: tir.PrimFunc) -> set[str]:
        mod = lower_pipeline()(IRModule({"main": func}))
        return {str(x.indices[0].dtype) for x in nodes(mod, tir.BufferLoad) + nodes(mod, tir.BufferStore)}

    assert index_types(sizes_of_parameters()) == {"int32"}
    assert index_types(sizes_of_parameters("int64")) == index_types(sizes_of_parameters(private=True)) == {"int64"}
    n = tir.Var("n", "int32")
    a = te.placeholder((n,), name="A")
    table = te.compute((n, n), lambda i, j: a[i] * a[j], name="C")
    last = te.compute((n,), lambda i: table[i, n - 1 - i], name="B")
    assert index_types(te.create_prim_func([a, last])) == {"int32", "int64"}


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_calls_count_elements_for_indices_of_32_bits(target: str) -> None:
    small = np.arange(12, dtype="int8").reshape(3, 4)
    for dtype in ("int32", "int64"):
        copied = empty((3, 4), "int8")
        build(sizes_of_parameters(dtype), target=target)(array(small), copied)
        np.testing.assert_array_equal(copied.numpy(), small)
    large = empty((1 << 16, 1 << 15), "int8")
    text = r"argument 0 \(A\): its number of elements must be less than 2147483648, since extents of its shape are"
    with pytest.raises(ValueError, match=text):
        build(sizes_of_parameters(), target=target)(large, large)


def test_large_buffers_are_indexed_with_64_bits() -> None:
    a = te.placeholder((70000, 70000), dtype="int8", name="A")
    b = te.compute((70000, 70000), lambda i, j: a[i, j], name="B")
    mod = lower(te.create_prim_func([a, b]))
    assert {str(x.indices[0].dtype) for x in nodes(mod, tir.BufferLoad)} == {"int64"}
    c = te.placeholder((700, 700), dtype="int8", name="A")
    d = te.compute((700, 700), lambda i, j: c[i, j], name="B")
    small = lower(te.create_prim_func([c, d]))
    assert {str(x.indices[0].dtype) for x in nodes(small, tir.BufferLoad)} == {"int32"}


def test_storage_of_dead_buffers_is_reused() -> None:
    x = te.placeholder((64, 64), name="x")
    t = x
    for k in range(4):
        t = te.compute((64, 64), lambda i, j, *, t=t: t[j, i] + tir.const(1.0, "float32"), name=f"t{k}")
    mod = lower(te.create_prim_func([x, t]))
    assert len(nodes(mod, tir.Allocate)) == 2
    a, b = np.arange(4096, dtype="float32").reshape(64, 64), np.zeros((64, 64), "float32")
    run(mod, [a, b])
    np.testing.assert_array_equal(b, a + 4)


def test_vector_loop_without_vector_form_stays_serial() -> None:
    x = te.placeholder((16,), name="x")
    k = te.reduce_axis((0, 16), name="k")
    y = te.compute((1,), lambda i: te.sum(x[k], axis=k), name="y")
    s = Schedule(te.create_prim_func([x, y]))
    mod = s.mod["main"]
    flat = Sequential(
        [T.LowerInitBlock(), T.ConvertBlocksToOpaque(), T.LowerMatchBuffer(), T.LowerOpaqueBlock(), T.FlattenBuffer()]
    )

    def vectorized(f: tir.PrimFunc, m: Any, ctx: Any) -> tir.PrimFunc:
        loop = next(n for n in nodes(IRModule({"main": f}), tir.For) if int(n.extent) == 16)
        return f.with_body(loop.replace(kind=tir.ForKind.VECTORIZED))

    out = T.VectorizeLoop()(T.prim_func_pass(vectorized, name="mark")(flat(IRModule({"main": mod}))))
    assert {f.kind for f in nodes(out, tir.For)} == {tir.ForKind.SERIAL}
    y = np.zeros(1, "float32")
    run(out, [np.arange(16, dtype="float32"), y])
    assert y[0] == 120


def test_unroll_pass_writes_out() -> None:
    _, s = scheduled_gemm(12, 64, 8)
    mod = T.UnrollLoop()(lower(s.mod))
    assert not [f for f in nodes(mod, tir.For) if f.kind == tir.ForKind.UNROLLED]
    check_gemm(mod, 12, 64, 8)


@pytest.mark.parametrize(
    "make",
    [T.Simplify, T.RemoveNoOp, T.FlattenBuffer, T.LoopPartition, T.VectorizeLoop, T.ConvertSSA, T.StorageRewrite],
)
def test_idempotent(make: Any) -> None:
    _, s = scheduled_gemm(20, 72, 8)
    mod = lower(s.mod)
    once = make()(mod)
    assert_structural_equal(make()(once), once)


def test_pipeline_refuses_a_wrong_order() -> None:
    with pytest.raises(TVMError, match=r"VectorizeLoop needs 'flat_buffers', which tir.FlattenBuffer gives only later"):
        Sequential([T.VectorizeLoop(), T.FlattenBuffer()])
    assert len(lower_pipeline(PassContext()).passes) > 10


def test_bound_checkers_find_what_is_outside() -> None:
    buffer = tir.decl_buffer((4,), "float32", "A")
    i = tir.Var("i", "int32")
    body = tir.For(i, 0, 5, tir.ForKind.SERIAL, tir.BufferStore(buffer, tir.const(1.0, "float32"), (i,)))
    mod = T.InstrumentBoundCheckers()(IRModule({"main": tir.PrimFunc([buffer], body)}))
    with pytest.raises(TVMError, match=r"index out of bounds: dimension 0 of buffer A has 4 elements"):
        run(mod, [np.zeros(4, "float32")])


def test_match_buffer_becomes_the_source() -> None:
    source = tir.decl_buffer((8, 8), "float32", "A")
    offset, stride = tir.Var("off", "int32"), tir.Var("s", "int32")
    view = tir.decl_buffer((4, 4), "float32", "V", elem_offset=offset, strides=(stride, 1), offset_factor=1)
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    store = tir.BufferStore(view, (offset + stride).astype("float32"), (i, j))
    loops = tir.For(i, 0, 4, 0, tir.For(j, 0, 4, 0, store))
    from tilewright.ir import Range

    region = tir.BufferRegion(source, (Range.from_min_extent(2, 4), Range.from_min_extent(3, 4)))
    block = tir.Block((), (), (region,), "b", loops, match_buffers=(tir.MatchBufferRegion(view, region),))
    func = tir.PrimFunc([source], tir.BlockRealize((), True, block))
    a = np.zeros((8, 8), "float32")
    run(lower(func), [a])
    expected = np.zeros((8, 8), "float32")
    expected[2:6, 3:7] = 2 * 8 + 3 + 8
    np.testing.assert_array_equal(a, expected)


def test_partition_again_keeps_to_its_scope() -> None:
    """The bound of an inner loop whose extent names a loop between came out in a guard outside of both."""
    n = tir.Var("n", "int32")
    a = te.placeholder((2, n), name="a")
    s = Schedule(te.create_prim_func([n, a, te.compute((2, n), lambda i, j: a[i, j] * 2.0, name="b")]))
    s.split(s.get_loops("b")[1], [None, 8])
    lowered = lower(s.mod)
    again = T.LoopPartition()(T.LoopPartition()(blocks_lowered(s.mod)))
    x = np.random.rand(2, 21).astype("float32")
    for mod in (lowered, again):
        out = np.zeros_like(x)
        run(mod, [21, x, out])
        np.testing.assert_array_equal(out, 2 * x)


def test_partition_does_not_rest_on_the_range_of_a_type() -> None:
    """What a quotient by an unknown size is bounded by made a guard that wrapped around, and held."""
    n, m = (tir.Var(x, "int32") for x in "nm")
    a = te.placeholder((n, m), name="a")
    s = Schedule(te.create_prim_func([n, m, a, te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="b")]))
    i, j = s.get_loops("b")
    s.fuse(s.split(i, [3, None, 2])[2], j)
    x = np.random.rand(4, 3).astype("float32")
    out = np.zeros_like(x)
    run(lower(s.mod), [4, 3, x, out])
    np.testing.assert_array_equal(out, 2 * x)


def test_partition_does_not_multiply_the_range_of_a_type() -> None:
    """The loop was split where a size times what bounds a quotient wrapped around."""
    n, m = (tir.Var(x, "int32") for x in "nm")
    a = te.placeholder((n, m), name="a")
    s = Schedule(te.create_prim_func([n, m, a, te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="b")]))
    i, j = s.get_loops("b")
    outer, inner = s.split(i, [3, None])
    s.reorder(inner, outer, j)
    s.fuse(outer, j)
    x = np.random.rand(4, 3).astype("float32")
    out = np.zeros_like(x)
    run(lower(s.mod), [4, 3, x, out])
    np.testing.assert_array_equal(out, 2 * x)


def test_checks_of_masked_lanes() -> None:
    """Lanes that the mask of a vector leaves out were held against the bounds too."""
    a = te.placeholder((10,), name="a")
    s = Schedule(te.create_prim_func([a, te.compute((10,), lambda i: a[i] * 2.0, name="b")]))
    s.vectorize(s.split(s.get_loops("b")[0], [None, 4])[1])
    mod = blocks_lowered(s.mod)
    checked = T.InstrumentBoundCheckers()(T.VectorizeLoop()(mod))
    assert nodes(checked, tir.AssertStmt)
    x = np.random.rand(10).astype("float32")
    out = np.zeros_like(x)
    run(checked, [x, out])
    np.testing.assert_array_equal(out, 2 * x)
