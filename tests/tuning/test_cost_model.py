"""Cost models: they rank measured schedules, learn, take a bounded time, and do without xgboost."""

from __future__ import annotations

import importlib.util
import sys
import time
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.tuning_models.measured import Pair, load
from benchmarks.tuning_models.ranks import correlation, regret
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning import trees
from tilewright.tuning.cost_model import MOST_PROGRAMS, AnalyticModel, TreeModel, _Measured, default_model
from tilewright.tuning.features import COLUMNS, features

MEASURED = Path(__file__).with_name("measured.json.gz")
"""Random schedules of kernels that the prior was not learned from, each with its throughput over that of the untuned kernel, as
benchmarks/tuning_models/measured.py measured them on one core with AVX2."""
TARGET = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3 -num-cores=1")


@cache
def measured() -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for pair in load(MEASURED):
        found.setdefault(pair.kernel, []).append(pair)
    return found


def ranks(model: Any) -> tuple[list[float], list[float]]:
    """For each kernel: the correlation of scores with what was measured, and the regret of taking the best of all."""
    correlations, regrets = [], []
    for pairs in measured().values():
        scores = model.predict([p.program for p in pairs], TARGET)
        ratios = [p.ratio for p in pairs]
        correlations.append(correlation(scores, ratios))
        regrets.append(regret(scores, ratios, len(pairs)))
    return correlations, regrets


def test_ranks() -> None:
    assert correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert correlation([1, 1, 1], [3, 2, 1]) == 0
    assert correlation([1, 1, 2], [5, 5, 9]) == pytest.approx(1)
    assert regret([1, 3, 2], [2.0, 1.5, 1.0], 3) == pytest.approx(0.25)
    # Of all pairs, the best score is that of 4.0, except where only the others are drawn.
    assert 0 < regret([1, 2, 3], [1.0, 2.0, 4.0], 2, draws=50) + 1e-9 < 0.1
    assert regret([3, 2, 1], [1.0, 2.0, 4.0], 2, draws=50) > 0.4


def test_the_analytic_model_ranks_better_than_chance() -> None:
    correlations, regrets = ranks(AnalyticModel(1))
    chance = [np.mean([1 - p.ratio / max(q.ratio for q in pairs) for p in pairs]) for pairs in measured().values()]
    assert np.mean(correlations) > 0.3
    assert np.mean(regrets) < 0.6 * np.mean(chance)


def test_the_prior_ranks_better_than_the_analytic_model() -> None:
    analytic, prior = ranks(AnalyticModel(1)), ranks(TreeModel(1))
    assert np.mean(prior[0]) > np.mean(analytic[0])
    size = len((files("tilewright.tuning") / trees.PRIOR).read_bytes())
    assert size < 300_000


def test_measurements_improve_it() -> None:
    """Of each kernel, three of four programs are measured, and the others are ranked."""
    before, after = [], []
    for k in range(4):
        model, prior = TreeModel(1, workers=1), TreeModel(1)
        for name, pairs in measured().items():
            seen = [p for i, p in enumerate(pairs) if i % 4 != k]
            model.update(name, [p.program for p in seen], TARGET, [1 / p.ratio for p in seen])
        for pairs in measured().values():
            programs, ratios = [p.program for p in pairs[k::4]], [p.ratio for p in pairs[k::4]]
            before.append(correlation(prior.predict(programs, TARGET), ratios))
            after.append(correlation(model.predict(programs, TARGET), ratios))
    assert np.mean(after) > np.mean(before)


def test_programs_that_fail_get_low_scores() -> None:
    pairs = next(iter(measured().values()))
    programs = [p.program for p in pairs]
    model = TreeModel(1, workers=1)
    failed = pairs[0]
    model.update("k", programs, TARGET, [float("inf")] + [1 / p.ratio for p in pairs[1:]])
    scores = model.predict(programs, TARGET)
    assert scores[0] < np.median(scores)
    other = TreeModel(1, workers=1)
    other.update("k", programs, TARGET, [0.5 / max(p.ratio for p in pairs)] + [1 / p.ratio for p in pairs[1:]])
    assert other.predict([failed.program], TARGET)[0] > scores[0] + 0.3
    nothing = TreeModel(1, workers=1)
    nothing.update("k", programs, TARGET, [float("inf")] * len(programs))
    assert np.isfinite(nothing.predict(programs, TARGET)).all()
    assert nothing.predict([], TARGET) == []


def test_threads_raise_scores_of_parallel_programs() -> None:
    one, two = TreeModel(1), TreeModel(2)
    programs = [p.program for pairs in measured().values() for p in pairs[:4]]
    target = Target(str(TARGET).replace("-num-cores=1", "-num-cores=2"))
    gains = np.array(two.predict(programs, target)) / np.array(one.predict(programs, target))
    assert gains.max() <= 1 + 1e-6 and gains.min() >= 0.5
    assert len(set(np.round(gains, 1))) > 1


def test_training_on_500_programs_takes_less_than_a_second() -> None:
    pairs = [p for pairs in measured().values() for p in pairs]
    rows = [features(p.program, TARGET) for p in pairs]
    model = TreeModel(workers=1)
    for k in range(5):
        some = [rows[(i * 7 + k) % len(rows)] for i in range(100)]
        model.update_rows(f"{k}", some, [1 / pairs[(i * 7 + k) % len(rows)].ratio for i in range(100)], 1)
    begun = time.process_time()
    model.predict_rows(rows[:1], 1)
    assert time.process_time() - begun < 1


def test_what_a_training_looks_at_is_bounded() -> None:
    task = _Measured()
    task.seconds = [float(100 - i % 50) for i in range(2 * MOST_PROGRAMS)]
    task.rows = [np.zeros((1, len(COLUMNS)), np.float32)] * len(task.seconds)
    chosen = task.chosen(MOST_PROGRAMS)
    assert len(chosen) == len(set(chosen)) == MOST_PROGRAMS and chosen == sorted(chosen)
    fastest = {i for i, s in enumerate(task.seconds) if s == min(task.seconds)}
    assert fastest <= set(chosen) and len(task.seconds) - 1 in chosen
    assert task.chosen(10_000) == list(range(len(task.seconds)))


def test_trees_come_back_from_their_file() -> None:
    random = np.random.default_rng(0)
    rows = [random.random((n, len(COLUMNS)), np.float32) for n in random.integers(0, 4, 200)]
    targets = np.array([float(r[:, 3].sum()) for r in rows])
    forest = trees.train(rows, targets, 40, workers=1)
    scores = forest.scores(rows)
    assert np.corrcoef(scores, targets)[0, 1] > 0.95
    assert (trees.load(forest.dump()).scores(rows) == scores).all()
    assert (forest.scores([rows[0][:0]]) == 0).all() and len(forest.scores([])) == 0
    with pytest.raises(TVMError, match="^these are no trees of a cost model: "):
        trees.load(b"nothing")
    narrow = [r[:, :5] for r in rows]
    with pytest.raises(
        TVMError, match=f"^these trees are over 5 features, but programs have {len(COLUMNS)}: train them"
    ):
        trees.load(trees.train(narrow, targets, 2, workers=1).dump())


def test_without_xgboost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(default_model(), TreeModel)
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert importlib.util.find_spec("xgboost") is None
    assert isinstance(default_model(), AnalyticModel)
    trees.prior.cache_clear()
    with pytest.raises(
        TVMError, match=r"^boosted trees need xgboost, which is not installed: pip install 'tilewright\[tune\]', or"
    ):
        TreeModel()
    program: IRModule = next(iter(measured().values()))[0].program
    model = AnalyticModel()
    model.update("k", [program], TARGET, [1.0])
    assert model.predict([program], TARGET)[0] < 0
