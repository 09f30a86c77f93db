"""Coordinate descent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.autotvm.tuner.tuner import Tuner

BATCH = 16
"""Configurations that are measured between two steps."""


class DropletTuner(Tuner):
    """Moves from configuration to configuration: to the fastest of those that differ in one knob by one place, until none is faster.

    start_position: the places of the knobs where it begins; None: the first place of each. pvalue: a neighbour is faster if its times would
    be as low by chance with this probability at most.
    """

    def __init__(self, task: Any, start_position: Sequence[int] | None = None, pvalue: float = 0.05) -> None:
        super().__init__(task)
        self.dims = self.space.dims
        start = [0] * len(self.dims) if start_position is None else list(start_position)
        if len(start) != len(self.dims) or not all([0 <= p < n for p, n in zip(start, self.dims, strict=True)]):
            raise ValueError(f"start_position is a place of each knob, below {self.dims}, but was given {start}")
        index = self.space.knob2point(start)
        if not self.space.is_index_valid(index):
            index = self.space.get_next_index(index) or self.space.get_next_index(index, -1)
        self.pvalue = pvalue
        self.best_choice: tuple[int, list[int], list[float]] = (index, self.space.point2knob(index), [math.inf])
        self.visited: set[int] = {index}
        self.next: list[int] = [index, *self.next_pos(self.search_space())]
        self.speculation()

    def num_to_bin(self, value: int, factor: int = 1) -> list[int]:
        """The binary digits of a number, one for each knob, each times a factor."""
        return [factor * (value >> i & 1) for i in range(len(self.dims))]

    def search_space(self, factor: int = 1) -> list[list[int]]:
        """The steps of so many places forward and backward, each of one knob."""
        return [self.num_to_bin(1 << i, step) for i in range(len(self.dims)) for step in (factor, -factor)]

    def next_pos(self, new_positions: Sequence[Sequence[int]]) -> list[int]:
        """The configurations that are these steps away from the fastest, and not known yet."""
        found = []
        for step in new_positions:
            knob = [p + d for p, d in zip(self.best_choice[1], step, strict=True)]
            if all([0 <= p < n for p, n in zip(knob, self.dims, strict=True)]):
                index = int(self.space.knob2point(knob))
                if index not in self.visited and self.space.is_index_valid(index):
                    self.visited.add(index)
                    found.append(index)
        return found

    def speculation(self) -> None:
        """Adds configurations that are further away, so that a batch is full."""
        for factor in range(2, max(self.dims, default=0)):
            if len(self.next) >= BATCH:
                return
            for step in self.search_space(factor):
                if len(self.next) < BATCH:
                    self.next += self.next_pos([step])

    def has_next(self) -> bool:
        return bool(self.next)

    def next_batch(self, batch_size: int) -> list[Any]:
        chosen, self.next = self.next[:batch_size], self.next[batch_size:]
        return [self.space.get(index) for index in chosen]

    def p_value(self, elem_1: Sequence[float], elem_2: Sequence[float]) -> float:
        """The probability that two samples of one distribution have means as different as these (Welch's t-test)."""
        a, b = np.asarray(elem_1, dtype=float), np.asarray(elem_2, dtype=float)
        if not (np.isfinite(a).all() and np.isfinite(b).all()) or min(len(a), len(b)) < 2:
            return 0.0 if a.mean() != b.mean() else 1.0
        parts = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
        total = float(sum(parts))
        if total == 0:
            return 0.0 if a.mean() != b.mean() else 1.0
        t = float(a.mean() - b.mean()) / math.sqrt(total)
        freedom = total**2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
        return _incomplete_beta(freedom / (freedom + t * t), freedom / 2)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        moved = False
        for given, result in zip(inputs, results, strict=True):
            if result.error_no:
                continue
            best = self.best_choice[2]
            faster = float(np.mean(result.costs)) < float(np.mean(best))
            if faster and self.p_value(best, result.costs) <= self.pvalue:
                self.best_choice = (given.config.index, self.space.point2knob(given.config.index), list(result.costs))
                moved = True
        if moved:
            self.next = self.next_pos(self.search_space()) + self.next
            self.speculation()

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Nothing: it begins where `start_position` says."""


def _incomplete_beta(x: float, a: float) -> float:
    """The regularised incomplete beta function of x with the parameters a and 1/2, by the midpoint rule.

    With t = 1 - s**2 its integrand, t**(a - 1) * (1 - t)**(-1/2), has no pole: it is 2 * (1 - s**2)**(a - 1).
    """
    if x >= 1.0:
        return 1.0
    s = np.linspace(math.sqrt(1.0 - x), 1.0, 2001)
    middle = (s[1:] + s[:-1]) / 2
    area = float(np.sum(2.0 * (1.0 - middle**2) ** (a - 1.0))) * float(s[1] - s[0])
    whole = math.exp(math.lgamma(a) + math.lgamma(0.5) - math.lgamma(a + 0.5))
    return min(max(area / whole, 0.0), 1.0)
