"""decompose_padding inside rows, and what it leaves: a part of a domain in vectors, under threads that fill all of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tir_schedule.random_programs.programs import random_inputs, run_program
from tilewright import te, tir, topi
from tilewright.script import from_source
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule


def padded() -> tir.PrimFunc:
    x = te.placeholder((3, 5, 6, 4), name="x")
    return te.create_prim_func([x, topi.nn.pad(x, [0, 1, 2, 0], [0, 1, 1, 0], name="y")])


def same(s: Schedule) -> None:
    inputs = random_inputs(padded(), ["x"])
    np.testing.assert_array_equal(run_program(s.mod, inputs)[0], run_program(padded(), inputs)[0])


def test_conditions_on_loops_around_stay() -> None:
    """Rows that lie outside are filled, and the copy has a predicate."""
    s = Schedule(padded())
    fill = s.decompose_padding("y", s.get_loops("y")[2])
    assert [int(s.get(x).extent) for x in s.get_loops(fill)] == [3, 7, 9, 4]
    assert [int(s.get(x).extent) for x in s.get_loops("y")] == [3, 7, 6, 4]
    text = s.mod.script()
    assert text.count("T.where(i1 >= 1 and i1 <= 5)") == 1 and "if_then_else" not in text
    same(s)


def test_a_part_of_a_domain_is_one_to_one() -> None:
    """Columns from the second on are vectors as the whole would be."""
    s = Schedule(padded())
    s.decompose_padding("y", s.get_loops("y")[0])
    *_, column, pixel = s.get_loops("y")
    s.unroll(s.split(column, [None, 2])[1])
    s.vectorize(pixel)
    same(s)


@pytest.mark.parametrize("rows", [1, 2])
def test_threads_fill_what_they_copy(rows: int) -> None:
    """A row is filled and copied by one thread; the copy writes only what it filled."""
    s = Schedule(padded())
    s.decompose_padding("y", s.get_loops("y")[rows])
    around = s.get_loops("y")[:rows]
    s.parallel(s.fuse(*around) if rows > 1 else around[0])
    same(s)


SHIFTED = """
@T.prim_func
def main(x: T.Buffer((8,)), y: T.Buffer((9,))):
    for i in range(4):
        for j in range(2):
            with T.block("fill"):
                v = T.axis.spatial(9, i * 2 + j)
                y[v] = T.float32(0)
        for j in range(2):
            with T.block("copy"):
                v = T.axis.spatial(9, i * 2 + j + 1)
                y[v] = x[v - 1]
"""


def test_threads_do_not_copy_to_what_others_fill() -> None:
    s = Schedule(from_source(SHIFTED))
    with pytest.raises(ScheduleError, match="of their own"):
        s.parallel(s.get_loops("fill")[0])
