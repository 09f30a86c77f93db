"""Tasks without programs, records that cannot be true, logs that are cut or cannot be written."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import tilewright as tvm
from tests.auto_scheduler.test_tasks import MACHINE, TARGET, ByName, Sizes, options, policy_of, task_of
from tests.slow import all_but
from tilewright import TVMError, auto_scheduler, te
from tilewright.auto_scheduler import classic_log, measure_record
from tilewright.auto_scheduler.measure_programs import ProgramBuilder, ProgramRunner
from tilewright.tuning.measure import Measured

ALL = range(8)


def test_why_no_program_could_be_measured(tmp_path: Path) -> None:
    task = task_of()
    with pytest.raises(
        TVMError,
        match=r"none of 4 programs of .* could be measured\. The most frequent reasons:\n  4 x RUNTIME_DEVICE: died",
    ):
        task.tune(options(tmp_path / "log", 4, fails=ALL), policy_of(task))


def test_the_tasks_that_are_left_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One task has no program that runs, nor one that is built; the other is tuned."""
    tasks = [task_of(), task_of("tests.matmul_add", 16, 16, 16)]
    tasks[0].desc = "first"

    class Dies(ByName):
        def run(self, runs: Any) -> list[Measured]:
            found = super().run(runs)
            large = [tuple(run.signature.arguments[0].shape) == (32, 32) for run in runs]
            return [m if not bad else ByName(ALL).run([run])[0] for m, bad, run in zip(found, large, runs, strict=True)]

    given = options(tmp_path / "log", 8)
    given.runner = ProgramRunner(Dies())
    measurer = given.measurer()
    measurer.max_continuous_error = 2
    given.measurer = lambda: measurer  # type: ignore[method-assign]
    tuner = auto_scheduler.TaskScheduler(tasks, callbacks=[])
    with caplog.at_level(logging.WARNING, "auto_scheduler"):
        tuner.tune(given, [policy_of(t) for t in tasks])
    assert tuner.best_costs[1] < 1 <= tuner.best_costs[0] and tuner.dead_tasks >= {0}
    assert "task 0 (first): 4 programs of" in caplog.messages[0] and "4 x RUNTIME_DEVICE: died" in caplog.messages[0]
    assert caplog.messages[-1].startswith("task 0 (first) stays untuned: none of its programs could be measured.")


def test_computes_without_programs() -> None:
    a = te.placeholder((8,), name="a")
    b = te.extern((8,), [a], lambda i, o: tvm.tir.call_packed("copy", i[0], o[0]), name="b")
    with pytest.raises(TVMError, match="b has no programs to search for: steps are for computes, .* ExternOp"):
        auto_scheduler.ComputeDAG([a, b])
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    dag = auto_scheduler.ComputeDAG([a, te.compute((n,), lambda i: a[i] + 1.0, name="b")])
    with pytest.raises(TVMError, match=r"a has the shape \[n\], but what is tuned has static shapes"):
        auto_scheduler.SearchTask(compute_dag=dag, target=TARGET)


def log_of(path: Path, *seconds: float) -> auto_scheduler.SearchTask:
    """A log with the same program several times, of other times."""
    task = task_of()
    task.tune(options(path, 1), auto_scheduler.EmptyPolicy(task))
    line = json.loads(path.read_text())
    lines = [{**line, "r": [[s], *line["r"][1:]]} for s in seconds]
    path.write_text("".join([json.dumps(entry) + "\n" for entry in lines]))
    return task


def test_lines_that_are_cut_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "log"
    task = log_of(log, 1e-3, 2e-3)
    log.write_text("# a comment\n" + log.read_text()[:-40])
    with auto_scheduler.ApplyHistoryBest(str(log)) as context:
        for _ in range(2):
            assert context.query(task.target, task.workload_key, True, task.compute_dag, "f") is not None
    assert [m.partition(":")[0] for m in caplog.messages] == [f"line 3 of {log} is not used"]
    # What is appended later begins in a new line.
    measure_record.save_records(str(log), *[[x] for x in next(iter(auto_scheduler.load_records(str(log))))])
    assert len(list(classic_log.entries(log))) == 2


def test_impossible_times_displace_no_good_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "log"
    task = log_of(log, 1e-3, 0.0, -2.0, 1e-10, 1e-9, 2e-3)
    assert [e.seconds for e in classic_log.entries(log)] == [1e-3, 1e-9, 2e-3]
    whys = [m.partition("is not used: ")[2] for m in caplog.messages]
    assert whys == ["0 s is no time of a call", "-2 s is no time of a call", "1e-10 s is less than any call takes"]
    caplog.clear()
    with auto_scheduler.ApplyHistoryBest(str(log)) as context:
        for _ in range(2):
            assert context.query(task.target, task.workload_key, True, task.compute_dag, "f") is not None
        assert [e.seconds for e in context._entries] == [1e-3, 2e-3]
    assert len(caplog.messages) == 4 and "1e-09 s for 66560 operations are" in caplog.messages[-1]
    inp, res = auto_scheduler.load_best_record(str(log), task.workload_key)
    assert inp is not None and res is not None and list(res.costs) == [1e-3]
    measure_record.distill_record_file(log, tmp_path / "best")
    assert [e.seconds for e in classic_log.entries(tmp_path / "best")] == [1e-3]
    inp, res = auto_scheduler.load_best_record(str(log))
    assert inp is not None and res is not None and list(res.costs) == [1e-3]


@pytest.mark.parametrize("seconds", all_but([0.0], [0.0, 1e-10, 1e-9]))
def test_impossible_measurements_are_failures(tmp_path: Path, seconds: float) -> None:
    class Instant(ByName):
        def run(self, runs: Any) -> list[Measured]:
            return [Measured((seconds,))] * len(runs)

    task = task_of()
    given = options(tmp_path / "log", 4)
    given.builder, given.runner = ProgramBuilder(Sizes()), ProgramRunner(Instant())
    with pytest.raises(TVMError, match=r"4 x UNKNOWN_ERROR: \S+ s "):
        task.tune(given, policy_of(task))


def test_a_log_on_a_full_device() -> None:
    task = auto_scheduler.SearchTask("tests.matmul_add", (8, 8, 8), target=TARGET, hardware_params=MACHINE)
    with pytest.raises(TVMError, match="records cannot be added to the log /dev/full: the disk is full"):
        task.tune(options(Path("/dev/full"), 1), auto_scheduler.EmptyPolicy(task))


def test_records_whose_steps_are_refused_leave_a_build_untuned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as those of another version of a computation. The next best record is used, if there is one."""
    log = tmp_path / "log"
    task = log_of(log, 1e-3)
    good = json.loads(log.read_text())
    lines = []
    for seconds, steps in ((1e-4, [["SP", 2, 9, 16, [4], 1]]), (2e-4, [["CA", 2, 7, 1]]), (1e-3, [])):
        lines.append({"i": [good["i"][0], [[], steps]], "r": [[seconds], *good["r"][1:]], "v": good["v"]})
    for count in (3, 2):
        caplog.clear()
        log.write_text("".join([json.dumps(line) + "\n" for line in lines[:count]]))
        with auto_scheduler.ApplyHistoryBest(str(log)) as context:
            for _ in range(2):
                found = context.query(task.target, task.workload_key, True, task.compute_dag, "f")
                assert (found is not None) == (count == 3)
        assert len(caplog.messages) == 2 and all(
            ["names a stage or a loop that there is not" in m for m in caplog.messages]
        )
