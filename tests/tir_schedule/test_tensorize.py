"""Tensorize: loops and blocks, strided tiles, several intrinsics, and where a computation differs from what is described."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tir_schedule.examples import matmul
from tests.tir_schedule.random_programs.programs import random_inputs, run_program
from tilewright.codegen.interp import run
from tilewright.script import from_source
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule, TensorIntrin

DOT = """
@T.prim_func
def desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        for k in range(4):
            with T.block("update"):
                vk = T.axis.reduce(4, k)
                C[0] = C[0] + A[vk] * B[vk]
"""
IMPL = """
@T.prim_func
def impl(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), offset_factor=1)
    sb = T.int32()
    B = T.match_buffer(b, (4,), strides=[sb], offset_factor=1)
    C = T.match_buffer(c, (1,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0], A[0:4], B[0:4])
        T.writes(C[0])
        C[0] = C[0] + (A[0] * B[0] + A[1] * B[1]) + (A[2] * B[2] + A[3] * B[3])
"""
FILL = """
@T.prim_func
def fill(c: T.handle):
    C = T.match_buffer(c, (4,), offset_factor=1)
    with T.block("root"):
        T.reads()
        T.writes(C[0:4])
        for i in range(4):
            with T.block("zero"):
                v = T.axis.spatial(4, i)
                C[v] = T.float32(0)
"""
LANES = """
@T.prim_func
def desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4, 4), offset_factor=1)
    C = T.match_buffer(c, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4], A[0:4], B[0:4, 0:4])
        T.writes(C[0:4])
        for j, k in T.grid(4, 4):
            with T.block("update"):
                vj, vk = T.axis.remap("SR", [j, k])
                C[vj] = C[vj] + A[vk] * B[vk, vj]
"""
LANES_IMPL = """
@T.prim_func
def impl(a: T.handle, b: T.handle, c: T.handle):
    sb = T.int32()
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4, 4), strides=[sb, 1], offset_factor=1)
    C = T.match_buffer(c, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4], A[0:4], B[0:4, 0:4])
        T.writes(C[0:4])
        C[T.ramp(FROM, 1, 4)] = (
            C[T.ramp(0, 1, 4)]
            + (T.broadcast(A[0], 4) * B[0, T.ramp(0, 1, 4)] + T.broadcast(A[1], 4) * B[1, T.ramp(0, 1, 4)])
            + (T.broadcast(A[2], 4) * B[2, T.ramp(0, 1, 4)] + T.broadcast(A[3], 4) * B[3, T.ramp(0, 1, 4)])
        )
"""
ROWS = """
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (8, 8))
    B = T.match_buffer(b, (8, 8))
    C = T.match_buffer(c, (8, 8))
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
COLUMNS = ROWS.replace("B[vj, vk]", "B[vk, vj]")


@pytest.fixture(autouse=True)
def intrinsics() -> None:
    TensorIntrin.register("test.dot4", from_source(DOT), from_source(IMPL), override=True)
    TensorIntrin.register("test.fill4", from_source(FILL), from_source(FILL), override=True)


def prepared() -> tuple[Schedule, object]:
    s = Schedule(from_source(ROWS), debug_mask="all")
    k = s.get_loops("C")[2]
    ko, ki = s.split(k, [None, 4])
    s.decompose_reduction("C", ko)
    return s, ki


def same(s: Schedule, text: str = ROWS) -> None:
    func = from_source(text)
    inputs = random_inputs(func, ["A", "B"])
    for a, b in zip(run_program(func, inputs), run_program(s.mod, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_loop_and_a_strided_tile() -> None:
    s, ki = prepared()
    s.tensorize(ki, "test.dot4")
    text = str(s.mod["main"])
    assert text.count("T.match_buffer(") == 3 and 'strides=("sb",)' in text.replace("'", '"')
    same(s)


def test_a_block() -> None:
    s, ki = prepared()
    block = s.blockize(ki)
    s.tensorize(block, "test.dot4")
    assert len(s.get_loops(block)) == 3
    same(s)


def test_several_intrinsics() -> None:
    s = Schedule(from_source(ROWS), debug_mask="all")
    i, j, k = s.get_loops("C")
    jo, ji = s.split(j, [None, 4])
    ko, ki = s.split(k, [None, 4])
    s.reorder(i, jo, ko, ji, ki)
    init = s.decompose_reduction("C", ko)
    s.tensorize(s.get_loops(init)[-1], "test.fill4")
    s.tensorize(ki, "test.dot4")
    same(s)


def test_a_reduction_by_vectors_leaves_its_rows_apart() -> None:
    """What an instruction loads as a vector is what it stores, so the loops around it may run in parallel."""
    for first in (0, 1):
        impl = from_source(LANES_IMPL.replace("FROM", str(first)))
        TensorIntrin.register("test.lanes4", from_source(LANES), impl, override=True)
        s = Schedule(from_source(COLUMNS), debug_mask="all")
        i, j, k = s.get_loops("C")
        jo, ji = s.split(j, [None, 4])
        ko, ki = s.split(k, [None, 4])
        s.reorder(i, jo, ko, ji, ki)
        s.decompose_reduction("C", ko)
        s.tensorize(ji, "test.lanes4")
        if first:
            with pytest.raises(ScheduleError, match="it loads C at another place than it stores"):
                s.parallel(i)
        else:
            s.parallel(i)
            s.parallel(jo)
            same(s, COLUMNS)


def test_where_it_differs() -> None:
    s = Schedule(matmul())
    ko, ki = s.split(s.get_loops("C")[2], [None, 4])
    s.decompose_reduction("C", ko)
    before = s.mod
    with pytest.raises(ScheduleError) as caught:
        s.tensorize(ki, "test.fill4")
    text = str(caught.value)
    assert text.startswith(
        "tensorize: block C_update_o must be the computation that the intrinsic describes,"
        " but its iteration variables are of other kinds\n"
    ), text
    assert "^ block C_update" in text
    assert s.mod is before or str(s.mod) == str(before)
    t, ki = prepared()
    (_, two) = t.split(ki, [2, 2])
    with pytest.raises(ScheduleError, match="but loop k_1_1 runs to 2, not 4"):
        t.tensorize(two, "test.dot4")


def test_another_value_is_shown() -> None:
    s = Schedule(from_source(ROWS.replace("A[vi, vk] * B[vj, vk]", "A[vi, vk] * B[vj, vk] * T.float32(2)")))
    ko, ki = s.split(s.get_loops("C")[2], [None, 4])
    s.decompose_reduction("C", ko)
    with pytest.raises(ScheduleError) as caught:
        s.tensorize(ki, "test.dot4")
    text = str(caught.value)
    assert text.splitlines()[0].startswith(
        "tensorize: block C_update_o must be the computation that the intrinsic describes, but "
    )
    row = next(line for line in text.splitlines() if "^" in line and "block" not in line)
    assert row.strip("^ "), text


def test_conditions_are_compared() -> None:
    guarded = DOT.replace("                C[0] = C[0]", "                if vk < 3:\n                    C[0] = C[0]")
    TensorIntrin.register("test.guarded", from_source(guarded), from_source(IMPL), override=True)
    s, ki = prepared()
    with pytest.raises(ScheduleError, match="has BufferStore where that has IfThenElse"):
        s.tensorize(ki, "test.guarded")


def test_unknown_and_taken_names() -> None:
    s, ki = prepared()
    with pytest.raises(ScheduleError, match=r"^tensorize: there is no tensor intrinsic 'test\.none'; registered are "):
        s.tensorize(ki, "test.none")
    with pytest.raises(ValueError, match="'test.dot4' is registered already"):
        TensorIntrin.register("test.dot4", from_source(DOT), from_source(IMPL))
    out = np.zeros(1, "float32")
    run(
        from_source(IMPL.replace("strides=[sb], ", "").replace("    sb = T.int32()\n", "")),
        [np.ones(4, "float32")] * 2 + [out],
    )
    assert out[0] == 4
