"""Passes that overlap iterations of a loop: double buffers and software pipelines; checked by running."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tir_transform.thread.test_threads import allocate, barriers, flat, module, nodes, outputs, shared, thread
from tilewright import te, tir
from tilewright.driver import build, lower
from tilewright.runtime import ndarray as nd
from tilewright.support.errors import TVMError
from tilewright.tir import transform as T
from tilewright.tir.analysis import verify_well_formed
from tilewright.tir.schedule import Schedule


def double_buffered(n: int, outside: bool, reads_result: bool = False, threads: int = 8) -> Any:
    """B[k, t] = 2 * A[k, threads - 1 - t] through storage that each iteration fills anew."""
    a, b = tir.decl_buffer((n * threads,), name="A"), tir.decl_buffer((n * threads,), name="B")
    s = shared("S", threads)
    k = tir.Var("k", "int32")

    def body(tx: Any) -> Any:
        source = b if reads_result else a
        earlier = (
            tir.if_then_else(k > 0, source[(k - 1) * threads + tx], a[tx]) if reads_result else a[k * threads + tx]
        )
        fill = tir.AttrStmt(s.data, "double_buffer_scope", 1, tir.BufferStore(s, earlier, [tx]))
        use = tir.BufferStore(b, s[threads - 1 - tx] * 2.0, [k * threads + tx])
        steps = tir.SeqStmt([fill, use])
        loop = tir.For(k, 0, n, 0, steps if outside else allocate(s, steps))
        return allocate(s, loop) if outside else loop

    return module(thread("threadIdx.x", threads, body), a, b)


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_double_buffer(n: int, outside: bool) -> None:
    data = np.random.rand(n * 8).astype("float32")
    expected = 2 * data.reshape(n, 8)[:, ::-1].reshape(-1)
    single = T.ThreadSync("shared")(double_buffered(n, outside))
    np.testing.assert_array_equal(outputs(single, data, np.zeros_like(data), check_races=True), expected)
    new = T.InjectDoubleBuffer()(double_buffered(n, outside))
    verify_well_formed(new)
    assert [int(x.extents[0]) for x in nodes(new, tir.Allocate)] == [16]
    assert any([x.attr_key == "double_buffer_write" for x in nodes(new, tir.AttrStmt)])
    synced = T.ThreadSync("shared")(new)
    assert barriers(synced) <= 2
    (loop,) = nodes(synced, tir.For)
    inside = module(loop.body)
    assert barriers(inside) == 1, "one barrier per iteration instead of two"
    np.testing.assert_array_equal(outputs(synced, data, np.zeros_like(data), check_races=True), expected)
    assert T.InjectDoubleBuffer()(synced) is synced


def test_storage_filled_from_what_the_loop_computes_stays_single() -> None:
    data = np.random.rand(24).astype("float32")
    mod = double_buffered(3, True, reads_result=True, threads=8)
    new = T.InjectDoubleBuffer()(mod)
    assert [int(x.extents[0]) for x in nodes(new, tir.Allocate)] == [8]
    assert not [x for x in nodes(new, tir.AttrStmt) if x.attr_key.startswith("double_buffer")]
    plain = T.ThreadSync("shared")
    np.testing.assert_array_equal(
        outputs(plain(new), data, np.zeros_like(data)), outputs(plain(mod), data, np.zeros_like(data))
    )


def pipelined(n: Any, stages: list[int], order: list[int], kind: int = 0) -> Any:
    """C = (A + 1) * 2 row by row, in three steps through two buffers."""
    a, c = tir.decl_buffer((n, 4), name="A"), tir.decl_buffer((n, 4), name="C")
    b, d = tir.decl_buffer((4,), name="B"), tir.decl_buffer((4,), name="D")
    k = tir.Var("k", "int32")
    i = [tir.Var("i", "int32") for _ in range(3)]
    steps = [
        tir.For(i[0], 0, 4, 0, tir.BufferStore(b, a[k, i[0]], [i[0]])),
        tir.For(i[1], 0, 4, 0, tir.BufferStore(d, b[i[1]] + 1.0, [i[1]])),
        tir.For(i[2], 0, 4, 0, tir.BufferStore(c, d[i[2]] * 2.0, [k, i[2]])),
    ]
    block = tir.Block([], [], [], "turn", tir.SeqStmt(steps), None, [b, d])
    notes = {"software_pipeline_stage": stages, "software_pipeline_order": order}
    loop = tir.For(k, 0, n, kind, tir.BlockRealize([], True, block), None, notes)
    return module(loop, a, c)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize(
    ("stages", "order", "sizes"),
    [
        ([0, 0, 0], [0, 1, 2], (4, 4)),
        ([0, 1, 2], [0, 1, 2], (8, 8)),
        ([0, 1, 2], [2, 1, 0], (8, 8)),
        ([0, 0, 1], [0, 1, 2], (4, 8)),
        ([0, 3, 3], [2, 0, 1], (16, 4)),
    ],
)
def test_software_pipeline(n: int, stages: list[int], order: list[int], sizes: tuple[int, ...]) -> None:
    data = np.random.rand(n, 4).astype("float32")
    mod = pipelined(n, stages, order)
    expected = outputs(mod, data, np.zeros_like(data))
    np.testing.assert_array_equal(expected, (data + 1) * 2)
    new = T.InjectSoftwarePipeline()(mod)
    verify_well_formed(new)
    np.testing.assert_array_equal(outputs(new, data, np.zeros_like(data)), expected)
    allocated = [b for x in nodes(new, tir.Block) for b in x.alloc_buffers]
    assert [int(np.prod([int(e) for e in b.shape])) for b in allocated] == list(sizes)
    np.testing.assert_array_equal(outputs(flat(new), data, np.zeros_like(data)), expected)


def test_software_pipeline_of_unknown_length() -> None:
    n = tir.Var("n", "int32")
    new = T.InjectSoftwarePipeline()(pipelined(n, [0, 1, 2], [0, 1, 2]))
    for rows in (0, 1, 2, 3, 7):
        data = np.random.rand(rows, 4).astype("float32")
        np.testing.assert_array_equal(outputs(new, data, np.zeros_like(data)), (data + 1) * 2)


@pytest.mark.parametrize(
    ("stages", "order", "text"),
    [
        ([0, 1], [0, 1, 2], "software_pipeline_stage has 2 entries, but the body 3 statements; give one for each"),
        ([0, 1, 1], [0, 1, 1], r"software_pipeline_order must be a permutation of 0..2, but is \[0, 1, 1\]"),
        ([0, -1, 1], [0, 1, 2], "software_pipeline_stage must not be negative"),
        ([1, 0, 1], [0, 1, 2], r"statement 1 depends on statement 0 through B, but stages \[1, 0, 1\]"),
        ([0, 0, 0], [1, 0, 2], r"statement 1 depends on statement 0 through B, but stages \[0, 0, 0\] and order"),
    ],
)
def test_refused_pipelines(stages: list[int], order: list[int], text: str) -> None:
    with pytest.raises(TVMError, match="InjectSoftwarePipeline: loop k: .*" + text):
        T.InjectSoftwarePipeline()(pipelined(4, stages, order))
    with pytest.raises(TVMError, match="it is parallel; only loops whose iterations run in order can be pipelined"):
        T.InjectSoftwarePipeline()(pipelined(4, [0, 0, 1], [0, 1, 2], tir.ForKind.PARALLEL))


def pipelined_fragments(raw: bool) -> Any:
    """B[k] = A[k], tiles of 16 x 16, through storage that a copy fills and an intrinsic reads by a pointer."""
    a, b = tir.decl_buffer((4 * 256,), name="A"), tir.decl_buffer((4 * 256,), name="B")
    s, part = shared("S", 256, scope="global"), shared("part", 256, scope="wmma.accumulator")
    k, i, once = [tir.Var(name, "int32") for name in ("k", "i", "once")]
    fill = tir.For(i, 0, 256, 0, tir.BufferStore(s, a[k * 256 + i], [i]))
    source, to = s.data if raw else s.access_ptr("r"), b.access_ptr("w", offset=k * 256, extent=256)
    load = tir.Evaluate(tir.tvm_load_matrix_sync(part.data, 16, 16, 16, 0, source, 16, "row_major"))
    store = tir.Evaluate(tir.tvm_store_matrix_sync(part.data, 16, 16, 16, 0, to, 16, "row_major"))
    use = tir.For(once, 0, 1, 0, tir.SeqStmt([load, store]))
    notes = {"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}
    block = tir.Block([], [], [], "turn", tir.SeqStmt([fill, use]), None, [s, part])
    return module(tir.For(k, 0, 4, 0, tir.BlockRealize([], True, block), None, notes), a, b)


def test_intrinsics_get_the_version_of_their_iteration() -> None:
    data = np.random.rand(4 * 256).astype("float32")
    new = T.InjectSoftwarePipeline()(pipelined_fragments(raw=False))
    np.testing.assert_array_equal(outputs(new, data, np.zeros_like(data)), data)
    with pytest.raises(TVMError, match="S has several versions, so that intrinsics take pointers to it by access_ptr"):
        T.InjectSoftwarePipeline()(pipelined_fragments(raw=True))


def test_values_carried_from_turn_to_turn_keep_one_stage() -> None:
    a, s = tir.decl_buffer((8,), name="A"), tir.decl_buffer((1,), name="S")
    k, zero = tir.Var("k", "int32"), tir.const(0, "int32")
    steps = [tir.BufferStore(s, s[0] + a[k], [zero]), tir.BufferStore(a, s[0], [k])]
    notes = {"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}
    loop = tir.For(k, 0, 8, 0, tir.SeqStmt(steps), None, notes)
    with pytest.raises(TVMError, match="statements 0 and 1 both access A, S, which lives longer than one iteration"):
        T.InjectSoftwarePipeline()(module(loop, a, s))


def test_annotated_schedule() -> None:
    n = 16
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    r = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = Schedule(te.create_prim_func([a, b, c]))
    block = s.get_block("C")
    _, j, k = s.get_loops(block)
    ko, ki = s.split(k, [None, 4])
    s.reorder(ko, j, ki)
    s.decompose_reduction(block, ko)
    update = s.get_block("C_update")
    for operand in (1, 2):
        s.compute_at(s.cache_read(update, operand, "local"), ko)
    s.annotate(ko, "software_pipeline_stage", [0, 0, 1])
    s.annotate(ko, "software_pipeline_order", [0, 1, 2])
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, (n, n)).astype("float32") for _ in range(2))
    prepared = T.CompactBufferAllocation()(
        T.ConvertBlocksToOpaque()(T.PlanAndUpdateBufferAllocationLocation()(T.LowerInitBlock()(s.mod)))
    )
    new = T.InjectSoftwarePipeline()(prepared)
    assert new is not prepared
    np.testing.assert_array_equal(outputs(new, x, y, np.zeros((n, n), "float32")), x @ y)
    rest = (T.LowerMatchBuffer, T.LowerOpaqueBlock, T.FlattenBuffer, T.Simplify)
    for make in rest:
        new = make()(new)
    np.testing.assert_array_equal(outputs(new, x, y, np.zeros((n, n), "float32")), x @ y)


def test_pipeline_of_lower_knows_the_annotations() -> None:
    """A double-buffered copy, a pipelined loop and virtual threads, through `lower` and compiled."""
    n = 16
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, n), lambda i, j: b[i, n - 1 - j] * 2.0, name="C")
    data = np.random.rand(n, n).astype("float32")
    expected = ((data + 1) * 2)[:, ::-1]
    for what in ("double buffer", "pipeline", "virtual threads"):
        s = Schedule(te.create_prim_func([a, c]))
        copy, last = s.get_block("B"), s.get_block("C")
        i, j = s.get_loops(last)
        s.compute_at(copy, i)
        if what == "double buffer":
            s.annotate(copy, "double_buffer_scope", 0)
        elif what == "pipeline":
            s.annotate(i, "software_pipeline_stage", [0, 1])
            s.annotate(i, "software_pipeline_order", [0, 1])
        else:
            s.bind(s.split(i, [2, None])[0], "vthread")
        mod = lower(s.mod)
        sizes = [int(x.extents[0]) for x in nodes(mod, tir.Allocate)]
        assert sizes == [2 * n], what
        np.testing.assert_array_equal(outputs(mod, data, np.zeros_like(data)), expected)
        x, y = nd.array(data), nd.array(np.zeros_like(data))
        build(s.mod, target="llvm")["main"](x, y)
        np.testing.assert_array_equal(y.numpy(), expected)


def test_storage_read_after_the_loop_stays_single() -> None:
    a, b, s = tir.decl_buffer((8,), name="A"), tir.decl_buffer((8,), name="B"), shared("S", 1, scope="local")
    k, zero = tir.Var("k", "int32"), tir.const(0, "int32")
    fill = tir.AttrStmt(s.data, "double_buffer_scope", 1, tir.BufferStore(s, a[k], [zero]))
    loop = tir.For(k, 0, 8, 0, tir.SeqStmt([fill, tir.BufferStore(b, s[0], [k])]))
    mod = module(allocate(s, tir.SeqStmt([loop, tir.BufferStore(b, s[0] * 2.0, [zero])])), a, b)
    data = np.random.rand(8).astype("float32")
    new = T.InjectDoubleBuffer()(mod)
    np.testing.assert_array_equal(outputs(new, data, np.zeros_like(data)), outputs(mod, data, np.zeros_like(data)))
    assert [int(x.extents[0]) for x in nodes(new, tir.Allocate)] == [1]
