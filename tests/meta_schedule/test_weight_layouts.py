"""Weights whose layouts are free: stored in the order in which schedules read them, with the same results."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.meta_schedule.kernels import check_draws, context, gemm, inputs_of
from tests.tir_schedule.random_programs.programs import run_program
from tilewright import meta_schedule as ms
from tilewright import te, tir
from tilewright.ir import IRModule
from tilewright.meta_schedule.postproc import RewriteLayout
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.node import nodes_of
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.analysis import suggest_index_map
from tilewright.tir.transform import RemoveWeightLayoutRewriteBlock
from tilewright.tuning.measure import ENTRY
from tilewright.tuning.weight_layouts import layout_function, measured_module, without_copies


def product(m: int = 16, n: int = 16, k: int = 16, free: bool = True, shift: bool = False) -> tir.PrimFunc:
    a, b, r = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B"), te.reduce_axis((0, k), name="k")
    attrs = {"layout_free_placeholders": [b]} if free else {}
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C", attrs=attrs)
    out = te.compute((m, n), lambda i, j: c[i, j] + b[i % k, j], name="D") if shift else c
    return te.create_prim_func([a, b, out])


def tiled(func: tir.PrimFunc, cached: bool = False) -> Schedule:
    sch = Schedule(func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i0, i1), (k0, k1) = sch.split(i, [4, 4]), sch.split(k, [4, 4])
    sch.reorder(i0, j, k0, i1, k1)
    if cached:
        sch.compute_at(sch.cache_read(block, 1, "local"), k0)
    return sch


def preproc(sch: Schedule) -> list[tir.Block]:
    blocks = [b for f in sch.mod.functions.values() for b in nodes_of(f.body, tir.Block)]
    return [b for b in blocks if b.annotations.get("meta_schedule.layout_rewrite_preproc")]


def suggested(shape: list[int], indices: Any, **extents: int) -> list[str] | None:
    names = {n: tir.Var(n, "int32") for n in extents}
    loops = [tir.For(v, 0, extents[n], 0, tir.Evaluate(0)) for n, v in names.items()]
    found = suggest_index_map(tir.decl_buffer(shape), indices(**names), loops, tir.const(True, "bool"))
    return None if found is None else [str(i) for i in found.final_indices]


def test_layouts_follow_loops() -> None:
    both = lambda i, j: [i // 16 * 4 + j // 16, i % 16 * 16 + j % 16]  # noqa: E731
    assert suggested([8, 256], both, i=32, j=64) == ["i0 // 4", "i1 // 16", "i0 % 4", "i1 % 16"]
    assert suggested([8], lambda i, j: [j % 4 * 2 + i], i=2, j=32) == ["i0 % 2", "i0 // 2"]
    # A digit that reaches over two dimensions.
    assert suggested([4, 6], lambda i, j: [(j * 3 + i) // 6, (j * 3 + i) % 6], i=3, j=8) == [
        "i1 % 3",
        "i0 * 2 + i1 // 3",
    ]
    # Elements that are not reached, or at several places; what is no digit.
    assert suggested([8, 8], lambda i, j: [i, j], i=8, j=4) is None
    assert suggested([8], lambda i, j: [i + j], i=4, j=5) is None
    assert suggested([16], lambda i, j: [i * i], i=4, j=1) is None


def test_the_weight_is_stored_as_it_is_read() -> None:
    func = product()
    for cached in (False, True):
        sch = tiled(func, cached)
        assert RewriteLayout().apply(sch)
        (block,) = preproc(sch)
        assert [int(n) for n in block.writes[0].buffer.shape] == [16, 4, 4]
        inputs = inputs_of(func)
        (got,), (want,) = run_program(sch.mod, inputs), run_program(func, inputs)
        np.testing.assert_array_equal(got, want)
        # The weight that the pass's result takes has the new layout.
        a, b = inputs["A"], inputs["B"]
        passed = RemoveWeightLayoutRewriteBlock()(sch.mod)
        new = np.ascontiguousarray(b.T.reshape(16, 4, 4))
        out = tvm.nd.empty((16, 16))
        tvm.build(passed, target="interp")(tvm.nd.array(a), tvm.nd.array(new), out)
        np.testing.assert_array_equal(out.numpy(), want)


def test_what_is_left_alone() -> None:
    changed = lambda sch: (RewriteLayout().apply(sch), len(preproc(sch)))[1]  # noqa: E731
    assert changed(tiled(product(free=False))) == 0
    # Read at two places; read in the order in which it is stored; read under a condition.
    assert changed(tiled(product(shift=True))) == 0
    sch = Schedule(product())
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(k, j, i)
    assert changed(sch) == 0
    sch = Schedule(product())
    sch.split(sch.get_loops(sch.get_block("C"))[1], [None, 5])
    assert changed(sch) == 0


def test_draws_compute_the_same() -> None:
    func = product(8, 12, 6)
    assert isinstance(ms.Postproc.create("llvm")[-1], RewriteLayout)
    space = TraceSpace(context(func))
    assert check_draws(func, space, 8) == 8
    random = Random(0)
    drawn = [space.schedule(space.draw(random)) for _ in range(6)]
    assert any([preproc(sch) for sch in drawn])
    # Features are those of the kernel without the copy.
    sch = next(sch for sch in drawn if preproc(sch))
    left = without_copies(sch.mod)
    assert not preproc(Schedule(left)) and without_copies(left) is left


@pytest.mark.parametrize("target", ["interp", "llvm"])
def test_what_is_measured_has_no_copy(target: str) -> None:
    sch = tiled(product())
    RewriteLayout().apply(sch)
    mod = measured_module(sch.mod["main"])
    assert sorted([g.name_hint for g in mod.functions]) == [ENTRY, layout_function(1)]
    library = tvm.build(mod, target=target)
    values = inputs_of(product())
    a, b, new, out = tvm.nd.array(values["A"]), tvm.nd.array(values["B"]), *[tvm.nd.empty((16, 16)) for _ in range(2)]
    library[layout_function(1)](b, new)
    library[ENTRY](a, new, out)
    np.testing.assert_array_equal(out.numpy(), values["A"] @ values["B"])
    assert (new.numpy() != values["B"]).any()
    plain = measured_module(gemm())
    assert [g.name_hint for g in plain.functions] == [ENTRY]


def test_tuning_measures_new_layouts(tmp_path: Path) -> None:
    func = product()

    def space(sch: Schedule) -> None:
        made = tiled(func)
        assert made.trace is not None
        made.trace.apply_to_schedule(sch, remove_postproc=False)

    generator = ms.space_generator.ScheduleFn(space, postprocs=[RewriteLayout()])
    seen: list[str | None] = []

    class Seen(ms.measure_callback.PyMeasureCallback):
        def apply(self, task_scheduler: Any, task_id: int, candidates: Any, built: Any, results: Any) -> None:
            seen.extend([r.error_msg for r in results])

    database = ms.tune_tir(
        func,
        "llvm",
        str(tmp_path),
        2,
        num_trials_per_iter=1,
        space=generator,
        strategy="replay-func",
        cost_model="random",
        measure_callbacks=[*ms.MeasureCallback.create("default"), Seen()],
    )
    # The results were compared with those of the untuned kernel, twice beside the fastest.
    assert seen == [None, None]
    again = ms.database.JSONDatabase(work_dir=str(tmp_path))
    for found in (database, again):
        sch = ms.tir_integration.compile_tir(found, func, "llvm")
        assert sch is not None and len(preproc(sch)) == 1
        inputs = inputs_of(func)
        np.testing.assert_array_equal(run_program(sch.mod, inputs)[0], run_program(func, inputs)[0])


def test_constants() -> None:
    weight = np.arange(256, dtype="float32").reshape(16, 16)
    func = product()
    (pa, a), (_, b), (pc, c) = func.buffer_map.items()
    root: Any = func.body.block  # type: ignore[attr-defined]
    (leaf,) = nodes_of(root.body, tir.Block)
    named = leaf.replace(annotations={"layout_free_placeholders": [b]})

    class Renamed(tvm.node.Mutator):
        @tvm.node.on(tir.Block)
        def _block(self, x: tir.Block) -> tir.Block:
            return named if x is leaf else x

    body = tir.AllocateConst(b.data, "float32", [16, 16], weight, Renamed().visit(root.body))
    kept = func.replace(
        params=(pa, pc),
        buffer_map={pa: a, pc: c},
        body=func.body.replace(block=root.replace(body=body)),  # type: ignore[attr-defined]
        attrs={"global_symbol": "main"},
    )
    sch = tiled(kept)
    assert RewriteLayout().apply(sch) and len(preproc(sch)) == 1
    made = RemoveWeightLayoutRewriteBlock()(IRModule({"main": sch.mod["main"]}))
    (constant,) = nodes_of(made["main"].body, tir.AllocateConst)
    np.testing.assert_array_equal(np.asarray(constant.data), weight.T.reshape(16, 4, 4))
    for mod in (sch.mod, made):
        x, out = np.ones((16, 16), "float32"), tvm.nd.empty((16, 16))
        tvm.build(mod, target="interp")(tvm.nd.array(x), out)
        np.testing.assert_array_equal(out.numpy(), x @ weight)
