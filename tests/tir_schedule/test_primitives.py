"""Primitives one by one: the result has the shape the docstring shows and computes the same; refusals say why."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.tir_schedule.random_programs.programs import random_inputs, run_program
from tilewright import te, tir
from tilewright.codegen.interp import run
from tilewright.node import assert_structural_equal
from tilewright.script import from_source
from tilewright.support.errors import ScheduleError
from tilewright.tir import DeclBuffer, For, ForKind, PrimFunc
from tilewright.tir.schedule import Schedule, Trace
from tilewright.tir.schedule.index_map import IndexMap
from tilewright.tir.schedule.tensor_intrin import TensorIntrin


def chain(n: int = 16) -> PrimFunc:
    """C = (A * 2) + 1."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * tir.const(2.0, "float32"), name="B")
    c = te.compute((n,), lambda i: b[i] + tir.const(1.0, "float32"), name="C")
    return te.create_prim_func([a, c])


def matmul(m: int = 8, n: int = 8, k: int = 8) -> PrimFunc:
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    return te.create_prim_func([a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")])


def stencil(n: int = 8) -> PrimFunc:
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] * tir.const(3.0, "float32"), name="B")
    c = te.compute((n - 2, n), lambda i, j: b[i, j] + b[i + 1, j] + b[i + 2, j], name="C")
    return te.create_prim_func([a, c])


def check(f: PrimFunc, s: Schedule, names: list[str]) -> None:
    inputs = random_inputs(f, names)
    for a, b in zip(run_program(f, inputs), run_program(s.mod, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_split_gives_predicates_only_when_needed() -> None:
    s = Schedule(chain(16))
    l0, l1 = s.split(s.get_loops("B")[0], [None, 4])
    assert [int(s.get(x).extent) for x in (l0, l1)] == [4, 4]
    assert "T.where" not in str(s.mod["main"])
    s.split(s.get_loops("C")[0], [5, None])
    assert "T.where(i_0 * 4 + i_1 < 16)" in str(s.mod["main"])
    check(chain(16), s, ["A"])


def test_fuse_and_split_bind_in_canonical_form() -> None:
    s = Schedule(matmul())
    i, j, _ = s.get_loops("C")
    outer, _ = s.split(s.fuse(i, j), [None, 8])
    assert str(s.get(outer).loop_var.name) == "i_j_fused_0"
    assert 'remap("SSR", [i_j_fused_0, i_j_fused_1, k])' in str(s.mod["main"])
    check(matmul(), s, ["A", "B"])


def test_handles_survive_and_die() -> None:
    s = Schedule(matmul())
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    s.reorder(k, i, j)
    assert s.get(i).loop_var.name == "i"
    s.split(i, [2, None])
    assert s.get(block).name_hint == "C"
    with pytest.raises(ScheduleError, match="no longer exists"):
        s.unroll(i)


def test_thread_and_annotation() -> None:
    s = Schedule(matmul())
    i, j, k = s.get_loops("C")
    s.bind(i, "blockIdx.x")
    s.bind(j, "threadIdx.x")
    s.annotate(k, "pragma_auto_unroll_max_step", 16)
    stmt = s.get(i)
    assert (
        isinstance(stmt, For) and stmt.kind == ForKind.THREAD_BINDING and stmt.thread_binding.thread_tag == "blockIdx.x"
    )
    assert int(s.get(k).annotations["pragma_auto_unroll_max_step"]) == 16
    s.unannotate(k, "pragma_auto_unroll_max_step")
    assert not s.get(k).annotations
    check(matmul(), s, ["A", "B"])


def test_cache_read_and_write() -> None:
    s = Schedule(matmul())
    c = s.get_block("C")
    read = s.cache_read(c, 0, "local")
    write = s.cache_write(c, 0, "local")
    assert s.get(read).name_hint == "A_local" and s.get(write).name_hint == "C_local"
    s.compute_at(read, s.get_loops(c)[1])
    s.reverse_compute_at(write, s.get_loops(c)[0])
    check(matmul(), s, ["A", "B"])


def test_cache_inplace_and_index() -> None:
    a = te.placeholder((12,), name="A")
    f = te.create_prim_func([a, te.compute((12,), lambda i: a[i * 5 % 7 + i // 3], name="B")])
    s = Schedule(f)
    (index,) = s.cache_index("B", "global")
    assert s.get(index).name_hint == "index_0"
    check(f, s, ["A"])
    g = matmul()
    t = Schedule(g)
    t.decompose_reduction("C", t.get_loops("C")[2])
    assert len(t.get_loops("C_init")) == 2


def test_transform_layout_with_padding() -> None:
    f = chain(10)
    s = Schedule(f)
    s.transform_layout("B", ("write", 0), lambda i: [i // 4, i % 4], pad_value=0.0)
    assert [int(n) for n in s.get(s.get_block("B")).writes[0].buffer.shape] == [3, 4]
    assert len(s.get_loops("B")) == 2 and "if_then_else" in s.mod["main"].script()
    check(f, s, ["A"])


def test_transform_layout_of_a_parameter() -> None:
    s = Schedule(chain(16))
    s.transform_layout("C", ("write", 0), lambda i: (i // 4, i % 4))
    func = s.mod["main"]
    out = np.zeros((4, 4), "float32")
    run(func, [np.arange(16, dtype="float32"), out])
    np.testing.assert_array_equal(out.reshape(-1), np.arange(16) * 2 + 1)


def test_index_map() -> None:
    m = IndexMap.from_func(lambda i, j: (i // 4, j, i % 4))
    assert [int(n) for n in m.map_shape([10, 3])] == [3, 3, 4]
    back, padding = m.non_surjective_inverse([10, 3])
    assert [str(e) for e in back.final_indices] == ["axis2 + axis0 * 4", "axis1"] or len(back.final_indices) == 2
    assert "10" in str(padding)
    with pytest.raises(ValueError, match="padding"):
        m.inverse([10, 3])
    source = np.arange(8).reshape(8, 1)
    np.testing.assert_array_equal(m.map_ndarray(source).transpose(0, 2, 1).reshape(8, 1), source)


def test_reindex_and_block_layout() -> None:
    s = Schedule(matmul())
    s.reindex("C", ("read", 1))
    s.reindex("C", ("write", 0))
    s.transform_block_layout("C", lambda i, j, k: (i // 4, j, i % 4, k))
    assert len(s.get_loops("C")) == 4
    check(matmul(), s, ["A", "B"])


def test_blockize_then_decompose() -> None:
    s = Schedule(matmul())
    i, j, k = s.get_loops("C")
    i0, i1 = s.split(i, [None, 4])
    j0, j1 = s.split(j, [None, 4])
    k0, k1 = s.split(k, [None, 4])
    s.reorder(i0, j0, k0, i1, j1, k1)
    outer = s.blockize(i1)
    assert s.get(outer).name_hint == "C_o" and len(s.get_loops(outer)) == 3
    check(matmul(), s, ["A", "B"])
    s.decompose_reduction(outer, k0)
    check(matmul(), s, ["A", "B"])


def test_tensorize() -> None:
    desc_f = matmul(4, 4, 4)
    desc = Schedule(desc_f)
    desc.decompose_reduction("C", desc.get_loops("C")[0])
    wanted = desc.mod["main"]
    update_only = wanted.replace(
        body=wanted.body.replace(block=wanted.body.block.replace(body=wanted.body.block.body.seq[1]))
    )
    TensorIntrin.register("test.mm4", update_only, update_only, override=True)
    s = Schedule(matmul())
    i, j, k = s.get_loops("C")
    i0, i1 = s.split(i, [None, 4])
    j0, j1 = s.split(j, [None, 4])
    k0, k1 = s.split(k, [None, 4])
    s.reorder(i0, j0, k0, i1, j1, k1)
    s.decompose_reduction("C", k0)
    s.tensorize(i1, "test.mm4")
    assert "T.match_buffer" in str(s.mod["main"])
    check(matmul(), s, ["A", "B"])
    t = Schedule(stencil())
    with pytest.raises(ScheduleError, match="must be the computation that the intrinsic describes"):
        t.tensorize(t.get_loops("C")[0], "test.mm4")
    with pytest.raises(ScheduleError, match=r"there is no tensor intrinsic 'test\.none'"):
        t.tensorize(t.get_loops("C")[0], "test.none")


def test_rolling_buffer() -> None:
    s = Schedule(stencil())
    s.compute_at("B", s.get_loops("C")[0])
    s.rolling_buffer("B", 0)
    assert [int(n) for n in s.get(s.get_block("B")).writes[0].buffer.shape] == [3, 8]
    check(stencil(), s, ["A"])


def test_merge() -> None:
    s = Schedule(chain())
    s.merge(s.get_loops("B")[0], s.get_loops("C")[0])
    assert s.get_loops("B") and len(s.get_child_blocks(s.get_loops("B")[0])) == 2
    check(chain(), s, ["A"])
    t = Schedule(stencil())
    with pytest.raises(ScheduleError, match="same extent"):
        t.merge(t.get_loops("B")[0], t.get_loops("C")[0])


def test_pad_einsum() -> None:
    f = matmul(7, 5, 6)
    s = Schedule(f)
    s.pad_einsum("C", [4, 4, 4])
    assert [int(s.get(x).extent) for x in s.get_loops("C")] == [8, 8, 8]
    check(f, s, ["A", "B"])


def test_loop_partition_and_unit_loop() -> None:
    s = Schedule(chain())
    parts = s.loop_partition(s.get_loops("B")[0], [4, 8, None])
    assert [int(s.get(x).extent) for x in parts] == [4, 8, 4]
    assert int(s.get(s.add_unit_loop(s.get_block("C"))).extent) == 1
    check(chain(), s, ["A"])


def test_set_dtype_align_separator() -> None:
    s = Schedule(chain())
    s.unsafe_set_dtype("B", 0, "float64")
    s.storage_align("B", 0, 0, 32, 8)
    s.set_axis_separator("B", ("write", 0), [])
    assert s.get(s.get_block("B")).writes[0].buffer.dtype == "float64"
    check(chain(), s, ["A"])


def test_sampling_replays_and_reports() -> None:
    s = Schedule(matmul(16, 16, 16), seed=3)
    i, j, _ = s.get_loops("C")
    tiles = s.sample_perfect_tile(i, 3, 4)
    s.split(i, tiles)
    width = s.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5])
    s.split(j, [None, width])
    again = Schedule(matmul(16, 16, 16), seed=9)
    assert s.trace is not None and again.trace is not None
    Trace.apply_json_to_schedule(s.trace.as_json(), again)
    assert_structural_equal(again.mod["main"], s.mod["main"])
    assert again.trace.as_python() == s.trace.as_python()
    check(matmul(16, 16, 16), s, ["A", "B"])


def test_sample_compute_location() -> None:
    marks = set()
    for seed in range(12):
        s = Schedule(stencil(), seed=seed)
        s.compute_at("B", s.sample_compute_location("B"))
        assert s.trace is not None
        marks.add(next(iter(s.trace.decisions.values())))
        check(stencil(), s, ["A"])
    assert len(marks) > 1


def test_trace_text() -> None:
    s = Schedule(matmul())
    i, _, _ = s.get_loops("C")
    s.split(i, [None, 4])
    s.enter_postproc()
    assert s.trace is not None
    assert s.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "l4, l5 = sch.split(loop=l1, factors=[None, 4], preserve_unit_iters=True, disable_predication=False)",
        "sch.enter_postproc()",
    ]
    assert [x.kind.name for x in s.trace.simplified().insts] == ["GetBlock", "GetLoops", "Split"]


def test_copies_are_independent() -> None:
    s = Schedule(matmul())
    block = s.get_block("C")
    t = s.copy()
    t.split(t.get_loops(block)[0], [None, 2])
    assert len(s.get_loops(block)) == 3 and len(t.get_loops(block)) == 4


def test_producers_consumers_outputs() -> None:
    s = Schedule(chain())
    b, c = s.get_block("B"), s.get_block("C")
    assert [s.get(x).name_hint for x in s.get_consumers(b)] == ["C"]
    assert [s.get(x).name_hint for x in s.get_producers(c)] == ["B"]
    assert [s.get(x).name_hint for x in s.get_output_blocks("root")] == ["C"]


def test_error_shows_the_program_and_the_culprit() -> None:
    s = Schedule(matmul(4, 4, 4))
    k = s.get_loops("C")[2]
    with pytest.raises(ScheduleError) as caught:
        s.parallel(k)
    text = str(caught.value)
    assert text.startswith(
        "parallel: loop k must not be parallel: it is a reduction loop of block C, so its iterations update the same elements\n"
    )
    lines = text.splitlines()
    row = next(n for n, line in enumerate(lines) if "T.grid(4, 4, 4)" in line)
    assert re.search(r"\^+ loop k", lines[row + 1])


REFUSALS = [
    ("reorder: each loop may be named once, but loop i is named twice", lambda s: s.reorder(*[s.get_loops("C")[0]] * 2), matmul),
    ("fuse: loop i must hold only loop k", lambda s: s.fuse(s.get_loops("C")[0], s.get_loops("C")[2]), matmul),
    ("split: the product of the factors must reach the extent 8", lambda s: s.split(s.get_loops("C")[0], [2, 2]), matmul),
    ("split: without a predicate the factors must divide the extent 8 of loop i, but [None, 3] gives 9",
     lambda s: s.split(s.get_loops("C")[0], [None, 3], disable_predication=True), matmul),
    ("split: only one factor may be None", lambda s: s.split(s.get_loops("C")[0], [None, None]), matmul),
    ("compute_inline: block C must write a buffer that only this scope uses", lambda s: s.compute_inline("C"), chain),
    ("compute_inline: the body of block C must be one plain store", lambda s: s.compute_inline("C"), matmul),
    ("compute_at: block B is the only block in loop i", lambda s: s.compute_at("B", s.get_loops("B")[0]), chain),
    ("reverse_compute_at: a producer of block B must be below loop i", lambda s: s.reverse_compute_at("B", s.get_loops("C")[0]), chain),
    ("get_block: there is no block named 'D' in main; its blocks are B, C, root", lambda s: s.get_block("D"), chain),
    ("decompose_reduction: block C must be a reduction", lambda s: s.decompose_reduction("C", s.get_loops("C")[0]), chain),
    ("vectorize: loop k must not be vectorized", lambda s: s.vectorize(s.get_loops("C")[2]), matmul),
]  # fmt: skip


@pytest.mark.parametrize(("text", "call", "program"), REFUSALS, ids=[t[:40] for t, _, _ in REFUSALS])
def test_refusal(text: str, call: object, program: object) -> None:
    f = program()  # type: ignore[operator]
    s = Schedule(f)
    with pytest.raises(ScheduleError) as caught:
        call(s)  # type: ignore[operator]
    assert str(caught.value).startswith(text), str(caught.value)
    assert s.mod["main"] is f


def test_reverse_compute_at_of_an_unfinished_reduction_is_refused() -> None:
    a = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    f = te.create_prim_func([a, te.compute((8,), lambda i: b[i] + tir.const(1.0, "float32"), name="C")])
    s = Schedule(f)
    with pytest.raises(ScheduleError, match="is a reduction loop of block B, whose output is not complete inside it"):
        s.reverse_compute_at("C", s.get_loops("B")[1])


def test_compute_at_clips_by_a_predicate() -> None:
    f = stencil(9)
    s = Schedule(f)
    i0, _ = s.split(s.get_loops("C")[0], [None, 4])
    s.compute_at("B", i0)
    assert "T.where(i_0 * 4 + ax0 < 9)" in str(s.mod["main"])
    check(f, s, ["A"])


def test_merged_loops_do_not_read_a_reduction_that_goes_on() -> None:
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    total = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="S")
    s = Schedule(te.create_prim_func([a, te.compute((4, 8), lambda i, j: a[i, j] - total[i], name="D")]))
    with pytest.raises(
        ScheduleError, match="merge: loop k_m is a reduction loop of block S, whose output is not complete"
    ):
        s.merge(s.get_loops("S")[1], s.get_loops("D")[1])


ALIASED = """
@T.prim_func
def main(a: T.handle, d: T.handle):
    A = T.match_buffer(a, (16,))
    D = T.match_buffer(d, (16,))
    B = T.alloc_buffer((16,))
    B2 = T.decl_buffer((4, 4), data=B.data)
    for i in range(16):
        with T.block("b"):
            v = T.axis.spatial(16, i)
            B[v] = A[v]
    for i, j in T.grid(4, 4):
        with T.block("again"):
            v, w = T.axis.remap("SS", [i, j])
            B2[v, w] = T.float32(2)
    for i in range(16):
        with T.block("d"):
            v = T.axis.spatial(16, i)
            D[v] = B[v]
"""


def test_one_memory_as_two_buffers() -> None:
    func = from_source(ALIASED)
    s = Schedule(func)
    s.split(s.get_loops("b")[0], [None, 4])
    check(func, s, ["A"])
    for call in (lambda: s.compute_inline("b"), lambda: s.parallel(s.get_loops("d")[0])):
        with pytest.raises(
            ScheduleError, match="the program must not use the same memory as buffer B and as buffer B2"
        ):
            call()


def test_while_loops_are_conditions() -> None:
    text = """
@T.prim_func
def main(a: T.handle, d: T.handle):
    A = T.match_buffer(a, (4,))
    D = T.match_buffer(d, (4,))
    N = T.alloc_buffer((1,), "int32")
    with T.block("start"):
        N[0] = 0
    while N[0] < 2:
        with T.block("next"):
            N[0] = N[0] + 1
        for i in range(4):
            with T.block("d"):
                v = T.axis.spatial(4, i)
                D[v] = A[v]
"""
    func = from_source(text)
    s = Schedule(func)
    s.parallel(s.get_loops("d")[0])
    check(func, s, ["A"])
    with pytest.raises(ScheduleError, match="cache_write: the loops of block d must surely write the whole part"):
        s.cache_write("d", 0, "local")


def test_parts_of_a_part_of_a_fused_loop() -> None:
    """Two digits of a number, of which a digit is part of the loop that a third one divides: each takes its own part."""
    a = te.placeholder((33, 100, 17), name="A")
    func = te.create_prim_func([a, te.compute(a.shape, lambda *i: a(*i) + tir.const(1.0, "float32"), name="B")])
    s = Schedule(func)
    i, j, k = s.get_loops("B")
    outer, vector = s.split(s.fuse(j, k), [None, 4])
    s.parallel(s.fuse(i, outer))
    s.vectorize(vector)
    check(func, s, ["A"])


def test_only_the_loops_that_come_again_stay_serial() -> None:
    """Of loops that count one number, of which a part is used: those of that part may run in parallel."""
    func = from_source("""@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i, j, k in T.grid(3, 2, 4):
        with T.block("b"):
            v = T.axis.spatial(8, (i * 8 + j * 4 + k) % 8)
            B[v] = B[v] + A[v]
""")
    sch = Schedule(func)
    loops = sch.get_loops("b")
    for at in (1, 2):
        sch.parallel(loops[at])
    with pytest.raises(ScheduleError, match="does not depend on"):
        sch.parallel(loops[0])
    fused = Schedule(func)
    i, j, k = fused.get_loops("b")
    whole = fused.fuse(i, j, k)
    with pytest.raises(ScheduleError, match="does not depend on all of it"):
        fused.parallel(whole)
    outer, inner = fused.split(whole, [3, 8])
    fused.parallel(inner)
    with pytest.raises(ScheduleError, match="does not depend on"):
        fused.parallel(outer)


def test_copies_are_made_below_declared_buffers() -> None:
    """The copy of a view stands where the view is declared."""
    a = te.placeholder((4, 6), name="A")
    func = te.create_prim_func([a, te.compute((4, 6), lambda i, j: a[i, j] * 2.0, name="B")])
    s = Schedule(func, debug_mask="all")
    s.merge_axes("root")
    s.cache_read("B", 0, "local")
    s.cache_write("B", 0, "local")
    declared = s.mod["main"].body.block.body
    assert isinstance(declared, DeclBuffer) and isinstance(declared.body, DeclBuffer)
    assert len(declared.body.body.seq) == 3
    assert_structural_equal(from_source(str(s.mod["main"])), s.mod["main"])


@pytest.mark.parametrize("extent", [3, 6])
def test_axes_merge_only_where_loops_run_over_all_of_them(extent: int) -> None:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, {extent}):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(6, j)
            B[vi, vj] = A[vi, vj]
""")
    s = Schedule(func, debug_mask="all")
    s.merge_axes("root")
    assert (s.mod["main"] is func) == (extent == 3)
