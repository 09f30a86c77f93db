"""What blocks surely write and visit, and what a primitive must not take for granted: at its smallest, refused or computed as before."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.tir_schedule.random_programs.hostile import outcome
from tests.tir_schedule.refusals import script
from tilewright import te
from tilewright.script import from_source
from tilewright.support.errors import ScheduleError
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule

Program = Callable[[], PrimFunc]

HOLES = script("""
for a, j in T.grid(2, 4):
    with T.block("b"):
        v, w = T.axis.remap("SS", [a, j])
        T.where(j < 3)
        D[v * 4 + w] = A[v + w]
""")
SHORT_DIGIT = script("""
for a, j in T.grid(2, 4):
    with T.block("b"):
        v = T.axis.spatial(2, a)
        w = T.axis.spatial(3, j)
        T.where(j < 3)
        D[v * 4 + w] = A[v + w]
""")
CUT_DIGIT = script("""
for i, j in T.grid(2, 4):
    with T.block("b"):
        v = T.axis.spatial(8, i * 4 + j)
        T.where(j < 3)
        D[v] = A[v]
""")
CUT_BY_ANOTHER = script("""
for i in range(4):
    with T.block("b"):
        v = T.axis.spatial(4, i)
        w = T.axis.spatial(2, i)
        T.where(i < 2)
        D[v] = A[w]
""")
STRIDE = script("""
for i in range(4):
    with T.block("b"):
        v = T.axis.spatial(4, i)
        D[v // 2 * 3] = A[v]
""")
TWO_VIEWS = script("""
for i in range(2):
    with T.block("b"):
        v = T.axis.spatial(2, i)
        M = T.match_buffer(D[v * 4 : v * 4 + 2], (2,), offset_factor=1)
        N = T.match_buffer(D[v * 4 + 2 : v * 4 + 4], (2,), offset_factor=1)
        for k in range(2):
            M[k] = A[k]
        if v < 1:
            for k in range(2):
                N[k] = A[k]
""")
SHORT_TILE = script("""
for i, j in T.grid(2, 4):
    with T.block("b"):
        v = T.axis.spatial(6, i * 4 + j)
        T.where(i * 4 + j < 6)
        D[v] = A[v]
""")
BELOW_ZERO = script("""
for i in range(6):
    with T.block("b"):
        v = T.axis.spatial((-3, 3), i - 3)
        D[v % 4] = A[v + 3]
""")
FROM_ONE = script("""
for i in range(1, 5):
    with T.block("b"):
        v = T.axis.spatial((1, 5), i)
        D[v] = A[v]
""")
PART_OF_A_COPY = script("""
for i in range(8):
    with T.block("b"):
        v = T.axis.spatial(8, i)
        C[v] = A[v]
for i in range(2):
    with T.block("d"):
        v = T.axis.spatial((1, 3), i + 1)
        D[v] = C[v]
""")
GUARDED_READER = """
for i in range({loop}):
    with T.block("b"):
        v = T.axis.spatial(8, i)
        T.where(i < 2)
        B[v] = A[v]
for i in range(8):
    with T.block("d"):
        v = T.axis.spatial(8, i)
        D[v] = T.if_then_else(v < 2, B[v], T.float32(7))
"""
GUARDED, GUARDED_SHORT = script(GUARDED_READER.format(loop=8)), script(GUARDED_READER.format(loop=2))

DIAGONAL = script(
    """
for i in range(8):
    with T.block("b"):
        v = T.axis.spatial(8, i)
        B[v, v] = A[v, v]
for i in range(8):
    with T.block("d"):
        v = T.axis.spatial(8, i)
        D[v, v] = B[v, v]
""",
    2,
)
PARTLY_WRITTEN = script("""
for i in range(2):
    with T.block("b"):
        v = T.axis.spatial(2, i)
        B[v] = A[v]
for i in range(8):
    with T.block("d"):
        v = T.axis.spatial(8, i)
        D[v] = T.if_then_else(v < 2, B[v], T.float32(7))
""")
FIRST_TILE = script("""
for i in range(6):
    with T.block("b"):
        v = T.axis.spatial(6, i)
        B[v] = A[v]
for i, j in T.grid(2, 4):
    with T.block("d"):
        v = T.axis.spatial(6, i * 4 + j)
        T.where(i * 4 + j < 6)
        D[v] = B[v]
""")
DIVIDES_BY_ZERO = script("""
for i, j in T.grid(8, 3):
    with T.block("b"):
        v, w = T.axis.remap("SS", [i, j])
        T.where(j >= 1)
        D[v // w] = A[v // w]
""")

USED_BEFORE = script("""
for i in range(4):
    with T.block("x"):
        v = T.axis.spatial(4, i)
        C[v] = D[v]
    for k in range(3):
        with T.block("s"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                D[v] = T.float32(0)
            D[v] = D[v] + A[v + w] + C[v]
""")
WRITES_NEXT = script("""
for i in range(4):
    for k in range(3):
        with T.block("s"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                D[v] = T.float32(0)
            D[v] = D[v] + A[v + w]
    with T.block("x"):
        v = T.axis.spatial(4, i)
        D[v + 1] = D[v] + T.float32(1)
""")
OLDER_THAN_THE_WINDOW = script("""
for i in range(6):
    for a in range(3):
        with T.block("b"):
            v = T.axis.spatial(8, i + a)
            B[v] = A[v]
    with T.block("d"):
        v = T.axis.spatial(6, i)
        D[v] = B[v] + T.if_then_else(v >= 3, B[v - 3], T.float32(0))
""")

NO_STEPS = script("""
for o, i in T.grid(0, 5):
    with T.block("b"):
        v = T.axis.spatial(8, o * 4 + i)
        D[v] = A[v]
""")

LOOSE_BOUND = script("""
for i in range(3):
    with T.block("b"):
        v = T.axis.spatial(3, i)
        D[v // 2 + v % 2] = A[v]
""")
GROWING = script("""
for o in range(4):
    for j in range(2):
        for i in range(o + 1):
            with T.block("b"):
                u = T.axis.spatial(4, o)
                v = T.axis.spatial(2, j)
                w = T.axis.spatial(4, i)
                B[v * 4 + w] = A[w + u]
    with T.block("c"):
        u = T.axis.spatial(4, o)
        C[u] = B[u]
for i in range(4):
    with T.block("d"):
        v = T.axis.spatial(4, i)
        D[v] = C[v]
""")

LATE_LOOPS = script("""
for i in range(3):
    for k in range(1, 3):
        for l in range(1, 4):
            with T.block("s"):
                v = T.axis.spatial(3, i)
                w = T.axis.reduce((4, 10), k * 3 + l)
                with T.init():
                    D[v] = T.float32(0)
                D[v] = D[v] + A[w - 4 + v]
""")


def _tiled(s: Schedule, then: Callable[[Any], Any]) -> None:
    then(s.blockize(s.get_loops("b")[1]))


CASES: list[tuple[str, Program, Callable[[Schedule], Any]]] = [
    ("elements between those written", HOLES, lambda s: s.cache_write("b", 0, "local")),
    ("a short domain inside a number", SHORT_DIGIT, lambda s: s.cache_write("b", 0, "local")),
    ("a condition on a low digit", CUT_DIGIT, lambda s: s.cache_write("b", 0, "local")),
    ("the domain of another axis", CUT_BY_ANOTHER, lambda s: s.cache_write("b", 0, "local")),
    ("values of a division, apart", STRIDE, lambda s: s.cache_write("b", 0, "local")),
    ("two views, one of which is written", TWO_VIEWS, lambda s: s.cache_write("b", 0, "global")),
    ("a last tile that is not full", SHORT_TILE, lambda s: _tiled(s, lambda b: s.cache_write(b, 0, "local"))),
    ("remainders of negative numbers", BELOW_ZERO, lambda s: s.parallel(s.get_loops("b")[0])),
    ("a domain that starts at 1, laid out", FROM_ONE, lambda s: s.transform_block_layout("b", lambda i: (i // 2, i % 2))),
    ("a domain that starts at 1, inlined", PART_OF_A_COPY, lambda s: s.reverse_compute_inline("d")),
    ("an output that is read before", USED_BEFORE, lambda s: s.decompose_reduction("s", s.get_loops("s")[0])),
    ("an output that is written before", WRITES_NEXT, lambda s: s.decompose_reduction("s", s.get_loops("s")[0])),
    ("elements that the ring has lost", OLDER_THAN_THE_WINDOW, lambda s: s.rolling_buffer("b", 0)),
    ("steps that overlap, of which there are none", NO_STEPS, lambda s: s.cache_write("b", 0, "local")),
    ("a sum of digits that do not meet", LOOSE_BOUND, lambda s: s.cache_write("b", 0, "local")),
    ("digits of loops that grow", GROWING, lambda s: s.cache_read("c", 0, "local")),
    ("partial results of loops that do not start at 0", LATE_LOOPS, lambda s: s.rfactor(s.get_loops("s")[1], 0)),
    ("partial results, numbered from 0", LATE_LOOPS, lambda s: s.rfactor(s.get_loops("s")[2], 0)),
    ("a diagonal, padded", DIAGONAL, lambda s: s.pad_einsum("d", [3])),
    ("a buffer that is written in part, padded", PARTLY_WRITTEN, lambda s: s.pad_einsum("d", [3])),
    ("an index that exists at some points only", DIVIDES_BY_ZERO, lambda s: s.cache_index("b", "global")),
    ("a reader that does without a predicated producer", GUARDED, lambda s: s.reverse_compute_inline("d")),
    ("a reader that does without a short producer", GUARDED_SHORT, lambda s: s.reverse_compute_inline("d")),
]  # fmt: skip


@pytest.mark.parametrize(("what", "program", "call"), CASES, ids=[c[0] for c in CASES])
def test_certain(what: str, program: Program, call: Callable[[Schedule], Any]) -> None:
    func = program()
    s = Schedule(func, debug_mask="all")
    with contextlib.suppress(ScheduleError):
        call(s)
    for a, b in zip(outcome(func), outcome(s.mod), strict=True):
        np.testing.assert_array_equal(a, b)


def _inside_tiles(s: Schedule) -> None:
    s.blockize(s.get_loops("d")[1])
    s.cache_read("d", 0, "local")


ACCEPTED: list[tuple[str, Program, Callable[[Schedule], Any]]] = [
    ("a last tile that is not full", SHORT_TILE, lambda s: s.cache_write("b", 0, "local")),
    ("a domain that starts at 1, laid out", FROM_ONE, lambda s: s.transform_block_layout("b", lambda i: (i // 2, i % 2))),
    ("a domain that starts at 1, inlined", PART_OF_A_COPY, lambda s: s.reverse_compute_inline("d")),
    ("a copy inside of tiles, the last of which is not full", FIRST_TILE, _inside_tiles),
]  # fmt: skip


@pytest.mark.parametrize(("what", "program", "call"), ACCEPTED, ids=[c[0] for c in ACCEPTED])
def test_what_is_known_is_not_refused(what: str, program: Program, call: Callable[[Schedule], Any]) -> None:
    func = program()
    s = Schedule(func)
    call(s)
    for a, b in zip(outcome(func), outcome(s.mod), strict=True):
        np.testing.assert_array_equal(a, b)


SYMBOLIC = """
@T.prim_func
def main(a: T.handle, d: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    D = T.match_buffer(d, (n,))
    for i in range({extent}):
        with T.block("b"):
            v = T.axis.spatial({extent}, i)
            D[v] = A[v]
"""


def test_factors_reach_a_symbolic_extent() -> None:
    s = Schedule(from_source(SYMBOLIC.format(extent="n")))
    with pytest.raises(
        ScheduleError, match="split: the product of the factors must surely reach the extent n of loop i"
    ):
        s.split(s.get_loops("b")[0], [2, 2])
    s = Schedule(from_source(SYMBOLIC.format(extent="n % 4")))
    s.split(s.get_loops("b")[0], [2, 2])


def test_a_loop_without_iterations_gets_none_that_divide_by_zero() -> None:
    text = """
@T.prim_func
def main(a: T.handle, d: T.handle, n: T.int32):
    A = T.match_buffer(a, (2, n))
    D = T.match_buffer(d, (2, n))
    for i, j in T.grid(2, n):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            D[v, w] = A[v, w]
"""
    s = Schedule(from_source(text))
    fused = s.fuse(*s.get_loops("b"))
    with pytest.raises(ScheduleError, match="may have no iterations, and then .* divides by 0"):
        s.loop_partition(fused, [1, None])


def test_padding_of_whole_numbers() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((7,), "int32"), D: T.Buffer((7,), "int32")):
    B = T.alloc_buffer((7,), "int32")
    for i in range(7):
        with T.block("b"):
            v = T.axis.spatial(7, i)
            B[v] = A[v]
    for i in range(7):
        with T.block("d"):
            v = T.axis.spatial(7, i)
            D[v] = B[v]
"""
    s = Schedule(from_source(text))
    with pytest.raises(ScheduleError, match="pad_value must be of the type of buffer B, which is int32, but is 0.5"):
        s.transform_layout("b", ("write", 0), lambda i: (i // 4, i % 4), pad_value=0.5)
    with pytest.raises(ScheduleError, match='pad_value must be a number, but is "x"'):
        s.transform_layout("b", ("write", 0), lambda i: (i // 4, i % 4), pad_value="x")
    s.transform_layout("b", ("write", 0), lambda i: (i // 4, i % 4), pad_value=1.0)
    assert "A[v1 + v0 * 4], 1)\n" in s.mod["main"].script()


def test_steps_that_overlap_may_be_none() -> None:
    text = """
@T.prim_func
def main(a: T.handle, d: T.handle, n: T.int32):
    A = T.match_buffer(a, (8,))
    D = T.match_buffer(d, (8,))
    for o, i in T.grid(n, {inner}):
        with T.block("b"):
            v = T.axis.spatial(8, o * 4 + i)
            D[v] = A[v]
"""
    with pytest.raises(ScheduleError, match="must surely write the whole part of buffer D"):
        Schedule(from_source(text.format(inner=5))).cache_write("b", 0, "local")
    Schedule(from_source(text.format(inner=4))).cache_write("b", 0, "local")


PRIVATE_CHAIN = script("""
for i in range(8):
    with T.block("b"):
        v = T.axis.spatial(8, i)
        B[v] = T.if_then_else(v > 0, B[v - 1], T.float32(0)) + A[v]
    with T.block("d"):
        v = T.axis.spatial(8, i)
        D[v] = B[v]
""")


def test_a_private_buffer_carries_nothing_to_the_next_iteration() -> None:
    s = Schedule(PRIVATE_CHAIN())
    with pytest.raises(ScheduleError, match=r"must not depend on each other, but it reads B\[v - 1\]"):
        s.parallel(s.get_loops("b")[0])


BY_ADDRESS = script("""
for i in range(8):
    with T.block("b"):
        v = T.axis.spatial(8, i)
        B[v] = A[v]
for i in range(1):
    with T.block("d"):
        v = T.axis.spatial(1, i)
        T.reads(B[0:8])
        T.writes(D[0:8])
        T.evaluate(T.call_extern("int32", "f", B.data, D.data))
""")


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.transform_layout("b", ("write", 0), lambda i: (i // 4, i % 4)),
        lambda s: s.compute_inline("b"),
        lambda s: s.reindex("d", ("read", 0)),
        lambda s: s.unsafe_set_dtype("b", 0, "float16"),
    ],
)
def test_what_takes_an_address_keeps_its_buffer(call: Callable[[Schedule], Any]) -> None:
    with pytest.raises(ScheduleError, match="buffer B is given to a call by its address"):
        call(Schedule(BY_ADDRESS()))


def test_unit_loops_are_no_digits() -> None:
    """Where loops are too long to be enumerated, a loop with one iteration does not hide that the others fill a box."""
    a = te.placeholder((256, 256), "float32", name="A")
    s = Schedule(te.create_prim_func([a, te.compute((256, 256), lambda i, j: a[i, j] * 2.0, name="C")]))
    block = s.get_block("C")
    copy = s.cache_write(block, 0, "local")
    i, j = s.get_loops(block)
    (i0, i1, i2), (j0, j1) = s.split(i, [2, 128, 1]), s.split(j, [4, 64])
    s.reorder(i0, j0, i1, i2, j1)
    s.reverse_compute_at(copy, s.fuse(i0, j0))
    assert [int(s.get(loop).extent) for loop in s.get_loops(copy)] == [8, 128, 64]
