"""What are arguments of a scheduled function: stages that move, outputs that nobody asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir


def chain() -> tuple[Any, Any, Any]:
    n = te.var("n")
    a = te.placeholder((n, 8), name="A")
    b = te.compute((n, 8), lambda i, j: a[i, j] + 1, name="B")
    return a, b, te.compute((n, 8), lambda i, j: b[i, j] * 2, name="C")


def run(s: Any, args: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(24, dtype="float32").reshape(3, 8)
    y, z = tvm.nd.array(np.full((3, 8), -1, "float32")), tvm.nd.array(np.full((3, 8), -1, "float32"))
    tvm.build(s, args, "llvm")(tvm.nd.array(x), y, z)
    np.testing.assert_array_equal(z.numpy(), 2 * x + 2)
    return x, y.numpy()


@pytest.mark.parametrize("axis", [0, 1])
def test_an_argument_is_computed_inside_of_another_stage(axis: int) -> None:
    a, b, c = chain()
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[axis])
    x, y = run(s, [a, b, c])
    np.testing.assert_array_equal(y, x + 1)
    func = s.to_prim_func([a, b, c])
    assert [func.buffer_map[p].name for p in func.params] == ["A", "B", "C"]
    assert not func.body.block.alloc_buffers
    s[b].compute_root()
    x, y = run(s, [a, b, c])
    np.testing.assert_array_equal(y, x + 1)


def test_an_argument_is_split_inside_of_another_stage() -> None:
    a, b, c = chain()
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].vectorize(s[b].split(b.op.axis[1], factor=4)[1])
    x, y = run(s, [a, b, c])
    np.testing.assert_array_equal(y, x + 1)


def test_an_argument_that_is_inlined_is_left_alone() -> None:
    a, b, c = chain()
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    _, y = run(s, [a, b, c])
    np.testing.assert_array_equal(y, -1)


def test_a_reduction_among_the_arguments() -> None:
    a = te.placeholder((6, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((6,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], outer)
    x = np.random.default_rng(0).random((6, 10), "float32")
    y, z = tvm.nd.empty((6,)), tvm.nd.empty((6,))
    tvm.build(s, [a, b, c])(tvm.nd.array(x), y, z)
    np.testing.assert_allclose(y.numpy(), x.sum(1), rtol=1e-5)
    np.testing.assert_allclose(z.numpy(), 2 * x.sum(1), rtol=1e-5)


def test_an_output_that_is_no_argument_is_computed() -> None:
    a, b, c = chain()
    lowered = tvm.lower(te.create_schedule(c.op), [a])
    stores: list[Any] = []
    tir.stmt_functor.post_order_visit(
        lowered["main"].body, lambda n: stores.append(n) if isinstance(n, tir.BufferStore) else None
    )
    assert len(stores) == 2 and len(lowered["main"].params) == 1
