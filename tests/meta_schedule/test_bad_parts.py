"""Parts of users that raise, spaces without schedules, files that end early: the session says so, and goes on where it can."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.meta_schedule.kernels import elementwise, gemm
from tests.meta_schedule.test_tuning import Formula, Knowing, Written, searching, small_search
from tilewright import meta_schedule as ms
from tilewright.meta_schedule import builder as B
from tilewright.meta_schedule import cost_model as C
from tilewright.meta_schedule import database as D
from tilewright.meta_schedule import runner as R
from tilewright.support.errors import TVMError
from tilewright.tir.schedule import Schedule
from tilewright.tuning.measure import NoMachineError


def tuned(
    tasks: list[ms.TuneContext],
    builder: B.Builder,
    runner: R.Runner,
    model: C.CostModel | None = None,
    trials: int = 8,
) -> ms.TaskScheduler:
    scheduler = ms.TaskScheduler.create("round-robin")
    callbacks = ms.MeasureCallback.create()
    scheduler.tune(
        tasks, [1.0] * len(tasks), trials, trials, 4, builder, runner, callbacks, D.MemoryDatabase(), model or Knowing()
    )
    return scheduler


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


class Breaks(Written):
    """Raises in some of the calls, or returns other things."""

    def __init__(self, folder: Path, *answers: Any) -> None:
        super().__init__(folder)
        self.answers = list(answers)

    def build(self, build_inputs: Any) -> list[B.BuilderResult]:
        made = super().build(build_inputs)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return made if answer is None else answer(made)  # type: ignore[no-any-return]


def test_builders(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = Breaks(tmp_path, OSError("no compiler"), lambda made: made[:1], lambda made: [3] * len(made))
    scheduler = tuned([searching(gemm(8, 16, 4), "replay-trace")], builder, Formula(), trials=16)
    (task,) = scheduler.tasks_
    assert (task.build_error_count, len(task.latency_ms)) == (12, 16) and task.fastest < float("inf")
    assert told(caplog) == [
        "4 of 4 schedules failed: the builder Breaks raised OSError: no compiler",
        "4 of 4 schedules failed: the builder Breaks returned 1 results for 4 inputs",
        "4 of 4 schedules failed: the builder Breaks returned int, which is no result",
    ]


def test_runners(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Lost(Formula):
        calls = 0

        def run(self, runner_inputs: Any) -> list[R.RunnerFuture]:
            found = super().run(runner_inputs)
            self.calls += 1
            if self.calls == 1:
                raise ValueError("the board is gone")
            if self.calls == 2:
                found[0] = R.RunnerFuture(lambda: 1 / 0, lambda: 1 / 0)  # type: ignore[arg-type,return-value]
                found[1] = R.RunnerFuture(lambda: True, lambda: R.RunnerResult([], None))
                found[2] = R.RunnerFuture(lambda: True, lambda: R.RunnerResult([float("nan")], None))
            return found

    scheduler = tuned([searching(gemm(8, 16, 4), "replay-trace")], Written(tmp_path), Lost(), trials=12)
    (task,) = scheduler.tasks_
    assert (task.run_error_count, len(task.latency_ms)) == (7, 12) and task.fastest < float("inf")
    assert told(caplog) == [
        "4 of 4 schedules failed: the runner Lost raised ValueError: the board is gone",
        "1 of 4 schedules failed: the measurement of the runner Lost raised ZeroDivisionError: division by zero",
        "1 of 4 schedules failed: the runner Lost measured nothing",
        "1 of 4 schedules failed: the runner Lost measured [nan], which are no seconds",
    ]


def test_a_runner_without_machines_ends_the_session(tmp_path: Path) -> None:
    class Gone(Formula):
        def run(self, runner_inputs: Any) -> list[R.RunnerFuture]:
            def result() -> R.RunnerResult:
                raise NoMachineError("there is no board")

            return [R.RunnerFuture(lambda: True, result) for _ in runner_inputs]

    with pytest.raises(NoMachineError):
        tuned([searching(gemm(8, 16, 4), "replay-trace")], Written(tmp_path), Gone())


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (KeyError("weights"), "raised KeyError: 'weights'"),
        (lambda scores: scores[1:], "gave"),
        (lambda scores: scores * np.nan, "gave scores that are no numbers"),
    ],
)
def test_cost_models(answer: Any, what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Knowing):
        def predict(self, context: Any, candidates: list[Any]) -> np.ndarray[Any, Any]:
            if isinstance(answer, Exception):
                raise answer
            found: np.ndarray[Any, Any] = answer(super().predict(context, candidates))
            return found

        def update(self, context: Any, candidates: list[Any], results: list[R.RunnerResult]) -> None:
            raise MemoryError

    scheduler = tuned([searching(gemm(8, 16, 4), small_search())], Written(tmp_path), Formula(), Odd())
    assert len(scheduler.tasks_[0].latency_ms) == 8 and scheduler.tasks_[0].fastest < float("inf")
    found = told(caplog)
    assert f"the cost model Odd {what}" in found[0] and found[0].endswith("schedules are chosen as if it knew nothing")
    assert found.count("the cost model Odd did not learn, since it raised MemoryError") == 2


def ruled(rule: Any, **given: Any) -> ms.TuneContext:
    space = ms.space_generator.PostOrderApply(sch_rules=[rule], postprocs=[], mutator_probs={})
    return ms.TuneContext(
        elementwise(), target="llvm", space_generator=space, search_strategy="replay-trace", rand_state=1, **given
    )


class Rule(ms.schedule_rule.PyScheduleRule):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def apply(self, sch: Schedule, block: Any) -> list[Schedule]:
        if sch.get(block).name_hint != "Y":
            return [sch]
        return self.answer(sch, block)  # type: ignore[no-any-return]


def test_rules(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    where = "the schedule rule Rule, applied to the block Y,"

    def refused(sch: Schedule, block: Any) -> list[Schedule]:
        sch.split(sch.get_loops(block)[0], [None, 2])
        sch.compute_inline(block)
        return [sch]

    # A primitive refused a step: what the rule did before is undone.
    (design,) = ruled(Rule(refused)).generate_design_space()
    assert len(design.get_loops(design.get_block("Y"))) == 2
    assert told(caplog)[0].startswith(f"{where} is left out: ")
    for answer, message in (
        (lambda sch, block: 1 / 0, f"{where} raised ZeroDivisionError: division by zero"),
        (lambda sch, block: None, f"{where} must return a list of schedules, but returned None"),
    ):
        with pytest.raises(TVMError, match=message):
            ruled(Rule(answer)).generate_design_space()
    assert len(ruled(Rule(lambda sch, block: sch)).generate_design_space()) == 1
    # The other task is tuned.
    caplog.clear()
    tasks = [ruled(Rule(lambda sch, block: 1 / 0), task_name="broken"), searching(gemm(8, 16, 4), "replay-trace")]
    scheduler = tuned(tasks, Written(tmp_path), Formula(), trials=4)
    assert [len(t.latency_ms) for t in scheduler.tasks_] == [0, 4] and scheduler.tasks_[0].is_terminated
    assert told(caplog) == [f"the task broken is not tuned further: {where} raised ZeroDivisionError: division by zero"]
    with pytest.raises(TVMError, match=f"{where} raised ZeroDivisionError"):
        tuned(tasks[:1], Written(tmp_path), Formula())


@pytest.mark.parametrize("strategy", ["replay-func", "replay-trace", "evolutionary"])
def test_spaces_without_a_schedule(strategy: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    empty = searching(gemm(8, 16, 4), strategy, task_name="empty")
    empty.space_generator = ms.SpaceGenerator.create(lambda sch: [])
    empty.initialize()
    tasks = [empty, searching(gemm(8, 16, 4), "replay-trace")]
    scheduler = tuned(tasks, Written(tmp_path), Formula(), trials=4)
    assert [len(t.latency_ms) for t in scheduler.tasks_] == [0, 4]
    why = "there is nothing to be tuned: the list of design spaces of empty is empty"
    assert told(caplog) == [f"the task empty is not tuned further: ValueError: {why}"]
    with pytest.raises(ValueError, match=why):
        tuned(tasks[:1], Written(tmp_path), Formula())
    # A function that schedules may return another number of schedules each time.
    answers: list[Any] = [None]
    twice = searching(gemm(8, 16, 4), "replay-func", task_name="twice")
    twice.space_generator = ms.SpaceGenerator.create(lambda sch: answers.pop() if answers else [])
    twice.initialize()
    with pytest.raises(TVMError, match="the space generator made no design space of twice"):
        tuned([twice], Written(tmp_path), Formula())


@pytest.mark.parametrize("strategy", ["replay-func", "replay-trace", "evolutionary"])
def test_post_processors(strategy: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Sometimes(ms.postproc.PyPostproc):
        def __init__(self, always: bool) -> None:
            self.count, self.always = 0, always

        def apply(self, sch: Schedule) -> bool:
            self.count += 1
            if self.always or self.count % 2:
                raise LookupError("nothing is known")
            return True

    def task(always: bool) -> ms.TuneContext:
        chosen = small_search() if strategy == "evolutionary" else strategy
        context = searching(gemm(8, 16, 4), chosen, task_name="refused")
        assert context.space_generator is not None
        context.space_generator.postprocs = [Sometimes(always)]
        return context

    if strategy != "evolutionary":  # which schedules what it chose again
        assert len(tuned([task(False)], Written(tmp_path), Formula(), trials=4).tasks_[0].latency_ms) > 0
    caplog.clear()
    assert tuned([task(True)], Written(tmp_path), Formula(), trials=4).tasks_[0].latency_ms == []
    assert told(caplog) == [
        "no schedule of the task refused is measured; the last one was refused, since"
        " the post-processor Sometimes raised LookupError: nothing is known"
    ]


def test_mutators(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ms.mutator.PyMutator):
        def apply(self, trace: Any) -> Any:
            raise IndexError("no decision")

    context = searching(gemm(8, 16, 4), small_search())
    assert context.space_generator is not None
    context.space_generator.mutator_probs = {Broken(): 1.0}
    scheduler = tuned([context], Written(tmp_path), Formula())
    assert len(scheduler.tasks_[0].latency_ms) == 8
    assert told(caplog) == ["the mutator Broken raised IndexError: no decision"]


def test_files_that_end_early(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    db = D.JSONDatabase(work_dir=str(tmp_path))
    func = gemm(8, 16, 4)
    context = searching(func, "replay-trace")
    scheduler = ms.TaskScheduler.create("round-robin")
    callbacks = ms.MeasureCallback.create()
    scheduler.tune([context], [1.0], 4, 4, 4, Written(tmp_path), Formula(), callbacks, db, Knowing())
    records, workloads = Path(db.path_tuning_record), Path(db.path_workload)
    whole = records.read_bytes()
    records.write_bytes(whole[: len(whole) - 200])
    again = D.JSONDatabase(work_dir=str(tmp_path))
    assert (
        len(again) == 3
        and "1 lines of the database" in told(caplog)[-1]
        and "line 4: it is no JSON" in told(caplog)[-1]
    )
    scheduler.tune([context], [1.0], 4, 4, 4, Written(tmp_path / "more"), Formula(), callbacks, again, Knowing())
    assert len(D.JSONDatabase(work_dir=str(tmp_path))) == 7
    # Records of a workload whose line was cut are not used; the workload is added again.
    workloads.write_bytes(workloads.read_bytes()[:100])
    third = D.JSONDatabase(work_dir=str(tmp_path))
    assert len(third) == 0 and "8 lines of the database" not in caplog.text and len(third.refused) == 9
    scheduler.tune([context], [1.0], 4, 4, 4, Written(tmp_path / "most"), Formula(), callbacks, third, Knowing())
    assert len(D.JSONDatabase(work_dir=str(tmp_path))) == 4


@pytest.mark.parametrize("kind", ["random", "xgb"])
def test_states_of_models_that_end_early(kind: str, tmp_path: Path) -> None:
    model, path = ms.CostModel.create(kind), tmp_path / "model"
    model.save(str(path))
    whole = path.read_bytes()
    for length in (len(whole) - 30, len(whole) // 2, 20, 0):
        path.write_bytes(whole[:length])
        with pytest.raises(TVMError, match="is no saved state of a"):
            model.load(str(path))
    path.write_bytes(whole)
    model.load(str(path))
