"""Schedules for GPUs, lowered to kernels and run with all threads of a block in lockstep, looked at for races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.te_schedule.helpers import random
from tilewright import te, tir
from tilewright.codegen import interp
from tilewright.support.errors import ScheduleError


def kernels(s: Any, args: list[Any]) -> Any:
    """The module as it goes to a GPU's code generator, before host and device part."""
    t = tir.transform
    target = tvm.target.Target("cuda", host="llvm")
    mod = tvm.lower(s, args)
    for p in (t.BindTarget(target), t.ThreadSync("shared"), t.LowerThreadAllreduce()):
        mod = p(mod)
    return mod


def check(s: Any, args: list[Any], inputs: list[Any], want: list[Any], split: bool = True) -> Any:
    """As blocks, as kernels, and with host and device parted: all equal NumPy."""
    t = tir.transform
    mod = kernels(s, args)
    programs = [mod]
    if split:
        programs.append(t.SplitHostDevice()(t.AnnotateDeviceRegions()(mod)))
    for program in programs:
        outputs = [np.zeros(w.shape, w.dtype) for w in want]
        interp.run(program, [*inputs, *outputs], entry="main", check_races=True)
        for out, w in zip(outputs, want, strict=True):
            np.testing.assert_allclose(out, w, rtol=1e-4, atol=1e-5)
    return mod


def count(mod: Any, what: str) -> int:
    return str(mod).count(what)


def matrix_product(n: int, m: int, depth: int) -> tuple[Any, Any, Any, Any]:
    a, b = te.placeholder((depth, n), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[k, i] * b[k, j], axis=k), name="C"), k


def tiled_product(n: int, m: int, depth: int, threads: int, vthreads: int, lanes: int) -> tuple[Any, list[Any]]:
    """The classic schedule: tiles in shared memory that all threads fetch, registers, virtual threads."""
    a, b, c, k = matrix_product(n, m, depth)
    s = te.create_schedule(c.op)
    shared_a, shared_b = s.cache_read(a, "shared", [c]), s.cache_read(b, "shared", [c])
    local_a, local_b = s.cache_read(shared_a, "local", [c]), s.cache_read(shared_b, "local", [c])
    acc = s.cache_write(c, "local")
    tile = 2 * threads * vthreads
    block_x, block_y = te.thread_axis("blockIdx.x"), te.thread_axis("blockIdx.y")
    thread_x = te.thread_axis((0, threads), "threadIdx.x")
    thread_y = te.thread_axis((0, threads), "threadIdx.y")
    virtual_x = te.thread_axis((0, vthreads), "vthread", name="vx")
    virtual_y = te.thread_axis((0, vthreads), "vthread", name="vy")
    by, yi = s[c].split(c.op.axis[0], factor=tile)
    bx, xi = s[c].split(c.op.axis[1], factor=tile)
    tyz, yi = s[c].split(yi, nparts=vthreads)
    ty, yi = s[c].split(yi, nparts=threads)
    txz, xi = s[c].split(xi, nparts=vthreads)
    tx, xi = s[c].split(xi, nparts=threads)
    s[c].reorder(by, bx, tyz, txz, ty, tx, yi, xi)
    for axis, thread in (
        (by, block_y),
        (bx, block_x),
        (tyz, virtual_y),
        (txz, virtual_x),
        (ty, thread_y),
        (tx, thread_x),
    ):
        s[c].bind(axis, thread)
    s[acc].compute_at(s[c], tx)
    ko, ki = s[acc].split(k, factor=4)
    s[acc].reorder(ko, ki, *s[acc].op.axis)
    s[acc].unroll(ki)
    for shared, local in ((shared_a, local_a), (shared_b, local_b)):
        s[shared].compute_at(s[acc], ko)
        s[local].compute_at(s[acc], ki)
        ty, inner = s[shared].split(s[shared].op.axis[0], nparts=threads)
        tx, inner = s[shared].split(s[shared].op.axis[1], nparts=threads)
        s[shared].bind(ty, thread_y)
        s[shared].bind(tx, thread_x)
        if lanes > 1:
            s[shared].vectorize(s[shared].split(inner, factor=lanes)[1])
    return s, [a, b, c]


@pytest.mark.parametrize(
    ("n", "m", "depth", "threads", "vthreads", "lanes"),
    [(16, 24, 12, 2, 2, 1), (10, 14, 10, 2, 2, 1), (8, 8, 8, 2, 1, 1), (16, 8, 8, 2, 2, 2)],
)
def test_matrix_product(n: int, m: int, depth: int, threads: int, vthreads: int, lanes: int) -> None:
    s, args = tiled_product(n, m, depth, threads, vthreads, lanes)
    a, b = random(depth, n), random(depth, m)
    mod = check(s, args, [a, b], [a.T @ b])
    tile = 2 * threads * vthreads
    assert count(mod, f'T.allocate([{4 * tile}], "float32", "shared")') >= 2
    if depth % 4 == 0 and lanes == 1:
        # Fetched by all threads behind one barrier; read by all of them behind another.
        assert count(mod, 'T.tvm_storage_sync("shared")') == 2


def test_convolution() -> None:
    """Padding inlined, tiles of input and filter in shared memory, a register tile for each thread."""
    batch, channels, size, filters, kernel = 4, 4, 5, 8, 3
    data, weight = (
        te.placeholder((size, size, channels, batch), name="A"),
        te.placeholder((kernel, kernel, channels, filters), name="W"),
    )
    padded = te.compute(
        (size + 2, size + 2, channels, batch),
        lambda y, x, c, n: te.if_then_else(
            te.all(y >= 1, y - 1 < size, x >= 1, x - 1 < size), data[y - 1, x - 1, c, n], tir.const(0.0, "float32")
        ),
        name="padded",
    )
    rc, ry, rx = (
        te.reduce_axis((0, channels), "rc"),
        te.reduce_axis((0, kernel), "ry"),
        te.reduce_axis((0, kernel), "rx"),
    )
    conv = te.compute(
        (size, size, filters, batch),
        lambda y, x, f, n: te.sum(padded[y + ry, x + rx, rc, n] * weight[ry, rx, rc, f], axis=[ry, rx, rc]),
        name="B",
    )
    s = te.create_schedule(conv.op)
    s[padded].compute_inline()
    tile_in, tile_w = s.cache_read(padded, "shared", [conv]), s.cache_read(weight, "shared", [conv])
    acc = s.cache_write(conv, "local")
    y, x, f, n = conv.op.axis
    spot = s[conv].fuse(y, x)
    by, fi = s[conv].split(f, factor=4)
    bx, ni = s[conv].split(n, factor=4)
    ty, fi = s[conv].split(fi, nparts=2)
    tx, ni = s[conv].split(ni, nparts=2)
    s[conv].reorder(spot, by, bx, ty, tx, fi, ni)
    thread_x, thread_y = te.thread_axis((0, 2), "threadIdx.x"), te.thread_axis((0, 2), "threadIdx.y")
    s[conv].bind(spot, te.thread_axis("blockIdx.z"))
    s[conv].bind(by, te.thread_axis("blockIdx.y"))
    s[conv].bind(bx, te.thread_axis("blockIdx.x"))
    s[conv].bind(ty, thread_y)
    s[conv].bind(tx, thread_x)
    s[acc].compute_at(s[conv], tx)
    yi, xi, fi, ni = s[acc].op.axis
    ry, rx, rc = s[acc].op.reduce_axis
    rco, rci = s[acc].split(rc, factor=2)
    s[acc].reorder(rco, ry, rx, rci, fi, ni)
    for tile in (tile_in, tile_w):
        s[tile].compute_at(s[acc], rx)
        ty, _ = s[tile].split(s[tile].op.axis[2], nparts=2)
        tx, lanes = s[tile].split(s[tile].op.axis[3], nparts=2)
        s[tile].bind(ty, thread_y)
        s[tile].bind(tx, thread_x)
        s[tile].vectorize(lanes)
    a, w = random(size, size, channels, batch), random(kernel, kernel, channels, filters)
    wide = np.pad(a, ((1, 1), (1, 1), (0, 0), (0, 0)))
    want = sum(
        np.einsum("yxcn,cf->yxfn", wide[i : i + size, j : j + size], w[i, j])
        for i in range(kernel)
        for j in range(kernel)
    )
    check(s, [data, weight, conv], [a, w], [want])


def row_reduction(rows: int, columns: int, threads: int, reducer: Any, name: str) -> tuple[Any, Any, Any, Any, Any]:
    a = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis((0, columns), "k")
    b = te.compute((rows,), lambda i: reducer(a[i, k], axis=k), name=name)
    s = te.create_schedule(b.op)
    _, ki = s[b].split(b.op.reduce_axis[0], factor=threads)
    partial = s.rfactor(b, ki)
    return s, a, b, partial, ki


@pytest.mark.parametrize(("reducer", "value"), [(te.sum, np.sum), (te.max, np.max)])
def test_reduction_across_threads(reducer: Any, value: Any) -> None:
    s, a, b, partial, _ = row_reduction(10, 37, 8, reducer, "B")
    outer, inner = s[b].split(s[b].op.axis[0], factor=4)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.y"))
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(thread.var.equal(0))
    x = random(10, 37)
    check(s, [a, b], [x], [value(x, 1)])


@pytest.mark.parametrize("columns", [16, 13])
def test_place_of_the_maximum_across_threads(columns: int) -> None:
    a = te.placeholder((4, columns), name="A")
    k = te.reduce_axis((0, columns), "k")
    argmax = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda d0, d1: (tir.const(-1, d0), te.min_value(d1)),
    )
    place, top = te.compute((4,), lambda i: argmax((k, a[i, k]), axis=k), name="top")
    s = te.create_schedule(place.op)
    _, inner = s[place].split(place.op.reduce_axis[0], factor=8)
    s[place].bind(place.op.axis[0], te.thread_axis("blockIdx.x"))
    s[place].bind(inner, te.thread_axis("threadIdx.x"))
    x = random(4, columns)
    check(s, [a, place, top], [x], [x.argmax(1).astype("int32"), x.max(1)])


def test_two_sums_across_threads() -> None:
    a = te.placeholder((3, 20), name="A")
    k = te.reduce_axis((0, 20), "k")
    both = te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda s, t: (tir.const(0, s), tir.const(0, t)))
    total, squares = te.compute((3,), lambda i: both((a[i, k], a[i, k] * a[i, k]), axis=k), name="moments")
    s = te.create_schedule(total.op)
    s[total].bind(total.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    x = random(3, 20)
    check(s, [a, total, squares], [x], [x.sum(1), (x * x).sum(1)])


def test_softmax_with_reductions_across_threads() -> None:
    a = te.placeholder((6, 20), name="A")
    k, m = te.reduce_axis((0, 20), "k"), te.reduce_axis((0, 20), "m")
    top = te.compute((6,), lambda i: te.max(a[i, m], axis=m), name="top")
    e = te.compute((6, 20), lambda i, j: te.exp(a[i, j] - top[i]), name="e")
    total = te.compute((6,), lambda i: te.sum(e[i, k], axis=k), name="total")
    out = te.compute((6, 20), lambda i, j: e[i, j] / total[i], name="out")
    s = te.create_schedule(out.op)
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis((0, 4), "threadIdx.x")
    s[e].compute_inline()
    tx, _ = s[out].split(out.op.axis[1], nparts=4)
    s[out].bind(out.op.axis[0], block)
    s[out].bind(tx, thread)
    for stage in (top, total):
        tx, _ = s[stage].split(stage.op.reduce_axis[0], nparts=4)
        s[stage].bind(tx, thread)
        s[stage].compute_at(s[out], out.op.axis[0])
        s[stage].set_scope("shared")
    x = random(6, 20)
    exps = np.exp(x - x.max(1, keepdims=True))
    check(s, [a, out], [x], [exps / exps.sum(1, keepdims=True)])


def test_stencil_through_shared_memory() -> None:
    n = 40
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n - 2,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    thread = te.thread_axis((0, 8), "threadIdx.x")
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, thread)
    s[b].set_scope("shared")
    s[b].compute_at(s[c], outer)
    _, tx = s[b].split(b.op.axis[0], factor=8)
    s[b].bind(tx, thread)
    x = random(n)
    check(s, [a, c], [x], [2 * (x[:-2] + x[1:-1] + x[2:])])


def test_elements_of_any_length() -> None:
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=16)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    for length in (1, 16, 37):
        x, y = random(length), random(length)
        check(s, [a, b, c], [x, y], [x + y])


@pytest.mark.parametrize("env", [False, True])
def test_recurrence_on_threads(env: bool) -> None:
    rows, columns = 5, 20
    x, state = te.placeholder((rows, columns), name="X"), te.placeholder((rows, columns), name="state")
    init = te.compute((1, columns), lambda _, i: x[0, i], name="init")
    update = te.compute((rows, columns), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    result = te.scan(init, update, state, inputs=[x])
    s = te.create_schedule(result.op)
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis((0, 8), "threadIdx.x")
    if env:
        s[result].env_threads(thread)
    for stage in (init, update):
        outer, inner = s[stage].split(stage.op.axis[1], factor=8)
        if not env:
            s[stage].bind(outer, block)
        s[stage].bind(inner, thread)
    value = random(rows, columns)
    mod = check(s, [x, result], [value], [value.cumsum(0)])
    if env:
        # One launch around all steps, in which every thread goes through its own columns.
        assert count(mod, '"threadIdx.x"') == 1 and count(mod, "blockIdx") == 0


def test_recurrence_whose_threads_would_have_to_wait() -> None:
    x, state = te.placeholder((5, 8), name="X"), te.placeholder((5, 8), name="state")
    init = te.compute((1, 8), lambda _, i: x[0, i], name="init")
    update = te.compute((5, 8), lambda t, i: state[t - 1, 7 - i] + x[t, i], name="update")
    result = te.scan(init, update, state, inputs=[x])
    thread = te.thread_axis((0, 8), "threadIdx.x")
    for env in (True, False):
        s = te.create_schedule(result.op)
        for stage in (init, update):
            s[stage].bind(stage.op.axis[1], thread)
        if not env:
            value = random(5, 8)
            want = value.copy()
            for t in range(1, 5):
                want[t] += want[t - 1, ::-1]
            check(s, [x, result], [value], [want])
            continue
        s[result].env_threads([thread])
        with pytest.raises(ScheduleError) as caught:
            s.to_prim_func([x, result])
        assert str(caught.value) == (
            "stage scan: env_threads: step t must read the state at its own i only, for the threads of a recurrence do"
            " not wait for each other; without env_threads every step is a launch of its own"
        )


def test_what_threads_do_not_share_is_not_shared() -> None:
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((16,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], inner)
    s[b].set_scope("local")
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError) as caught:
        s.to_prim_func([a, c])
    assert str(caught.value).startswith(
        "stage B, axis i: bind: loop ax0 and loop i_1 around it, both of threadIdx.x, must have the same extent, but run to"
        " 1 and 8\n"
    )
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[0], factor=8)
    s[c].bind(inner, te.thread_axis((0, 4), "threadIdx.x"))
    with pytest.raises(ScheduleError) as wrong:
        s.to_prim_func([a, c])
    assert str(wrong.value) == (
        "stage C: bind: i.inner runs to 8, but thread axis threadIdx.x has the extent 4; they must agree"
    )
