"""The programs that people learn TE with, in the interpreter and as native code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.te_schedule.helpers import Array, check, execute, interpret, random
from tilewright import te, tir


def test_vector_addition_of_any_length() -> None:
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=16)
    s[c].parallel(outer)
    s[c].vectorize(inner)
    for length in (1, 16, 37, 100):
        x, y = random(length), random(length)
        check(s, [a, b, c], [x, y], [x + y])


def test_lowered_loops_have_the_names_of_their_axes() -> None:
    a = te.placeholder((20, 12), name="A")
    c = te.compute((20, 12), lambda i, j: a[i, j] + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[c].tile(c.op.axis[0], c.op.axis[1], 5, 4)
    text = str(tvm.lower(s, [a, c], simple_mode=True))
    assert "for i_outer, j_outer, i_inner, j_inner in T.grid(4, 3, 5, 4):" in text


@pytest.mark.parametrize("length", [64, 37])
@pytest.mark.parametrize("which", ["outer", "inner"])
def test_row_sums_with_rfactor(length: int, which: str) -> None:
    a = te.placeholder((5, length), name="A")
    k = te.reduce_axis((0, length), "k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    ko, ki = s[b].split(b.op.reduce_axis[0], factor=8)
    partial = s.rfactor(b, ko if which == "outer" else ki)
    assert partial.op.name == "B.rf"
    s[partial].compute_at(s[b], s[b].op.axis[0])
    if which == "inner":
        s[partial].reorder(*s[partial].op.axis[1:], *s[partial].op.reduce_axis, s[partial].op.axis[0])
        s[partial].vectorize(s[partial].op.axis[0])
    value = random(5, length)
    check(s, [a, b], [value], [value.sum(1)])


def test_rfactor_of_fused_axes_at_the_end() -> None:
    a = te.placeholder((3, 5, 6), name="A")
    x, y = te.reduce_axis((0, 5), "x"), te.reduce_axis((0, 6), "y")
    b = te.compute((3,), lambda i: te.max(a[i, x, y], axis=[x, y]), name="B")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(s[b].fuse(*b.op.reduce_axis), factor=4)
    partial = s.rfactor(b, outer, factor_axis=-1)
    assert [int(d) for d in partial.shape] == [3, 8]
    value = random(3, 5, 6)
    check(s, [a, b], [value], [value.max((1, 2))])


def test_rfactor_of_a_tuple_reduction() -> None:
    x = te.placeholder((5, 36), name="X")
    k = te.reduce_axis((0, 36), "k")
    argmax = te.comm_reducer(
        lambda a, b: (tir.Select(a[1] >= b[1], a[0], b[0]), tir.Select(a[1] >= b[1], a[1], b[1])),
        lambda d0, d1: (tir.const(-1, d0), te.min_value(d1)),
    )
    index, value = te.compute((5,), lambda i: argmax((k, x[i, k]), axis=k), name="argmax")
    s = te.create_schedule(index.op)
    ko, _ = s[index].split(index.op.reduce_axis[0], factor=4)
    first, second = s.rfactor(index, ko)
    assert first.op is second.op
    xv = random(5, 36)
    check(s, [x, index, value], [xv], [xv.argmax(1).astype("int32"), xv.max(1)])


def test_gemm_with_tiles_cache_and_vectors() -> None:
    m, n, depth = 9, 18, 9
    a, b = te.placeholder((m, depth), name="A"), te.placeholder((depth, n), name="B")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    cached = s.cache_write(c, "local")
    xo, yo, _, yi = s[c].tile(c.op.axis[0], c.op.axis[1], 8, 16)
    s[cached].compute_at(s[c], yo)
    rows, columns = s[cached].op.axis
    ko, ki = s[cached].split(s[cached].op.reduce_axis[0], factor=4)
    s[cached].reorder(ko, rows, ki, columns)
    s[cached].vectorize(columns)
    s[cached].unroll(ki)
    s[c].vectorize(yi)
    s[c].parallel(xo)
    av, bv = random(m, depth), random(depth, n)
    check(s, [a, b, c], [av, bv], [av @ bv])


def test_copies_of_inputs_at_several_depths() -> None:
    a = te.placeholder((33, 20), name="A")
    k = te.reduce_axis((0, 20), "k")
    b = te.compute((33,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((33,), lambda i: te.exp(b[i]) + a[i, 0], name="C")
    s = te.create_schedule(c.op)
    copy = s.cache_read(a, "local", [b])
    inner_sum = s.cache_write(b, "local")
    outer, _ = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], outer)
    s[inner_sum].compute_at(s[b], s[b].op.axis[0])
    ko, ki = s[inner_sum].split(s[inner_sum].op.reduce_axis[0], factor=6)
    s[copy].compute_at(s[inner_sum], ko)
    s[inner_sum].unroll(ki)
    value = random(33, 20) * np.float32(0.1)
    check(s, [a, c], [value], [np.exp(value.sum(1)) + value[:, 0]])


def test_chain_inlined_attached_and_moved_back_to_the_root() -> None:
    a = te.placeholder((12, 10), name="A")
    b = te.compute((12, 10), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((12, 10), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((12, 10), lambda i, j: c[i, j] - b[i, j], name="D")
    value = random(12, 10)
    for move in ("inline", "attach", "root"):
        s = te.create_schedule(d.op)
        s[c].compute_at(s[d], d.op.axis[0])
        if move == "inline":
            s[b].compute_inline()
        elif move == "attach":
            s[b].compute_at(s[d], d.op.axis[0])
        else:
            s[c].compute_root()
        check(s, [a, d], [value], [(value + 1) * 2 - (value + 1)])


def test_group_moves_together() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((8, 8), lambda i, j: c[i, j] - 3.0, name="D")
    s = te.create_schedule(d.op)
    s.create_group(outputs=c, inputs=a).compute_at(s[d], d.op.axis[0])
    text = str(tvm.lower(s, [a, d], simple_mode=True))
    assert 'T.allocate([8], "float32", "global")' in text and "T.allocate([64]" not in text
    value = random(8, 8)
    check(s, [a, d], [value], [(value + 1) * 2 - 3])


def test_tensors_that_are_computed_together() -> None:
    a0, a1 = te.placeholder((7, 9), name="A0"), te.placeholder((7, 9), name="A1")
    b0, b1 = te.compute((7, 9), lambda i, j: (a0[i, j] + 2.0, a1[i, j] * 3.0), name="B")
    s = te.create_schedule(b0.op)
    _, inner = s[b0].split(b0.op.axis[1], factor=4)
    s[b0].vectorize(inner)
    s[b0].parallel(b0.op.axis[0])
    x, y = random(7, 9), random(7, 9)
    check(s, [a0, a1, b0, b1], [x, y], [x + 2, y * 3])


def test_intrinsics_and_functions_of_c() -> None:
    a = te.placeholder((13,), name="A")
    b = te.compute((13,), lambda i: te.exp(a[i]) + te.sqrt(te.abs(a[i])) + te.tanh(a[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=8)[1])
    value = random(13)
    check(s, [a, b], [value], [np.exp(value) + np.sqrt(np.abs(value)) + np.tanh(value)])
    c = te.compute((13,), lambda i: tir.call_pure_extern("float32", "expf", a[i]), name="C")
    s = te.create_schedule(c.op)
    execute(s, [a, c], [value], [np.exp(value)])
    interpret(s, [a, c], [value], [np.exp(value)], externs={"expf": np.exp})


def test_extern_between_scheduled_stages() -> None:
    def add_one(x: Any, y: Any) -> None:
        y.copyfrom(x.numpy() + 1)

    tvm.register_func("tests.te_schedule.add_one", add_one, override=True)
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] * 2.0, name="B")
    c = te.extern((12,), [b], lambda ins, outs: tir.call_packed("tests.te_schedule.add_one", ins[0], outs[0]), name="C")
    d = te.compute((12,), lambda i: c[i] * 3.0, name="D")
    s = te.create_schedule(d.op)
    s[d].vectorize(s[d].split(d.op.axis[0], factor=4)[1])
    s[b].parallel(b.op.axis[0])
    value = random(12)
    execute(s, [a, d], [value], [(value * 2 + 1) * 3])
    plain = {"tests.te_schedule.add_one": lambda x, y: np.add(x, 1, out=y)}
    interpret(s, [a, d], [value], [(value * 2 + 1) * 3], externs=plain)


def test_scalar_result_and_unit_axis() -> None:
    a = te.placeholder((16,), name="A")
    k = te.reduce_axis((0, 16), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].fuse()
    s[b].split(b.op.reduce_axis[0], factor=3)
    value = random(16)
    check(s, [a, b], [value], [np.asarray(value.sum())])


def test_threads_and_store_predicate() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=8)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, thread)
    s[b].set_store_predicate(thread.var < 4)
    text = str(tvm.lower(s, [a, b], simple_mode=True))
    assert 'blockIdx_x = T.launch_thread("blockIdx.x", 8)' in text
    assert "if T.likely(threadIdx_x < 4):" in text


def test_store_predicate_leaves_the_rest_as_it_was() -> None:
    a = te.placeholder((3, 8), name="A")
    b = te.compute((3, 8), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].set_store_predicate(b.op.axis[1].var < 5)
    value = random(3, 8)
    want = value + 1
    want[:, 5:] = 0
    check(s, [a, b], [value], [want])


def test_pragmas_and_storage() -> None:
    a = te.placeholder((6, 8), name="A")
    b = te.compute((6, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((6, 8), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[b].set_scope("shared")
    s[b].double_buffer()
    s[b].storage_align(b.op.axis[0], 16, 4)
    s[c].pragma(c.op.axis[0], "auto_unroll_max_step", 64)
    s[c].prefetch(b, c.op.axis[0], 1)
    text = str(s.to_prim_func([a, c]))
    for part in ('scope="shared"', "double_buffer_scope", "buffer_dim_align", "pragma_auto_unroll_max_step"):
        assert part in text
    value = random(6, 8)
    check(s, [a, c], [value], [(value + 1) * 2])


def gemv_intrinsic(rows: int, depth: int, whole: bool = True) -> Any:
    """c[i] = sum of a[k] * b[i, k] over rows x depth, as loops of its own."""
    a, b = te.placeholder((depth,), name="a"), te.placeholder((rows, depth), name="b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    binds = {
        a: tir.decl_buffer(a.shape, a.dtype, "a", offset_factor=1, strides=[1]),
        b: tir.decl_buffer(b.shape, b.dtype, "b", offset_factor=1, strides=[te.var("s"), 1]),
        c: tir.decl_buffer(c.shape, c.dtype, "c", offset_factor=1, strides=[1]),
    }

    def body(ins: Any, outs: Any) -> Any:
        def loop(reset: bool) -> Any:
            ib = tir.ir_builder.create()
            av, bv, cv = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
            with ib.for_range(0, rows, "row") as i:
                if reset:
                    cv[i] = tir.const(0.0, "float32")
                else:
                    with ib.for_range(0, depth, "step") as x:
                        cv[i] = cv[i] + av[x] * bv[i, x]
            return ib.get()

        both = tir.SeqStmt([loop(True), loop(False)])
        return both if whole else (None, loop(True), loop(False))

    return te.decl_tensor_intrin(c.op, body, name="gemv", binds=binds)


@pytest.mark.parametrize("split", [False, True])
def test_tensorized_gemv(split: bool) -> None:
    a, b = te.placeholder((12, 16), name="A"), te.placeholder((32, 16), name="B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((12, 32), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    x, y = c.op.axis
    yo, yi = s[c].split(y, factor=16)
    if split:
        ko, ki = s[c].split(c.op.reduce_axis[0], factor=8)
        s[c].reorder(x, yo, ko, yi, ki)
    else:
        s[c].reorder(x, yo, yi, c.op.reduce_axis[0])
    s[c].tensorize(yi, gemv_intrinsic(16, 8 if split else 16, whole=not split))
    text = str(tvm.lower(s, [a, b, c], simple_mode=True))
    assert "row" in text and "step" in text
    av, bv = random(12, 16), random(32, 16)
    check(s, [a, b, c], [av, bv], [av @ bv.T])


def cumulative(rows: int, columns: int) -> tuple[Any, Any, Any, Any]:
    x, state = te.placeholder((rows, columns), name="X"), te.placeholder((rows, columns), name="state")
    init = te.compute((1, columns), lambda _, i: x[0, i], name="init")
    update = te.compute((rows, columns), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    return x, init, update, te.scan(init, update, state, inputs=[x])


def test_scan_with_its_parts_scheduled() -> None:
    x, init, update, result = cumulative(9, 21)
    value = random(9, 21)
    s = te.create_schedule(result.op)
    check(s, [x, result], [value], [value.cumsum(0)])
    for stage in (init, update):
        outer, inner = s[stage].split(stage.op.axis[1], factor=8)
        s[stage].parallel(outer)
        s[stage].vectorize(inner)
    check(s, [x, result], [value], [value.cumsum(0)])


def test_scan_with_a_stage_inside_and_a_reader() -> None:
    rows, columns = 6, 5
    x, state = te.placeholder((rows, columns), name="X"), te.placeholder((rows, columns), name="state")
    w = te.placeholder((columns, columns), name="W")
    init = te.compute((1, columns), lambda _, i: x[0, i], name="init")
    k = te.reduce_axis((0, columns), "k")
    hidden = te.compute((rows, columns), lambda t, i: te.sum(state[t - 1, k] * w[k, i], axis=k), name="hidden")
    update = te.compute((rows, columns), lambda t, i: te.tanh(hidden[t, i] + x[t, i]), name="update")
    result = te.scan(init, update, state, inputs=[x, w])
    out = te.compute((rows, columns), lambda t, i: result[t, i] + 1.0, name="out")
    xv, wv = random(rows, columns), random(columns, columns)
    want: Array = xv.copy()
    for t in range(1, rows):
        want[t] = np.tanh(want[t - 1] @ wv + xv[t])
    s = te.create_schedule(out.op)
    outer, _ = s[update].split(update.op.axis[1], factor=2)
    s[hidden].compute_at(s[update], outer)
    s[hidden].split(hidden.op.reduce_axis[0], factor=2)
    check(s, [x, w, out], [xv, wv], [want + 1])


def test_scan_of_two_states_that_start_from_inputs() -> None:
    x, y = te.placeholder((1, 4), name="X"), te.placeholder((1, 3), name="Y")
    s1, s2 = te.placeholder((5, 4), name="s1"), te.placeholder((5, 3), name="s2")
    u1 = te.compute((5, 4), lambda t, i: s1[t - 1, i] * 2.0, name="u1")
    u2 = te.compute((5, 3), lambda t, i: s2[t - 1, i] + s1[t - 1, 0], name="u2")
    r1, r2 = te.scan([x, y], [u1, u2], [s1, s2], inputs=[x, y])
    s = te.create_schedule(r1.op)
    xv, yv = random(1, 4), random(1, 3)
    w1, w2 = np.repeat(xv, 5, 0), np.repeat(yv, 5, 0)
    for t in range(1, 5):
        w1[t], w2[t] = w1[t - 1] * 2, w2[t - 1] + w1[t - 1, 0]
    check(s, [x, y, r1, r2], [xv, yv], [w1, w2])


def test_automatic_inlining() -> None:
    a, row = te.placeholder((6, 4), name="A"), te.placeholder((4,), name="R")
    plain = te.compute((6, 4), lambda i, j: a[i, j] + 1.0, name="plain")
    wide = te.compute((6, 4), lambda i, j: plain[i, j] * row[j], name="wide")
    turned = te.compute((4, 6), lambda i, j: wide[j, i] - 1.0, name="turned")
    out = te.compute((4, 6), lambda i, j: turned[i, j] * 2.0, name="out")
    left = {"AutoInlineElemWise": {"wide", "turned"}, "AutoInlineBroadcast": {"turned"}, "AutoInlineInjective": set()}
    av, rv = random(6, 4), random(4)
    for name, kept in left.items():
        s = te.create_schedule(out.op)
        getattr(te.schedule, name)(s)
        stages = {st.name for st in s.stages if isinstance(st.op, te.ComputeOp) and st.attach_type != 2}
        assert stages == kept | {"out"}
        check(s, [a, row, out], [av, rv], [(((av + 1) * rv).T - 1) * 2])


def test_copies_of_several_outputs_and_for_several_readers() -> None:
    a = te.placeholder((6, 10), name="A")
    b0, b1 = te.compute((6, 10), lambda i, j: (a[i, j] + 1.0, a[i, j] * 2.0), name="B")
    c = te.compute((6, 10), lambda i, j: b0[i, j] * b1[i, j], name="C")
    d = te.compute((6, 10), lambda i, j: c[i, j] + b0[i, j], name="D")
    s = te.create_schedule(d.op)
    copy = s.cache_read(b0, "local", [c, d])
    first, second = s.cache_write([b0, b1], "local")
    assert first.op is second.op and copy.op.name == "B.v0.local"
    s[first].compute_at(s[b0], s[b0].op.axis[0])
    s[c].compute_at(s[d], d.op.axis[0])
    s[copy].compute_at(s[d], d.op.axis[0])
    value = random(6, 10)
    check(s, [a, d], [value], [(value + 1) * (value * 2) + value + 1])


def test_schedule_by_tag() -> None:
    a = te.placeholder((4, 8), name="A")
    with te.tag_scope("easy"):
        b = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute((4, 8), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((4, 8), lambda i, j: c[i, j] - 1.0, name="D")
    s = te.create_schedule(d.op)
    for stage in s.stages:
        if stage.op.tag == "easy":
            stage.compute_inline()
    assert "allocate" not in str(tvm.lower(s, [a, d]))
    value = random(4, 8)
    check(s, [a, d], [value], [(value + 1) * 2 - 1])


def test_function_of_tensorir_as_a_stage() -> None:
    x = te.placeholder((5, 6), name="X")
    func = te.create_prim_func([x, te.compute((5, 6), lambda i, j: x[i, j] * x[i, j], name="Y")])
    a = te.placeholder((5, 6), name="A")
    b = te.compute((5, 6), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.extern_primfunc([b], func, name="square")
    d = te.compute((5, 6), lambda i, j: c[i, j] - 1.0, name="D")
    s = te.create_schedule(d.op)
    s[d].parallel(d.op.axis[0])
    value = random(5, 6)
    check(s, [a, d], [value], [(value + 1) ** 2 - 1])


def test_reduction_across_threads_keeps_all_contributions() -> None:
    a = te.placeholder((64, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    b = te.compute((64,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    partial = s.rfactor(b, ki)
    outer, inner = s[b].split(s[b].op.axis[0], factor=32)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.y"))
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(thread.var.equal(0))
    text = str(s.to_prim_func([a, b]))
    assert 'for k_inner_v in T.thread_binding(16, thread="threadIdx.x"):' in text
    assert "T.where" not in text


def test_orders_of_parts_of_parts_that_do_not_divide() -> None:
    a = te.placeholder((7, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((7,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    io, ii = s[b].split(b.op.axis[0], factor=3)
    first, second = s[b].split(ii, factor=2)
    ko, ki = s[b].split(b.op.reduce_axis[0], factor=4)
    s[b].reorder(ki, second, io, ko, first)
    value = random(7, 10)
    check(s, [a, b], [value], [value.sum(1)])


def test_values_that_are_told_on_the_way(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[Any] = []

    def note(i: int, value: float) -> Any:
        told.append((i, value))
        return 100.0 if i == 1 else None

    tvm.register_func("tests.te_schedule.note", note, override=True)
    a = te.placeholder((3,), name="A")
    b = te.compute((3,), lambda i: te.trace([i, a[i]], "tests.te_schedule.note") * 2.0, name="B")
    value = np.array([1, 2, 3], "float32")
    execute(te.create_schedule(b.op), [a, b], [value], [np.array([2, 200, 6], "float32")])
    assert told == [(0, 1.0), (1, 2.0), (2, 3.0)]
    plain = {"tests.te_schedule.note": note}
    interpret(te.create_schedule(b.op), [a, b], [value], [np.array([2, 200, 6], "float32")], externs=plain)
    c = te.compute((1,), lambda i: te.trace([i, a[i]]) + 0.5, name="C")
    execute(te.create_schedule(c.op), [a, c], [value], [np.array([1.5], "float32")])
    assert capfd.readouterr().out == "[0, 1.0]\n"


@pytest.mark.parametrize("thread", ["vthread", "cthread"])
def test_virtual_threads_around_reads_with_gaps(thread: str) -> None:
    """All iterations of o write and read elements 0, 2 and 4 of B, which are no box; each reads what it has just written."""
    a = te.placeholder((5,), name="A")
    b = te.compute((5,), lambda y: a[y] + 1.0, name="B")
    c = te.compute((2, 3), lambda o, y: b[y * 2] * (o + 1), name="C")
    s = te.create_schedule(c.op)
    o, y = s[c].op.axis
    s[b].compute_at(s[c], y)
    s[c].bind(o, te.thread_axis(thread))
    value = random(5)
    check(s, [a, c], [value], [np.outer(np.array([1, 2], "float32"), value[::2] + 1)])
