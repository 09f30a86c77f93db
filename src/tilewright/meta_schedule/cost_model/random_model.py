"""The model that knows nothing."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from tilewright.meta_schedule.cost_model.cost_model import CostModel, Scores
from tilewright.support.errors import TVMError, said

if TYPE_CHECKING:
    from tilewright.meta_schedule.runner import RunnerResult
    from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
    from tilewright.meta_schedule.tune_context import TuneContext


class RandomModel(CostModel, kind="random"):
    """Random scores from [0, max_range). seed: None draws one. path: of a saved state to begin with."""

    def __init__(self, *, seed: int | None = None, path: str | None = None, max_range: int | None = 100) -> None:
        self.max_range = 100 if max_range is None else max_range
        self.random = Random(seed)
        if path is not None:
            self.load(path)

    def load(self, path: str) -> None:
        """Takes the state of the random numbers. Raises TVMError for other files."""
        try:
            version, *numbers = np.load(path, allow_pickle=False).tolist()
            self.random.setstate((int(version), tuple([int(n) for n in numbers]), None))
        except (OSError, ValueError, TypeError, EOFError) as error:
            raise TVMError(f"{path} is no saved state of a RandomModel: {said(error)}") from error

    def save(self, path: str) -> None:
        version, numbers, _ = self.random.getstate()
        with Path(path).open("wb") as file:
            np.save(file, np.array([version, *numbers], np.int64))

    def update(self, context: TuneContext, candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        """Learns nothing."""

    def predict(self, context: TuneContext, candidates: list[MeasureCandidate]) -> Scores:
        return np.array([self.random.random() * self.max_range for _ in candidates], np.float64)
