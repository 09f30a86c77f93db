"""Programs of the documented kinds: externs of several buffers, reducers with conditions and starts, recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.te_schedule.helpers import check, random
from tilewright import te, tir


def test_extern_of_two_inputs_and_outputs() -> None:
    a, b = te.placeholder((6,), name="a"), te.placeholder((6,), name="b")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        x, y, p, q = [ib.buffer_ptr(t) for t in (*ins, *outs)]
        with ib.for_range(0, 6, "i") as i:
            p[i] = x[i] + y[i]
            q[i] = (x[i] * 2.0).astype("int32")
        return ib.get()

    p, q = te.extern([(6,), (6,)], [a, b], body, name="two", dtype=["float32", "int32"], tag="pair", attrs={"k": "v"})
    assert (p.op.tag, p.op.num_outputs, p.op.input_tensors, p.op.attrs["k"]) == ("pair", 2, (a, b), "v")
    x, y = random(6), random(6)
    check(te.create_schedule(p.op), [a, b, p, q], [x, y], [x + y, (x * 2).astype("int32")])


def test_variables_of_given_buffers_are_those_of_the_tensor() -> None:
    a = te.placeholder((6, 4), name="a")
    given = tir.decl_buffer((6, 4), "float32", name="given", offset_factor=1, strides=[te.var("s0"), 1])
    made = tir.decl_buffer((6, 4), "float32", name="made")

    def body(ins: Any, outs: Any) -> Any:
        assert ins[0] is given and outs[0] is made
        ib = tir.ir_builder.create()
        x, c = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 6) as i, ib.for_range(0, 4) as j:
            c[i, j] = x[i, j] * ins[0].strides[0].astype("float32")
        return ib.get()

    c = te.extern((6, 4), [a], body, in_buffers=given, out_buffers=[made], name="c")
    value = random(6, 4)
    check(te.create_schedule(c.op), [a, c], [value], [value * 4])


@pytest.mark.parametrize("split", [False, True])
def test_reduction_from_one_with_a_condition_and_a_start(split: bool) -> None:
    a, c = te.placeholder((5, 7), name="a"), te.placeholder((5,), name="c")
    k = te.reduce_axis((1, 6), "k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k, where=te.all(k > 2, i < 4), init=c[i]), name="b")
    s = te.create_schedule(b.op)
    if split:
        _, inner = s[b].split(k, factor=2)
        s[b].reorder(inner, b.op.axis[0])
    x, y = random(5, 7), random(5)
    want = y.copy()
    want[:4] += x[:4, 3:6].sum(1)
    check(s, [a, c, b], [x, y], [want])


INTEGERS: list[tuple[Any, Callable[..., Any]]] = [
    (te.min, np.min),
    (te.max, np.max),
    (te.prod, np.prod),
    (te.sum, np.sum),
]


@pytest.mark.parametrize(("reducer", "value"), INTEGERS)
def test_reducers_of_integers(reducer: Any, value: Callable[..., Any]) -> None:
    a = te.placeholder((5, 7), "int32", name="a")
    k = te.reduce_axis((0, 7), "k")
    b = te.compute((5,), lambda i: reducer(a[i, k], axis=k), name="b")
    x = np.random.default_rng(1).integers(-3, 4, (5, 7)).astype("int32")
    check(te.create_schedule(b.op), [a, b], [x], [value(x, 1).astype("int32")])


def test_reducers_of_truth_values() -> None:
    a = te.placeholder((5, 7), "bool", name="a")
    x = np.random.default_rng(2).random((5, 7)) > 0.7
    for combine, start, value in ((tir.Or, False, x.any(1)), (tir.And, True, x.all(1))):
        k = te.reduce_axis((0, 7), "k")
        reducer = te.comm_reducer(combine, lambda t, start=start: tir.const(start, t))
        b = te.compute((5,), lambda i, k=k, reducer=reducer: reducer(a[i, k], axis=k), name="b")
        check(te.create_schedule(b.op), [a, b], [x], [value])


def test_slices_of_slices_and_scalars() -> None:
    a = te.placeholder((4, 5, 6), name="a")
    b = te.compute((4, 5, 6), lambda i, j, k: a[i][j][k] + a[i, j][k] + a[i][j, k], name="b")
    x = random(4, 5, 6)
    check(te.create_schedule(b.op), [a, b], [x], [3 * x])
    point = te.placeholder((), name="point")
    moved = te.compute((), lambda: point() + 1.0, name="moved")
    spread = te.compute((3,), lambda i: moved() * 2.0, name="spread")
    check(te.create_schedule(spread.op), [point, spread], [np.array(2.0, "float32")], [np.full(3, 6, "float32")])


def test_operators_of_tensors() -> None:
    a = te.placeholder((4,), name="a")
    value = random(4)
    out = 1.0 - -((a + 1.0) * 2.0 - a / 2.0)
    check(te.create_schedule(out.op), [a, out], [value], [1 + ((value + 1) * 2 - value / 2)])
    assert a == a.op.output(0) and hash(a) == hash(a.op.output(0)) and a != out and len({a, a.op.output(0)}) == 1


def recurrence() -> tuple[Any, Any, Any, Any]:
    x, state = te.placeholder((6, 8), name="X"), te.placeholder((6, 8), name="state")
    init = te.compute((1, 8), lambda _, i: x[0, i], name="init")
    scaled = te.compute((6, 8), lambda t, i: x[t, i] * 2.0, name="scaled")
    update = te.compute((6, 8), lambda t, i: state[t - 1, i] + scaled[t, i], name="update")
    return x, scaled, update, te.scan(init, update, state, inputs=[x])


@pytest.mark.parametrize("where", ["row", "inline", "copy", "write"])
def test_stages_that_a_step_takes_along(where: str) -> None:
    x, scaled, update, result = recurrence()
    s = te.create_schedule(result.op)
    if where == "row":
        s[scaled].compute_at(s[update], update.op.axis[0])
    elif where == "inline":
        s[scaled].compute_inline()
    elif where == "copy":
        copy = s.cache_read(scaled, "local", update)
        s[scaled].compute_at(s[copy], s[copy].op.axis[0])
        s[copy].compute_at(s[update], update.op.axis[1])
    else:
        s.cache_write(update, "local")
    value = random(6, 8)
    want = value * 2
    want[0] = value[0]
    check(s, [x, result], [value], [want.cumsum(0)])


def test_cell_of_two_states() -> None:
    rows, n = 5, 4
    x, w = te.placeholder((rows, n), name="X"), te.placeholder((n, n), name="W")
    h, c = te.placeholder((rows, n), name="h"), te.placeholder((rows, n), name="c")
    first_h = te.compute((1, n), lambda _, i: 0.0, name="first_h")
    first_c = te.compute((1, n), lambda _, i: 0.0, name="first_c")
    k = te.reduce_axis((0, n), "k")
    gate = te.compute((rows, n), lambda t, i: te.sum(h[t - 1, k] * w[k, i], axis=k), name="gate")
    next_c = te.compute((rows, n), lambda t, i: c[t - 1, i] * 0.5 + gate[t, i] + x[t, i], name="next_c")
    next_h = te.compute((rows, n), lambda t, i: te.tanh(next_c[t, i]), name="next_h")
    out_h, out_c = te.scan([first_h, first_c], [next_h, next_c], [h, c], inputs=[x, w], name="cell")
    s = te.create_schedule(out_h.op)
    s[gate].compute_at(s[next_c], next_c.op.axis[1])
    s[next_h].vectorize(next_h.op.axis[1])
    xv, wv = random(rows, n), random(n, n)
    hv, cv = np.zeros((rows, n), "float32"), np.zeros((rows, n), "float32")
    for t in range(1, rows):
        cv[t] = cv[t - 1] * 0.5 + hv[t - 1] @ wv + xv[t]
        hv[t] = np.tanh(cv[t])
    check(s, [x, w, out_h, out_c], [xv, wv], [hv, cv])


def test_numbers_are_arguments() -> None:
    n, scale = te.size_var("n"), te.var("scale", "float32")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] * scale, name="b")
    function = tvm.build(te.create_schedule(b.op), [scale, a, b], "llvm", name="scaled")
    value, out = random(5), tvm.nd.array(np.zeros(5, "float32"))
    function["scaled"](2.5, tvm.nd.array(value), out)
    np.testing.assert_allclose(out.numpy(), value * np.float32(2.5))


def test_groups_in_groups_of_loops() -> None:
    a = te.placeholder((16, 16), name="a")
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1.0, name="b")
    c = te.compute((16, 16), lambda i, j: b[i, j] * 2.0, name="c")
    d = te.compute((16, 16), lambda i, j: c[i, j] - 1.0, name="d")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], factor=4)
    s.create_group(outputs=c, inputs=a).compute_at(s[d], outer)
    s[b].compute_at(s[c], c.op.axis[0])
    value = random(16, 16)
    check(s, [a, d], [value], [(value + 1) * 2 - 1])


@pytest.mark.parametrize("order", [("vectorize", "unroll"), ("unroll", "vectorize"), ("parallel", "parallel")])
def test_the_last_mark_of_an_axis_counts(order: tuple[str, str]) -> None:
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="b")
    whole, last = te.create_schedule(b.op), te.create_schedule(b.op)
    for primitive in order:
        getattr(whole[b], primitive)(b.op.axis[0])
    getattr(last[b], order[1])(b.op.axis[0])
    tvm.ir.assert_structural_equal(tvm.lower(whole, [a, b]), tvm.lower(last, [a, b]))
    x = random(8)
    check(whole, [a, b], [x], [x + 1])


def test_threads_are_bound_whatever_else_an_axis_is() -> None:
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="b")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[0])
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].unroll(b.op.axis[0])
    text = tvm.lower(s, [a, b]).script()
    assert 'T.launch_thread("blockIdx.x", 8)' in text and "threadIdx" not in text


def test_an_axis_is_tensorized_after_another_mark() -> None:
    def scaled(n: int) -> Any:
        x = te.placeholder((n,), name="x")
        y = te.compute((n,), lambda i: x[i] * 2.0, name="y")

        def body(ins: Any, outs: Any) -> Any:
            ib = tir.ir_builder.create()
            source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
            with ib.for_range(0, n, "k") as k:
                target[k] = source[k] + source[k]
            return ib.get()

        return te.decl_tensor_intrin(y.op, body)

    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] * 2.0, name="b")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], 4)
    s[b].vectorize(inner)
    s[b].tensorize(inner, scaled(4))
    assert "a[i_outer * 4 + k] + a[i_outer * 4 + k]" in tvm.lower(s, [a, b]).script()
    x = random(8)
    check(s, [a, b], [x], [x * 2])


def test_splits_longer_than_a_tile_make_no_idle_iterations() -> None:
    """A tile of 4 x 8 of a stage whose loops are split for all of it: its loops end with the tile, and so does its memory."""
    a, b = te.placeholder((16, 8), name="a"), te.placeholder((8, 32), name="b")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((16, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    i0, j0, i1, j1 = s[c].tile(*c.op.axis, 4, 8)
    s[tile].compute_at(s[c], j0)
    i, j = tile.op.axis
    rows, _ = s[tile].split(i, factor=8)
    columns, inner = s[tile].split(j, nparts=16)
    s[tile].reorder(rows, columns, inner)
    x, y = random(16, 8), random(8, 32)
    check(s, [a, b, c], [x, y], [x @ y])
    text = tvm.lower(s, [a, b, c]).script()
    assert "T.allocate([32]" in text and " if " not in text and "T.where" not in s.to_prim_func([a, b, c]).script()
