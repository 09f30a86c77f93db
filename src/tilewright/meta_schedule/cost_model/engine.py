"""A cost model of meta_schedule as one of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.ir import IRModule
from tilewright.meta_schedule.arg_info import ArgInfo
from tilewright.meta_schedule.cost_model.cost_model import CostModel
from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
from tilewright.target import Target
from tilewright.tir.schedule import Schedule
from tilewright.tuning import measure

if TYPE_CHECKING:
    from tilewright.meta_schedule.tune_context import TuneContext


class EngineModel(measure.CostModel):
    """Predicts by a model of meta_schedule. The schedules that it gets hold the scheduled programs, without traces; it learns by
    callbacks (UpdateCostModel), not here."""

    def __init__(self, context: TuneContext, model: CostModel) -> None:
        self.context, self.model = context, model

    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        if not programs:
            return []
        infos = ArgInfo.from_entry_func(programs[0])
        candidates = [MeasureCandidate(Schedule._create_non_traced(p), infos) for p in programs]
        return [float(score) for score in self.model.predict(self.context, candidates)]

    def update(self, key: str, programs: Sequence[IRModule], target: Target, seconds: Sequence[float]) -> None:
        """The model learned by UpdateCostModel."""
