"""What is done while schedules are measured: searching, where a processor is left; building, only for other machines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.meta_schedule.kernels import elementwise, gemm
from tests.meta_schedule.test_tuning import Written, searching
from tests.tuning import kernels
from tests.tuning.numbers import Pairs, Perfect
from tilewright import meta_schedule as ms
from tilewright import te
from tilewright.ir import IRModule
from tilewright.meta_schedule import builder as B
from tilewright.meta_schedule import runner as R
from tilewright.meta_schedule import search_strategy as S
from tilewright.meta_schedule import task_scheduler as T
from tilewright.meta_schedule.runner.runner import BatchFuture, Told
from tilewright.target import Target
from tilewright.tuning.building import LocalBuilder
from tilewright.tuning.search import Effort, Search


class Slow(R.PyRunner):
    """Measures one batch after the other in a thread. running: while it measures."""

    def __init__(self, here: bool) -> None:
        self.measures_here = here
        self.running = threading.Event()
        self._thread = ThreadPoolExecutor(1)

    def run(self, runner_inputs: Sequence[R.RunnerInput]) -> list[R.RunnerFuture]:
        def measured() -> list[Told]:
            time.sleep(0.1)
            self.running.clear()
            return [([1.0], None)] * len(runner_inputs)

        self.running.set()
        batch: Future[list[Told]] = self._thread.submit(measured)
        return [BatchFuture(batch, i) for i in range(len(runner_inputs))]


class Watched(Written):
    """Notes whether a runner measures while it builds."""

    def __init__(self, folder: Path, runner: Slow) -> None:
        super().__init__(folder)
        self.runner, self.disturbed = runner, 0

    def build(self, build_inputs: Sequence[B.BuilderInput]) -> list[B.BuilderResult]:
        self.disturbed += self.runner.running.is_set()
        return super().build(build_inputs)


class Patient(S.ReplayTrace):
    """Counts batches during which it could search. Copies of it count together."""

    counts: list[int]

    def meanwhile(self, is_over: Callable[[], bool]) -> None:
        if not is_over():
            self.counts.append(1)

    def clone(self) -> Any:
        new = super().clone()
        new.counts = self.counts
        return new


def patient() -> Patient:
    made = Patient()
    made.counts = []
    return made


@pytest.mark.parametrize(("here", "threads"), [(True, 1), (True, 10**6), (False, 10**6)])
def test_searching_and_building(here: bool, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.meta_schedule.task_scheduler.task_scheduler.num_threads", lambda: threads)
    monkeypatch.setattr("tilewright.meta_schedule.task_scheduler.task_scheduler.usable_processors", lambda: 2)
    runner, strategy = Slow(here), patient()
    builder = Watched(tmp_path, runner)
    T.RoundRobin().tune([searching(gemm(), strategy)], [1.0], 8, 8, 4, builder, runner)
    may_search = not here or threads == 1
    assert len(strategy.counts) == (2 if may_search else 0)
    tasks = [searching(gemm(), "replay-trace"), searching(elementwise(), "replay-trace")]
    T.RoundRobin().tune(tasks, [1.0, 1.0], 8, 4, 4, builder, runner)
    # Boards measure the first task while the second is built; this machine does one thing after the other.
    assert builder.disturbed == (0 if here else 1)


def test_what_was_drawn_meanwhile_is_proposed() -> None:
    a = te.placeholder((4, 3), name="a")
    func = te.create_prim_func([a, te.compute((4, 3), lambda i, j: a[i, j] + 1.0, name="b")])
    search = Search(Pairs(func), Target("llvm"), Perfect(), Random(0))
    search.ahead(24, lambda: False)
    assert len(search.propose(8, Effort(generations=0))) == 8
    over = iter([False, True])
    search.ahead(1000, lambda: next(over, True))
    assert len(search.propose(8, Effort(population=8, generations=0))) == 8


def test_a_local_runner_returns_before_it_has_measured() -> None:
    runner = R.LocalRunner(alloc_repeat=2)
    (future,) = runner.run(
        [R.RunnerInput("nowhere.so", "llvm", ms.arg_info.ArgInfo.from_entry_func(IRModule.from_expr(gemm())))]
    )
    assert "nowhere.so" in (future.result().error_msg or "") and future.done()
    assert runner.run([]) == []


def test_a_runner_that_is_closed_gives_up_its_batch(tmp_path: Path) -> None:
    builder = LocalBuilder(1)
    (built,) = builder.build([kernels.source(kernels.endless)], tmp_path)
    builder.close()
    infos = ms.arg_info.ArgInfo.from_entry_func(IRModule.from_expr(kernels.endless))
    runner = R.LocalRunner(timeout_sec=100)
    hangs, waits = runner.run([R.RunnerInput(str(built.path), "llvm", infos)] * 2)
    time.sleep(1)
    begun = time.monotonic()
    runner.close()
    assert hangs.result().error_msg and waits.result().error_msg == "the runner was closed before"
    assert time.monotonic() - begun < 20


def test_an_interrupt_ends_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(T.RoundRobin):
        def join_running_task(self, task_id: int) -> list[R.RunnerResult]:
            raise KeyboardInterrupt

    runner = Slow(here=True)
    closed: list[bool] = []
    monkeypatch.setattr(runner, "close", lambda: closed.append(True))
    with pytest.raises(KeyboardInterrupt):
        Interrupting().tune([searching(gemm(), "replay-trace")], [1.0], 8, 8, 4, Written(tmp_path), runner)
    assert closed == [True]
