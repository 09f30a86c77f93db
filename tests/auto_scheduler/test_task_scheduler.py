"""Task schedulers: which task the next round is for, what is told of it, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.auto_scheduler.test_tasks import options, task_of
from tilewright import TVMError, auto_scheduler, te
from tilewright.auto_scheduler.measure import MeasureInput, MeasureResult
from tilewright.auto_scheduler.search_policy import SearchPolicy
from tilewright.auto_scheduler.task_scheduler import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskScheduler,
    derive_similarity_tag,
)


class Falling(SearchPolicy):
    """Each measurement takes the next of the given seconds."""

    def __init__(self, task: Any, seconds: Sequence[float]) -> None:
        super().__init__(task)
        self.seconds = list(seconds)

    def continue_search_one_round(
        self, num_measure: int, measurer: Any
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        taken, self.seconds = self.seconds[:num_measure], self.seconds[num_measure:]
        return [MeasureInput(self.search_task, self.search_task.compute_dag.init_state) for _ in taken], [
            MeasureResult([s]) for s in taken
        ]


def tasks() -> list[auto_scheduler.SearchTask]:
    return [task_of("tests.row_sum", 8, 8), task_of("tests.matmul", 16, 16, 16)]


def tuned(tmp_path: Path, curves: Sequence[Sequence[float]], trials: int, **other: Any) -> TaskScheduler:
    early = other.pop("per_task_early_stopping", None)
    many = tasks()
    scheduler = TaskScheduler(many, callbacks=[], **other)
    tuning = options(tmp_path / "log.json", trials)
    tuning.num_measures_per_round = 1
    policies = [Falling(t, c) for t, c in zip(many, curves, strict=True)]
    scheduler.tune(tuning, policies, per_task_early_stopping=early)
    return scheduler


def test_in_turn(tmp_path: Path) -> None:
    found = tuned(tmp_path, [[1.0] * 20, [2.0] * 20], 10, strategy="round-robin")
    assert found.task_cts == [5, 5] and found.ct == 10 and found.cur_score == 3.0


def test_the_task_that_becomes_faster_gets_more(tmp_path: Path) -> None:
    falling = [0.9**i for i in range(100)]
    found = tuned(tmp_path, [[1e-3] * 100, falling], 60)
    assert found.task_cts[1] > 2 * found.task_cts[0]
    # What is called more often counts more.
    found = tuned(tmp_path, [falling, falling], 60, task_weights=[50.0, 1.0])
    assert found.task_cts[0] > found.task_cts[1]


def test_it_ends(tmp_path: Path) -> None:
    assert tuned(tmp_path, [[1.0] * 3, [1.0] * 4], 100, strategy="round-robin").ct == 7
    found = tuned(tmp_path, [[1.0] * 50, [1.0] * 50], 100, per_task_early_stopping=4)
    assert found.dead_tasks == {0, 1} and found.ct == 10


def test_what_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, many = tmp_path / "latency.tsv", tasks()
    many[0].desc = "sum of rows"
    callbacks = [PrintTableInfo(), LogEstimatedLatency(path)]
    scheduler = TaskScheduler(many, task_weights=[2, 1], callbacks=callbacks)
    scheduler.tune(options(tmp_path / "log.json", 2), [Falling(many[0], [1e-3]), Falling(many[1], [2e-3])])
    printed = capsys.readouterr().out
    assert "sum of rows" in printed and "Estimated total latency: - ms" in printed and "1.000" in printed
    fields = [line.split("\t") for line in path.read_text().splitlines()]
    assert [f[3] for f in fields] == ["N/A", "4.000"] and [f[5] for f in fields] == ["1", "2"]


def test_sketches_are_searched_and_go_on_from_a_log(tmp_path: Path) -> None:
    log, many = tmp_path / "log.json", tasks()
    small = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1}
    for times in (1, 2):
        loaded = log if log.exists() else None
        scheduler = TaskScheduler(many, callbacks=[], load_log_file=loaded)
        scheduler.tune(options(log, 4), "sketch.random", small)
        assert len(log.read_text().splitlines()) == 4 * times
        assert all([cost < 1 for cost in scheduler.best_costs])


def test_similar_tasks() -> None:
    def tagged(n: int) -> auto_scheduler.ComputeDAG:
        a = te.placeholder((n,), name="a")
        return auto_scheduler.ComputeDAG(
            [a, te.compute((n,), lambda i: a[i] * 2, attrs={"auto_scheduler_task_scheduler_tag": "scale"})]
        )

    assert (
        derive_similarity_tag(tagged(100)) == derive_similarity_tag(tagged(101)) != derive_similarity_tag(tagged(1000))
    )
    assert derive_similarity_tag(task_of().compute_dag) == ""


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TVMError, match="strategy is 'best'"):
        TaskScheduler(tasks(), strategy="best")
    with pytest.raises(TVMError, match="2 tasks, but 1 weights"):
        TaskScheduler(tasks(), task_weights=[1])
    with pytest.raises(TVMError, match="need one each"):
        TaskScheduler(tasks(), callbacks=[]).tune(options(tmp_path / "log.json", 1))
