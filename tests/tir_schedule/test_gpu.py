"""Threads: cooperative fetches, loops of one axis inside one another, what threads share, and lowering with barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.generators.roundtrip import assert_roundtrip
from tests.tir_schedule.random_programs.programs import random_inputs
from tilewright import te
from tilewright.codegen.interp import run
from tilewright.node import assert_structural_equal, post_order_visit
from tilewright.support.errors import ScheduleError
from tilewright.tir import IterVar, PrimFunc
from tilewright.tir import transform as T
from tilewright.tir.schedule import Schedule


def matmul(n: int = 16, m: int = 16, k: int = 16) -> PrimFunc:
    a = te.placeholder((n, k), name="A")
    b = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    return te.create_prim_func([a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")])


def lowered(mod: Any) -> Any:
    """The kernel with its threads as attributes and barriers where threads wait for each other."""
    passes = [
        T.LowerCrossThreadReduction(), T.LowerInitBlock(), T.PlanAndUpdateBufferAllocationLocation(),
        T.ConvertBlocksToOpaque(), T.CompactBufferAllocation(), T.UnifyThreadBinding(), T.LowerMatchBuffer(),
        T.LowerOpaqueBlock(), T.FlattenBuffer(), T.Simplify(), T.VectorizeLoop(), T.InjectVirtualThread(),
        T.StorageRewrite(), T.ThreadSync("shared"),
    ]  # fmt: skip
    for p in passes:
        mod = p(mod)
    return mod


def compare(f: PrimFunc, s: Schedule) -> None:
    """The scheduled program, as it stands and lowered, gives what the plain one does."""
    names = [f.buffer_map[p].name for p in f.params][:-1]
    inputs = list(random_inputs(f, names).values())
    shape = [int(n) for n in f.buffer_map[f.params[-1]].shape]
    want, got, low = (np.zeros(shape, "float32") for _ in range(3))
    run(f, [*inputs, want])
    run(s.mod, [*inputs, got])
    np.testing.assert_array_equal(want, got)
    run(lowered(s.mod), [*inputs, low], check_races=True)
    np.testing.assert_array_equal(want, low)


def tiled(f: PrimFunc) -> tuple[Schedule, Any, Any, Any]:
    """Blocks of 8 x 8 outputs, threads 4 x 4 with 2 x 2 outputs each; the result is kept in registers."""
    s = Schedule(f)
    c = s.get_block("C")
    out = s.cache_write(c, 0, "local")
    i, j, k = s.get_loops(c)
    bi, ti, ii = s.split(i, [None, 4, 2])
    bj, tj, jj = s.split(j, [None, 4, 2])
    ko, ki = s.split(k, [None, 4])
    s.reorder(bi, bj, ti, tj, ko, ki, ii, jj)
    for loop, axis in ((bi, "blockIdx.y"), (bj, "blockIdx.x"), (ti, "threadIdx.y"), (tj, "threadIdx.x")):
        s.bind(loop, axis)
    s.reverse_compute_at(out, tj)
    return s, c, tj, ko


def test_cooperative_fetch() -> None:
    f = matmul()
    s, c, _, ko = tiled(f)
    for i in (0, 1):
        copy = s.cache_read(c, i, "shared")
        s.compute_at(copy, ko)
        rows, columns = s.get_loops(copy)[-2:]
        # All of the tile that the 16 threads of the block need, not only what one of them reads.
        assert {int(s.get(rows).extent), int(s.get(columns).extent)} == {4, 8}
        _, ty, tx = s.split(s.fuse(rows, columns), [None, 4, 4])
        s.bind(ty, "threadIdx.y")
        s.bind(tx, "threadIdx.x")
    s.decompose_reduction(c, ko)
    text = str(s.mod["main"])
    assert text.count("threadIdx.x") == 3
    compare(f, s)
    low = str(lowered(s.mod)["main"])
    assert "T.tvm_storage_sync" in low
    assert low.count('= T.allocate([32], "float32", "shared")') == 2


def test_registers_are_fetched_by_each_thread() -> None:
    f = matmul()
    s, c, _, ko = tiled(f)
    copy = s.cache_read(c, 0, "local")
    s.compute_at(copy, ko)
    assert [int(s.get(x).extent) for x in s.get_loops(copy)[-2:]] == [2, 4]
    compare(f, s)


def test_shared_then_registers() -> None:
    f = matmul()
    s, c, _, ko = tiled(f)
    shared = s.cache_read(c, 0, "shared")
    registers = s.cache_read(c, 0, "local")
    s.compute_at(registers, s.get_loops(c)[5])
    s.compute_at(shared, ko)
    fused = s.fuse(*s.get_loops(shared)[-2:])
    _, ty, tx = s.split(fused, [None, 4, 4])
    s.bind(tx, "threadIdx.x")
    s.bind(ty, "threadIdx.y")
    compare(f, s)


def elementwise(n: int = 16) -> PrimFunc:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return te.create_prim_func([a, te.compute((n,), lambda i: b[i] * 2.0, name="C")])


def test_blocks_one_after_another_with_threads_of_their_own() -> None:
    f = elementwise()
    s = Schedule(f)
    for name in ("B", "C"):
        outer, inner = s.split(s.get_loops(name)[0], [None, 4])
        s.bind(outer, "blockIdx.x")
        s.bind(inner, "threadIdx.x")
    compare(f, s)


def test_one_kernel_whose_blocks_have_threads_of_their_own() -> None:
    f = elementwise()
    s = Schedule(f)
    outer, inner = s.split(s.get_loops("C")[0], [None, 4])
    s.bind(outer, "blockIdx.x")
    s.set_scope("B", 0, "shared")
    s.compute_at("B", outer)
    s.bind(inner, "threadIdx.x")
    s.bind(s.get_loops("B")[-1], "threadIdx.x")
    compare(f, s)


def test_loops_of_one_axis_inside_one_another() -> None:
    f = elementwise()
    s = Schedule(f)
    outer, inner = s.split(s.get_loops("C")[0], [None, 4])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    s.set_scope("B", 0, "shared")
    s.compute_at("B", inner)
    own = s.get_loops("B")[-1]
    assert int(s.get(own).extent) == 4
    t = s.copy()
    (two, _) = t.split(own, [None, 2])
    with pytest.raises(ScheduleError) as caught:
        t.bind(two, "threadIdx.x")
    text = str(caught.value)
    assert text.startswith(
        "bind: loop ax0_0 and loop i_1 around it, both of threadIdx.x, must have the same extent, but run to 2 and 4\n"
    )
    assert "^ loop ax0_0" in text and "^ loop i_1" in text
    s.bind(own, "threadIdx.x")
    compare(f, s)


def test_private_memory_is_not_written_together() -> None:
    s = Schedule(elementwise())
    outer, inner = s.split(s.get_loops("C")[0], [None, 4])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    s.set_scope("B", 0, "shared")
    s.compute_at("B", inner)
    s.set_scope("B", 0, "local")
    with pytest.raises(ScheduleError) as caught:
        s.bind(s.get_loops("B")[-1], "threadIdx.x")
    assert str(caught.value).startswith(
        "bind: loop ax0 must not be bound to threadIdx.x inside loop i_1, which is: block B writes B,"
        " of which each thread has its own (local)\n"
    )


def test_an_axis_that_both_loops_need() -> None:
    s = Schedule(matmul(8, 8, 8))
    i, j, _ = s.get_loops("C")
    s.bind(i, "threadIdx.x")
    with pytest.raises(
        ScheduleError,
        match=r"bind: loop j must not be bound to threadIdx\.x inside loop i, which is: block C depends on both",
    ):
        s.bind(j, "threadIdx.x")
    t = Schedule(matmul(8, 8, 8))
    i, j, _ = t.get_loops("C")
    t.bind(i, "blockIdx.x")
    with pytest.raises(
        ScheduleError, match=r"bind: loop j must not be bound to blockIdx\.x, to which loop i around it is bound"
    ):
        t.bind(j, "blockIdx.x")
    with pytest.raises(ScheduleError, match=r"bind: the thread axis must be one of blockIdx\.x"):
        t.bind(j, "threadIdx.w")


def test_reductions_over_threads_need_their_start_within() -> None:
    s = Schedule(matmul(8, 8, 8))
    s.decompose_reduction("C", s.get_loops("C")[2])
    with pytest.raises(ScheduleError, match=r"bind: loop k must not be bound to threadIdx\.x: it is a reduction loop"):
        s.bind(s.get_loops("C_update")[2], "threadIdx.x")
    t = Schedule(matmul(8, 8, 8))
    i, j, k = t.get_loops("C")
    t.bind(i, "blockIdx.x")
    t.bind(j, "threadIdx.y")
    t.bind(k, "threadIdx.x")
    compare(matmul(8, 8, 8), t)


def test_virtual_threads() -> None:
    f = elementwise(32)
    s = Schedule(f)
    s.compute_inline("B")
    b, v, t = s.split(s.get_loops("C")[0], [None, 2, 8])
    s.bind(b, "blockIdx.x")
    s.bind(v, "vthread.x")
    s.bind(t, "threadIdx.x")
    compare(f, s)


def test_threads_of_symbolic_extent() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    s = Schedule(te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, name="B")]))
    outer, inner = s.split(s.get_loops("B")[0], [None, 8])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    for size in (1, 8, 13):
        x, y = np.arange(size, dtype="float32"), np.zeros(size, "float32")
        run(s.mod, [x, y])
        np.testing.assert_array_equal(y, x + 1)


@pytest.mark.parametrize(
    "duplicate",
    [
        lambda s, i, k: s.rfactor(k, 0),
        lambda s, i, k: s.decompose_reduction("C", i),
        lambda s, i, k: s.loop_partition(s.get_loops("C")[0], [1, None]),
    ],
)
def test_copies_of_a_loop_on_threads_have_an_axis_of_their_own(duplicate: Any) -> None:
    s = Schedule(matmul(4, 4, 4))
    _, i, k = s.get_loops("C")
    s.bind(i, "threadIdx.x")
    duplicate(s, i, k)
    axes: list[Any] = []
    post_order_visit(s.mod["main"].body, lambda n: axes.append(n.var) if isinstance(n, IterVar) and n.thread_tag else 0)
    assert len(axes) == len(set(axes)) == 2
    assert_roundtrip(s.mod)


@pytest.mark.parametrize(("rows", "columns", "width"), [(4, 8, 4), (3, 6, 2), (3, 5, 4), (2, 4, 1)])
def test_rasterize_blocks_of_threads(rows: int, columns: int, width: int) -> None:
    """Loops that are bound to blocks stay bound; a width that does not divide the columns gives a predicate."""
    a = te.placeholder((rows, columns, 32), name="A")
    func = te.create_prim_func([a, te.compute(a.shape, lambda i, j, k: a[i, j, k] + i * 10 + j, name="B")])
    s = Schedule(func, debug_mask="all")
    i, j, k = s.get_loops("B")
    s.bind(i, "blockIdx.y")
    with pytest.raises(ScheduleError, match="must be bound to blocks of threads, or none"):
        s.rasterize(i, j, 2)
    s.bind(j, "blockIdx.x")
    s.bind(k, "threadIdx.x")
    strips, inside = s.rasterize(i, j, width)
    assert [s.get(x).thread_binding.thread_tag for x in (strips, inside)] == ["blockIdx.y", "blockIdx.x"]
    assert [int(s.get(x).extent) for x in (strips, inside)] == [-(-columns // width), rows * width]
    inputs = np.random.default_rng(0).random((rows, columns, 32), np.float32)
    want, got = np.zeros_like(inputs), np.zeros_like(inputs)
    run(func, [inputs, want])
    run(s.mod, [inputs, got])
    np.testing.assert_array_equal(got, want)
    again = Schedule(func)
    s.trace.apply_to_schedule(again)
    assert_structural_equal(again.mod, s.mod)
