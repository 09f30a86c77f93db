"""Predictions of how fast schedules are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from tilewright.meta_schedule.runner import RunnerResult
    from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
    from tilewright.meta_schedule.tune_context import TuneContext

Scores = np.ndarray[Any, np.dtype[np.float64]]


class CostModel(ABC):
    """Scores schedules, and learns from measurements."""

    kinds: ClassVar[dict[str, Callable[..., CostModel]]] = {}
    """The models by the names that `create` takes."""

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            CostModel.kinds[kind] = cls

    @abstractmethod
    def load(self, path: str) -> None:
        """Takes the state that `save` wrote."""

    @abstractmethod
    def save(self, path: str) -> None:
        """Writes the state to a file."""

    @abstractmethod
    def update(self, context: TuneContext, candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        """Learns from measurements."""

    @abstractmethod
    def predict(self, context: TuneContext, candidates: list[MeasureCandidate]) -> Scores:
        """A score of each schedule: higher is faster."""

    @staticmethod
    def create(kind: str, *args: Any, **kwargs: Any) -> CostModel:
        """A model by its name: "xgb", "mlp" or "random". Raises ValueError for others."""
        if kind not in CostModel.kinds:
            raise ValueError(f"a cost model is one of {', '.join(sorted(CostModel.kinds))}, but {kind!r} was given")
        return CostModel.kinds[kind](*args, **kwargs)


class PyCostModel(CostModel):
    """The base of models of users, which define load, save, update and predict."""


create = CostModel.create
