"""A cost model of meta_schedule as one of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from tilewright.ir import IRModule
from tilewright.meta_schedule.arg_info import ArgInfo
from tilewright.meta_schedule.cost_model.cost_model import CostModel
from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
from tilewright.meta_schedule.utils import raised
from tilewright.target import Target
from tilewright.tir.schedule import Schedule
from tilewright.tuning import measure

if TYPE_CHECKING:
    from tilewright.meta_schedule.tune_context import TuneContext


class EngineModel(measure.CostModel):
    """Predicts by a model of meta_schedule; where it raises, or gives no scores, all are equal, which is logged. The schedules that it gets
    hold the scheduled programs, without traces; it learns by callbacks (UpdateCostModel), not here."""

    def __init__(self, context: TuneContext, model: CostModel) -> None:
        self.context, self.model = context, model
        self._told: set[str] = set()

    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        if not programs:
            return []
        infos = ArgInfo.from_entry_func(programs[0])
        candidates = [MeasureCandidate(Schedule._create_non_traced(p), infos) for p in programs]
        try:
            scores = [float(score) for score in self.model.predict(self.context, candidates)]
            wrong = "" if len(scores) == len(programs) else f"gave {len(scores)} scores for {len(programs)} schedules"
        except Exception as error:
            scores, wrong = [], f"raised {raised(error)}"
        if not wrong and any([isnan(score) for score in scores]):
            wrong = "gave scores that are no numbers"
        if not wrong:
            return scores
        if wrong not in self._told:
            self._told.add(wrong)
            name = type(self.model).__name__
            self.context.logger.warning("the cost model %s %s: schedules are chosen as if it knew nothing", name, wrong)
        return [0.0] * len(programs)

    def update(self, key: str, programs: Sequence[IRModule], target: Target, seconds: Sequence[float]) -> None:
        """The model learned by UpdateCostModel."""
