"""Reductions over an axis that turns out to have no elements: their neutral element, whatever the schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.codegen.interp import run
from tilewright.script import tir as T
from tilewright.tir.transform import LowerInitBlock, PlanAndUpdateBufferAllocationLocation


def rows(reduce: Any) -> tir.PrimFunc:
    """Each row of a matrix, reduced, plus one."""
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((m,), lambda i: reduce(a[i, k], axis=k), name="B")
    return te.create_prim_func([a, te.compute((m,), lambda i: b[i] + 1.0, name="C")])


def loops(s: tir.Schedule) -> list[Any]:
    return s.get_loops(s.get_block("B"))


def tiled(s: tir.Schedule) -> None:
    i, k = loops(s)
    (io, ii), (ko, ki) = s.split(i, [None, 4]), s.split(k, [None, 4])
    s.reorder(io, ko, ii, ki)


def guarded(s: tir.Schedule) -> None:
    """A loop that no binding uses, with a condition of its own."""
    s.split(s.add_unit_loop("B"), [None, 2])


SCHEDULES: dict[str, Callable[[tir.Schedule], Any]] = {
    "plain": lambda s: None,
    "split": lambda s: s.split(loops(s)[1], [None, 4]),
    "outside": lambda s: s.reorder(*reversed(loops(s))),
    "tiled": tiled,
    "guarded": guarded,
    "partitioned": lambda s: s.loop_partition(loops(s)[1], [2, None]),
    "partitioned from the end": lambda s: s.loop_partition(loops(s)[1], [None, 2]),
    "parallel": lambda s: s.parallel(loops(s)[0]),
    "apart": lambda s: s.decompose_reduction("B", loops(s)[1]),
}


@pytest.mark.parametrize("reduce", [te.sum, te.max])
@pytest.mark.parametrize("name", SCHEDULES)
def test_nothing_gives_the_neutral_element(name: str, reduce: Any) -> None:
    sch = tir.Schedule(rows(reduce))
    SCHEDULES[name](sch)
    compiled = tvm.build(sch.mod, target="llvm")["main"]
    for n in (0, 1, 6):
        a = np.arange(3 * n, dtype="float32").reshape(3, n)
        neutral = 0.0 if reduce is te.sum else -np.inf
        wanted = (a.sum(1) if reduce is te.sum else a.max(1, initial=neutral)) + 1
        for call in (compiled, lambda x, y: run(sch.mod, [x, y])):
            out = np.full(3, 7, "float32")
            if call is compiled:
                c = tvm.nd.array(out)
                call(tvm.nd.array(a), c)
                out = c.numpy()
            else:
                call(a, out)
            np.testing.assert_array_equal(out, wanted)


def test_views_and_several_axes() -> None:
    """The loop that may have no steps stands inside of another one that reduces, and the result is a view."""

    @T.prim_func
    def main(a: T.handle, c: T.handle) -> None:
        n = T.int32()
        A = T.match_buffer(a, (4, 3, n))
        C = T.match_buffer(c, (4, 2))
        for i, j, k in T.grid(4, 3, n):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SRR", [i, j, k])
                part = T.match_buffer(C[vi, 0:1], (1,), offset_factor=1)
                with T.init():
                    part[0] = T.float32(0)
                part[0] = part[0] + A[vi, vj, vk]

    lowered = LowerInitBlock()(tvm.IRModule({"main": main}))
    for mod in (tvm.IRModule({"main": main}), lowered):
        for n in (0, 2):
            a, out = np.ones((4, 3, n), "float32"), np.full((4, 2), 7, "float32")
            run(mod, [a, out])
            np.testing.assert_array_equal(out, np.tile([3.0 * n, 7.0], (4, 1)))


def test_loops_around_a_block_that_only_allocates() -> None:
    """What its loops reduce into begins before them too, where allocations found their places first."""

    @T.prim_func
    def main(a: T.handle, b: T.handle) -> None:
        n = T.int32()
        A = T.match_buffer(a, (2, n))
        B = T.match_buffer(b, (2,))
        S = T.alloc_buffer((2, n))
        for i, ko, ki in T.grid(2, (n + 1) // 2, 2):
            with T.block("S"):
                vi, vk = T.axis.spatial(2, i), T.axis.spatial(n, ko * 2 + ki)
                T.where(ko * 2 + ki < n)
                S[vi, vk] = A[vi, vk]
            with T.block("B"):
                vi, vk = T.axis.spatial(2, i), T.axis.reduce(n, ko * 2 + ki)
                T.where(ko * 2 + ki < n)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + S[vi, vk]

    placed = PlanAndUpdateBufferAllocationLocation()(tvm.IRModule({"main": main}))
    for mod in (placed, LowerInitBlock()(placed)):
        for n in (0, 3):
            a, out = np.ones((2, n), "float32"), np.full(2, 7, "float32")
            run(mod, [a, out])
            np.testing.assert_array_equal(out, [n, n])


def test_sizes_that_are_known_stay_as_they_are() -> None:
    a = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    func = te.create_prim_func([a, te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="B")])
    text = str(LowerInitBlock()(tvm.IRModule({"main": func}))["main"])
    assert text.count("T.float32(0)") == 1 and "_init" not in text
