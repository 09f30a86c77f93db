"""What stages refuse, and the full text that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright import te
from tilewright.support.errors import ScheduleError


class Program:
    """A[8, 6] -> B = A + 1 -> C[i] = sum of B[i, k] -> D = C * 2."""

    def __init__(self) -> None:
        self.a = te.placeholder((8, 6), name="A")
        self.b = te.compute((8, 6), lambda i, j: self.a[i, j] + 1.0, name="B")
        self.k = te.reduce_axis((0, 6), "k")
        self.c = te.compute((8,), lambda i: te.sum(self.b[i, self.k], axis=self.k), name="C")
        self.d = te.compute((8,), lambda i: self.c[i] * 2.0, name="D")
        self.s = te.create_schedule(self.d.op)

    def lower(self) -> Any:
        return self.s.to_prim_func([self.a, self.d])


def split_twice(p: Program) -> None:
    i = p.c.op.axis[0]
    p.s[p.c].split(i, factor=4)
    p.s[p.c].split(i, factor=2)


def split_fused(p: Program) -> None:
    i, j = p.b.op.axis
    p.s[p.b].fuse(i, j)
    p.s[p.b].vectorize(j)


def fuse_apart(p: Program) -> None:
    outer, inner = p.s[p.b].split(p.b.op.axis[0], factor=2)
    p.s[p.b].fuse(outer, p.b.op.axis[1])
    del inner


def attach_to_inlined(p: Program) -> None:
    e = te.compute((8, 6), lambda i, j: p.a[i, j] * 3.0, name="E")
    f = te.compute((8, 6), lambda i, j: e[i, j] - 1.0, name="F")
    g = te.compute((8, 6), lambda i, j: f[i, j] + 2.0, name="G")
    s = te.create_schedule(g.op)
    s[f].compute_inline()
    s[e].compute_at(s[f], f.op.axis[0])


def inlined_after_attach(p: Program) -> None:
    e = te.compute((8, 6), lambda i, j: p.a[i, j] * 3.0, name="E")
    f = te.compute((8, 6), lambda i, j: e[i, j] - 1.0, name="F")
    g = te.compute((8, 6), lambda i, j: f[i, j] + 2.0, name="G")
    s = te.create_schedule(g.op)
    s[e].compute_at(s[f], f.op.axis[0])
    s[f].compute_inline()
    s.to_prim_func([p.a, g])


def attach_then_split(p: Program) -> None:
    p.s[p.c].compute_at(p.s[p.d], p.d.op.axis[0])
    p.s[p.d].split(p.d.op.axis[0], factor=2)
    p.lower()


def split_bound(p: Program) -> None:
    p.s[p.d].bind(p.d.op.axis[0], te.thread_axis("threadIdx.x"))
    p.s[p.d].split(p.d.op.axis[0], 2)


def bind_same_thread(p: Program) -> None:
    i, j = p.b.op.axis
    p.s[p.b].bind(i, te.thread_axis("threadIdx.x"))
    p.s[p.b].bind(j, te.thread_axis("threadIdx.x"))


def cache_after_split(p: Program) -> None:
    p.s[p.c].split(p.c.op.axis[0], factor=2)
    p.s.cache_write(p.c, "local")


def scan_of_the_present(p: Program) -> None:
    state = te.placeholder((8, 6), name="state")
    update = te.compute((8, 6), lambda t, i: state[t, i] + p.a[t, i], name="update")
    init = te.compute((1, 6), lambda _, i: p.a[0, i], name="init")
    result = te.scan(init, update, state, name="scan")
    te.create_schedule(result.op).to_prim_func([p.a, result])


def attach_extern(p: Program) -> None:
    e = te.extern((8, 6), [p.a], lambda ins, outs: outs[0].vstore([0, 0], ins[0].vload([0, 0])), name="E")
    f = te.compute((8, 6), lambda i, j: e[i, j] - 1.0, name="F")
    s = te.create_schedule(f.op)
    s[e].compute_at(s[f], f.op.axis[0])


CASES: list[tuple[Callable[[Program], Any], str]] = [
    (
        split_twice,
        "split: stage C: i must be one of its leaves, but it was split into i.outer, i.inner; its leaves are i.outer,"
        " i.inner, k",
    ),
    (
        split_fused,
        "vectorize: stage B: j must be one of its leaves, but it was fused into i.j.fused; its leaves are i.j.fused",
    ),
    (
        lambda p: p.s[p.b].split(p.d.op.axis[0], factor=2),
        "split: stage B: i must be one of its leaves, but it belongs to another stage; its leaves are i, j",
    ),
    (
        fuse_apart,
        "fuse: stage B: j must follow right after i.outer, but the leaves are i.outer, i.inner, j; bring them together"
        " by reorder",
    ),
    (
        lambda p: p.s[p.c].fuse(p.c.op.axis[0], p.k),
        "fuse: stage C: i and k must be of one kind, but one is a reduction axis and the other is not",
    ),
    (
        attach_to_inlined,
        "compute_at: stage E: it must not be attached to stage F, which is inlined and has no loops; attach it to a"
        " consumer of that, or call compute_root on that first",
    ),
    (
        inlined_after_attach,
        "stage E: compute_at: it is attached to stage F, which is inlined and has no loops; attach it to a consumer of"
        " that",
    ),
    (
        attach_then_split,
        "stage C: compute_at: it is attached at i of stage D, which is not a leaf any more; the leaves are i.outer,"
        " i.inner",
    ),
    (
        lambda p: p.s[p.c].vectorize(p.k),
        "vectorize: stage C: k must not be vectorized: it is a reduction axis, whose iterations update the same"
        " elements; use rfactor to reduce parts of it independently",
    ),
    (
        attach_extern,
        "compute_at: stage E: only a compute can be attached, but it is a ExternOp, computed at the root",
    ),
    (
        lambda p: p.s[p.d].env_threads(te.thread_axis("threadIdx.x")),
        "env_threads: stage D: threadIdx.x must be a thread axis with an extent",
    ),
    (split_bound, "split: stage D: i must be a plain axis, but is bound to threadIdx.x already"),
    (bind_same_thread, "bind: stage B: j must not be bound to threadIdx.x, to which i is bound already"),
    (
        lambda p: p.s[p.d].compute_inline(),
        "compute_inline: stage D: it is an output of the schedule, which is computed at the root",
    ),
    (
        lambda p: p.s[p.c].compute_inline(),
        "compute_inline: stage C: it must not be a reduction, which is not an expression of one element",
    ),
    (
        lambda p: p.s[p.a].compute_inline(),
        "compute_inline: stage A: it is an input, which is not computed",
    ),
    (
        lambda p: p.s[p.b].split(p.b.op.axis[0], factor=0),
        "split: stage B: factor must be positive, but is 0",
    ),
    (
        lambda p: p.s[p.b].reorder(p.b.op.axis[0], p.b.op.axis[0]),
        "reorder: stage B: each axis is given once, but the order is i, i",
    ),
    (
        cache_after_split,
        "cache_write: stage C: its axes are changed already; call cache_write before split, fuse and reorder",
    ),
    (
        lambda p: p.s.cache_read(p.b, "local", [p.d]),
        "cache_read: stage D: it must read B, of which a copy was asked for it",
    ),
    (lambda p: p.s.rfactor(p.b, p.b.op.axis[0]), "rfactor: stage B: it must be a reduction"),
    (
        lambda p: p.s.rfactor(p.c, p.c.op.axis[0]),
        "rfactor: stage C: i must be a reduction axis, but is spatial",
    ),
    (
        scan_of_the_present,
        "scan scan: update must read the state state at a step before t, but reads it at t",
    ),
]


@pytest.mark.parametrize(("act", "text"), CASES)
def test_refusals(act: Callable[[Program], Any], text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        act(Program())
    assert str(caught.value) == text


def test_unknown_stage_and_wrong_arguments() -> None:
    p = Program()
    other = te.compute((3,), lambda i: i, name="other")
    with pytest.raises(ValueError, match="^other is not an operation of the schedule, whose stages are A, B, C, D$"):
        p.s[other]
    with pytest.raises(TypeError, match="^create_schedule takes operations or tensors, but was given int$"):
        te.create_schedule(3)
    with pytest.raises(TypeError, match="split: stage B: an axis .IterVar. is needed, but was given 3"):
        p.s[p.b].split(3, factor=2)


def test_errors_of_the_loop_engine_name_the_stage_and_show_the_program() -> None:
    p = Program()
    p.s[p.b].compute_at(p.s[p.d], p.d.op.axis[0])
    with pytest.raises(ScheduleError) as caught:
        p.lower()
    assert str(caught.value).startswith(
        "stage B: compute_at: all consumers of block B must be below loop i, but block C"
    )
    assert "^^^^" in str(caught.value)
