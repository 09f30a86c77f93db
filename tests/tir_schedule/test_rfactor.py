"""rfactor: reductions of several buffers, predicates, several loops, other blocks beside; what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.codegen.interp import run
from tilewright.script import from_source
from tilewright.script import tir as T
from tilewright.support.errors import ScheduleError
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule


def total(*shape: int) -> PrimFunc:
    a = te.placeholder(shape, name="A")
    axes = [te.reduce_axis((0, n), name=f"k{i}") for i, n in enumerate(shape)]
    return te.create_prim_func([a, te.compute((1,), lambda i: te.sum(a(*axes), axis=axes), name="C")])


def results(mod: Any, *inputs: np.ndarray, outputs: list[np.ndarray]) -> list[np.ndarray]:
    made = [o.copy() for o in outputs]
    run(mod, [*inputs, *made])
    return made


def check_total(s: Schedule, *shape: int) -> None:
    a = np.random.default_rng(0).integers(-4, 5, shape).astype("float32")
    (got,) = results(s.mod, a, outputs=[np.zeros(1, "float32")])
    assert got[0] == a.sum()


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("which", [0, 1])
def test_parts_of_a_split_reduction(which: int, axis: int) -> None:
    s = Schedule(total(24))
    loops = s.split(s.get_loops("C")[1], [None, 4])
    rf = s.rfactor(loops[which], axis)
    assert s.get(rf).name_hint == "C_rf"
    assert len(s.get(rf).writes[0].buffer.shape) == 2
    check_total(s, 24)


def test_several_reduction_loops() -> None:
    s = Schedule(total(4, 3, 5))
    _, _, k1, _ = s.get_loops("C")
    rf = s.rfactor(k1, 0)
    assert [int(n) for n in s.get(rf).writes[0].buffer.shape] == [3, 1]
    assert len(s.get_loops(rf)) == 4 and len(s.get_loops("C")) == 2
    check_total(s, 4, 3, 5)


def test_a_predicate_that_leaves_each_part_a_first_step() -> None:
    s = Schedule(total(22))
    outer, inner = s.split(s.get_loops("C")[1], [None, 4])
    s.rfactor(inner, 0)
    assert "T.where(k0_0 * 4 + k0_1 < 22)" in str(s.mod["main"])
    check_total(s, 22)
    t = Schedule(total(22))
    outer, inner = t.split(t.get_loops("C")[1], [4, 8])
    with pytest.raises(
        ScheduleError,
        match="rfactor: the predicate .* of block C must leave something to do in every iteration of loop k0_0",
    ):
        t.rfactor(outer, 0)


def test_a_fused_reduction() -> None:
    s = Schedule(total(4, 6))
    fused = s.fuse(*s.get_loops("C")[1:])
    _, inner = s.split(fused, [None, 8])
    s.rfactor(inner, 0)
    check_total(s, 4, 6)


ARGMAX = """
@T.prim_func
def main(a: T.handle, i: T.handle, m: T.handle):
    A = T.match_buffer(a, (5, 12))
    I = T.match_buffer(i, (5,), "int32")
    M = T.match_buffer(m, (5,))
    for i, k in T.grid(5, 12):
        with T.block("arg"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(I[vi], M[vi])
            with T.init():
                I[vi] = -1
                M[vi] = T.min_value("float32")
            at: T.int32 = T.Select(M[vi] >= A[vi, vk], I[vi], vk)
            best: T.float32 = T.Select(M[vi] >= A[vi, vk], M[vi], A[vi, vk])
            I[vi] = at
            M[vi] = best
"""


def test_argmax() -> None:
    s = Schedule(from_source(ARGMAX))
    outer, _ = s.split(s.get_loops("arg")[1], [None, 4])
    rf = s.rfactor(outer, 1)
    assert [w.buffer.name for w in s.get(rf).writes] == ["I_rf", "M_rf"]
    a = np.random.default_rng(1).permutation(60).astype("float32").reshape(5, 12)
    index, best = results(s.mod, a, outputs=[np.zeros(5, "int32"), np.zeros(5, "float32")])
    np.testing.assert_array_equal(index, a.argmax(1))
    np.testing.assert_array_equal(best, a.max(1))


def test_argmin_from_tensor_expressions() -> None:
    a = te.placeholder((6, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    argmin = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] <= y[1], x[0], y[0]), tir.Select(x[1] <= y[1], x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), te.max_value(t1)),
        name="argmin",
    )
    out = te.compute((6,), lambda i: argmin((k, a[i, k]), axis=k), name="out")
    s = Schedule(te.create_prim_func([a, *out]))
    block = s.get_child_blocks(s.get_block("root"))[0]
    _, inner = s.split(s.get_loops(block)[1], [None, 2])
    s.rfactor(inner, 0)
    x = np.random.default_rng(1).permutation(48).astype("float32").reshape(6, 8)
    index, best = results(s.mod, x, outputs=[np.zeros(6, "int32"), np.zeros(6, "float32")])
    np.testing.assert_array_equal(index, x.argmin(1))
    np.testing.assert_array_equal(best, x.min(1))


def test_a_reducer_of_numbers_without_sign() -> None:
    a, k = te.placeholder((24,), "uint8", name="A"), te.reduce_axis((0, 24), name="k")
    either = te.comm_reducer(lambda x, y: x | y, lambda t: tir.const(0, t), name="either")
    s = Schedule(te.create_prim_func([a, te.compute((1,), lambda i: either(a[k], axis=k), name="C")]))
    _, inner = s.split(s.get_loops("C")[1], [None, 4])
    s.rfactor(inner, 0)
    x = np.arange(0, 240, 10, dtype="uint8")
    (got,) = results(s.mod, x, outputs=[np.zeros(1, "uint8")])
    assert got[0] == np.bitwise_or.reduce(x)


BESIDE = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    A = T.match_buffer(a, (4, 8))
    C = T.match_buffer(c, (4,))
    S = T.alloc_buffer((4,))
    for i in range(4):
        for k in range(8):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32({start})
                S[vi] = S[vi] {op} A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = S[vi] * T.float32(2)
"""


def test_beside_another_block() -> None:
    s = Schedule(from_source(BESIDE.format(start=0, op="+")))
    _, k = s.get_loops("S")
    s.rfactor(k, 0)
    a = np.arange(32, dtype="float32").reshape(4, 8)
    (got,) = results(s.mod, a, outputs=[np.zeros(4, "float32")])
    np.testing.assert_array_equal(got, a.sum(1) * 2)


def test_the_start_must_change_nothing() -> None:
    s = Schedule(from_source(BESIDE.format(start=3, op="+")))
    with pytest.raises(ScheduleError) as caught:
        s.rfactor(s.get_loops("S")[1], 0)
    text = str(caught.value)
    assert text.startswith(
        "rfactor: block S must start from the identity of what it computes, but starts from ['T.float32(3)']\n"
    ), text
    assert "^ block S" in text


def test_updates_that_cannot_be_taken_apart() -> None:
    s = Schedule(from_source(BESIDE.format(start=0, op="* T.float32(2) + A[0, vk] * ")))
    with pytest.raises(
        ScheduleError, match="rfactor: block S must combine in a way that any order and grouping gives the same"
    ):
        s.rfactor(s.get_loops("S")[1], 0)


def test_max_may_start_from_anything() -> None:
    text = BESIDE.format(start=0, op="+").replace("S[vi] + A[vi, vk]", "T.max(S[vi], A[vi, vk])")
    s = Schedule(from_source(text))
    s.rfactor(s.get_loops("S")[1], 0)
    a = -np.arange(32, dtype="float32").reshape(4, 8) - 1
    (got,) = results(s.mod, a, outputs=[np.ones(4, "float32")])
    np.testing.assert_array_equal(got, 0)


def test_spatial_loops_and_axes_out_of_range() -> None:
    s = Schedule(total(8))
    i, k = s.get_loops("C")
    with pytest.raises(ScheduleError, match="rfactor: loop i must be a reduction loop of block C"):
        s.rfactor(i, 0)
    with pytest.raises(ScheduleError, match="rfactor: factor_axis must be from -2 to 1 for buffer C, but is 2"):
        s.rfactor(k, 2)


def test_a_choice_that_comes_in_is_one_value() -> None:
    """A reduction padded with its identity: what comes in is the whole choice, not one of its branches."""

    @T.prim_func
    def largest(a: T.Buffer((4, 10), "float32"), b: T.Buffer((4,), "float32")) -> None:
        for i, k in T.grid(4, 12):
            with T.block("largest"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    b[vi] = T.float32("-inf")
                b[vi] = T.max(b[vi], T.if_then_else(vk < 10, a[vi, vk], T.float32("-inf")))

    s = Schedule(largest)
    _, lanes = s.split(s.get_loops("largest")[1], [None, 4])
    s.rfactor(lanes, 1)
    a = np.random.default_rng(0).standard_normal((4, 10)).astype("float32")
    b = np.zeros(4, "float32")
    run(s.mod, [a, b])
    np.testing.assert_array_equal(b, a.max(1))
