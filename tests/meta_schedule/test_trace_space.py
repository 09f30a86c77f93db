"""Traces as candidates of the engine: written and read, searched, and refused with reasons."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.meta_schedule.kernels import context, gemm
from tests.tuning.numbers import Perfect
from tilewright.ir import IRModule
from tilewright.meta_schedule.trace_space import TraceSpace
from tilewright.node import nodes_of, structural_equal
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import For, ForKind
from tilewright.tuning.search import Effort, Search


def vector_length(program: IRModule) -> int:
    (func,) = program.functions.values()
    loops = [loop for loop in nodes_of(func.body, For) if loop.kind == ForKind.VECTORIZED]
    return max([int(loop.extent) for loop in loops], default=1)


class LongVectors(Perfect):
    """Takes programs with long vectors for fast."""

    def predict(self, programs: list[IRModule], target: Target) -> list[float]:  # type: ignore[override]
        return [float(vector_length(p)) for p in programs]


def test_written_and_read() -> None:
    space, random = TraceSpace(context(gemm())), Random(1)
    for _ in range(6):
        candidate = space.draw(random)
        data = json.loads(json.dumps(space.write(candidate)))
        again = space.read(data)
        assert space.key(again) == space.key(candidate)
        assert structural_equal(space.program(again), space.program(candidate))
    assert "EnterPostproc" not in json.dumps(space.write(space.schedule(candidate).trace))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data", [3, [], [[["Split", [], [], []]], []], [[["GetBlock", [], ['"X"', '"main"'], ["b0"]]], []]]
)
def test_other_data_is_refused(data: object) -> None:
    with pytest.raises(TVMError, match="it is no trace of this program"):
        TraceSpace(context(gemm())).read(data)


def test_searched() -> None:
    func = gemm(32, 64, 16)
    space = TraceSpace(context(func))
    search = Search(space, Target("llvm"), LongVectors(), Random(3))
    proposals = search.propose(8, Effort(population=24, generations=3, drawn=0.0))
    assert len({p.key for p in proposals}) == 8
    assert [vector_length(p.program) for p in proposals[:4]] == [64] * 4
    for proposal in proposals:
        search.told(proposal, 1.0)
    assert not {p.key for p in search.propose(8, Effort(population=16, generations=1))} & {p.key for p in proposals}
