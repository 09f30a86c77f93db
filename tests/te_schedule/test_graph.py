"""Stages and schedules as data: marks, ranges, graphs, and the statements that classic helpers give."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tests.te_schedule.helpers import check, execute, random
from tilewright import te, tir
from tilewright.codegen import interp


def test_ranges_follow_attachment() -> None:
    m, n = 16, 32
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n - 2), lambda i, j: b[i, j] + b[i, j + 2], name="C")
    s = te.create_schedule(c.op)
    io, ii = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], io)
    bounds = te.schedule.InferBound(s.normalize())
    assert [int(bounds[x].extent) for x in (io, ii, c.op.axis[1], *b.op.axis)] == [4, 4, 30, 4, 32]
    assert str(bounds[b.op.axis[0]].min) == "i.outer * 4" or "* 4" in str(bounds[b.op.axis[0]].min)
    assert te.schedule.CreateAttachPath(s)[b.op] == [io]
    stmt = te.schedule.ScheduleOps(s, bounds)
    func = te.schedule.SchedulePostProcToPrimFunc([a, c], stmt, None)
    value, out = random(m, n), np.zeros((m, n - 2), "float32")
    interp.run(func, [value, out])
    np.testing.assert_allclose(out, 2 + value[:, :-2] + value[:, 2:], rtol=1e-4, atol=1e-5)
    assert te.schedule.VerifyCompactBuffer(stmt)


def test_graphs_of_operations() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((4,), lambda i: b[i] * a[i], name="C")
    graph = te.schedule.CreateReadGraph([c.op])
    assert graph == {a.op: [], b.op: [a], c.op: [b, a]}
    assert te.schedule.PostDFSOrder([c.op], graph) == [a.op, b.op, c.op]


def test_bodies_of_recurrences() -> None:
    x, state = te.placeholder((5, 4), name="X"), te.placeholder((5, 4), name="state")
    init = te.compute((1, 4), lambda _, i: x[0, i], name="init")
    mid = te.compute((5, 4), lambda t, i: state[t - 1, i] + x[t, i], name="mid")
    update = te.compute((5, 4), lambda t, i: mid[t, i] * 2.0, name="update")
    rolled = te.compute((5, 4), lambda t, i: mid[t, 3 - i] * 2.0, name="rolled")
    own = te.scan(init, update, state)
    other = te.scan(init, rolled, state)
    assert te.schedule.ScanGetBody(own.op) == [mid.op, update.op]
    assert int(te.schedule.ScanFixPointAnalysis(own.op)[update.op.axis[1]]) == 1
    assert int(te.schedule.ScanFixPointAnalysis(other.op)[rolled.op.axis[1]]) == 0


def test_stages_tell_what_was_done() -> None:
    a = te.placeholder((8, 12), name="A")
    b = te.compute((8, 12), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 12), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    outer, inner = s[c].split(j, factor=4)
    fused = s[c].fuse(i, outer)
    s[c].vectorize(inner)
    s[c].pragma(fused, "auto_unroll_max_step", 16)
    s[c].prefetch(b, fused, 1)
    s[b].compute_at(s[c], fused)
    s[b].storage_align(b.op.axis[0], 16, 8)
    split, fuse = s[c].relations
    assert (split.parent, split.outer, split.inner, split.factor, split.nparts) == (j, outer, inner, 4, None)
    assert (fuse.outer, fuse.inner, fuse.fused) == (i, outer, fused)
    assert s[c].leaf_iter_vars == [fused, inner] and s[c].all_iter_vars == [i, j, outer, inner, fused]
    assert s[c].iter_var_attrs[inner].iter_type == tir.IterVar.Vectorized
    marks = s[c].iter_var_attrs[fused]
    assert (marks.pragma_keys, marks.pragma_values) == (["auto_unroll_max_step"], [16])
    assert (marks.prefetch_data, marks.prefetch_offset) == ([b], [1])
    assert (s[b].attach_type, s[b].attach_stage, s[b].attach_ivar) == (4, s[c], fused)
    assert s[b].iter_var_attrs[b.op.axis[0]].dim_align_factor == 16
    assert s[c].attach_type == 1 and s[c].is_output and s[c].origin_op is c.op
    assert [st.op for st in s.stages] == [a.op, b.op, c.op] and s.outputs == [c.op] and s.stage_map[b.op] is s[b]
    s[b].compute_inline()
    assert s[b].attach_type == 2
    group = s.create_group(outputs=c, inputs=a)
    assert group.num_child_stages == 2 and s[c].group is group and s.groups == [group]


def test_prefetch_reaches_the_machine() -> None:
    a = te.placeholder((40, 100), name="A")
    b = te.compute((40, 100), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis((0, 100), "k")
    c = te.compute((40,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s[c].prefetch(b, c.op.axis[0], 1)
    s[b].prefetch(a, b.op.axis[0], 2)
    # Seven lines of 16 floats, for the row two iterations later, or the last one.
    text = str(tvm.lower(s, [a, c], simple_mode=True))
    assert "for p1 in range(7):" in text
    assert "T.address_of(A_1[T.min(i + 2, 39) * 100 + p1 * 16]), 0, 3, 1)" in text
    assert "call void @llvm.prefetch.p0" in tvm.build(s, [a, c], "llvm").get_source()
    value = random(40, 100)
    check(s, [a, c], [value], [(value + 1).sum(1)])
    s = te.create_schedule(c.op)
    s[c].prefetch(a, c.op.axis[0], 1)
    with pytest.raises(tvm.TVMError, match="^stage C: prefetch: nothing inside i reads A$"):
        s.to_prim_func([a, c])


def test_split_without_predicates() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    for promised in (False, True):
        s = te.create_schedule(b.op)
        s[b].split(b.op.axis[0], factor=8, disable_predication=promised)
        text = str(s.to_prim_func([a, b]))
        assert ("T.where" in text) is not promised
        value = random(16)
        check(s, [a, b], [value], [value + 1])


def test_layouts() -> None:
    a = te.placeholder((8, 12), name="A")
    b = te.compute((8, 12), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 12), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    axes = s[b].transform_layout(lambda i, j: [j // 4, i, j % 4])
    assert axes is not None and [int(x.dom.extent) for x in axes] == [3, 8, 4]
    s[b].vectorize(axes[2])
    s[b].parallel(axes[0])
    assert s[a].transform_layout(lambda i, j: [j, i]) is None
    out = s[c].transform_layout(lambda i, j: [i // 2, te.AXIS_SEPARATOR, j, i % 2])
    assert out is not None
    s[c].unroll(out[2])
    func = s.to_prim_func([a, c])
    assert "B = T.alloc_buffer((3, 8, 4))" in str(func) and "axis_separators=[1]" in str(func)
    value = random(8, 12)
    want = ((value + 1) * 2).reshape(4, 2, 12).transpose(0, 2, 1)
    got = np.zeros((4, 12, 2), "float32")
    interp.run(func, [np.ascontiguousarray(value.T), got])
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    k = te.reduce_axis((0, 12), "k")
    d = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * a[j, k], axis=k), name="D")
    s = te.create_schedule(d.op)
    axes = s[d].transform_layout(lambda i, j: [i // 4, j, i % 4])
    assert s[d].leaf_iter_vars == [*axes, *d.op.reduce_axis]
    s[d].transform_layout(lambda x, j, y: [j, x, y])
    want = (value @ value.T).reshape(2, 4, 8).transpose(2, 0, 1)
    execute(s, [a, d], [value], [np.ascontiguousarray(want)])


def test_rows_that_roll() -> None:
    a = te.placeholder((12, 8), name="A")
    b = te.compute((12, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((10, 8), lambda i, j: b[i, j] + b[i + 1, j] + b[i + 2, j], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].rolling_buffer()
    value = random(12, 8)
    check(s, [a, c], [value], [3 + value[:-2] + value[1:-1] + value[2:]])


def test_buffers_given_to_tensors() -> None:
    a, b = te.placeholder((6, 4), name="A"), te.placeholder((6, 4), name="B")
    c = te.compute((6, 4), lambda i, j: a[i, j] + b[i, j], name="C")
    s = te.create_schedule(c.op)
    wide = tir.decl_buffer((6, 4), "float32", "wide", strides=[8, 1])
    whole = np.zeros((6, 8), "float32")
    whole[:] = random(6, 8)
    other, out = random(6, 4), np.zeros((6, 4), "float32")
    for args in ([a, b, c], [wide, b, c]):
        mod = tvm.lower(s, args, binds={a: wide}, simple_mode=True)
        assert "wide_1[i * 8 + j]" in str(mod) or "wide[i * 8 + j]" in str(mod)
    function = tvm.build(s, [a, b, c], "llvm", binds={a: wide})
    del function
    func = s.to_prim_func([a, b, c], {a: wide})
    interp.run(func, [whole[:, :4], other, out])
    np.testing.assert_allclose(out, whole[:, :4] + other, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="^create_prim_func: argument 0 is buffer wide, which stands for no tensor"):
        tvm.lower(s, [wide, b, c])
    with pytest.raises(ValueError, match="^lower: binds is for a te.Schedule; a PrimFunc has its own buffers$"):
        tvm.lower(func, binds={a: wide})


def test_conditions_that_specialize() -> None:
    assert te.SpecializedCondition.current() is None
    n = te.var("n")
    with te.SpecializedCondition(n <= 16) as outer:
        assert te.SpecializedCondition.current() is outer and len(outer.clauses) == 1
        with te.SpecializedCondition([n > 1, n < 8]) as inner:
            assert te.SpecializedCondition.current() is inner and len(inner.clauses) == 2
        assert te.SpecializedCondition.current() is outer
    assert te.SpecializedCondition.current() is None


@pytest.mark.parametrize(("factor", "offset", "row"), [(16, 4, 20), (8, 0, 16), (5, 0, 10), (32, 1, 33)])
def test_rows_with_gaps(factor: int, offset: int, row: int) -> None:
    a = te.placeholder((6, 10), name="A")
    b = te.compute((6, 10), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((6, 10), lambda i, j: b[i, j] * 2.0 + b[i, 9 - j], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=3)
    s[b].compute_at(s[c], outer)
    s[b].storage_align(b.op.axis[0], factor, offset)
    assert f'T.allocate([{3 * row}], "float32", "global")' in str(tvm.lower(s, [a, c]))
    value = random(6, 10)
    check(s, [a, c], [value], [(value + 1) * 2 + value[:, ::-1] + 1])


def test_predicates_of_stores_know_their_threads() -> None:
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].reorder(k, b.op.axis[0])
    s[b].set_store_predicate(b.op.axis[0].var < 3)
    value = random(4, 8)
    want = value.sum(1)
    want[3] = 0
    check(s, [a, b], [value], [want])
    s[b].set_store_predicate(te.var("other") < 3)
    with pytest.raises(tvm.TVMError) as caught:
        s.to_prim_func([a, b])
    assert str(caught.value) == (
        "set_store_predicate: stage B: other must be a leaf, a thread that a loop around it is bound to, or an argument"
    )
