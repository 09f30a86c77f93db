"""Simulated annealing: walks through a space that seldom go to configurations with lower predictions of a model."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.autotvm.tuner.model_based_tuner import CostModel, ModelOptimizer

logger = logging.getLogger("autotvm")

SECONDS = 10.0
"""After which no further step begins, so that measuring is not long in waiting."""

SMALL = 4
"""A space that has at most so many times as many configurations as there are walks is small."""


class SimulatedAnnealingOptimizer(ModelOptimizer):
    """Walks from several configurations at once. Of a small space all configurations are predicted instead.

    n_iter: steps. temp: the temperature, which falls from the first number to the second. persistent: whether walks go on where they
    ended the last time. parallel_size: walks. early_stop: steps without a better maximum after which it ends. log_interval: steps from
    one message to the next.
    """

    def __init__(
        self,
        task: Any,
        n_iter: int = 500,
        temp: float | tuple[float, float] = (1, 0),
        persistent: bool = True,
        parallel_size: int = 128,
        early_stop: int = 50,
        log_interval: int = 50,
    ) -> None:
        self.task, self.space = task, task.config_space
        self.n_iter, self.temp, self.persistent = n_iter, temp, persistent
        self.parallel_size = min(parallel_size, len(self.space))
        self.early_stop, self.log_interval = early_stop, log_interval
        self.points: np.ndarray[Any, Any] | None = None

    def find_maximums(self, model: CostModel, num: int, exclusive: Iterable[int]) -> list[int]:
        excluded, ends = set(exclusive), time.monotonic() + SECONDS
        best = _Best(num, excluded)
        if self.space.range_length <= SMALL * self.parallel_size:
            points = [i for i in range(self.space.range_length) if self.space.is_index_valid(i)]
            best.add(points, model.predict(points))
            return best.indices()
        before = self.points if self.persistent else None
        points = [int(p) for p in (self.space.sample_ints(self.parallel_size) if before is None else before)]
        scores = np.asarray(model.predict(points), dtype=float)
        best.add(points, scores)
        last_change = 0
        for step in range(self.n_iter):
            if step - last_change > self.early_stop or time.monotonic() > ends:
                break
            moved = [self.space.random_walk(p) for p in points]
            found = np.asarray(model.predict(moved), dtype=float)
            heat = self._temperature(step)
            rise = np.minimum((found - scores) / (heat + 1e-5), 1.0)
            taken = np.random.random(len(points)) < np.exp(rise)
            points = [m if take else p for p, m, take in zip(points, moved, taken, strict=True)]
            scores = np.where(taken, found, scores)
            if best.add(moved, found):
                last_change = step
            if self.log_interval and step % self.log_interval == 0:
                logger.debug("annealing: step %d, temperature %.2f, lowest of the best %.3f", step, heat, best.lowest)
        self.points = np.array(points)
        return best.indices()

    def _temperature(self, step: int) -> float:
        if isinstance(self.temp, (int, float)):
            return float(self.temp)
        first, last = self.temp
        return first + (last - first) * step / self.n_iter


class _Best:
    """The indices with the highest scores, so many at most."""

    def __init__(self, count: int, excluded: set[int]) -> None:
        self._count, self._excluded = count, excluded
        self._scores: dict[int, float] = {}
        self.lowest = -np.inf

    def add(self, indices: Sequence[int], scores: Sequence[float] | np.ndarray[Any, Any]) -> bool:
        """Whether one of the indices is among the best, and was not before."""
        new = {
            i: float(s)
            for i, s in zip(indices, scores, strict=True)
            if i not in self._excluded
            and i not in self._scores
            and (len(self._scores) < self._count or s > self.lowest)
        }
        if not new:
            return False
        kept = sorted((self._scores | new).items(), key=lambda pair: -pair[1])[: self._count]
        self._scores = dict(kept)
        self.lowest = kept[-1][1]
        return True

    def indices(self) -> list[int]:
        return list(self._scores)
