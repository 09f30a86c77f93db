"""Computes that call tensor intrinsics, and what their declarations refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.te_schedule.helpers import check, random
from tilewright import te, tir


def added(n: int) -> Any:
    """z = x + y over n elements, as a loop of its own."""
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    z = te.compute((n,), lambda i: x[i] + y[i], name="z")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b, c = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, "e") as i:
            c[i] = a[i] + b[i]
        return ib.get()

    return te.decl_tensor_intrin(z.op, body, name="added", default_buffer_params={"offset_factor": n})


def product(m: int, n: int, depth: int) -> Any:
    """c += a b^T of tiles, with a reset."""
    a, b = te.placeholder((m, depth), name="a"), te.placeholder((n, depth), name="b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="c")

    def nest(ins: Any, outs: Any, reset: bool) -> Any:
        ib = tir.ir_builder.create()
        av, bv, cv = [ib.buffer_ptr(t) for t in (*ins, *outs)]
        with ib.for_range(0, m, "p") as i, ib.for_range(0, n, "q") as j:
            if reset:
                cv[i, j] = tir.const(0.0, "float32")
            else:
                with ib.for_range(0, depth, "r") as x:
                    cv[i, j] = cv[i, j] + av[i, x] * bv[j, x]
        return ib.get()

    strided = {
        t: tir.decl_buffer(t.shape, t.dtype, t.op.name, strides=[te.var(f"s_{t.op.name}"), 1], offset_factor=1)
        for t in (a, b, c)
    }
    return te.decl_tensor_intrin(
        c.op, lambda i, o: (None, nest(i, o, True), nest(i, o, False)), name="product", binds=strided
    )


def scaled(n: int) -> Any:
    """z = x * factor, with the factor as a number of the call."""
    factor = te.var("factor", "float32")
    x = te.placeholder((n,), name="x")
    z = te.compute((n,), lambda i: x[i] * factor, name="z")

    def body(ins: Any, outs: Any, scalars: Any) -> Any:
        ib = tir.ir_builder.create()
        a, c = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, "e") as i:
            c[i] = a[i] * scalars[0]
        return ib.get()

    return te.decl_tensor_intrin(z.op, body, name="scaled", scalar_params=factor)


def test_rows_written_by_calls_between_other_stages() -> None:
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((8, 16), name="B")
    call = added(16)
    c = te.compute((8, 16), lambda i: call(a[i, 0:16], b[i]), name="C")
    d = te.compute((8, 16), lambda i, j: c[i, j] * 2.0, name="D")
    assert isinstance(c.op, te.TensorComputeOp) and c.op.input_tensors == (a, b)
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], factor=3)
    s[c].compute_at(s[d], outer)
    x, y = random(8, 16), random(8, 16)
    check(s, [a, b, d], [x, y], [(x + y) * 2])


@pytest.mark.parametrize("outermost", ["spatial", "reduction"])
def test_calls_that_accumulate(outermost: str) -> None:
    a, b = te.placeholder((2, 4, 4, 4), name="A"), te.placeholder((3, 4, 4, 4), name="B")
    k = te.reduce_axis((0, 4), "k")
    call = product(4, 4, 4)
    c = te.compute((2, 3, 4, 4), lambda i, j: call(a[i, k, 0:4, 0:4], b[j, k, 0:4, 0:4], reduce_axis=k), name="C")
    s = te.create_schedule(c.op)
    assert s[c].leaf_iter_vars == [*c.op.axis[:2], *c.op.reduce_axis]
    if outermost == "reduction":
        s[c].reorder(c.op.reduce_axis[0], *c.op.axis[:2])
    s[c].parallel(c.op.axis[0])
    x, y = random(2, 4, 4, 4), random(3, 4, 4, 4)
    check(s, [a, b, c], [x, y], [np.einsum("ikpr,jkqr->ijpq", x, y)])


def test_numbers_of_a_call_may_load() -> None:
    a, w = te.placeholder((64,), name="A"), te.placeholder((4,), name="W")
    call = scaled(16)
    c = te.compute((4, 16), lambda i: call(a[i * 16 : i * 16 + 16], w(i) + 1.0), name="C")
    d = te.compute((4, 16), lambda i: call(c[i], tir.const(2.0, "float32")), name="D")
    s = te.create_schedule(d.op)
    outer, _ = s[c].split(c.op.axis[0], factor=3)
    s[c].parallel(outer)
    x, y = random(64), random(4)
    check(s, [a, w, d], [x, y], [x.reshape(4, 16) * (y + 1)[:, None] * 2])


def test_one_call_for_a_whole_tensor() -> None:
    a, b = te.placeholder((16,), name="A"), te.placeholder((16,), name="B")
    call = added(16)
    c = te.compute((16,), lambda: call(a, b), name="C")
    x, y = random(16), random(16)
    check(te.create_schedule(c.op), [a, b, c], [x, y], [x + y])


def test_refusals() -> None:
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((8, 16), name="B")
    call, accumulate = added(16), product(4, 4, 4)
    with pytest.raises(ValueError) as caught:
        te.compute((8, 16), lambda i: call(a[i, 0:8], b[i, 0:8]), name="C")
    assert str(caught.value) == ("intrinsic added: x is float32[16], but was given A of float32 with a part of [1, 8]")
    with pytest.raises(
        ValueError, match="^intrinsic added takes 2 parts of tensors and 0 numbers, but was given 1 and 1$"
    ):
        te.compute((8, 16), lambda i: call(a[i, 0:16], 3), name="C")
    with pytest.raises(ValueError) as caught:
        te.compute((8, 8), lambda i: call(a[i], b[i]), name="C")
    assert str(caught.value) == (
        "compute 'C': output 0 of intrinsic added has the shape [16], but the dimensions after those of the function's"
        " indices are [8]"
    )
    t = te.placeholder((2, 4, 4), name="T")
    with pytest.raises(ValueError) as caught:
        te.compute((2, 4, 4), lambda i: accumulate(t[i], t[i]), name="C")
    assert str(caught.value) == ("intrinsic product has no body for the whole computation, and no reduce_axis is given")
    k = te.reduce_axis((0, 8), "k")
    with pytest.raises(ValueError) as caught:
        te.compute((16,), lambda: call(a[k, 0:16], b[k, 0:16], reduce_axis=k), name="C")
    assert str(caught.value) == (
        "intrinsic added accumulates over k, so it must have a reset and an update: let its function return (body,"
        " reset, update)"
    )
    with pytest.raises(ValueError, match=r"^intrinsic added: A\[i, 0:16\] has a step"):
        te.compute((8, 16), lambda i: call(a[i, 0:16:2], b[i]), name="C")
    with pytest.raises(TypeError, match="^decl_tensor_intrin describes a compute, but was given a PlaceholderOp$"):
        te.decl_tensor_intrin(a.op, lambda i, o: None)
    x = te.compute((8,), lambda i: a[i, 0], name="x")
    with pytest.raises(TypeError) as wrong:
        te.decl_tensor_intrin(x.op, lambda i, o: 3, name="three")
    assert str(wrong.value) == (
        "decl_tensor_intrin: the function of three must return a statement or call, or a tuple of body, reset and"
        " update, but returned int"
    )
    with pytest.raises(
        ValueError, match=r"^A\[0:4, :\] is a part of a tensor and no element; give every dimension an index$"
    ):
        te.compute((4,), lambda i: a[0:4, :] + 1.0)
    with pytest.raises(ValueError, match="^tensor A has 2 dimensions, but was indexed with 1: i$"):
        te.compute((4,), lambda i: a[i] * 2.0)
