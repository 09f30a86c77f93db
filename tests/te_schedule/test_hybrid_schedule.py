"""Loops of hybrid scripts under schedules, functions that call functions, and scripts written back from schedules."""

from __future__ import annotations

import random as numbers
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.te_schedule.helpers import Array, check, interpret, random
from tilewright import te
from tilewright.support.errors import ScheduleError

# ruff: noqa: F821  (names of the script are defined where it runs)


@te.hybrid.script
def outer_product(n: Any, m: Any, a: Any, b: Any) -> Any:
    c = output_tensor((n, m), a.dtype)  # type: ignore[name-defined]
    for i in range(n):
        for j in range(m):
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def with_places(a: Any, b: Any) -> Any:
    c = outer_product(10, 12, a, b)
    d = output_tensor(c.shape, c.dtype)  # type: ignore[name-defined]
    for i in range(10):
        for j in range(12):
            d[i, j] = c[i, j] + i * j
    return d


@te.hybrid.script
def row_sums(a: Any) -> Any:
    out = output_tensor((a.shape[0],), "float32")  # type: ignore[name-defined]
    for i in range(a.shape[0]):
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k]
        out[i] = total
    return out


@te.hybrid.script
def accumulated(a: Any) -> Any:
    out = output_tensor((a.shape[1],), "float32")  # type: ignore[name-defined]
    for j in range(a.shape[1]):
        out[j] = 0.0
    for k in range(a.shape[0]):
        for i in range(a.shape[1]):
            out[i] += a[k, i]
    return out


def placed(av: Array, bv: Array) -> Array:
    return (np.outer(av, bv) + np.outer(np.arange(10), np.arange(12))).astype("float32")


def test_functions_that_call_functions() -> None:
    a, b = te.placeholder((10,), name="a"), te.placeholder((12,), name="b")
    d = with_places(a, b)
    assert [x.var.name for x in d.op.axis] == ["i", "j", "i", "j"] and isinstance(d.op, te.HybridOp)
    av, bv = random(10), random(12)
    check(te.create_schedule(d.op), [a, b, d], [av, bv], [placed(av, bv)])


def test_loops_are_scheduled_as_axes() -> None:
    a, b = te.placeholder((10,), name="a"), te.placeholder((12,), name="b")
    d = with_places(a, b)
    av, bv = random(10), random(12)
    s = te.create_schedule(d.op)
    i, j, i2, j2 = d.op.axis
    outer, inner = s[d].split(j, 5)
    s[d].reorder(outer, i, inner)
    s[d].vectorize(inner)
    s[d].parallel(outer)
    _, lanes = s[d].split(s[d].fuse(i2, j2), nparts=7)
    s[d].unroll(lanes)
    s[d].pragma(outer, "auto_unroll_max_step", 4)
    text = str(s.to_prim_func([a, b, d]))
    assert "for j_outer in T.parallel(3" in text and "for j_inner in T.vectorized(5):" in text
    check(s, [a, b, d], [av, bv], [placed(av, bv)])


def test_numbers_of_one_iteration_do_not_tie_iterations() -> None:
    a = te.placeholder((9, 7), name="a")
    out = row_sums(a)
    value = random(9, 7)
    s = te.create_schedule(out.op)
    io, ii = s[out].split(out.op.axis[0], factor=4)
    s[out].parallel(io)
    check(s, [a, out], [value], [value.sum(1)])
    s = te.create_schedule(out.op)
    s[out].vectorize(out.op.axis[0])
    with pytest.raises(ScheduleError) as caught:
        s.to_prim_func([a, out])
    assert str(caught.value) == (
        "vectorize: stage row_sums: iterations of i must write different elements, which is not known of total"
    )


@te.hybrid.script
def lanes_with_a_number(a: Any) -> Any:
    out = output_tensor((8,), "float32")  # type: ignore[name-defined]
    for i in vectorize(8):  # type: ignore[name-defined]
        twice = a[i] * 2.0
        out[i] = twice
    return out


def test_lanes_cannot_set_one_number() -> None:
    first = lanes_with_a_number.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]
    with pytest.raises(ValueError) as caught:
        lanes_with_a_number(te.placeholder((8,), name="a"))
    assert str(caught.value) == (
        f"te.hybrid: {__file__}:{first + 3}: twice is one number, which the lanes of vectorize cannot all set; use range"
    )


def test_threads() -> None:
    a, b = te.placeholder((8,), name="a"), te.placeholder((16,), name="b")
    c = outer_product(8, 16, a, b)
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    s[c].bind(c.op.axis[1], te.thread_axis("threadIdx.x"))
    text = str(tvm.lower(s, [a, b, c], simple_mode=True))
    assert 'T.launch_thread("blockIdx.x", 8)' in text and 'T.launch_thread("threadIdx.x", 16)' in text


@te.hybrid.script
def summed(tensors: Any, scales: Any) -> Any:
    out = output_tensor((8,), "float32")  # type: ignore[name-defined]
    for i in range(8):
        out[i] = 0.0
        for k in const_range(len(tensors)):  # type: ignore[name-defined]
            out[i] += tensors[k][i] * scales[k]
        for _ in range(ceil_div(5, 4)):  # type: ignore[name-defined]
            out[i] += max_num_threads()  # type: ignore[name-defined]
    return out


def test_lists_of_tensors_and_calls_of_the_language() -> None:
    many = [te.placeholder((8,), name=f"t{k}") for k in range(3)]
    out = summed(many, [1.0, 2.0, 3.0])
    values = [random(8) for _ in many]
    want = sum(v * (k + 1) for k, v in enumerate(values)) + np.float32(2)
    check(te.create_schedule(out.op), [*many, out], values, [want])
    np.testing.assert_allclose(summed(values, [1.0, 2.0, 3.0]), want, rtol=1e-5)


REFUSED: list[tuple[Callable[[Any, Any], Any], str]] = [
    (
        lambda s, t: s[t].reorder(t.op.axis[2], t.op.axis[1], t.op.axis[0]),
        "reorder: stage accumulated: the order i, k, j cannot be had: loops change places only where they hold nothing"
        " but each other, which leaves j, i, k",
    ),
    (
        lambda s, t: s[t].vectorize(t.op.axis[1]),
        "vectorize: stage accumulated: iterations of k must write different elements, which is not known of out",
    ),
    (
        lambda s, t: s[t].parallel(t.op.axis[1]),
        "parallel: stage accumulated: iterations of k must write different elements, which is not known of out",
    ),
    (
        lambda s, t: s[t].fuse(t.op.axis[0], t.op.axis[1]),
        "fuse: stage accumulated: j must hold nothing but k, but the script has more in it",
    ),
    (
        lambda s, t: s[t].prefetch(t.op.input_tensors[0], t.op.axis[0], 1),
        "prefetch: stage accumulated: j is a loop of a hybrid script, which cannot be tensorized",
    ),
    (
        lambda s, t: s[t].fuse(),
        "fuse: stage accumulated: the loops of a hybrid script are given; a new one of extent one cannot be added",
    ),
]


@pytest.mark.parametrize(("act", "text"), REFUSED)
def test_refusals(act: Callable[[Any, Any], Any], text: str) -> None:
    a = te.placeholder((5, 6), name="a")
    out = accumulated(a)
    s = te.create_schedule(out.op)
    act(s, out)
    with pytest.raises(ScheduleError) as caught:
        s.to_prim_func([a, out])
    assert str(caught.value) == text


def test_what_may_change_places() -> None:
    a = te.placeholder((5, 6), name="a")
    out = accumulated(a)
    value = random(5, 6)
    j, k, i = out.op.axis
    s = te.create_schedule(out.op)
    s[out].reorder(i, k)
    s[out].parallel(i)
    s[out].parallel(j)
    check(s, [a, out], [value], [value.sum(0)])
    s = te.create_schedule(out.op)
    first, second = s[out].split(k, factor=2)
    s[out].reorder(second, first)
    with pytest.raises(ScheduleError) as caught:
        s.to_prim_func([a, out])
    assert str(caught.value) == (
        "reorder: stage accumulated: k.outer, k.inner must keep their order, in which they update the same elements of"
        " out"
    )
    b = te.compute((5, 6), lambda x, y: a[x, y] + 1.0, name="b")
    out = accumulated(b)
    s = te.create_schedule(out.op)
    with pytest.raises(ScheduleError) as attached:
        s[b].compute_at(s[out], out.op.axis[0])
    assert str(attached.value) == (
        "compute_at: stage b: it must not be attached to stage accumulated, whose loops are those of a hybrid script"
    )


def test_schedules_as_scripts(tmp_path: Path) -> None:
    a, b = te.placeholder((10,), name="a"), te.placeholder((12,), name="b")
    c = te.compute((10, 12), lambda i, j: te.max(a[i] * b[j], 0.0) + te.exp(a[i]), name="c")
    k = te.reduce_axis((0, 12), "k")
    d = te.compute((10,), lambda i: te.sum(c[i, k], axis=k, where=k > 2), name="d")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], factor=4)
    s[c].compute_at(s[d], outer)
    s[c].vectorize(c.op.axis[1])
    module = te.hybrid.build(s, [a, b], [d], "made")
    assert module.get_source().startswith("def made(a, b):\n    d = output_tensor((10,), 'float32')\n")
    assert "c = allocate((4, 12), 'float32', 'global')" in module.get_source()
    assert "for j in vectorize(12):" in module.get_source()
    av, bv = random(10), random(12)
    want = (np.maximum(np.outer(av, bv), 0) + np.exp(av)[:, None])[:, 3:].sum(1)
    np.testing.assert_allclose(module(av, bv), want, rtol=1e-5)
    again = te.hybrid.HybridModule()
    module.save(str(tmp_path / "made"))
    again.load(str(tmp_path / "made.py"))
    out = again(a, b)
    check(te.create_schedule(out.op), [a, b, out], [av, bv], [want])
    with pytest.raises(ValueError, match="HybridModule: there is no function yet"):
        te.hybrid.HybridModule()(av)
    extern = te.extern((4,), [a], lambda i, o: tvm.tir.call_extern("int32", "f", o[0].data), name="e")
    with pytest.raises(tvm.TVMError, match="^te.hybrid.build: Call cannot be written as a hybrid script"):
        te.hybrid.build(te.create_schedule(extern.op), [a], [extern])


@te.hybrid.script
def windows(a: Any) -> Any:
    b = output_tensor((8, 6), "float32")  # type: ignore[name-defined]
    for i in range(8):
        for j in range(6):
            b[i, j] = 0.0
            for k in range(3):
                b[i, j] += a[i, (j + k) % 6]
    return b


@te.hybrid.script
def running(a: Any) -> Any:
    b = output_tensor((9,), "float32")  # type: ignore[name-defined]
    b[0] = a[0]
    for i in range(1, 9):
        b[i] = b[i - 1] + a[i]
    return b


@te.hybrid.script
def turned(a: Any) -> Any:
    b = output_tensor((24,), "float32")  # type: ignore[name-defined]
    for i in range(6):
        for j in range(4):
            b[i * 4 + j] = a[j * 6 + i]
    return b


@te.hybrid.script
def overlapping(a: Any) -> Any:
    b = output_tensor((9,), "float32")  # type: ignore[name-defined]
    for i in range(6):
        for j in range(4):
            b[i + j] = a[i] * 10.0 + j
    return b


SCRIPTS: list[tuple[Any, tuple[int, ...]]] = [
    (accumulated, (5, 6)),
    (row_sums, (9, 7)),
    (windows, (8, 6)),
    (running, (9,)),
    (turned, (24,)),
    (overlapping, (6,)),
]


@pytest.mark.parametrize("seed", range(48))
def test_random_schedules_are_refused_or_change_nothing(seed: int) -> None:
    rng = numbers.Random(seed)
    script, shape = rng.choice(SCRIPTS)
    a = te.placeholder(shape, name="a")
    out = script(a)
    s = te.create_schedule(out.op)
    stage = s[out]
    try:
        for _ in range(rng.randrange(1, 4)):
            leaves = list(stage.leaf_iter_vars)
            kind = rng.randrange(5)
            if kind == 0:
                stage.split(rng.choice(leaves), factor=rng.choice([2, 3, 4]))
            elif kind == 1 and len(leaves) > 1:
                place = rng.randrange(len(leaves) - 1)
                stage.fuse(leaves[place], leaves[place + 1])
            elif kind == 2:
                stage.reorder(*rng.sample(leaves, rng.randrange(1, len(leaves) + 1)))
            else:
                (stage.vectorize if kind == 3 else stage.parallel)(rng.choice(leaves))
        s.to_prim_func([a, out])
    except ScheduleError as error:
        assert f"stage {script.__name__}" in str(error)
        return
    value = random(*shape)
    interpret(s, [a, out], [value], [script(value)])
