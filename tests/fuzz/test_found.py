"""The smallest programs that the fuzzer found to go wrong, each through all of its checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.fuzz.check import check_case
from tests.fuzz.native import LEVELS, symbolic
from tests.generators.case import Case, Recipe
from tests.generators.roundtrip import assert_roundtrip
from tilewright import te, tir
from tilewright.codegen.interp import run
from tilewright.driver import lower
from tilewright.script import from_source
from tilewright.support.errors import ScheduleError
from tilewright.tir import Allocate
from tilewright.tir.schedule import Schedule

Found = tuple[list[Any], dict[tir.Var, int], Callable[[Schedule], Any]]
"""What `create_prim_func` is given, values of variables, and the schedule."""


def quotient_by_a_variable() -> Found:
    """Bounds of `f // n` came from the type's range, and the extent of the region overflowed."""
    n = tir.Var("n", "int32")
    x = te.placeholder((n, 16), name="x")
    y = te.compute((n, 16), lambda i, j: tir.max(x[i, j], tir.const(0.0, "float32")), name="y")
    out = te.compute((n, 16), lambda i, j: y[i, j] + tir.const(1.0, "float32"), name="out")

    def schedule(s: Schedule) -> None:
        i, j = s.get_loops(s.get_block("out"))
        s.reorder(j, i)
        s.fuse(j, i)

    return [x, out], {n: 3}, schedule


def predicate_on_a_quotient_by_a_variable() -> Found:
    """The guard of a whole loop had a bound that int32 does not hold."""
    n = tir.Var("n", "int32")
    x = te.placeholder((n, 4), name="x")
    y = te.compute((n, 4), lambda i, j: x[i, j] + tir.const(1.0, "float32"), name="y")
    r = te.reduce_axis((0, 3), name="r")
    out = te.compute((n, 4), lambda i, j: te.sum(y[i, r], axis=r), name="out")

    def schedule(s: Schedule) -> None:
        i, j, _ = s.get_loops(s.get_block("out"))
        s.reorder(j, i)
        _, inner = s.split(j, [None, 3])
        fused = s.fuse(inner, i)
        s.split(fused, [None, 4])

    return [x, out], {n: 3}, schedule


def consumer_in_a_loop_that_goes_too_far() -> Found:
    """A consumer moved into a loop that leaves its domain ran over all of the domain in each iteration."""
    x = te.placeholder((2,), name="x")
    out = te.compute((2,), lambda i: x[i] + tir.const(1.0, "float32"), name="out")

    def schedule(s: Schedule) -> None:
        _, outer, _ = s.split(s.get_loops("out")[0], [None, 4, 2])
        s.reverse_compute_at(s.cache_write("out", 0, "local"), outer)

    return [x, out], {}, schedule


def consumer_of_one_element() -> Found:
    """Where there is one element, its consumer ran in iterations that do not write it."""
    x = te.placeholder((1,), name="x")
    out = te.compute((1,), lambda i: x[i] + tir.const(1.0, "float32"), name="out")

    def schedule(s: Schedule) -> None:
        _, inner = s.split(s.get_loops("out")[0], [None, 4])
        copy = s.cache_write("out", 0, "local")
        s.reverse_compute_at(copy, inner)

    return [x, out], {}, schedule


def window_in_the_loop_of_its_input() -> Found:
    """A sum over a window was moved to where one element of the window was ready."""
    x, w = te.placeholder((4,), name="x"), te.placeholder((3,), name="w")
    y = te.compute((4,), lambda i: x[i] + x[i], name="y")
    r = te.reduce_axis((0, 3), name="r")
    out = te.compute((2,), lambda i: te.sum(y[i + r] * w[r], axis=r), name="out")

    def schedule(s: Schedule) -> None:
        with pytest.raises(ScheduleError, match=r"must read of y only what one iteration of"):
            other = Schedule(s.mod)
            other.reverse_compute_at("out", other.get_loops("y")[0])

    return [x, w, out], {}, schedule


@pytest.mark.parametrize(
    "make",
    [
        quotient_by_a_variable,
        consumer_of_one_element,
        window_in_the_loop_of_its_input,
        predicate_on_a_quotient_by_a_variable,
        consumer_in_a_loop_that_goes_too_far,
    ],
)
def test_found(make: Callable[[], Found]) -> None:
    args, sizes, schedule = make()
    fill = {t.op.name: small for t in args if isinstance(t, te.Tensor) and isinstance(t.op, te.PlaceholderOp)}
    case = Case("found", te.create_prim_func(args), fill, sizes)
    for level in LEVELS:
        if level == "full" or not symbolic(case):
            check_case(case, Recipe(0, (), ()), schedule, level)


def small(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Small integers."""
    return rng.integers(-2, 3, shape)


def views_of_a_dead_buffer() -> str:
    """A buffer that is only seen through a view was allocated in the block that makes the view."""
    return """
@T.prim_func
def main(a: T.Buffer((2, 6), "int32"), out: T.Buffer((2,), "int32")):
    s = T.alloc_buffer((2, 6), "int32")
    for i, o in T.grid(2, 2):
        with T.block("s"):
            vi, vo = T.axis.remap("SS", [i, o])
            T.reads(a[vi, 0:6])
            T.writes(s[vi, vo * 3:vo * 3 + 3])
            m = T.match_buffer(s[vi, vo * 3:vo * 3 + 3], (1, 3), "int32", offset_factor=1)
            for j in range(3):
                with T.block("inner"):
                    vj = T.axis.spatial(3, j)
                    m[0, vj] = a[vi, vj]
    for i in range(2):
        with T.block("out"):
            vi = T.axis.spatial(2, i)
            out[vi] = a[vi, 0]
"""


def recurrence_of_a_dead_buffer() -> str:
    """A buffer that carries values from step to step of a block's own loop was allocated inside of that loop."""
    return """
@T.prim_func
def main(a: T.Buffer((4,), "int32"), out: T.Buffer((4,), "int32")):
    s = T.alloc_buffer((4,), "int32")
    for k in range(1):
        with T.block("s"):
            for i in range(4):
                if i == 0:
                    s[i] = a[i]
                else:
                    s[i] = s[i - 1] + a[i]
    for i in range(4):
        with T.block("out"):
            vi = T.axis.spatial(4, i)
            out[vi] = a[vi]
"""


def region_of_a_remainder_by_a_variable() -> str:
    """What a block was found to read began at the least number of the type, and did not parse again."""
    return """
@T.prim_func
def main(n: T.int32, a_h: T.handle, out: T.Buffer((4,), "float32")):
    a = T.match_buffer(a_h, (n,), "float32")
    for k in range(1):
        with T.block("s"):
            for i in range(4):
                out[i] = a[i % n]
"""


def register_beside_a_while_loop() -> str:
    """A register that a while loop only reads came out of it under a name that ends with the loops around."""
    return """
@T.prim_func
def main(a: T.Buffer((2,), "float32"), out: T.Buffer((4,), "float32")):
    x_data = T.allocate([1], "float32", "global")
    x = T.decl_buffer((1,), "float32", data=x_data)
    n_data = T.allocate([1], "int32", "global")
    n = T.decl_buffer((1,), "int32", data=n_data)
    x[0] = a[0] + a[1]
    for i, j in T.grid(2, 2):
        n[0] = 0
        while n[0] < 2:
            n[0] = n[0] + 1
        out[i * 2 + j] = T.Cast("float32", n[0])
    for i in range(4):
        out[i] = out[i] + x[0]
"""


@pytest.mark.parametrize(
    "text",
    [
        register_beside_a_while_loop,
        views_of_a_dead_buffer,
        recurrence_of_a_dead_buffer,
        region_of_a_remainder_by_a_variable,
    ],
)
def test_found_script(text: Callable[[], str]) -> None:
    func = from_source(text())
    assert_roundtrip(func)
    fill = {b.name: small for b in func.buffer_map.values() if b.name != "out"}
    sizes = {p: 3 for p in func.params if p not in func.buffer_map}
    for level in LEVELS:
        case = Case("flat" if isinstance(func.body, Allocate) else "found", func, fill, sizes)
        check_case(case, Recipe(0, (), ()), lambda s: None, level)


def test_padding_that_would_be_divided_by_is_refused() -> None:
    a, b = te.placeholder((3, 3), "int16", name="a"), te.placeholder((3,), "int16", name="b")
    quotient = te.compute((3, 3), lambda i, j: tir.floordiv(a[i, j], b[j]), name="quotient")
    s = Schedule(te.create_prim_func([a, b, quotient]))
    with pytest.raises(ScheduleError, match="must not divide by what may be zero in the padding, but divides by b"):
        s.pad_einsum("quotient", [2, 2])


def test_padding_needs_a_loop_for_each_variable() -> None:
    """A constant among the bindings was compared with a loop variable as if the answer were known."""
    a = te.placeholder((1, 3), name="a")
    s = Schedule(te.create_prim_func([a, te.compute((1, 3), lambda i, j: a[i, j] + a[i, j], name="twice")]))
    s.fuse(*s.get_loops("twice"), preserve_unit_iters=False)
    with pytest.raises(ScheduleError, match="each iteration variable of block twice must be bound to a loop"):
        s.pad_einsum("twice", [1, 2])


ROW = """
@T.prim_func
def main(a: T.Buffer((4,), "float32"), out: T.Buffer((3,), "float32")):
    b = T.alloc_buffer((4,), "float32")
    for i in range(3):
        with T.block("b"):
            vi = T.axis.spatial((1, 4), i + 1)
            b[vi] = a[vi]
    for i in range(3):
        with T.block("out"):
            vi = T.axis.spatial(3, i)
            out[vi] = b[vi + 1]
"""
"""A block whose domain begins at 1."""
SYMBOLIC = """
@T.prim_func
def main(n: T.int64, a_h: T.handle, out_h: T.handle):
    a = T.match_buffer(a_h, (n, 3), "float32")
    out = T.match_buffer(out_h, (n, 3), "float32")
    for i, j in T.grid(n, 3):
        with T.block("out"):
            vi = T.axis.spatial(n, i)
            vj = T.axis.spatial(3, j)
            out[vi, vj] = a[vi, vj] * 2.0
"""
"""Loops of two integer types."""


def never_runs(s: Schedule) -> None:
    outer, _ = s.split(s.get_loops("out")[0], [8, None])
    _, last = s.loop_partition(outer, [3, None])
    s.blockize(s.get_loops(s.get_child_blocks(last)[0])[-1])


SQUARE = """
@T.prim_func
def main(a: T.Buffer((3, 4), "float32"), out: T.Buffer((3, 4), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = a[vi, vj] * 2.0
"""
GATHER = """
@T.prim_func
def main(a: T.Buffer((4,), "float32"), k: T.Buffer((3,), "int32"), out: T.Buffer((3,), "float32")):
    b = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            b[vi] = a[vi]
    for i in range(3):
        with T.block("out"):
            vi = T.axis.spatial(3, i)
            out[vi] = b[k[vi] % 4]
"""
"""Elements picked by an input."""

NESTED = """
@T.prim_func
def main(a: T.Buffer((4, 4), "float32"), out: T.Buffer((3, 4), "float32")):
    for i in range(3):
        with T.block("out"):
            vi = T.axis.spatial((1, 4), i + 1)
            for j in range(vi // 4 + 4):
                with T.block("inner"):
                    vj = T.axis.spatial(4, j)
                    vk = T.axis.spatial(2, vi // 2)
                    out[vi - 1, vj] = a[vi // 2, vj] * T.Cast("float32", vi % 2 + vk)
"""
"""A block in a block, with an index that divides a variable of the outer one."""


def beside_its_reader(s: Schedule) -> None:
    s.compute_at("b", s.split(s.get_loops("out")[0], [None, 2])[1])


def cached_index_in_another_layout(s: Schedule) -> None:
    (index,) = s.cache_index("out", "global")
    s.transform_layout(index, ("write", 0), lambda i: (i % 3,))


def copy_for_one_reader(s: Schedule) -> None:
    s.cache_read("out", 0, "local", consumer_blocks=["out"])
    assert [r.buffer.name for r in s.get(s.get_block("inner")).reads] == ["a_local"]


def parts_with_storage(s: Schedule) -> None:
    outer, inner = s.get_loops("out")
    s.blockize(inner)
    s.cache_read("out", 0, "local")
    s.loop_partition(outer, [1, None])


def fused_whole(s: Schedule) -> None:
    s.blockize(s.fuse(*s.get_loops("out")))


ROW_SUMS = """
@T.prim_func
def main(n: T.int32, m: T.int32, a_h: T.handle, out_h: T.handle):
    a = T.match_buffer(a_h, (n, m), "int32")
    out = T.match_buffer(out_h, (n, m), "int32")
    for i, k in T.grid((n - 1) * m, 3):
        with T.block("out"):
            vi = T.axis.spatial(n, i // m + 1)
            vj = T.axis.spatial(m, i % m)
            vk = T.axis.reduce(3, k)
            T.where(i // m + 1 < n)
            with T.init():
                out[vi, vj] = 0
            out[vi, vj] = out[vi, vj] + a[vi, vj] * vk
    for j in range(m):
        with T.block("first"):
            vj = T.axis.spatial(m, j)
            out[0, vj] = a[0, vj]
"""
"""All rows but the first, by a loop over the elements of rows of a symbolic length."""


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        (ROW, lambda s: s.reindex("b", ("read", 0))),
        (ROW_SUMS, lambda s: s.decompose_reduction("out", s.get_loops("out")[0])),
        (ROW, lambda s: s.reindex("b", ("write", 0))),
        (ROW, lambda s: s.reindex_cache_read("b", 0, "global", lambda i: (i // 2, i % 2))),
        (ROW, never_runs),
        (SYMBOLIC, lambda s: s.split(s.fuse(*s.get_loops("out")), [None, 4])),
        (SYMBOLIC, fused_whole),
        (GATHER, beside_its_reader),
        (NESTED, cached_index_in_another_layout),
        (NESTED, copy_for_one_reader),
        (SQUARE, parts_with_storage),
    ],
)
def test_found_schedule(text: str, schedule: Callable[[Schedule], Any]) -> None:
    func = from_source(text)
    sizes = {p: 3 for p in func.params if p not in func.buffer_map}
    check_case(Case("found", func, {"a": small, "k": small}, sizes), Recipe(0, (), ()), schedule, "plain")


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8"])
@pytest.mark.parametrize(("value", "n"), [("T.truncmod(a[i * 4 + j], b[i * 4 + j])", 6), ("7 // n", 0)])
def test_lanes_that_are_off_divide_by_nothing(dtype: str, value: str, n: int) -> None:
    """Lanes outside of a guard divided by the zero that they loaded, or by what only the guard keeps from being zero."""
    func = from_source(f"""
@T.prim_func
def main(n: T.{dtype}, a: T.Buffer((6,), "{dtype}"), b: T.Buffer((6,), "{dtype}"), out: T.Buffer((8,), "{dtype}")):
    for i in range(2):
        for j in T.vectorized(4):
            if i * 4 + j < T.Cast("int32", n):
                out[i * 4 + j] = {value}
""")
    a, b, out = (np.arange(k, k + size).astype(dtype) for k, size in ((7, 6), (1, 6), (0, 8)))
    run(lower(func), [n, a, b, out])
    np.testing.assert_array_equal(out, [*(a % b)[:n], *range(n, 8)])


READERS = {
    "storage of its own": """
            t = T.alloc_buffer((2,), "int32", scope="local")
            for j in range(2):
                t[j] = b[vi * 2 + j]
            for j in range(2):
                out[vi * 2 + j] = t[1 - j]
""",
    "storage of its own to index by": """
            t = T.alloc_buffer((1,), "int32", scope="local")
            t[0] = 0
            while t[0] < 2:
                out[vi * 2 + t[0]] = b[vi * 2 + t[0]]
                t[0] = t[0] + 1
""",
    "an allocation": """
            t_data = T.allocate([2], "int32", "global")
            t = T.decl_buffer((2,), "int32", data=t_data)
            for j in range(2):
                t[j] = b[vi * 2 + j]
            for j in range(2):
                out[vi * 2 + j] = t[1 - j]
""",
    "a name for an index": """
            for j in range(2):
                with T.LetStmt(vi * 2 + j) as x:
                    out[x] = b[x]
""",
    "a view of an input": """
            m = T.match_buffer(a[0:4], (4,), "int32", offset_factor=1)
            for j in range(2):
                out[vi * 2 + j] = b[vi * 2 + j] + m[3 - vi * 2 - j]
""",
}


@pytest.mark.parametrize("reader", READERS)
def test_regions_after_inlining_name_nothing_of_the_block(reader: str) -> None:
    """Staging an input afterwards met buffers and variables outside of their block, or too little of a viewed buffer."""
    func = from_source(
        """
@T.prim_func
def main(a: T.Buffer((4,), "int32"), out: T.Buffer((4,), "int32")):
    b = T.alloc_buffer((4,), "int32")
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            b[vi] = a[vi] + 1
    for i in range(2):
        with T.block("out"):
            vi = T.axis.spatial(2, i)"""
        + READERS[reader]
    )

    def schedule(s: Schedule) -> None:
        s.compute_inline("b")
        (read,) = s.get(s.get_block("out")).reads
        assert read.buffer.name == "a"
        s.cache_read("out", 0, "local")

    check_case(Case("found", func, {"a": small}, {}), Recipe(0, (), ()), schedule)


def test_padding_of_a_variable_of_one_value_that_an_index_leaves_out_is_refused() -> None:
    """`a[i, 0]` for j in (0, 1) stayed at 0 where j was padded, and its region did not."""
    s = Schedule(
        from_source("""
@T.prim_func
def main(a: T.Buffer((3, 1), "float32"), out: T.Buffer((3, 1), "float32")):
    for i, j in T.grid(3, 1):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(a[vi, vj])
            T.writes(out[vi, vj])
            out[vi, vj] = a[vi, 0]
""")
    )
    with pytest.raises(ScheduleError, match="must access buffer a at plain iteration variables, but at vi, 0"):
        s.pad_einsum("out", [1, 2])
