"""A session with real measurements: tiles of a product."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.tuning import kernels
from tests.tuning.numbers import Perfect
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule
from tilewright.tuning.building import LocalBuilder
from tilewright.tuning.measure import Measured, Run
from tilewright.tuning.record import load
from tilewright.tuning.running.local import LocalRunner
from tilewright.tuning.running.measuring import Plan
from tilewright.tuning.session import Limits, Session
from tilewright.tuning.space import Space
from tilewright.tuning.task import Task

Tile = tuple[int, int]
SIZES = (1, 2, 4, 8, 16, 32)


class Tiles(Space[Tile]):
    """Rows and columns of a product that are computed together: c[i0, j0, k, i1, j1]."""

    def __init__(self, size: int) -> None:
        self.func = kernels.product(size)

    def untuned(self) -> IRModule:
        return IRModule.from_expr(self.func)

    def program(self, candidate: Tile) -> IRModule:
        schedule = Schedule(self.untuned())
        block = schedule.get_block("c")
        i, j, k = schedule.get_loops(block)
        i0, i1 = schedule.split(i, [None, candidate[0]])
        j0, j1 = schedule.split(j, [None, candidate[1]])
        schedule.reorder(i0, j0, k, i1, j1)
        schedule.unroll(i1)
        schedule.vectorize(j1)
        schedule.decompose_reduction(block, k)
        return schedule.mod

    def draw(self, random: Random) -> Tile:
        return random.choice(SIZES), random.choice(SIZES)

    def neighbour(self, candidate: Tile, random: Random) -> Tile:
        return random.choice(SIZES), candidate[1]

    def write(self, candidate: Tile) -> object:
        return list(candidate)

    def read(self, data: object) -> Tile:
        match data:
            case [int(a), int(b)]:
                return a, b
        raise TVMError(f"{data!r} is no tile")


class Ignorant(Perfect):
    """Takes all programs for equal."""

    def predict(self, programs: object, target: Target) -> list[float]:
        return [0.0] * len(programs)  # type: ignore[arg-type]


def test_a_tile_is_faster_than_plain_loops(tmp_path: Path) -> None:
    builder, runner = LocalBuilder(2), LocalRunner(plan=Plan(repeats=3, seconds=0.2))
    log = tmp_path / "log.json"
    task = Task("product", "product of 96", Target("llvm"), Tiles(96), flops=2 * 96**3)
    session = Session([task], builder, runner, Ignorant(), log)
    session.run(Limits(trials=8, batch=4))
    builder.close()
    runner.close()
    (progress,) = session.progress
    untuned = session.records[0].untuned
    assert untuned is not None and progress.seconds < untuned / 1.5
    assert len(session.records) == 8 and all(r.failure is None for r in session.records)
    records, refused = load(log)
    assert not refused and min(r.median for r in records) == pytest.approx(progress.seconds)


class Noted(LocalRunner):
    """Notes what is measured."""

    def __init__(self) -> None:
        super().__init__(plan=Plan(repeats=3, seconds=0.2))
        self.runs: list[Run] = []

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        self.runs += runs
        return super().run(runs)


def test_the_recalled_candidate_is_measured_beside_the_untuned_kernel(tmp_path: Path) -> None:
    """They are libraries of their own: one that took the other's place would be compared with itself."""
    log, task = tmp_path / "log.json", Task("product", "product of 96", Target("llvm"), Tiles(96))
    builder, runner = LocalBuilder(1), Noted()
    Session([task], builder, runner, Ignorant(), log).run(Limits(trials=4, batch=4))
    runner.runs.clear()
    again = Session([task], builder, runner, Ignorant(), log)
    again.measure_untuned()
    builder.close()
    runner.close()
    untuned, recalled = runner.runs
    assert recalled.reference == recalled.beside == untuned.library != recalled.library
    (progress,) = again.progress
    assert progress.untuned is not None and progress.seconds < progress.untuned / 1.2
