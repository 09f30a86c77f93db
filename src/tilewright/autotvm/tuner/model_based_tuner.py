"""Tuners that learn which configurations are fast: a cost model, and what finds the configurations that it likes best."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.autotvm.tuner.tuner import Tuner

Values = np.ndarray[Any, Any]

EXPLORED = 0.05
"""The share of a plan that is drawn at random, whatever the model says."""


class CostModel:
    """Predicts how fast configurations are, by their indices."""

    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int) -> None:
        """Learns. xs: indices. ys: FLOPS of each; 0 of those that failed. plan_size: how many configurations are chosen by it at a time."""
        raise NotImplementedError(f"{type(self).__name__} does not learn")

    def fit_log(
        self, records: Iterable[tuple[MeasureInput, MeasureResult]], plan_size: int, min_seed_records: int = 500
    ) -> bool:
        """Learns from records, of other tasks too. Returns whether there were min_seed_records that it could use."""
        raise NotImplementedError(f"{type(self).__name__} does not learn from records")

    def predict(self, xs: Sequence[int], output_margin: bool = False) -> Values:
        """A score of each index: higher is faster."""
        raise NotImplementedError(f"{type(self).__name__} does not predict")

    def load_basemodel(self, base_model: Any) -> None:
        """Takes another model to begin with."""
        raise NotImplementedError(f"{type(self).__name__} takes no base model")

    def spawn_base_model(self) -> Self:
        """A model of the same kind that knows nothing."""
        raise NotImplementedError(f"{type(self).__name__} makes no base model")


class ModelOptimizer:
    """Finds the configurations with the highest predictions of a model."""

    def find_maximums(self, model: CostModel, num: int, exclusive: Iterable[int]) -> list[int]:
        """So many indices, the best first, none of which is excluded."""
        raise NotImplementedError(f"{type(self).__name__} does not search")


class ModelBasedTuner(Tuner):
    """Measures a plan of configurations, learns, and plans the next ones.

    plan_size: configurations that are planned at a time. diversity_filter_ratio: so many times as many are looked for, and those are chosen
    whose knobs differ most.
    """

    def __init__(
        self,
        task: Any,
        cost_model: CostModel,
        model_optimizer: ModelOptimizer,
        plan_size: int,
        diversity_filter_ratio: float | None = None,
    ) -> None:
        super().__init__(task)
        if diversity_filter_ratio is not None and diversity_filter_ratio < 1:
            raise ValueError(f"diversity_filter_ratio is 1 or more, but was given {diversity_filter_ratio}")
        self.cost_model, self.model_optimizer = cost_model, model_optimizer
        self.plan_size = max(1, min(plan_size, len(self.space)))
        self.diversity_filter_ratio = diversity_filter_ratio
        self.visited: set[int] = set()
        self.trials: list[int] = []
        self.trial_pt = 0
        self.train_ct = 0
        self.xs: list[int] = []
        self.ys: list[float] = []
        self.flops_max = 0.0

    def has_next(self) -> bool:
        return len(self.visited) < len(self.space)

    def next_batch(self, batch_size: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < batch_size and self.has_next():
            index = self._planned()
            if index is None:
                index = self.space.get_rand_index(to_exclude=self.visited)
            self.visited.add(index)
            found.append(self.space.get(index))
        return found

    def _planned(self) -> int | None:
        """The next index of the plan; None where it is used up, or one is to be drawn."""
        while self.trial_pt < len(self.trials):
            if self.trial_pt >= len(self.trials) - int(EXPLORED * self.plan_size):
                self.trial_pt += 1
                return None
            index = self.trials[self.trial_pt]
            self.trial_pt += 1
            if index not in self.visited:
                return index
        return None

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for given, result in zip(inputs, results, strict=True):
            flops = 0.0 if result.error_no else given.task.flop / float(np.mean(result.costs))
            self.xs.append(given.config.index)
            self.ys.append(flops)
            self.flops_max = max(self.flops_max, flops)
        if len(self.xs) >= self.plan_size * (self.train_ct + 1) and self.flops_max > 0 and self.has_next():
            self.cost_model.fit(self.xs, self.ys, self.plan_size)
            self._plan()
            self.train_ct += 1

    def _plan(self) -> None:
        ratio = self.diversity_filter_ratio or 1
        found = self.model_optimizer.find_maximums(self.cost_model, int(self.plan_size * ratio), self.visited)
        if ratio > 1 and found:
            knobs = [self.space.point2knob(index) for index in found]
            picked = submodular_pick(self.cost_model.predict(found), knobs, self.plan_size, 1.0)
            found = [found[i] for i in picked]
        self.trials, self.trial_pt = found, 0

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Learns from records, of tasks of the same template too, and plans the first configurations by them."""
        base = self.cost_model.spawn_base_model()
        if base.fit_log(list(data_set), self.plan_size, min_seed_records):
            self.cost_model.load_basemodel(base)
            self._plan()


def submodular_pick(
    scores: Sequence[float] | Values, knobs: Sequence[Sequence[int]], n_pick: int, knob_weight: float = 1.0
) -> list[int]:
    """Chooses n_pick places, one after the other. Each time it is the one with the highest score, to which knob_weight is added for each
    knob whose choice none of the chosen places has."""
    left = list(range(len(knobs)))
    random.shuffle(left)
    seen: list[set[int]] = [set() for _ in (knobs[0] if len(knobs) else ())]
    picked: list[int] = []
    while left and len(picked) < n_pick:
        best = max(
            left,
            key=lambda i: scores[i] + knob_weight * sum([k not in s for k, s in zip(knobs[i], seen, strict=True)]),
        )
        left.remove(best)
        picked.append(best)
        for choice, known in zip(knobs[best], seen, strict=True):
            known.add(choice)
    return picked
