"""The search, the choice of the next task, and sessions, by measurements that need no machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.tuning.numbers import Formula, Ignorant, Names, Pairs, Perfect, best, task
from tilewright import te
from tilewright.ir import IRModule
from tilewright.support.errors import RPCError, TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tuning import log
from tilewright.tuning.allocation import Progress, model_seconds, next_task
from tilewright.tuning.inputs import difference, random_inputs, signature_of
from tilewright.tuning.measure import Argument, Built, Failure, Measured, Run, Signature, Source
from tilewright.tuning.record import load
from tilewright.tuning.search import Effort, Search
from tilewright.tuning.session import RECALLED, Event, Limits, Session


@pytest.fixture(scope="module")
def func() -> PrimFunc:
    a = te.placeholder((4, 3), name="a")
    return te.create_prim_func([a, te.compute((4, 3), lambda i, j: a[i, j] + 1.0, name="b")])


def test_a_model_that_knows_finds_the_best_in_few_measurements(func: PrimFunc) -> None:
    search = Search(Pairs(func), Target("llvm"), Perfect(), Random(0))
    seen: list[str] = []
    fastest = float("inf")
    for _ in range(4):
        for proposal in search.propose(8, Effort()):
            seen.append(proposal.key)
            search.told(proposal, best(proposal.candidate))
            fastest = min(fastest, best(proposal.candidate))
    assert len(seen) == len(set(seen)) == 32
    assert fastest < 1.0005
    random = Random(1)
    drawn = min(best((random.randrange(64), random.randrange(64))) for _ in range(32))
    assert fastest < drawn


def test_a_share_are_neighbours_of_the_fastest(func: PrimFunc) -> None:
    search = Search(Pairs(func), Target("llvm"), Ignorant(), Random(0))
    (first,) = search.propose(1, Effort(generations=0))
    search.told(first, 1.0)
    found = [p.candidate for p in search.propose(8, Effort(generations=0, near=0.5))]
    near = [c for c in found if sum([abs(a - b) for a, b in zip(c, first.candidate, strict=True)]) <= 4]
    assert len(found) == 8 and len(near) >= 3


def test_a_small_space_is_exhausted_and_refusals_are_asked_once(func: PrimFunc) -> None:
    space = Pairs(func, side=4)
    search = Search(space, Target("llvm"), Ignorant(), Random(0))
    found = [p.candidate for _ in range(5) for p in search.propose(4, Effort(population=16))]
    allowed = {(a, b) for a in range(4) for b in range(4) if (a + b) % 7}
    assert len(found) == len(set(found)) and set(found) == allowed
    assert space.refusals == len(search.refused) == 16 - len(allowed)
    assert search.propose(4, Effort()) == []


class Shy(Pairs):
    """Finds no candidate in half of the tries."""

    def draw(self, random: Random) -> tuple[int, int]:
        return self._made(super().draw(random), random)

    def neighbour(self, candidate: tuple[int, int], random: Random) -> tuple[int, int]:
        return self._made(super().neighbour(candidate, random), random)

    def crossed(self, first: tuple[int, int], second: tuple[int, int], random: Random) -> tuple[int, int]:
        return self._made(super().crossed(first, second, random), random)

    def _made(self, pair: tuple[int, int], random: Random) -> tuple[int, int]:
        if random.random() < 0.5:
            raise TVMError("nothing that was drawn fits together")
        return pair


def test_a_space_that_finds_no_candidate_is_asked_again(func: PrimFunc) -> None:
    search = Search(Shy(func, side=4), Target("llvm"), Perfect(), Random(0))
    found = [p.candidate for _ in range(5) for p in search.propose(4, Effort(population=16))]
    assert set(found) == {(a, b) for a in range(4) for b in range(4) if (a + b) % 7}


def test_a_search_without_time_still_proposes(func: PrimFunc) -> None:
    search = Search(Pairs(func), Target("llvm"), Perfect(), Random(0))
    assert 1 <= len(search.propose(8, Effort(seconds=0.0))) <= 8


def test_the_next_task_is_the_one_that_saves_most(func: PrimFunc) -> None:
    light, heavy = Progress(task(func, "light", 1.0)), Progress(task(func, "heavy", 10.0))
    assert next_task([light, heavy]) == 0  # nothing is known
    light.untuned = heavy.untuned = 1.0
    assert next_task([light, heavy]) == 1
    heavy.best.append(1.0)
    assert next_task([light, heavy]) == 1
    heavy.best += [1.0] * 5
    assert next_task([light, heavy]) == 0  # the heavy one has not got faster
    light.best.append(0.5)
    assert model_seconds([light, heavy]) == (11.0, 10.5)
    light.exhausted = True
    assert next_task([light, heavy]) is None


def test_a_session_keeps_its_records_and_goes_on(func: PrimFunc, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    events: list[Event] = []
    session = Session([task(func)], Names(), Formula(fails=lambda pair: pair[1] == 50), Perfect(), path)
    session.run(Limits(trials=40, batch=8, search=1e9), events.append)
    records, refused = load(path)
    assert records == session.records and len(records) == 40 and not refused
    assert [e.trials for e in events] == [8, 16, 24, 32, 40]
    assert session.progress[0].seconds == min(r.median for r in records)
    assert all(r.failure is Failure.RUN for r in records if r.candidate[1] == 50)

    names, model = Names(), Perfect()
    again = Session([task(func)], names, Formula(), model, path, seed=1)
    assert again.progress[0].seconds == session.progress[0].seconds
    assert model.learned == 40
    again.run(Limits(trials=16, batch=8, search=1e9))
    fastest = min(records, key=lambda r: r.median)
    assert names.built[:2] == [(0, 0), tuple(fastest.candidate)]
    assert not {tuple(r.candidate) for r in records} & set(names.built[2:])
    assert again.progress[0].seconds <= session.progress[0].seconds
    assert len(load(path)[0]) == 56


def test_a_long_log_is_continued_by_its_fastest_records(func: PrimFunc, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    Session([task(func)], Names(), Formula(), Ignorant(), path).run(Limits(trials=RECALLED + 40, patience=100))
    model, names = Perfect(), Names()
    again = Session([task(func)], names, Formula(), model, path, seed=1)
    assert model.learned == RECALLED
    again.run(Limits(trials=60))
    assert not {tuple(r.candidate) for r in load(path)[0][: RECALLED + 40]} & {
        tuple(r.candidate) for r in again.records
    }


def test_noise_that_slows_all_runs_down_does_not_decide(func: PrimFunc) -> None:
    noisy = Formula(load=lambda call: 1.0 + call / 10)
    session = Session([task(func)], Names(), noisy, Perfect())
    session.run(Limits(trials=40, batch=8, search=1e9))
    for record in session.records:
        if record.failure is None:
            a, b = record.candidate
            assert record.median == pytest.approx(best((a, b)) * 1.1, rel=1e-6)  # the load of the first call


class Alike(Formula):
    """All candidates take one second, give or take a twentieth, as does what they are measured beside."""

    def __init__(self) -> None:
        super().__init__()
        self.random = Random(1)

    def _times(self) -> tuple[float, ...]:
        return (1.0 + self.random.uniform(-0.05, 0.05),) * 3

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        found = []
        for run in runs:
            own, beside = self._times(), self._times() if run.beside is not None else ()
            if beside and own < beside:
                own, beside = self._times(), self._times()
                found.append(Measured(own, beside, reference=self._times()))
            else:
                found.append(Measured(own, beside))
        return found


def test_errors_of_comparisons_do_not_add_up(func: PrimFunc) -> None:
    session = Session([task(func)], Names(), Alike(), Ignorant())
    session.run(Limits(trials=200, batch=8, patience=100, search=1e9))
    (progress,) = session.progress
    assert progress.untuned is not None and len(session.records) == 200
    assert progress.seconds > 0.9 * progress.untuned


class Far(Formula):
    """Measures on four boards. gate: what measurements of candidates wait for. open: how many are not done."""

    apart = True

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.takes, self.boards = seconds, ThreadPoolExecutor(4)
        self.gate = threading.Event()
        self.open = 0

    def submit(self, run: Run) -> Future[Measured]:
        self.open += 1
        return self.boards.submit(self._measured, run)

    def _measured(self, run: Run) -> Measured:
        if run.reference is not None:
            self.gate.wait(10)
            time.sleep(self.takes)
        self.open -= 1
        return self.run([run])[0]


class Watching(Names):
    """Notes how many measurements were open when each round was built; with the second one the gate opens."""

    def __init__(self, runner: Far) -> None:
        super().__init__()
        self.runner, self.open = runner, list[int]()

    def build(self, sources: Sequence[Source], folder: Path) -> list[Built]:
        self.open.append(self.runner.open)
        if len(self.open) == 3:
            self.runner.gate.set()
        return super().build(sources, folder)


def test_while_boards_measure_the_next_candidates_are_built(func: PrimFunc, tmp_path: Path) -> None:
    runner, path = Far(), tmp_path / "log.json"
    builder, events = Watching(runner), list[Event]()
    session = Session([task(func)], builder, runner, Perfect(), path)
    session.run(Limits(trials=40, batch=8, search=1e9), events.append)
    assert builder.open[:3] == [0, 0, 8]  # the untuned kernel, the first round, and the second one
    assert session.records == load(path)[0] and len(session.records) == 40
    assert [len(e.records) for e in events] == [8] * 5 and events[-1].trials == 40
    assert len({tuple(r.candidate) for r in session.records}) == 40
    assert session.progress[0].seconds == min(best(tuple(r.candidate)) for r in session.records)


def test_what_waits_for_a_board_when_the_time_is_over_is_left_out(func: PrimFunc) -> None:
    runner = Far(0.3)
    runner.gate.set()
    session = Session([task(func)], Names(), runner, Perfect())
    begun = time.monotonic()
    session.run(Limits(seconds=2.0, batch=64, search=0.0))
    assert time.monotonic() - begun < 10 and 4 <= len(session.records) < 60


class Leaving(Formula):
    """Boards that measure 20 kernels, lose two, and are gone."""

    apart = True

    def submit(self, run: Run) -> Future[Measured]:
        if self.calls < 20:
            return super().submit(run)
        self.calls += 1
        found: Future[Measured] = Future()
        if self.calls < 23:
            found.set_result(Measured((), (), Failure.LOST, "the board is gone"))
        else:
            found.set_exception(RPCError("there is no board"))
        return found


def test_boards_that_are_gone_end_a_session_and_say_nothing_of_candidates(func: PrimFunc, tmp_path: Path) -> None:
    path, model = tmp_path / "log.json", Perfect()
    session = Session([task(func)], Names(), Leaving(), model, path)
    with pytest.raises(RPCError, match=f"^there is no board; 21 records of this run are kept in {path}$"):
        session.run(Limits(trials=100, batch=16, search=1e9))
    kept = load(path)[0]
    assert kept == session.records and [r.failure for r in kept] == [None] * 19 + [Failure.LOST] * 2
    assert model.learned == 19


def test_an_interrupt_keeps_what_was_measured(func: PrimFunc, tmp_path: Path) -> None:
    class Interrupted(Formula):
        def run(self, runs: Sequence[Run]) -> list[Measured]:
            if self.calls > 20:
                raise KeyboardInterrupt
            return super().run(runs)

    path = tmp_path / "log.json"
    session = Session([task(func)], Names(), Interrupted(), Ignorant(), path)
    with pytest.raises(KeyboardInterrupt):
        session.run(Limits(trials=100, batch=16, search=1e9))
    kept = load(path)[0]
    assert kept == session.records and 10 < len(kept) <= 20
    assert session.progress[0].seconds == min(r.median for r in kept)


def test_tasks_whose_untuned_kernel_does_not_run_are_left_out(func: PrimFunc) -> None:
    class Broken(Names):
        def build(self, sources: Sequence[Source], folder: Path) -> list[Built]:
            found = super().build(sources, folder)
            return [Built(None, 0.0, Failure.BUILD, "no code"), *found[1:]] if len(self.built) == 2 else found

    session = Session([task(func, "bad"), task(func, "good")], Broken(), Formula(), Perfect())
    session.run(Limits(trials=16, batch=8, search=1e9))
    assert session.left_out == {"bad": "its untuned kernel is not built: no code"}
    assert {r.name for r in session.records} == {"good"} and len(session.records) == 16


def test_a_disk_that_is_full_for_a_while_loses_nothing(
    func: PrimFunc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.json"
    session = Session([task(func)], Names(), Formula(), Perfect(), path)
    real, calls = log.append, []

    def full(*args: object) -> None:
        calls.append(args)
        if len(calls) <= 16:
            raise TVMError("the disk is full")
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "append", full)
    waiting: list[int] = []
    session.run(Limits(trials=24, batch=8, search=1e9), lambda event: waiting.append(len(session.unwritten)))
    assert waiting == [8, 16, 0]
    assert len(load(path)[0]) == 24


def test_an_untuned_kernel_that_does_not_run_is_an_error(func: PrimFunc) -> None:
    session = Session([task(func)], Names(), Formula(fails=lambda pair: pair == (0, 0)), Perfect())
    with pytest.raises(TVMError, match="^pairs cannot be tuned: its untuned kernel does not run: killed by signal 11$"):
        session.run(Limits(trials=1, search=1e9))


def test_signatures_and_differences(func: PrimFunc) -> None:
    signature = signature_of(IRModule.from_expr(func))
    assert signature == Signature((Argument((4, 3), "float32"), Argument((4, 3), "float32")), (1,))
    values = random_inputs(signature)
    assert all([(a == b).all() for a, b in zip(values, random_inputs(signature), strict=True)])
    expected = values[0] + 1
    assert difference(signature, [expected * (1 + 1e-6)], [expected]) == ""
    wrong = expected.copy()
    wrong[2, 1] += 0.1
    assert difference(signature, [wrong], [expected]).startswith(
        "1 of 12 elements of output 1 differ from those of the untuned kernel; the first is [2, 1]:"
    )
    wrong[2, 1] = np.nan
    assert difference(signature, [wrong], [expected]) and not difference(signature, [wrong], [wrong])
    whole = Signature((Argument((2,), "int8"),), (0,))
    assert difference(whole, [np.array([1, 2], "int8")], [np.array([1, 3], "int8")])
    assert np.ptp(random_inputs(Signature((Argument((500,), "int8"),), ()))[0].astype(int)) > 200
