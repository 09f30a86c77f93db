"""Mutators change one decision, and post-processors what they are for."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from tests.meta_schedule.kernels import context, conv, elementwise, gemm, norm
from tilewright import meta_schedule as ms
from tilewright import te
from tilewright.meta_schedule import mutator as M
from tilewright.meta_schedule import postproc as P
from tilewright.meta_schedule.trace_space import TraceSpace, trace_of
from tilewright.node import nodes_of
from tilewright.script import from_source
from tilewright.tir import Block, For, ForKind, PrimFunc
from tilewright.tir.schedule import Schedule, Trace


def trace_and_context(func: PrimFunc, target: str = "llvm", design: int = 0) -> tuple[Trace, ms.TuneContext]:
    ctx = context(func, target)
    return TraceSpace(ctx).designs[design], ctx


def of(mutator: M.Mutator, ctx: ms.TuneContext) -> M.Mutator:
    mutator.initialize_with_tune_context(ctx)
    return mutator


def changes(trace: Trace, new: Trace | None) -> list[tuple[str, Any, Any]]:
    assert new is not None
    pairs = [(i.kind.method, trace.decisions[i], new.decisions.get(i)) for i in trace.decisions]
    return [(name, old, now) for name, old, now in pairs if old != now]


def test_tiles_keep_their_product() -> None:
    trace, ctx = trace_and_context(gemm())
    mutator = of(M.MutateTileSize(), ctx)
    for _ in range(40):
        ((name, old, new),) = changes(trace, mutator.apply(trace))
        assert name == "sample_perfect_tile" and prod(old) == prod(new) and new[-1] <= 64
        assert sum([a != b for a, b in zip(old, new, strict=True)]) == 2


def test_unrolling_changes() -> None:
    trace, ctx = trace_and_context(elementwise())
    ((name, old, new),) = changes(trace, of(M.MutateUnroll(), ctx).apply(trace))
    assert name == "sample_categorical" and old != new and new in range(4)
    assert of(M.MutateTileSize(), ctx).apply(trace) is None


def test_locations_are_drawn_again() -> None:
    trace, ctx = trace_and_context(conv())
    new = of(M.MutateComputeLocation(), ctx).apply(trace)
    assert [name for name, _, _ in changes(trace, new)] == ["sample_compute_location"]


def test_threads_change() -> None:
    trace, ctx = trace_and_context(elementwise(), "cuda")
    ((name, old, new),) = changes(trace, of(M.MutateThreadBinding(), ctx).apply(trace))
    assert name == "sample_categorical" and old != new
    assert of(M.MutateThreadBinding(), ctx).apply(Trace()) is None


def test_parallel_loops_change() -> None:
    trace, ctx = trace_and_context(gemm(64, 64, 8))
    new = of(M.MutateParallel(16), ctx).apply(trace)
    assert new is not None
    sch = Schedule(gemm(64, 64, 8))
    new.apply_to_schedule(sch)
    value = sch.get(sch.get_block("root")).annotations["meta_schedule.parallel"]
    assert value != 32 and 1 <= int(value) <= 32
    # The number is that of a prefix of the loops.
    extents, products = [int(sch.get(loop).extent) for loop in sch.get_loops(sch.get_block("C"))], {1}
    for i in range(len(extents)):
        products.add(prod(extents[: i + 1]))
    assert int(value) in products


def kinds(sch: Schedule) -> list[int]:
    return [loop.kind for loop in nodes_of(sch.mod["main"].body, For)]


def noted(func: PrimFunc, **notes: int) -> Schedule:
    sch = Schedule(func)
    for key, value in notes.items():
        sch.annotate(sch.get_block("root"), f"meta_schedule.{key}", value)
    return sch


def test_parallel_vectorize_unroll() -> None:
    sch = noted(gemm(8, 16, 4), parallel=8, vectorize=16, unroll_explicit=64)
    assert P.RewriteParallelVectorizeUnroll().apply(sch)
    i, j, k = [sch.get(loop) for loop in sch.get_loops(sch.get_block("C"))]
    # The reduction is innermost, so nothing is a vector.
    assert (i.kind, j.kind, k.kind) == (ForKind.PARALLEL, ForKind.SERIAL, ForKind.SERIAL)
    assert int(i.annotations["pragma_auto_unroll_max_step"]) == 64 and int(i.annotations["pragma_unroll_explicit"]) == 1
    assert not sch.get(sch.get_block("root")).annotations

    sch = noted(gemm(8, 16, 4), vectorize=16)
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(k, j)
    assert P.RewriteParallelVectorizeUnroll().apply(sch) and P.RewriteReductionBlock().apply(sch)
    # Both the initialisation and the updates are vectors.
    assert kinds(sch).count(ForKind.VECTORIZED) == 2
    assert {b.name_hint for b in nodes_of(sch.mod["main"].body, Block)} == {"C_init", "C_update", "root"}


def test_what_runs_across_threads_keeps_its_initialisation() -> None:
    sch = Schedule(norm())
    sch.bind(sch.get_loops(sch.get_block("S"))[-1], "threadIdx.x")
    assert P.RewriteReductionBlock().apply(sch)
    assert sch.get(sch.get_block("S")).init is not None


def test_dynamic_loops_are_refused() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    func = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, name="B")])
    assert not P.DisallowDynamicLoop().apply(Schedule(func))
    assert P.DisallowDynamicLoop().apply(Schedule(gemm()))


def test_limits_of_gpus() -> None:
    ctx = context(elementwise(), "cuda -max_threads_per_block=32")
    check = P.VerifyGPUCode()
    check.initialize_with_tune_context(ctx)
    for threads, fits in ((32, True), (64, False)):
        sch = Schedule(elementwise(8, 64))
        for name in ("twice", "more"):
            sch.compute_inline(name)
        outer, inner = sch.split(sch.fuse(*sch.get_loops(sch.get_block("Y"))), [None, threads])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
        assert check.apply(sch) is fits


def test_unbound_blocks_are_bound() -> None:
    rewrite = P.RewriteUnboundBlock(4)
    rewrite.initialize_with_tune_context(context(elementwise(), "cuda -max_threads_per_block=8"))
    sch = Schedule(elementwise())
    assert rewrite.apply(sch)
    for name in ("twice", "more", "Y"):
        outer, inner, rest = [sch.get(loop) for loop in sch.get_loops(sch.get_block(name))]
        assert (int(outer.extent), int(inner.extent)) == (4, 8) and rest.kind == ForKind.SERIAL


def test_limit_of_vtcm() -> None:
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    with T.block("root"):
        C = T.alloc_buffer((64,), scope="global.vtcm")
        for i in range(64):
            with T.block("c"):
                v = T.axis.spatial(64, i)
                C[v] = A[v]
        for i in range(64):
            with T.block("b"):
                v = T.axis.spatial(64, i)
                B[v] = C[v]
"""
    )
    assert isinstance(func, PrimFunc)
    for capacity, fits in ((256, True), (255, False)):
        check = P.VerifyVTCMLimit()
        check.initialize_with_tune_context(context(func, f"hexagon -vtcm-capacity={capacity}"))
        assert check.apply(Schedule(func)) is fits


def test_mutators_of_users() -> None:
    @ms.derived_object
    class Last(M.PyMutator):
        def apply(self, trace: Trace) -> Trace | None:
            inst = list(trace.decisions)[-1]
            return trace.with_decision(inst, 1)

    @ms.derived_object
    class Never(P.PyPostproc):
        def apply(self, sch: Schedule) -> bool:
            return False

    space = ms.space_generator.PostOrderApply(postprocs=[Never()], mutator_probs={Last(): 1.0})
    ctx = context(gemm(), space=space)
    traces = TraceSpace(ctx)
    from random import Random

    new = traces.neighbour(traces.draw(Random(1)), Random(2))
    assert list(new.decisions.values())[-1] == 1
    with pytest.raises(Exception, match="the post-processor Never refuses the schedule"):
        traces.program(new)
    assert trace_of(Schedule(gemm())).insts == []
