"""Search guided by gradient boosted trees."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.autotvm import templates
from tests.autotvm.test_tuners import hill, option
from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.autotvm.tuner import XGBTuner
from tilewright.autotvm.tuner.xgboost_cost_model import XGBoostCostModel


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(3)
    np.random.seed(3)


def order(model: XGBoostCostModel, task: Any, indices: list[int]) -> float:
    """The correlation of predictions with the speed."""
    found = model.predict(indices)
    wanted = [1 / hill(task.config_space.get(i)) for i in indices]
    return float(np.corrcoef(found, wanted)[0, 1])


@pytest.mark.parametrize("loss_type", ["reg", "rank", "rank-binary"])
@pytest.mark.parametrize("feature_type", ["knob", "itervar", "curve"])
def test_a_model_learns(feature_type: str, loss_type: str) -> None:
    task = templates.task(512)
    model = XGBoostCostModel(task, feature_type, loss_type, num_threads=1)
    learned = sorted(random.sample(range(100), 40))
    model.fit(learned, [1 / hill(task.config_space.get(i)) for i in learned], 16)
    others = sorted(set(range(100)) - set(learned))[::2]
    assert order(model, task, others) > (0.5 if loss_type != "rank-binary" else 0.2)


@pytest.mark.parametrize("feature_type", ["knob", "itervar"])
def test_a_model_that_learned_from_records(feature_type: str) -> None:
    task = templates.task(512)
    # The knob alone says nothing of another task.
    source = task if feature_type == "knob" else templates.task(256)
    records = [
        (
            MeasureInput(source.target, source, source.config_space.get(i)),
            MeasureResult((hill(source.config_space.get(i)),), 0, 0, 0),
        )
        for i in range(len(source.config_space))
    ]
    model = XGBoostCostModel(task, feature_type, num_threads=1)
    base = model.spawn_base_model()
    assert not base.fit_log(records, 16, min_seed_records=500)
    assert base.fit_log(records, 16, min_seed_records=50)
    model.load_basemodel(base)
    assert order(model, task, list(range(0, 100, 5))) > 0.5
    model.fit(list(range(0, 100, 7)), [1 / hill(task.config_space.get(i)) for i in range(0, 100, 7)], 16)
    assert order(model, task, list(range(1, 100, 5))) > 0.5


def test_it_finds_the_hill() -> None:
    for kwargs in (
        {"feature_type": "knob"},
        {"feature_type": "knob", "loss_type": "rank", "diversity_filter_ratio": 3},
    ):
        task = templates.task(512)
        tuner = XGBTuner(task, plan_size=12, num_threads=1, **kwargs)
        runner, measured_by = option(hill)
        tuner.tune(48, measured_by)
        assert len(set(runner.measured)) == 48 and hill(tuner.best_config) <= 2e-3


def test_history_is_used_from_the_first_plan_on() -> None:
    task = templates.task(512)
    tuner = XGBTuner(task, plan_size=16, feature_type="knob", num_threads=1)
    records = [
        (
            MeasureInput(task.target, task, task.config_space.get(i)),
            MeasureResult((hill(task.config_space.get(i)),), 0, 0, 0),
        )
        for i in range(0, 100, 2)
    ]
    tuner.load_history(records)
    assert tuner.trials == []
    tuner.load_history(records, min_seed_records=50)
    runner, measured_by = option(hill)
    tuner.tune(8, measured_by)
    assert np.mean([hill(task.config_space.get(i)) for i in runner.measured]) < 4e-3


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="feature_type is one of knob, itervar, curve"):
        XGBTuner(templates.task(8), feature_type="knobs")
    with pytest.raises(ValueError, match="the optimizer is 'sa'"):
        XGBTuner(templates.task(8), optimizer="ga")
