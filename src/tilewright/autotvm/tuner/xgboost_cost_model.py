"""Gradient boosted trees as a cost model."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.autotvm import feature
from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.autotvm.tuner.metric import average_recall
from tilewright.autotvm.tuner.model_based_tuner import CostModel, Values
from tilewright.tuning.trees import free_threads, xgboost

logger = logging.getLogger("autotvm")

FEATURES = ("knob", "itervar", "curve")
LOSSES = ("reg", "rank", "rank-binary")
ROUNDS = 100
"""Trees of a training."""
PARAMETERS: dict[str, Any] = {
    "max_depth": 4,
    "gamma": 1e-4,
    "min_child_weight": 1,
    "eta": 0.2,
    "lambda": 1.0,
    "tree_method": "hist",
    "verbosity": 0,
    "seed": 0,
}


class XGBoostCostModel(CostModel):
    """Learns from features of configurations.

    feature_type: "knob": the configuration itself; the model knows nothing of other tasks then. "itervar": the loops of its program.
    "curve": how much of buffers is touched by how many iterations. loss_type: "reg": the model predicts speed, in that of the fastest.
    "rank": it learns which of two is faster. "rank-binary": it learns which are among the fastest of a plan. num_threads: of the
    training; None: one less than there are. upper_model: shares its features. Needs the package xgboost.
    """

    def __init__(
        self,
        task: Any,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        log_interval: int = 25,
        upper_model: XGBoostCostModel | None = None,
    ) -> None:
        if feature_type not in FEATURES or loss_type not in LOSSES:
            raise ValueError(
                f"feature_type is one of {', '.join(FEATURES)}, and loss_type one of {', '.join(LOSSES)}, but were given"
                f" {feature_type!r} and {loss_type!r}"
            )
        self._xgb = xgboost()
        self.task, self.space = task, task.config_space
        self.feature_type, self.loss_type = feature_type, loss_type
        self.num_threads, self.log_interval = num_threads, log_interval
        self._features: dict[int, Values] = {} if upper_model is None else upper_model._features
        self._booster: Any = None
        self._base: XGBoostCostModel | None = None

    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int) -> None:
        best = max(ys, default=0.0)
        if not best:
            return
        margin = self._base.predict(xs, output_margin=True) if self._base is not None else None
        self._train([self._feature(x) for x in xs], np.asarray(ys) / best, plan_size, [len(ys)], margin)

    def fit_log(
        self, records: Iterable[tuple[MeasureInput, MeasureResult]], plan_size: int, min_seed_records: int = 500
    ) -> bool:
        groups: dict[Any, list[tuple[MeasureInput, MeasureResult]]] = {}
        for given, result in records:
            same = (
                given.task.workload == self.task.workload
                if self.feature_type == "knob"
                else given.task.name == self.task.name
            )
            if same:
                groups.setdefault(given.task.workload, []).append((given, result))
        rows: list[Values] = []
        labels: list[Values] = []
        sizes = []
        for pairs in groups.values():
            made = [
                (r, 0.0 if res.error_no else 1.0 / float(np.mean(res.costs)))
                for g, res in pairs
                if (r := self._row(g)) is not None
            ]
            best = max([speed for _, speed in made], default=0.0)
            if best:
                rows += [row for row, _ in made]
                labels.append(np.array([speed / best for _, speed in made]))
                sizes.append(len(made))
        if not rows or len(rows) < min_seed_records:
            logger.debug("there are %d records that can be learned from, fewer than %d", len(rows), min_seed_records)
            return False
        self._train(rows, np.concatenate(labels), plan_size, sizes, None)
        return True

    def predict(self, xs: Sequence[int], output_margin: bool = False) -> Values:
        """A score of each index: higher is faster. output_margin: makes no difference, since scores are not transformed."""
        scores = np.zeros(len(xs)) if self._base is None else self._base.predict(xs, output_margin=True)
        if self._booster is None or not len(xs):
            return scores
        rows = _table([self._feature(x) for x in xs], self._booster.num_features())
        found: Values = self._booster.inplace_predict(rows, predict_type="margin", base_margin=scores)
        return found

    def load_basemodel(self, base_model: Any) -> None:
        """Takes a model to begin with, such as one that learned from records of other tasks."""
        self._base = base_model

    def spawn_base_model(self) -> XGBoostCostModel:
        return XGBoostCostModel(self.task, self.feature_type, self.loss_type, self.num_threads, self.log_interval, self)

    # ---- features

    def _feature(self, index: int) -> Values:
        if index not in self._features:
            row = self._row(MeasureInput(self.task.target, self.task, self.space.get(index)))
            # There is no program of a configuration that is refused.
            self._features[index] = row if row is not None else np.zeros(1, dtype=np.float32)
        return self._features[index]

    def _row(self, given: MeasureInput) -> Values | None:
        """The features of a configuration; None if it is refused."""
        if self.feature_type == "knob":
            return given.config.get_flatten_feature()  # type: ignore[no-any-return]
        try:
            with given.target:
                schedule, arguments = given.task.instantiate(given.config)
            if self.feature_type == "itervar":
                return np.array(
                    feature.get_itervar_feature_flatten(schedule, arguments, take_log=True), dtype=np.float32
                )
            return np.array(feature.get_buffer_curve_sample_flatten(schedule, arguments, sample_n=20), dtype=np.float32)
        except Exception as error:
            # A template is a program of the user, and may raise anything for a configuration; measuring it says what.
            logger.debug("a configuration has no features: %s: %s", type(error).__name__, error)
            return None

    # ---- training

    def _train(
        self, rows: Sequence[Values], labels: Values, plan_size: int, groups: Sequence[int], margin: Values | None
    ) -> None:
        table = _table(rows, max([len(r) for r in rows]))
        wanted = labels
        if self.loss_type == "rank-binary":
            limit = np.sort(labels)[-min(max(plan_size // 4, 1), len(labels))]
            wanted = (labels >= limit).astype(float)
        threads = self.num_threads or free_threads()
        matrix = self._xgb.DMatrix(table, wanted, nthread=threads)
        ranked = self.loss_type != "reg"
        if ranked:
            matrix.set_group(list(groups))
        if margin is not None:
            matrix.set_base_margin(margin)
        parameters = {
            **PARAMETERS,
            "objective": "rank:pairwise" if ranked else "reg:squarederror",
            "base_score": 0.0,
            "nthread": threads,
        }
        self._booster = self._xgb.train(parameters, matrix, ROUNDS)
        # Few rows are predicted at a time: to wake further threads takes longer.
        self._booster.set_param({"nthread": 1})
        if logger.isEnabledFor(logging.DEBUG):
            recall = average_recall(self._booster.predict(matrix).tolist(), labels.tolist(), plan_size)
            logger.debug("trees of %d measurements: recall of the fastest %.3f", len(rows), recall)


def _table(rows: Sequence[Values], width: int) -> Values:
    """Rows of one width: programs of a space may have more or fewer loops than others."""
    table = np.zeros((len(rows), width), dtype=np.float32)
    for place, row in enumerate(rows):
        table[place, : min(len(row), width)] = row[:width]
    return table


__all__ = ["XGBoostCostModel"]
