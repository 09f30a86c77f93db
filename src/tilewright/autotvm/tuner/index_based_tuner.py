"""Tuners that go through the indices of a space."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.autotvm.tuner.tuner import Tuner


class IndexBaseTuner(Tuner):
    """Base of tuners that do not learn. range_idx: the first index, and the last one; None: all."""

    def __init__(self, task: Any, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task)
        last = self.space.range_length - 1
        begin, end = range_idx if range_idx is not None else (0, last)
        if not 0 <= begin <= end <= last:
            raise ValueError(f"range_idx is the first and the last index of 0 to {last}, but was given {range_idx}")
        self.begin_idx, self.end_idx = begin, end + 1
        self.range_length = self.space.subrange_length(begin, self.end_idx)
        self.counter = 0

    def has_next(self) -> bool:
        return bool(self.counter < self.range_length)

    def load_history(self, data_set: Iterable[Any], min_seed_records: int = 500) -> None:
        """Nothing: which configurations come next does not depend on measurements."""


class GridSearchTuner(IndexBaseTuner):
    """Measures the configurations in the order of their indices."""

    def next_batch(self, batch_size: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < batch_size and self.has_next():
            step = self.space.get_next_index(self.begin_idx - 1, self.counter + 1, self.begin_idx, self.end_idx)
            found.append(self.space.get(step))
            self.counter += 1
        return found


class RandomTuner(IndexBaseTuner):
    """Measures configurations in random order, each once."""

    def __init__(self, task: Any, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task, range_idx)
        # Places that were exchanged with the one drawn, as in a shuffle whose other places are not stored.
        self._moved: dict[int, int] = {}
        self._left = self.end_idx - self.begin_idx

    def next_batch(self, batch_size: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < batch_size and self.has_next():
            index = self.begin_idx + self._draw()
            if self.space.is_index_valid(index):
                found.append(self.space.get(index))
                self.counter += 1
        return found

    def _draw(self) -> int:
        place = random.randrange(self._left)
        self._left -= 1
        drawn = self._moved.get(place, place)
        self._moved[place] = self._moved.pop(self._left, self._left)
        return drawn


__all__: Sequence[str] = ["GridSearchTuner", "IndexBaseTuner", "RandomTuner"]
