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
    assert 'B = T.alloc_buffer((3, 10), "int8")' in text and "T.where(i < 1 or ax0 >= 2)" in text
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
