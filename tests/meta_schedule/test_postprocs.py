"""Post-processors that look at the lowered program."""

from __future__ import annotations

from typing import Any

import pytest

from tests.meta_schedule.kernels import context, elementwise, gemm
from tilewright import meta_schedule as ms
from tilewright import te
from tilewright.meta_schedule.postproc import DisallowAsyncStridedMemCopy, VerifyCodeSize
from tilewright.tir.schedule import Schedule


def staged(rows: int, columns: int, asynchronous: bool = True, vector: int = 0) -> Schedule:
    """A kernel whose input is copied ahead in tiles of so many rows and columns, of 8 x 32 numbers."""
    x = te.placeholder((8, 32), name="X")
    sch = Schedule(te.create_prim_func([x, te.compute((8, 32), lambda i, j: x[i, j] + 1.0, name="Y")]))
    block = sch.get_block("Y")
    copy = sch.cache_read(block, 0, "global.vtcm")
    i, j = sch.get_loops(block)
    (i0, i1), (j0, j1) = sch.split(i, [None, rows]), sch.split(j, [None, columns])
    sch.reorder(i0, j0, i1, j1)
    outer = sch.fuse(i0, j0)
    sch.compute_at(copy, outer)
    if vector:
        sch.vectorize(sch.split(sch.get_loops(copy)[-1], [None, vector])[1])
    notes: dict[str, Any] = {"stage": [0, 1], "order": [0, 1], **({"async_stages": [0]} if asynchronous else {})}
    for key, value in notes.items():
        sch.annotate(outer, f"software_pipeline_{key}", value)
    return sch


@pytest.mark.parametrize("vector", [0, 4])
def test_asynchronous_copies_are_of_runs(vector: int) -> None:
    accepts = DisallowAsyncStridedMemCopy().apply
    # A part of a row; whole rows; rows of which parts are left out, also when the copy is not asynchronous.
    assert accepts(staged(1, 8, vector=vector))
    assert accepts(staged(2, 32, vector=vector))
    assert not accepts(staged(2, 8, vector=vector))
    assert accepts(staged(2, 8, asynchronous=False, vector=vector))


def test_programs_that_cannot_be_lowered_have_no_asynchronous_copies() -> None:
    sch = staged(1, 8)
    (loop, *_) = sch.get_loops(sch.get_block("Y"))
    sch.unannotate(loop, "software_pipeline_order")
    sch.annotate(loop, "software_pipeline_order", [0, 1, 2])
    assert not DisallowAsyncStridedMemCopy().apply(sch)


def test_defaults_of_hexagon() -> None:
    names = [type(part).__name__ for part in ms.Postproc.create("hexagon")]
    assert names[-3:] == ["RewriteLayout", "VerifyVTCMLimit", "DisallowAsyncStridedMemCopy"]
    tuned = context(elementwise(), "hexagon")
    assert tuned.space_generator is not None
    assert [type(p).__name__ for p in tuned.space_generator.postprocs] == names
    assert len(tuned.generate_design_space()) == 1


def unrolled(steps: int, vector: bool = False) -> Schedule:
    sch = Schedule(gemm(16, 64, 32))
    sch.decompose_reduction(sch.get_block("C"), sch.get_loops(sch.get_block("C"))[0])
    loops = sch.get_loops(sch.get_block("C_update"))
    if vector:
        sch.reorder(loops[2], loops[1])
        sch.vectorize(loops[1])
    sch.annotate(loops[0], "pragma_auto_unroll_max_step", steps)
    return sch


def test_code_that_no_instruction_cache_holds_is_refused() -> None:
    check = VerifyCodeSize()
    check._initialize_with_tune_context(context(gemm(), "llvm -mcpu=x86-64-v3"))
    assert check.apply(unrolled(0)) and check.apply(unrolled(32))
    # The reduction and 64 columns: 2,048 statements of four accesses each. As vectors of 8 elements, 256.
    assert not check.apply(unrolled(2048))
    assert check.apply(unrolled(32, vector=True))
    assert not check.apply(unrolled(512, vector=True))
    by_hand = unrolled(0)
    for loop in by_hand.get_loops(by_hand.get_block("C_update"))[1:]:
        by_hand.unroll(loop)
    assert not check.apply(by_hand)
