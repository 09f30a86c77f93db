"""Programs that primitives once changed, at their smallest: now refused, or computed as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tir_schedule.random_programs.hostile import outcome
from tests.tir_schedule.refusals import INLINED_VIEW, STAGED_IN_PART, WRITES_NOTHING, block, script
from tilewright.script import from_source
from tilewright.support.errors import ScheduleError
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule

Case = tuple[str, Callable[[], PrimFunc], Callable[[Schedule], Any]]

OPAQUE_SUM = script("""
for i in range(4):
    with T.block("s"):
        v = T.axis.opaque(4, i)
        with T.init():
            D[v] = T.float32(0)
        D[v] = D[v] + A[v]
""")
INIT_ONCE = script("""
for i in range(3):
    with T.block("s"):
        v, w = T.axis.remap("SR", [i, i])
        with T.init():
            D[v] = T.float32(0)
        D[v] = D[v] + A[w]
""")
UNUSED_LOOP = script("""
for i, j in T.grid(3, 2):
    with T.block("s"):
        v = T.axis.spatial(2, j)
        with T.init():
            D[v] = T.float32(0)
        D[v] = D[v] + A[v]
""")
READS_NEXT = script("""
for i in range(2):
    with T.block("s"):
        v = T.axis.spatial(2, i)
        with T.init():
            D[v] = T.float32(0)
        D[v] = D[v] + D[v + 1]
""")
PARTIAL_SUMS = script("""
for i, k in T.grid(4, 2):
    with T.block("s"):
        v, w = T.axis.remap("SR", [i, k])
        with T.init():
            B[v] = T.float32(0)
        B[v] = B[v] + A[w]
    with T.block("d"):
        v, w = T.axis.remap("SS", [i, k])
        D[v * 2 + w] = B[v]
""")
TRIANGLE = script("""
for i in range(4):
    for j in range(i + 1):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[w] = A[w // 2]
for i in range(4):
    with T.block("d"):
        v = T.axis.spatial(4, i)
        D[v] = B[v]
""")
SHORTER = script(
    block("b", "B[v] = A[v]")
    + "\n"
    + block("d", "D[v] = B[v] * T.float32(2)", "v = T.axis.spatial(8, i)", "for i in range(2, 7):")
)
OVERWRITTEN = script("""
for i in range(4):
    with T.block("x"):
        v = T.axis.spatial(4, i)
        C[v // 4] = A[v]
    with T.block("b"):
        v = T.axis.spatial(4, i)
        B[v] = C[0]
for i in range(4):
    with T.block("d"):
        v = T.axis.spatial(4, i)
        D[v] = B[v]
""")
EMPTY = script("""
for i in range(0):
    with T.block("b"):
        v = T.axis.spatial(1, i)
        D[v] = A[v] + D[v]
""")
TWO_WRITERS = script("""
for i in range(4):
    with T.block("x"):
        v = T.axis.spatial(4, i)
        D[v] = A[v]
    with T.block("y"):
        v = T.axis.spatial(4, i)
        D[v + 1] = A[v + 2]
""")
ONE_VALUE = script("""
for i in range(8):
    with T.block("b"):
        v = T.axis.spatial(8, i)
        for k in range(1):
            D[v] = A[v + k // 2]
""")
VIEW = script("""
for i in range(4):
    with T.block("b"):
        v = T.axis.spatial(4, i)
        M = T.match_buffer(A[v : v + 2], (2,), offset_factor=1)
        D[v] = M[1]
""")
PREDICATE = script("""
for i, j in T.grid(1, 3):
    with T.block("b"):
        v, w = T.axis.remap("SS", [i, j])
        T.where(i >= 1)
        D[w] = A[w + v]
""")

BACKWARDS = script("""
for i in range(5):
    with T.block("b"):
        v = T.axis.spatial(5, i)
        B[4 - v] = A[v]
for i in range(5):
    with T.block("s"):
        w = T.axis.reduce(5, i)
        with T.init():
            D[1] = T.float32(0)
        D[1] = T.max(D[1], B[w])
""")
LAST_START = script("""
for i in range(5):
    with T.block("s"):
        w = T.axis.reduce(5, 4 - i)
        with T.init():
            D[1] = T.float32(0)
        D[1] = D[1] + A[w]
""")
SOMETIMES = script(block("b", "if v < 4:;     B[v] = A[v]"))
SINGLE = script(
    block("b", "D[v] = A[w]", "v = T.axis.spatial(1, i); w = T.axis.spatial(1, i // 2)", "for i in range(1):")
)
ALSO_READS_NEXT = script("""
for i in range(2):
    with T.block("x"):
        v = T.axis.spatial(2, i)
        D[0] = D[0] + A[v]
    for j in range(2):
        with T.block("s"):
            w = T.axis.spatial(2, j)
            with T.init():
                D[w] = T.float32(0)
            D[w] = D[w] + D[w + 1]
""")

FROM_FOUR = script(block("b", "D[v] = A[v]", "v = T.axis.spatial((4, 8), i + 4)", "for i in range(4):"))
FROM_TWO = script(block("b", "D[v] = A[v]", "v = T.axis.spatial((2, 8), i * 2 + j + 2)", "for i, j in T.grid(3, 2):"))
FROM_ONE = script(block("b", "D[v] = A[v]", "v = T.axis.spatial((1, 7), i * 2 + j + 1)", "for i, j in T.grid(3, 2):"))
FLAT_FROM_ONE = script("""
for i, j in T.grid(4, 2):
    with T.block("b"):
        v = T.axis.spatial(8, i * 2 + j)
        C[v] = A[v]
for i, j in T.grid(3, 2):
    with T.block("s"):
        v = T.axis.spatial(3, i)
        w = T.axis.spatial((1, 3), j + 1)
        D[v * 2 + w] = C[v * 2 + w]
""")
ROWS = script("""
for i, j in T.grid(2, 2):
    with T.block("b"):
        v = T.axis.spatial(4, i * 2 + j)
        C[v] = A[v]
for i, k in T.grid(2, 2):
    with T.block("s"):
        v, r = T.axis.remap("SR", [i, k])
        with T.init():
            D[v] = T.float32(0)
        D[v] = D[v] + C[v * 2 + r]
""")
REPEATED_SUM = script("""
for i, j, k in T.grid(2, 3, 2):
    with T.block("s"):
        w, r = T.axis.remap("SR", [j, k])
        with T.init():
            D[w] = T.float32(0)
        D[w] = D[w] + A[w + r]
""")

MAY_BE_EMPTY = """
@T.prim_func
def main(a: T.handle, d: T.handle, n: T.int32):
    A = T.match_buffer(a, (7,))
    D = T.match_buffer(d, (7,))
    for i in range(n):
        with T.block("b"):
            D[0] = A[0]
"""


def _within(s: Schedule) -> None:
    i, _, k = s.get_loops("s")
    s.reorder(k, i)


FOUND: list[Case] = [
    ("opaque variables in an initialisation", OPAQUE_SUM, lambda s: s.decompose_reduction("s", s.get_loops("s")[0])),
    ("a start that most elements do not get", INIT_ONCE, lambda s: s.cache_write("s", 0, "local")),
    ("a start that is repeated", UNUSED_LOOP, lambda s: s.blockize(s.get_loops("s")[0])),
    ("a start that others read", READS_NEXT, lambda s: s.blockize(s.get_loops("s")[0])),
    ("sums that go on", PARTIAL_SUMS, lambda s: s.compute_at("s", s.get_loops("s")[0])),
    ("loops that run to others", TRIANGLE, lambda s: s.cache_read("b", 0, "local")),
    ("a part of a domain, moved", SHORTER, lambda s: s.reverse_compute_at("d", s.get_loops("b")[0])),
    ("a part of a domain, inlined", SHORTER, lambda s: s.reverse_compute_inline("d")),
    ("a part of a domain, laid out", SHORTER, lambda s: s.transform_block_layout("d", lambda i: (i // 2, i % 2))),
    ("inputs that later iterations overwrite", OVERWRITTEN, lambda s: s.compute_at("b", s.get_loops("d")[0])),
    ("inputs that later iterations overwrite", OVERWRITTEN, lambda s: s.compute_inline("b")),
    ("loops without iterations", EMPTY, lambda s: s.cache_write("b", 0, "local")),
    ("loops without iterations, tiled", EMPTY, lambda s: s.blockize(s.get_loops("b")[0])),
    ("loops without iterations, sampled", EMPTY, lambda s: s.sample_perfect_tile(s.get_loops("b")[0], 2)),
    ("writers in turns", TWO_WRITERS, lambda s: s.parallel(s.get_loops("x")[0])),
    ("writers in turns, merged", TWO_WRITERS, lambda s: s.vectorize(s.get_loops("x")[0])),
    ("an index that has one value", ONE_VALUE, lambda s: s.reindex("b", ("read", 0))),
    ("a view in another scope", VIEW, lambda s: s.cache_read("b", 0, "local")),
    ("a predicate that leaves all out", PREDICATE, lambda s: s.cache_write("b", 0, "local")),
    ("a sum run backwards", BACKWARDS, lambda s: s.reverse_compute_at("s", s.get_loops("b")[0])),
    ("a start that comes last", LAST_START, lambda s: s.decompose_reduction("s", s.get_loops("s")[0])),
    ("a start that comes last, in parts", LAST_START, lambda s: s.rfactor(s.get_loops("s")[0], 0)),
    ("elements written under a condition", SOMETIMES, lambda s: s.reindex("b", ("write", 0))),
    ("a fused loop of one iteration", SINGLE, lambda s: s.fuse(s.get_loops("b")[0], preserve_unit_iters=False)),
    ("a reader of what is not staged", STAGED_IN_PART, lambda s: s.cache_write("b", 0, "local", ["c"])),
    ("a block that writes nothing", WRITES_NOTHING, lambda s: s.pad_einsum("b", [4])),
    ("a start that reads more, staged in place", ALSO_READS_NEXT, lambda s: s.cache_inplace("x", 0, "local")),
    ("a view, inlined", INLINED_VIEW, lambda s: s.compute_inline("b")),
    ("a domain that starts at 4", FROM_FOUR, lambda s: s.blockize(s.get_loops("b")[0])),
    ("a domain that starts at 2", FROM_TWO, lambda s: s.blockize(s.get_loops("b")[1])),
    ("a domain that starts at 1", FROM_ONE, lambda s: s.blockize(s.get_loops("b")[1])),
    ("digits that start at 1", FLAT_FROM_ONE, lambda s: s.compute_at("b", s.get_loops("s")[0])),
    ("digits that start at 1, from the producer", FLAT_FROM_ONE, lambda s: s.reverse_compute_at("s", s.get_loops("b")[0])),
    ("a sum that is repeated, within its steps", REPEATED_SUM, _within),
    ("a sum that is repeated, outside of them", REPEATED_SUM, lambda s: s.reorder(*s.get_loops("s")[:2][::-1])),
    ("a view, inlined into", INLINED_VIEW, lambda s: s.reverse_compute_inline("d")),
]  # fmt: skip


@pytest.mark.parametrize(("what", "program", "call"), FOUND, ids=[w for w, _, _ in FOUND])
def test_found(what: str, program: Callable[[], PrimFunc], call: Callable[[Schedule], Any]) -> None:
    func = program()
    s = Schedule(func, debug_mask="all")
    try:
        call(s)
    except ScheduleError:
        assert s.mod["main"] is func
        return
    for a, b in zip(outcome(func), outcome(s.mod), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_symbolic_loop_may_have_no_iterations() -> None:
    s = Schedule(from_source(MAY_BE_EMPTY))
    with pytest.raises(
        ScheduleError, match="cache_write: the loops of block b must surely write the whole part of buffer D"
    ):
        s.cache_write("b", 0, "local")


MAY_BE_SHORT = """
@T.prim_func
def main(a: T.handle, d: T.handle, n: T.int32):
    A = T.match_buffer(a, (7,))
    D = T.match_buffer(d, (7,))
    for i, j in T.grid(n, 3):
        with T.block("b"):
            v = T.axis.spatial(3, i)
            w = T.axis.spatial(3, j)
            T.where(i < 3)
            D[w] = A[w]
"""


def test_a_symbolic_loop_may_end_before_its_predicate() -> None:
    s = Schedule(from_source(MAY_BE_SHORT))
    with pytest.raises(
        ScheduleError, match="cache_write: the loops of block b must surely write the whole part of buffer D"
    ):
        s.cache_write("b", 0, "local")


FUSED_MAY_BE_SHORT = """
@T.prim_func
def main(a: T.handle, d: T.handle, n: T.int32, m: T.int32):
    A = T.match_buffer(a, (n, m))
    D = T.match_buffer(d, (n, m))
    for f in range(n):
        with T.block("b"):
            v = T.axis.spatial(n, f // m)
            w = T.axis.spatial(m, f % m)
            T.where(f < n * m)
            D[v, w] = A[v, w]
"""


def test_a_fused_symbolic_loop_may_end_before_its_predicate() -> None:
    s = Schedule(from_source(FUSED_MAY_BE_SHORT))
    with pytest.raises(ScheduleError, match="may take less than n \\* m values"):
        s.reindex("b", ("write", 0))


@pytest.mark.parametrize("kind", ["vectorize", "parallel"])
def test_no_sum_moves_into_loops_that_run_at_once(kind: str) -> None:
    s = Schedule(ROWS())
    loop = s.fuse(*s.get_loops("b"))
    getattr(s, kind)(loop)
    with pytest.raises(ScheduleError, match=f"must not be {kind.removesuffix('e')}"):
        s.reverse_compute_at("s", loop)


COPY_OF_ONE_COLUMN = """
@T.prim_func
def main(A: T.Buffer((2, 2, 1), "float32"), D: T.Buffer((2, 2), "float32")):
    for i, j, k in T.grid(2, 2, 1):
        with T.block("b"):
            u, v, w = T.axis.remap("SSS", [i, j, k])
            D[u, v] = A[u, v, w]
"""


def test_no_padded_variable_writes_an_element_again() -> None:
    s = Schedule(from_source(COPY_OF_ONE_COLUMN))
    with pytest.raises(ScheduleError, match="w of block b must index buffer D"):
        s.pad_einsum("b", [1, 1, 2])


PART_OF_A_BUFFER = """
@T.prim_func
def main(D: T.Buffer((2, 8), "float32")):
    for i, o in T.grid(2, 2):
        with T.block("outer"):
            u, v = T.axis.remap("SS", [i, o])
            M = T.match_buffer(D[u, v * 4:v * 4 + 4], (1, 4), offset_factor=1)
            for j in range(4):
                with T.block("b"):
                    w = T.axis.spatial(4, j)
                    M[0, w] = T.float32(1)
"""


@pytest.mark.parametrize("pad_value", [None, 0.0])
def test_no_layout_of_a_part_of_a_buffer(pad_value: float | None) -> None:
    s = Schedule(from_source(PART_OF_A_BUFFER))
    columns = 2 if pad_value is None else 3
    with pytest.raises(ScheduleError, match="must be a parameter or allocated by a block"):
        s.transform_layout("b", ("write", 0), lambda i, j: (i, j // columns, j % columns), pad_value=pad_value)


DIAGONAL_OF_HALVES = """
@T.prim_func
def main(A: T.Buffer((2, 3), "float32"), D: T.Buffer((3,), "float32")):
    B = T.alloc_buffer((2, 3))
    for i, j in T.grid(2, 3):
        with T.block("b"):
            u, v = T.axis.remap("SS", [i, j])
            B[u, v] = A[u, v]
    for i in range(3):
        with T.block("d"):
            v = T.axis.spatial(3, i)
            D[v] = B[v // 2, v]
"""


@pytest.mark.parametrize("loop", [0, 1])
def test_a_variable_bounded_by_a_digit_and_as_a_whole(loop: int) -> None:
    """The bounds by its digit were forgotten: it ran where only the other index was ready."""
    func = from_source(DIAGONAL_OF_HALVES)
    s = Schedule(func)
    s.reverse_compute_at("d", s.get_loops("b")[loop])
    np.testing.assert_array_equal(outcome(s.mod), outcome(func))


BACKWARDS_AND_BEYOND = """
@T.prim_func
def main(A: T.Buffer((2,), "float32"), D: T.Buffer((2,), "float32")):
    for i, j in T.grid(3, 1):
        with T.block("d"):
            v = T.axis.spatial(2, j - i + 1)
            T.where(j - i + 1 >= 0)
            D[v] = A[v]
"""


def test_a_blockized_loop_keeps_to_the_beginning_of_a_domain() -> None:
    func = from_source(BACKWARDS_AND_BEYOND)
    s = Schedule(func)
    s.blockize(s.get_loops("d")[1])
    np.testing.assert_array_equal(outcome(s.mod), outcome(func))


DIGITS_BEYOND = """
@T.prim_func
def main(A: T.Buffer((2, 2), "float32"), D: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((2, 2))
    for i, j in T.grid(2, 4):
        with T.block("b"):
            u, v = T.axis.spatial(2, i), T.axis.spatial(2, j)
            T.where(j < 2)
            B[u, v] = A[u, v]
    for i in range(4):
        with T.block("d"):
            v = T.axis.spatial(4, i)
            D[v] = B[v // 2, v % 2]
"""


def test_digits_that_reach_past_their_radix() -> None:
    """The third step, which writes nothing, was taken to have made the next row ready."""
    s = Schedule(from_source(DIGITS_BEYOND))
    with pytest.raises(ScheduleError, match="digits of \\['v'\\] do not join, or may reach past their radix"):
        s.reverse_compute_at("d", s.get_loops("b")[1])


CUT_DIGIT = """
@T.prim_func
def main(A: T.Buffer((35,), "float32"), D: T.Buffer((33,), "float32")):
    for f, a, b in T.grid(7, 2, 4):
        with T.block("d"):
            v = T.axis.spatial(33, f * 5 + (a * 4 + b))
            T.where(a * 4 + b < LIMIT and f * 5 + (a * 4 + b) < 33)
            D[v] = A[v] * T.float32(2)
"""


def test_a_number_that_a_predicate_cuts_is_a_digit() -> None:
    """f * 5 + (a * 4 + b) names each number once where a * 4 + b is below 5: loops over f may run in parallel."""
    func = from_source(CUT_DIGIT.replace("LIMIT", "5"))
    s = Schedule(func)
    s.parallel(s.get_loops("d")[0])
    np.testing.assert_array_equal(outcome(s.mod), outcome(func))
    overlapping = Schedule(from_source(CUT_DIGIT.replace("LIMIT", "6")))
    with pytest.raises(ScheduleError, match="one to one"):
        overlapping.parallel(overlapping.get_loops("d")[0])
