"""Traces on programs whose main block is the same: what they compute, and how they are scheduled."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.meta_schedule.kernels import context, elementwise, gemm, inputs_of
from tests.tir_schedule.random_programs.programs import run_program
from tilewright import te, tir
from tilewright.ir import IRModule
from tilewright.meta_schedule import database as D
from tilewright.meta_schedule.trace_apply import schedule_using_anchor_trace
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.support.errors import ScheduleError
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule, Trace


def epilogues() -> PrimFunc:
    """The product of `gemm` with a scaled input and two operations after it."""
    m, n, k = 8, 12, 6
    a, b, r = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B"), te.reduce_axis((0, k), name="k")
    scaled = te.compute((m, k), lambda i, j: a[i, j] * 2.0, name="scaled")
    c = te.compute((m, n), lambda i, j: te.sum(scaled[i, r] * b[r, j], axis=r), name="C")
    more = te.compute((m, n), lambda i, j: c[i, j] + 1.0, name="more")
    return te.create_prim_func(
        [a, b, te.compute((m, n), lambda i, j: te.max(more[i, j], tir.const(0.0, "float32")), name="D")]
    )


def traces(func: PrimFunc) -> list[Trace]:
    """One trace of each design."""
    space = TraceSpace(context(func))
    found = []
    for design in space.designs:
        sch = Schedule(space.mod, seed=3, error_render_level="fast")
        Trace(design.insts).apply_to_schedule(sch)
        assert sch.trace is not None
        found.append(sch.trace)
    return found


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("relu", [False, True])
def test_of_products(number: int, relu: bool) -> None:
    trace = traces(gemm(relu=relu))[number]
    for func in (gemm(), gemm(relu=True), epilogues()):
        sch = Schedule(func, error_render_level="fast")
        schedule_using_anchor_trace(sch, trace, "llvm")
        inputs = inputs_of(func)
        for got, want in zip(run_program(sch.mod, inputs), run_program(func, inputs), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
        text = str(sch.mod)
        assert "T.parallel" in text and "scaled" not in text and "more" not in text


def test_a_trace_that_does_not_fit() -> None:
    (trace, *_) = traces(gemm())
    with pytest.raises(ScheduleError, match="the trace does not fit the loops of C: refused are"):
        schedule_using_anchor_trace(Schedule(gemm(8, 7, 5)), trace, "llvm")
    with pytest.raises(ScheduleError, match="but this program has no reduction"):
        schedule_using_anchor_trace(Schedule(elementwise()), trace, "llvm")


def test_databases_use_it() -> None:
    space = TraceSpace(context(gemm()))
    db = D.MemoryDatabase(module_equality="anchor-block")
    workload = db.commit_workload(space.mod)
    db.commit_tuning_record(D.TuningRecord(space.draw(Random(1)), workload, [1.0]))
    module = IRModule.from_expr(gemm(relu=True))
    found = db.query_ir_module(module, "llvm", "main")
    assert found is not None and "T.parallel" in str(found)
    inputs = inputs_of(gemm(relu=True))
    for got, want in zip(run_program(found, inputs), run_program(gemm(relu=True), inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
