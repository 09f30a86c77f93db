"""Strategies that draw schedules, and learn nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.meta_schedule.search_strategy.search_strategy import Counted
from tilewright.meta_schedule.trace_space import TraceSpace, completed, trace_of
from tilewright.meta_schedule.utils import raised
from tilewright.support.errors import TVMError
from tilewright.tir.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.meta_schedule.cost_model import CostModel
    from tilewright.meta_schedule.database import Database


class ReplayTrace(Counted, kind="replay-trace"):
    """Draws decisions of the design spaces. max_fail_count: draws for one schedule, until there is none."""

    def __init__(self, max_fail_count: int = 100) -> None:
        self.max_fail_count = max_fail_count

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: list[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        super().pre_tuning(max_trials, num_trials_per_iter, design_spaces, database, cost_model)
        self._space = TraceSpace(self.tuned(), [trace_of(sch) for sch in design_spaces])

    def chosen(self, count: int) -> list[Schedule]:
        return [found for _ in range(count) if (found := self._draw()) is not None]

    def _draw(self) -> Schedule | None:
        for _ in range(self.max_fail_count):
            try:
                return self._space.schedule(self._space.draw(self.tuned().random))
            except TVMError:
                continue
        return None


class ReplayFunc(Counted, kind="replay-func"):
    """Makes the design space anew for each schedule: with the decisions that are drawn meanwhile."""

    def chosen(self, count: int) -> list[Schedule]:
        return [found for _ in range(count) if (found := self._made()) is not None]

    def _made(self) -> Schedule | None:
        context = self.tuned()
        designs = context.generate_design_space()
        if not designs:
            raise TVMError(f"the space generator made no design space of {context.task_name}")
        sch = context.random.choice(designs)
        assert context.space_generator is not None
        try:
            completed(sch, context.space_generator.postprocs)
        except TVMError as error:
            context.refused = raised(error)
            return None
        return sch
