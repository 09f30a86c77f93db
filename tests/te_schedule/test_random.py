"""Random stage schedules on random graphs: what is accepted computes what NumPy computes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.te_schedule.helpers import execute, interpret
from tilewright import te, tir
from tilewright.support.errors import ScheduleError

Pair = tuple[Any, Any]


def random_graph(rng: random.Random) -> tuple[list[Any], list[Any], Any, Any]:
    """(placeholders, arrays, output, its value): two to five stages of element-wise, broadcast, window and sum kind."""
    rows, columns = rng.choice([3, 5, 7, 8]), rng.choice([4, 6, 9, 13])
    draw = np.random.default_rng(rng.randrange(1 << 30))
    a = te.placeholder((rows, columns), name="A")
    b = te.placeholder((columns,), name="B")
    av, bv = draw.standard_normal((rows, columns)).astype("float32"), draw.standard_normal(columns).astype("float32")
    known: list[Pair] = [(a, av)]
    for n in range(rng.randrange(2, 6)):
        x, xv = rng.choice(known)
        y, yv = rng.choice([(t, v) for t, v in known if v.shape == xv.shape])
        known.append(random_stage(rng.randrange(6), f"S{n}", (x, xv), (y, yv), (b, bv)))
    out, value = known[-1]
    return [a, b], [av, bv], out, value


def random_stage(kind: int, name: str, first: Pair, second: Pair, row: Pair) -> Pair:
    """A compute of one of six kinds on what is known, and its value."""
    (x, xv), (y, yv), (b, bv) = first, second, row
    height, width = xv.shape
    if kind == 0:
        return te.compute(xv.shape, lambda i, j: x[i, j] * 2.0 + 1.0, name=name), xv * 2 + 1
    if kind == 1 and width == len(bv):
        return te.compute(xv.shape, lambda i, j: x[i, j] + b[j], name=name), xv + bv
    if kind == 2 and width > 2:
        window = xv[:, :-2] + xv[:, 1:-1] - xv[:, 2:]
        return te.compute(window.shape, lambda i, j: x[i, j] + x[i, j + 1] - x[i, j + 2], name=name), window
    if kind == 3:
        k = te.reduce_axis((0, width), f"k_{name}")
        return te.compute((height, height), lambda i, j: te.sum(x[i, k] * x[j, k], axis=k), name=name), xv @ xv.T
    if kind == 4:
        return te.compute(xv.shape, lambda i, j: tir.max(x[i, j], y[i, j]), name=name), np.maximum(xv, yv)
    return te.compute((width, height), lambda i, j: x[j, i] * 0.5, name=name), xv.T * np.float32(0.5)


def random_schedule(rng: random.Random, out: Any) -> Any:
    """Legal primitives on every stage, consumers first; what is refused leaves the stage as it was."""
    s = te.create_schedule(out.op)
    for stage in list(s.stages):
        readers = [st for st in s.stages if stage.op in [t.op for t in st.op.input_tensors]]
        if readers and rng.random() < 0.15:
            s.cache_read(stage.op.output(0), rng.choice(["local", "global"]), [rng.choice(readers).op])
    for stage in reversed(list(s.stages)):
        if not isinstance(stage.op, te.ComputeOp):
            continue
        if rng.random() < 0.2:
            cached = s.cache_write(stage.op.output(0), rng.choice(["local", "global"]))
            transform(rng, stage)
            if rng.random() < 0.7:
                s[cached].compute_at(stage, rng.choice(list(stage.leaf_iter_vars)))
            transform(rng, s[cached])
        else:
            transform(rng, stage)
        if stage.op.reduce_axis and rng.random() < 0.3:
            factor(rng, s, stage)
        move(rng, s, stage)
    return s


def factor(rng: random.Random, s: Any, stage: Any) -> None:
    """Partial sums along a leaf that reduces, attached or not."""
    leaf = rng.choice([a for a in stage.leaf_iter_vars if a.iter_type == tir.IterVar.CommReduce])
    if any(st.attach_stage is stage for st in s.stages):
        return
    partial = s.rfactor(stage.op.output(0), leaf, rng.choice([0, -1, 1]))
    transform(rng, stage)
    transform(rng, s[partial])
    if rng.random() < 0.5:
        s[partial].compute_at(stage, rng.choice(list(stage.leaf_iter_vars)))


def transform(rng: random.Random, stage: Any) -> None:
    for _ in range(rng.randrange(4)):
        leaves = list(stage.leaf_iter_vars)
        kind = rng.randrange(4)
        try:
            if kind == 0:
                stage.split(rng.choice(leaves), factor=rng.choice([2, 3, 4, 5]))
            elif kind == 1:
                stage.split(rng.choice(leaves), nparts=rng.choice([2, 3]))
            elif kind == 2 and len(leaves) > 1:
                place = rng.randrange(len(leaves) - 1)
                stage.fuse(leaves[place], leaves[place + 1])
            else:
                chosen = rng.sample(leaves, rng.randrange(1, len(leaves) + 1))
                stage.reorder(*chosen)
        except ScheduleError as error:
            assert "must be of one kind" in str(error)


def move(rng: random.Random, s: Any, stage: Any) -> None:
    if stage.is_output:
        return
    readers = [st for st in s.stages if any(t.op is stage.op for t in st.op.input_tensors)]
    attached = any(st.attach_stage is stage for st in s.stages)
    if rng.random() < 0.2 and not stage.op.reduce_axis and not stage.actions and not attached:
        stage.compute_inline()
    elif len(readers) == 1 and readers[0].attach_type != 2 and rng.random() < 0.7:
        stage.compute_at(readers[0], rng.choice(list(readers[0].leaf_iter_vars)))


def mark(rng: random.Random, s: Any, args: list[Any]) -> None:
    """Marks that the loop engine accepts, tried one at a time."""
    for stage in s.stages:
        if not isinstance(stage.op, te.ComputeOp) or stage.attach_type == 2:
            continue
        leaf = rng.choice(list(stage.leaf_iter_vars))
        kind = rng.choice(["vectorize", "unroll", "parallel"])
        try:
            getattr(stage, kind)(leaf)
            s.to_prim_func(args)
        except ScheduleError:
            stage.marks.pop(leaf.var, None)


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules(seed: int) -> None:
    rng = random.Random(seed)
    inputs, values, out, want = random_graph(rng)
    s = random_schedule(rng, out)
    args = [*inputs, out]
    mark(rng, s, args)
    interpret(s, args, values, [want])
    if seed % 6 == 0:
        execute(s, args, values, [want])


def test_lowering_keeps_the_answer() -> None:
    a = te.placeholder((10, 9), name="A")
    b = te.compute((10, 9), lambda i, j: te.exp(a[i, j]), name="B")
    s = te.create_schedule(b.op)
    fused = s[b].fuse(*b.op.axis)
    outer, inner = s[b].split(fused, factor=8)
    s[b].parallel(outer)
    s[b].vectorize(inner)
    mod = tvm.lower(s, [a, b])
    assert isinstance(mod["main"], tir.PrimFunc)
    value = np.linspace(-1, 1, 90, dtype="float32").reshape(10, 9)
    execute(s, [a, b], [value], [np.exp(value)])


def test_loops_of_a_symbolic_size_of_another_type() -> None:
    """Where an attached stage begins was written with a constant of type int32."""
    n = tir.Var("n", "int64")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], outer)
    s[b].split(b.op.axis[0], factor=2)
    value = np.arange(10, dtype="float32")
    interpret(s, [a, c], [value], [value * 2 + 1])


@pytest.mark.parametrize("second", ["int32", "int64"])
def test_factoring_an_axis_fused_of_two_types(second: str) -> None:
    """The fused axis had the outer axis' type, its extent the wider one."""
    first = "int64" if second == "int32" else "int32"
    a = te.placeholder((2, 3, 4), name="A")
    j = te.reduce_axis((tir.const(0, first), tir.const(3, first)), name="j")
    k = te.reduce_axis((tir.const(0, second), tir.const(4, second)), name="k")
    b = te.compute((2,), lambda i: te.sum(a[i, j, k], axis=[j, k]), name="B")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(s[b].fuse(*b.op.reduce_axis), factor=5)
    s.rfactor(b, outer)
    value = np.arange(24, dtype="float32").reshape(2, 3, 4)
    interpret(s, [a, b], [value], [value.sum((1, 2))])
