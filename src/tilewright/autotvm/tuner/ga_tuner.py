"""Genetic search."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.autotvm.tuner.tuner import Tuner


class GATuner(Tuner):
    """A population of configurations: when all are measured, the fast ones have children, which take knobs of both parents; single knobs
    change at random.

    pop_size: configurations of a generation. elite_num: the fastest ones so far, that are parents too. mutation_prob: of each knob.
    """

    def __init__(self, task: Any, pop_size: int = 100, elite_num: int = 3, mutation_prob: float = 0.1) -> None:
        super().__init__(task)
        if not 0 < elite_num <= pop_size:
            raise ValueError(f"elite_num is 1 to pop_size, but was given {elite_num} of {pop_size}")
        self.pop_size, self.elite_num, self.mutation_prob = pop_size, elite_num, mutation_prob
        self.visited: set[int] = set()
        self.elites: list[tuple[float, list[int]]] = []
        self.genes: list[int] = [int(i) for i in self.space.sample_ints(pop_size)]
        self.scores: list[tuple[float, list[int]]] = []
        self.trial_pt = 0
        self.visited.update(self.genes)

    def has_next(self) -> bool:
        return self.trial_pt < len(self.genes) or len(self.visited) < len(self.space)

    def next_batch(self, batch_size: int) -> list[Any]:
        if self.trial_pt >= len(self.genes):
            self._breed()
        chosen = self.genes[self.trial_pt : self.trial_pt + batch_size]
        self.trial_pt += len(chosen)
        return [self.space.get(index) for index in chosen]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for given, result in zip(inputs, results, strict=True):
            flops = 0.0 if result.error_no else given.task.flop / float(np.mean(result.costs))
            self.scores.append((flops, self.space.point2knob(given.config.index)))

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Begins with what is known of the task: its measured configurations are parents, and not measured again."""
        known = [
            (given, result)
            for given, result in data_set
            if given.task.workload == self.task.workload and self.space.is_index_valid(given.config.index)
        ]
        for given, result in known:
            given.task.flop = given.task.flop or self.task.flop
            self.update([given], [result])
        measured = {given.config.index for given, _ in known}
        self.visited |= measured
        self.genes = [index for index in self.genes if index not in measured]

    def _breed(self) -> None:
        """The next generation: configurations that were not measured."""
        parents = sorted([*self.scores, *self.elites], key=lambda p: -p[0])
        self.elites, self.scores = parents[: self.elite_num], []
        weights = [score for score, _ in parents]
        if not any(weights):
            weights = [1.0] * len(parents)
        children: list[int] = []
        for _ in range(self.pop_size):
            if len(self.visited) >= len(self.space):
                break
            first, second = [knob for _, knob in random.choices(parents, weights, k=2)]
            index = self._unknown(self._child(first, second))
            self.visited.add(index)
            children.append(index)
        self.genes, self.trial_pt = children, 0

    def _child(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        cut = random.randrange(len(first) + 1)
        knob = [*first[:cut], *second[cut:]]
        for i, size in enumerate(self.space.dims):
            if random.random() < self.mutation_prob:
                knob[i] = random.randrange(size)
        return knob

    def _unknown(self, knob: list[int]) -> int:
        """The index of a configuration, changed until it is one that was not measured."""
        index = int(self.space.knob2point(knob))
        for _ in range(50):
            if index not in self.visited and self.space.is_index_valid(index):
                return index
            place = random.randrange(len(knob))
            knob[place] = random.randrange(self.space.dims[place])
            index = int(self.space.knob2point(knob))
        return int(self.space.get_rand_index(to_exclude=self.visited))
