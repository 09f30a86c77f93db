"""The choice of what is measured."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tilewright.meta_schedule.arg_info import ArgInfo
from tilewright.meta_schedule.part import Part
from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
from tilewright.support.errors import TVMError
from tilewright.tir.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.meta_schedule.cost_model import CostModel
    from tilewright.meta_schedule.database import Database
    from tilewright.meta_schedule.runner import RunnerResult
    from tilewright.meta_schedule.tune_context import TuneContext


class SearchStrategy(Part):
    """Chooses schedules to be measured, between `pre_tuning` and `post_tuning`."""

    kinds: ClassVar[dict[str, Callable[..., SearchStrategy]]] = {}
    """The strategies by the names that `create` takes."""

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            SearchStrategy.kinds[kind] = cls

    @abstractmethod
    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: list[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Begins. max_trials: schedules to be measured in all. num_trials_per_iter: at once."""

    @abstractmethod
    def post_tuning(self) -> None:
        """Ends."""

    @abstractmethod
    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next schedules to be measured; None when there are no more."""

    @abstractmethod
    def notify_runner_results(self, measure_candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        """Tells what was measured of the schedules that were chosen last."""

    def meanwhile(self, is_over: Callable[[], bool]) -> None:
        """What it does while its schedules are measured, until is_over says that they are; nothing, by default."""

    @staticmethod
    def create(kind: str = "evolutionary", *args: Any, **kwargs: Any) -> SearchStrategy:
        """A strategy by its name: "evolutionary", "replay-trace" or "replay-func". Raises ValueError for others."""
        if kind not in SearchStrategy.kinds:
            raise ValueError(
                f"a search strategy is one of {', '.join(sorted(SearchStrategy.kinds))}, but {kind!r} was given"
            )
        return SearchStrategy.kinds[kind](*args, **kwargs)


class PySearchStrategy(SearchStrategy):
    """The base of strategies of users, which define all methods but `create`."""


class Counted(SearchStrategy):
    """A strategy that measures so many schedules."""

    context: TuneContext | None
    _design_spaces: list[Schedule] | None = None
    _left = 0
    _batch = 0

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: list[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        if not design_spaces:
            raise ValueError(f"there is nothing to be tuned: the list of design spaces{self._of_task()} is empty")
        if self._design_spaces is not None:
            raise ValueError("tuning has begun already: end it by post_tuning first")
        self._design_spaces, self._left, self._batch = list(design_spaces), max_trials, num_trials_per_iter

    def _of_task(self) -> str:
        return f" of {self.context.task_name}" if self.context is not None else ""

    def post_tuning(self) -> None:
        self._design_spaces = None

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        if self._design_spaces is None:
            raise ValueError("tuning has not begun: call pre_tuning first")
        count = min(self._left, self._batch)
        schedules = self.chosen(count) if count > 0 else []
        self._left -= len(schedules)
        return [MeasureCandidate(s, self.parameters()) for s in schedules] or None

    def notify_runner_results(self, measure_candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        if self._design_spaces is None:
            raise ValueError("tuning has not begun: call pre_tuning first")

    def clone(self) -> Self:
        new = super().clone()
        new._design_spaces = None
        return new

    @abstractmethod
    def chosen(self, count: int) -> list[Schedule]:
        """The next schedules, at most so many."""

    def tuned(self) -> TuneContext:
        """The context. Raises TVMError without one."""
        if self.context is None:
            raise TVMError(f"{type(self).__name__} needs a context: initialize_with_tune_context")
        return self.context

    def parameters(self) -> list[ArgInfo]:
        """The parameters of the kernel."""
        mod = self.tuned().mod
        if mod is None:
            raise TVMError("a search needs a module: give TuneContext one")
        return ArgInfo.from_entry_func(mod)


create = SearchStrategy.create
