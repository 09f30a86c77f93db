"""Threads that share a reduction: each computes its part right where it is combined."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.codegen import interp


@pytest.mark.parametrize("predicate", [False, True])
@pytest.mark.parametrize("rows_on_threads", [False, True])
@pytest.mark.parametrize("depth", [6, 7])
def test_partial_sums_of_threads(depth: int, rows_on_threads: bool, predicate: bool) -> None:
    a = te.placeholder((8, depth), name="A")
    doubled = te.compute((8, depth), lambda i, k: a[i, k] * 2.0, name="doubled")
    r = te.reduce_axis((0, depth), name="r")
    b = te.compute((8,), lambda i: te.sum(doubled[i, r], axis=r), name="B")
    s = te.create_schedule(b.op)
    s[doubled].compute_inline()
    outer, _ = s[b].split(s[b].op.reduce_axis[0], nparts=3)
    partial = s.rfactor(b, outer)
    if rows_on_threads:
        block, row = s[b].split(s[b].op.axis[0], factor=4)
        s[b].bind(block, te.thread_axis("blockIdx.x"))
        s[b].bind(row, te.thread_axis("threadIdx.y"))
    thread = te.thread_axis((0, 3), "threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    if predicate:
        s[b].set_store_predicate(thread.var.equal(0))
    lowered = tvm.lower(s, [a, b])
    text = lowered.script()
    assert text.count("tvm_thread_allreduce") == 1 and 'B_rf = T.allocate([1], "float32", "local")' in text
    x, out = np.random.default_rng(0).random((8, depth), "float32"), np.zeros(8, "float32")
    interp.run(lowered, [x, out])
    np.testing.assert_allclose(out, 2 * x.sum(1), rtol=1e-5)


def test_rows_that_are_no_multiple_of_their_threads() -> None:
    a = te.placeholder((10, 6), name="A")
    r = te.reduce_axis((0, 6), name="r")
    b = te.compute((10,), lambda i: te.sum(a[i, r], axis=r), name="B")
    s = te.create_schedule(b.op)
    block, row = s[b].split(b.op.axis[0], factor=4)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(row, te.thread_axis("threadIdx.y"))
    outer, inner = s[b].split(b.op.reduce_axis[0], nparts=4)
    s[b].bind(outer, te.thread_axis("threadIdx.x"))
    x, out = np.random.default_rng(0).random((10, 6), "float32"), np.zeros(10, "float32")
    interp.run(tvm.lower(s, [a, b]), [x, out])
    np.testing.assert_allclose(out, x.sum(1), rtol=1e-5)


def test_scopes_that_are_not_given() -> None:
    """What one thread computes for itself is local; what a block does, shared; what was asked for stays."""
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 8), lambda i, j: b[i, j] * 2.0, name="C")
    for axis, scope, given in ((0, "shared", ""), (1, "local", ""), (1, "shared", "shared")):
        s = te.create_schedule(c.op)
        i, j = c.op.axis
        s[c].bind(i, te.thread_axis("blockIdx.x"))
        s[c].bind(j, te.thread_axis("threadIdx.x"))
        if given:
            s[b].set_scope(given)
        s[b].compute_at(s[c], (i, j)[axis])
        func = s.to_prim_func([a, c])
        assert [buffer.scope() for buffer in func.body.block.alloc_buffers] == [scope]
        x, out = np.random.default_rng(0).random((4, 8), "float32"), np.zeros((4, 8), "float32")
        interp.run(func, [x, out])
        np.testing.assert_allclose(out, 2 * x + 2, rtol=1e-6)
