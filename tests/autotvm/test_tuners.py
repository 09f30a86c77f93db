"""Tuners on measurements that a function gives: what they choose, learn, and where they end."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.autotvm import templates
from tilewright import autotvm
from tilewright.autotvm.measure.measure import Builder, MeasureErrorNo, MeasureInput, MeasureResult, Runner
from tilewright.autotvm.tuner import DropletTuner, GATuner, GridSearchTuner, RandomTuner, metric
from tilewright.autotvm.tuner.callback import Monitor
from tilewright.autotvm.tuner.model_based_tuner import CostModel, ModelBasedTuner, submodular_pick
from tilewright.autotvm.tuner.sa_model_optimizer import SimulatedAnnealingOptimizer
from tilewright.autotvm.utils import format_si_prefix, get_rank
from tilewright.target import Target
from tilewright.testing.autotvm import DummyRunner, get_sample_records, get_sample_task

Cost = Callable[[Any], float]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(3)
    np.random.seed(3)


class NoBuilder(Builder):
    """Gives the inputs to the runner as they are."""

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        return list(measure_inputs)


class Formula(Runner):
    """The seconds of a configuration by a formula; negative ones are failures."""

    def __init__(self, cost: Cost) -> None:
        super().__init__()
        self.cost = cost
        self.measured: list[int] = []

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        self.measured += [given.config.index for given in measure_inputs]
        return [self._result(self.cost(given.config)) for given in measure_inputs]

    @staticmethod
    def _result(seconds: float) -> MeasureResult:
        if seconds < 0:
            return MeasureResult((f"failure {seconds:g}\nmore",), MeasureErrorNo.RUNTIME_DEVICE, 0.1, 1.0)
        return MeasureResult((seconds, seconds), 0, 0.1, 1.0)


def hill(config: Any) -> float:
    """Lowest at the tiles 8 and 32."""
    y, x = (np.log2(config[name].size[-1]) for name in ("tile_y", "tile_x"))
    return float(1e-3 * (1 + abs(y - 3) + abs(x - 5)))


def option(cost: Cost, parallel: int = 4) -> tuple[Formula, dict[str, Any]]:
    runner = Formula(cost)
    return runner, {"builder": NoBuilder(n_parallel=parallel), "runner": runner}


def test_grid_search_goes_through_all_in_order() -> None:
    tuner = GridSearchTuner(templates.task(8))
    runner, measured_by = option(hill)
    tuner.tune(100, measured_by)
    assert runner.measured == list(range(16)) and not tuner.has_next()
    assert tuner.best_config.index == 15 and tuner.best_iter == 16
    assert tuner.best_flops == pytest.approx(2 * 8**3 / 3e-3)
    part = GridSearchTuner(templates.task(8), range_idx=(3, 6))
    runner, measured_by = option(hill, 3)
    part.tune(100, measured_by)
    assert runner.measured == [3, 4, 5, 6]
    with pytest.raises(ValueError, match="first and the last index of 0 to 15"):
        GridSearchTuner(templates.task(8), range_idx=(3, 16))


def test_random_search_measures_each_once() -> None:
    runner, measured_by = option(hill, 5)
    RandomTuner(templates.task(32)).tune(1000, measured_by)
    assert sorted(runner.measured) == list(range(36)) and runner.measured != list(range(36))
    runner, measured_by = option(hill, 5)
    RandomTuner(templates.task(32)).tune(7, measured_by)
    assert len(runner.measured) == len(set(runner.measured)) == 7


def test_filters_hold_for_index_tuners() -> None:
    task = templates.task(32)
    task.config_space.multi_filter(lambda e: e["tile_y"].size[-1] <= 4 and e["tile_x"].size[-1] == 2)
    for kind in (GridSearchTuner, RandomTuner, GATuner, DropletTuner):
        runner, measured_by = option(hill)
        kind(task).tune(100, measured_by)
        assert sorted(set(runner.measured)) == sorted(runner.measured) and set(runner.measured) <= {6, 7, 8}, kind
        assert kind is DropletTuner or len(runner.measured) == 3


def test_genetic_search_finds_the_hill() -> None:
    task = templates.task(512)
    tuner = GATuner(task, pop_size=10, elite_num=2)
    runner, measured_by = option(hill)
    tuner.tune(70, measured_by)
    assert len(set(runner.measured)) == 70
    assert hill(tuner.best_config) <= 2e-3
    everything = GATuner(templates.task(8), pop_size=5)
    runner, measured_by = option(hill)
    everything.tune(1000, measured_by)
    assert sorted(runner.measured) == list(range(16))
    known = GATuner(task, pop_size=10)
    known.load_history(
        [(MeasureInput(task.target, task, task.config_space.get(i)), MeasureResult((1.0,), 0, 0, 0)) for i in range(50)]
    )
    runner, measured_by = option(hill)
    known.tune(50, measured_by)
    assert sorted(runner.measured) == list(range(50, 100))


def test_coordinate_descent_finds_the_hill() -> None:
    tuner = DropletTuner(templates.task(512))
    runner, measured_by = option(hill)
    tuner.tune(100, measured_by)
    assert (tuner.best_config["tile_y"].size[-1], tuner.best_config["tile_x"].size[-1]) == (8, 32)
    assert len(set(runner.measured)) == len(runner.measured) < 70
    assert DropletTuner(templates.task(512), start_position=[3, 5]).next[0] == 53
    with pytest.raises(ValueError, match="start_position is a place of each knob"):
        DropletTuner(templates.task(512), start_position=[3, 10])
    assert tuner.num_to_bin(2, 3) == [0, 3] and tuner.search_space(2) == [[2, 0], [-2, 0], [0, 2], [0, -2]]


def test_p_values() -> None:
    tuner = DropletTuner(templates.task(8))
    # By R: t.test(c(1, 2, 3, 4), c(2, 4, 6, 9))$p.value = 0.1571; of samples with the same values: 1.
    assert tuner.p_value([1, 2, 3, 4], [1, 2, 3, 4]) == pytest.approx(1.0)
    assert tuner.p_value([1.0, 1.1, 0.9], [5.0, 5.1, 4.9]) < 1e-4
    # With two numbers each and equal variances there are 2 degrees of freedom: p = 1 - t / sqrt(2 + t * t).
    t = 3 / np.sqrt(2)
    assert tuner.p_value([0.0, 2.0], [3.0, 5.0]) == pytest.approx(1 - t / np.sqrt(2 + t * t), rel=1e-3)
    assert tuner.p_value([1.0], [2.0]) == 0.0 and tuner.p_value([1.0], [1.0]) == 1.0


class Oracle(CostModel):
    """Knows the speed after it has learned."""

    def __init__(self, task: Any) -> None:
        self.task, self.fits = task, 0

    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int) -> None:
        assert len(xs) == len(ys) and max(ys) > 0
        self.fits += 1

    def predict(self, xs: Sequence[int], output_margin: bool = False) -> Any:
        return np.array([1e-3 / hill(self.task.config_space.get(x)) for x in xs])


def test_plans_of_a_model() -> None:
    task = templates.task(512)
    model = Oracle(task)
    tuner = ModelBasedTuner(task, model, SimulatedAnnealingOptimizer(task, n_iter=30, parallel_size=8), plan_size=20)
    runner, measured_by = option(hill)
    tuner.tune(44, measured_by)
    assert model.fits == 2 and len(set(runner.measured)) == 44
    assert hill(tuner.best_config) == 1e-3
    diverse = ModelBasedTuner(task, model, SimulatedAnnealingOptimizer(task), plan_size=8, diversity_filter_ratio=2)
    diverse.tune(20, option(hill)[1])
    assert hill(diverse.best_config) == 1e-3
    small = templates.task(8)
    everything = ModelBasedTuner(small, Oracle(small), SimulatedAnnealingOptimizer(small), plan_size=4)
    runner, measured_by = option(hill)
    everything.tune(1000, measured_by)
    assert sorted(runner.measured) == list(range(16))


def test_annealing_excludes() -> None:
    task = templates.task(64)
    found = SimulatedAnnealingOptimizer(task, temp=0.5).find_maximums(
        Oracle(task), 5, {task.config_space.knob2point([3, 5])}
    )
    costs = [hill(task.config_space.get(i)) for i in found]
    assert costs == sorted(costs) == [2e-3, 2e-3, 2e-3, 2e-3, 3e-3]


def test_diverse_picks() -> None:
    knobs = [[0, 0], [0, 1], [1, 1], [0, 0]]
    assert sorted(submodular_pick([1.0, 0.9, 0.1, 0.8], knobs, 2)) == [0, 2]
    assert submodular_pick([1.0, 0.9, 0.1, 0.8], knobs, 2, knob_weight=0.0) == [0, 1]
    assert submodular_pick([], [], 3) == []


def test_early_stop() -> None:
    tuner = GridSearchTuner(templates.task(512))
    runner, measured_by = option(lambda config: 1.0 if config.index < 10 else 2.0, 1)
    tuner.tune(100, measured_by, early_stopping=12)
    assert len(runner.measured) == 13 and tuner.best_iter == 1 and tuner.ttl == 0


def test_why_all_failed_is_told(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """The most frequent reasons first; the tuner ends as usual, so that a program goes on to its next task."""
    tuner = GridSearchTuner(templates.task(8))
    shown = [autotvm.callback.progress_bar(100)]
    with caplog.at_level(logging.WARNING, "autotvm"):
        tuner.tune(100, option(lambda config: -2.0 if config.index % 4 else -1.0)[1], callbacks=shown)
    assert caplog.messages == [
        "no configuration of test/matmul(8,) could be measured: all 16 that were tried failed. It stays untuned. The most frequent"
        " reasons:\n  12 x RUNTIME_DEVICE: failure -2\n  4 x RUNTIME_DEVICE: failure -1"
    ]
    assert tuner.best_config is None and capsys.readouterr().out.endswith("Done.\n")


def test_a_build_goes_on_where_all_failed(tmp_path: Path) -> None:
    log, task = tmp_path / "log", templates.task(8)
    GridSearchTuner(task).tune(4, option(lambda config: -1.0)[1], callbacks=[autotvm.callback.log_to_file(log)])
    with autotvm.apply_history_best(str(log)), Target("llvm"):
        assert autotvm.DispatchContext.current.query(Target("llvm"), task.workload).is_fallback


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (0.0, "0 s is no time of a call"),
        (1e-10, "1e-10 s is less than any call takes"),
        (2e-9, "machines of the target have at most"),
    ],
)
def test_impossible_times_are_failures(seconds: float, why: str) -> None:
    task = templates.task(64)
    tuner, seen = GridSearchTuner(task), []
    tuner.tune(
        2,
        option(lambda config: seconds if config.index == 0 else 1e-3, 1)[1],
        callbacks=[lambda _, inputs, results: seen.extend(results)],
    )
    assert tuner.best_config.index == 1 and seen[0].error_no == MeasureErrorNo.UNKNOWN_ERROR and why in seen[0].costs[0]


def test_failures_in_a_row_are_told(caplog: pytest.LogCaptureFixture) -> None:
    tuner = GridSearchTuner(templates.task(8))
    tuner.set_error_threshold(2)
    with caplog.at_level(logging.WARNING, "autotvm"):
        tuner.tune(8, option(lambda config: 1.0 if config.index == 7 else -1.0, 1)[1])
    assert len(caplog.records) == 5 and "No: 3  RUNTIME_DEVICE: failure -1" in caplog.text


def test_an_interruption_keeps_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log"

    def interrupt(tuner: Any, inputs: Any, results: Any) -> None:
        if len(path.read_text().splitlines()) >= 8:
            raise KeyboardInterrupt

    tuner = RandomTuner(templates.task(64))
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(40, option(hill)[1], callbacks=[autotvm.callback.log_to_file(path), interrupt])
    assert len(list(autotvm.record.load_from_file(path))) == 8 and tuner.best_config is not None
    assert not autotvm.GLOBAL_SCOPE.in_tuning


def test_callbacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monitor, db = Monitor(), autotvm.database.DummyDatabase()
    with (tmp_path / "log").open("w") as file:
        GridSearchTuner(templates.task(8)).tune(
            6,
            option(lambda config: -1.0 if config.index == 2 else hill(config))[1],
            callbacks=[
                monitor,
                autotvm.callback.log_to_database(db),
                autotvm.callback.log_to_file(file),
                autotvm.callback.progress_bar(6, prefix="[Task  1/ 2]", si_prefix="M"),
            ],
        )
    assert (
        monitor.trial_scores()[2] == 0
        and (np.delete(monitor.trial_scores(), 2) > 0).all()
        and len(monitor.trial_timestamps()) == 6
    )
    assert len(db.db) == 6 and len((tmp_path / "log").read_text().splitlines()) == 6
    lines = capsys.readouterr().out.split("\r")[1:]
    assert lines[0].startswith("[Task  1/ 2] Current/Best:    0.") and "MFLOPS | Progress: (4/6) | " in lines[0]
    assert "Progress: (6/6)" in lines[1] and lines[1].endswith("s Done.\n")
    monitor.reset()
    assert len(monitor.trial_scores()) == 0
    with pytest.raises(ValueError, match="written as json"):
        autotvm.callback.log_to_file("x", protocol="pickle")


def test_curves() -> None:
    assert get_rank([0.5, 2.0, 1.0]).tolist() == [3, 1, 2]
    assert metric.max_curve([1, 3, 2]).tolist() == [1, 3, 3] and metric.mean_curve([1, 3, 2]).tolist() == [1, 2, 2]
    assert metric.recall_curve([2, 1, 3]).tolist() == [0, 1, 1] and metric.recall_curve([2, 1, 3], top=2).tolist() == [
        0.5,
        1,
        1,
    ]
    assert metric.cover_curve([2, 1, 3]).tolist() == [0, 1, 1]
    assert metric.average_recall([3, 2, 1], [0.3, 0.2, 0.1], 3) == 1.0
    assert metric.average_recall([1, 2, 3], [0.3, 0.2, 0.1], 1) == 0.0


def test_units() -> None:
    assert format_si_prefix(2.5e9, "G") == pytest.approx(2.5) and format_si_prefix(3e-3, "m") == pytest.approx(3)
    assert format_si_prefix(4e-6, "u") == pytest.approx(4) and format_si_prefix(7, " ") == 7
    with pytest.raises(ValueError, match="no prefix of units"):
        format_si_prefix(1, "Gi")
    with pytest.raises(ValueError, match="no prefix of units"):
        GridSearchTuner(templates.task(8)).tune(1, option(hill)[1], si_prefix="x")


def test_what_classic_tests_use(caplog: pytest.LogCaptureFixture) -> None:
    task, _ = get_sample_task(32)
    tuner = RandomTuner(task)
    tuner.tune(3, {"builder": NoBuilder(), "runner": DummyRunner()})
    bad = autotvm.task.create("testing/bad_matmul", (32, 32, 32, "float32"), target="llvm -keys=bad_device,cpu")
    with caplog.at_level(logging.WARNING, "autotvm"):
        RandomTuner(bad).tune(3, {"builder": autotvm.LocalBuilder(), "runner": DummyRunner()})
    assert tuner.best_flops > 0 and [r[1].costs for r in get_sample_records(3)] == [(1,), (2,), (3,)]
