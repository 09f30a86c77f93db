"""Primitives give what their documentation shows: names of blocks, loops and iteration variables, domains and signatures."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tir_schedule.random_programs.programs import random_inputs, run_program
from tilewright.node import assert_structural_equal
from tilewright.script import from_source
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule

PADDED = """
@T.prim_func
def main(x: T.Buffer((128,), "int32"), y: T.Buffer((140,), "int32")):
    for i in range(140):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            y[vi] = T.if_then_else(vi >= 6 and vi < 134, x[vi - 6], 0, dtype="int32")
"""

WITHOUT_PADDING = """
@T.prim_func
def main(x: T.Buffer((128,), "int32"), y: T.Buffer((140,), "int32")):
    for i in range(140):
        with T.block("block_pad_const"):
            vi = T.axis.remap("S", [i])
            T.reads()
            T.writes(y[vi])
            y[vi] = 0
    for i in range(128):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            T.reads(x[vi])
            T.writes(y[vi + 6])
            y[vi + 6] = x[vi]
"""

POOLS = """
@T.prim_func
def main(A: T.Buffer((12, 12), "int8"), C: T.Buffer((8, 8), "int8")):
    B = T.alloc_buffer((10, 10), "int8")
    for i, j, k, l in T.grid(10, 10, 3, 3):
        with T.block("B"):
            vi, vj, vk, vl = T.axis.remap("SSRR", [i, j, k, l])
            with T.init():
                B[vi, vj] = T.int8(-128)
            B[vi, vj] = T.max(B[vi, vj], A[vi + vk, vj + vl])
    for i, j, k, l in T.grid(8, 8, 3, 3):
        with T.block("C"):
            vi, vj, vk, vl = T.axis.remap("SSRR", [i, j, k, l])
            with T.init():
                C[vi, vj] = T.int8(-128)
            C[vi, vj] = T.max(C[vi, vj], B[vi + vk, vj + vl])
"""


def test_decompose_padding_counts_from_zero() -> None:
    s = Schedule(from_source(PADDED))
    assert s.get(s.decompose_padding("block", s.get_loops("block")[0])).name_hint == "block_pad_const"
    assert_structural_equal(s.mod["main"], from_source(WITHOUT_PADDING))


def test_rolling_buffer_of_a_reduction() -> None:
    """Rows of one pool that the next row of the other reads again are kept in a ring."""
    program = from_source(POOLS)
    s = Schedule(program)
    s.compute_at("B", s.get_loops("C")[0])
    s.rolling_buffer("B", 0)
    text = s.mod.script()
    assert 'B = T.alloc_buffer((3, 10), "int8")' in text and "T.where(i < 1 or 2 <= ax0)" in text
    inputs = random_inputs(program, ["A"])
    np.testing.assert_array_equal(run_program(s.mod, inputs)[0], run_program(program, inputs)[0])


def test_rolling_buffer_of_a_reduction_over_iterations() -> None:
    program = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8, 4), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(4):
        for j in range(3):
            with T.block("B"):
                vj, vk = T.axis.remap("SR", [j, i])
                with T.init():
                    B[vj] = T.float32(0)
                B[vj] = B[vj] + A[vj + vk]
        for j in range(3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi])
                T.writes(C[vj, vi])
                C[vj, vi] = A[vi]
"""
    s = Schedule(from_source(program))
    with pytest.raises(
        ScheduleError, match="must be done in one iteration, but vk runs with a loop around other blocks"
    ):
        s.rolling_buffer("B", 0)


TILES = """
@T.prim_func
def main(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
    for i_0, j_0, k_0 in T.grid(8, 8, 8):
        for i_1, j_1, k_1 in T.grid(16, 16, 16):
            with T.block("update"):
                vi = T.axis.spatial(128, i_0 * 16 + i_1)
                vj = T.axis.spatial(128, j_0 * 16 + j_1)
                vk = T.axis.reduce(128, k_0 * 16 + k_1)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""

BLOCKS_OF_TILES = """
@T.prim_func
def main(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
    for i_0, j_0, k_0 in T.grid(8, 8, 8):
        with T.block("update_o"):
            vio, vjo, vko = T.axis.remap("SSR", [i_0, j_0, k_0])
            T.reads(A[vio * 16 : vio * 16 + 16, vko * 16 : vko * 16 + 16], B[vjo * 16 : vjo * 16 + 16, vko * 16 : vko * 16 + 16])
            T.writes(C[vio * 16 : vio * 16 + 16, vjo * 16 : vjo * 16 + 16])
            with T.init():
                for i_1, j_1 in T.grid(16, 16):
                    with T.block("update_init"):
                        vi, vj = T.axis.remap("SS", [i_1, j_1])
                        T.reads()
                        T.writes(C[vio * 16 + vi, vjo * 16 + vj])
                        C[vio * 16 + vi, vjo * 16 + vj] = T.float32(0)
            for i_1, j_1, k_1 in T.grid(16, 16, 16):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i_1, j_1, k_1])
                    T.reads(C[vio * 16 + vi, vjo * 16 + vj], A[vio * 16 + vi, vko * 16 + vk], B[vjo * 16 + vj, vko * 16 + vk])
                    T.writes(C[vio * 16 + vi, vjo * 16 + vj])
                    C[vio * 16 + vi, vjo * 16 + vj] = (
                        C[vio * 16 + vi, vjo * 16 + vj] + A[vio * 16 + vi, vko * 16 + vk] * B[vjo * 16 + vj, vko * 16 + vk]
                    )
"""

WHOLE = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    with T.block("B_o"):
        vio = T.axis.spatial(1, 0)
        vjo = T.axis.spatial(1, 0)
        T.reads(A[0:8, 0:8])
        T.writes(B[0:8, 0:8])
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""


def test_blocks_of_tiles_have_axes_of_their_own() -> None:
    s = Schedule(from_source(TILES))
    assert s.get(s.blockize(s.get_loops("update")[3])).name_hint == "update_o"
    assert_structural_equal(s.mod["main"], from_source(BLOCKS_OF_TILES))


def test_a_block_of_all_loops() -> None:
    program = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
"""
    s = Schedule(from_source(program))
    s.blockize(s.get_loops("B")[0])
    assert_structural_equal(s.mod["main"], from_source(WHOLE))


CHAIN = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((14,), "int32")
    for i in range(14):
        with T.block("B"):
            vi, = T.axis.remap("S", [i])
            B[vi] = A[vi] * 2
    for i in range(14):
        with T.block("C"):
            vi, = T.axis.remap("S", [i])
            C[vi] = B[vi]
"""

PADDED_BY_THE_WRITER = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((4, 4), "int32")
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj + vi * 4 < 14, A[vj + vi * 4] * 2, vi + vj)
    for i in range(14):
        with T.block("C"):
            vi = T.axis.spatial(14, i)
            C[vi] = B[vi // 4, vi % 4]
"""


def test_a_writer_writes_the_padding_of_its_buffer() -> None:
    s = Schedule(from_source(CHAIN))
    s.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=lambda i, j: i + j)
    assert_structural_equal(s.mod["main"], from_source(PADDED_BY_THE_WRITER))
    s.parallel(s.get_loops("B")[0])
    inputs = random_inputs(s.mod["main"], ["A"])
    np.testing.assert_array_equal(run_program(s.mod, inputs)[0], run_program(from_source(CHAIN), inputs)[0])


def test_padding_that_no_single_store_writes() -> None:
    """Here a block after the writer does it: the writer's loops have marks."""
    s = Schedule(from_source(CHAIN))
    s.parallel(s.get_loops("B")[0])
    s.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=7)
    assert s.get_loops("B_pad")
    inputs = random_inputs(s.mod["main"], ["A"])
    np.testing.assert_array_equal(run_program(s.mod, inputs)[0], run_program(from_source(CHAIN), inputs)[0])


def test_both_copies_of_a_buffer_changed_in_place_have_its_name() -> None:
    program = """
@T.prim_func
def main(data: T.Buffer((64,), "int32")):
    for i in range(64):
        with T.block("A"):
            v = T.axis.spatial(64, i)
            data[v] = data[v] + 1
"""
    s = Schedule(from_source(program))
    assert [s.get(b).name_hint for b in s.cache_inplace("A", 0, "local")] == ["data_local", "data_local"]
