"""What a kernel is tuned with: its module, its target, the rules of its design space and the search in it."""

from __future__ import annotations

import logging
from random import Random
from typing import TYPE_CHECKING, Any

from tilewright.ir import IRModule
from tilewright.meta_schedule.utils import cpu_count
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc

if TYPE_CHECKING:
    from tilewright.meta_schedule.cost_model import CostModel
    from tilewright.meta_schedule.database import Database
    from tilewright.meta_schedule.runner import RunnerResult
    from tilewright.meta_schedule.search_strategy import MeasureCandidate, SearchStrategy
    from tilewright.meta_schedule.space_generator import SpaceGenerator
    from tilewright.tir.schedule import Schedule


class TuneContext:
    """A kernel to be tuned.

    mod: a module or a PrimFunc. target: None takes the current one, if there is one. space_generator: a generator, its name, or a
    function that schedules. rand_state: the seed; -1 and None draw one. num_threads: "physical", "logical" or a number.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc | None = None,
        *,
        target: Target | str | None = None,
        space_generator: Any = None,
        search_strategy: Any = None,
        task_name: str = "main",
        rand_state: int | None = -1,
        num_threads: int | str | None = "physical",
        logger: logging.Logger | None = None,
    ) -> None:
        from tilewright.meta_schedule.search_strategy import SearchStrategy
        from tilewright.meta_schedule.space_generator import SpaceGenerator

        if isinstance(mod, PrimFunc):
            mod = IRModule.from_expr(mod)
        if mod is not None and not isinstance(mod, IRModule):
            raise TypeError(f"TuneContext takes an IRModule or a PrimFunc, but was given {type(mod).__name__}")
        self.mod: IRModule | None = mod
        self.target = Target(target) if target is not None else Target.current(allow_none=True)
        if space_generator is not None and not isinstance(space_generator, SpaceGenerator):
            space_generator = SpaceGenerator.create(space_generator)
        self.space_generator: SpaceGenerator | None = space_generator
        self.task_name = task_name
        self.rand_state = Random().getrandbits(30) + 1 if rand_state in (None, -1) else int(rand_state)
        self.random = Random(self.rand_state)
        self.num_threads = self._threads(num_threads)
        self.logger = logger or logging.getLogger("tilewright.meta_schedule")
        if search_strategy is not None and not isinstance(search_strategy, SearchStrategy):
            search_strategy = SearchStrategy.create(search_strategy)
        self.search_strategy: SearchStrategy | None = search_strategy
        self.refused = ""
        """Why the last schedule that the search refused was refused."""
        self.initialize()

    @staticmethod
    def _threads(count: int | str | None) -> int:
        if count is None or isinstance(count, str):
            if count not in (None, "physical", "logical"):
                raise ValueError(f'num_threads must be a number, "physical" or "logical", but is {count!r}')
            return cpu_count(logical=count == "logical")
        return int(count)

    def initialize(self) -> None:
        """Gives the parts this context, so that they know the target and the module."""
        from tilewright.meta_schedule.space_generator import SpaceGenerator

        for part in (self.space_generator, self.search_strategy):
            if part is not None:
                part._initialize_with_tune_context(self)
        generator = self.space_generator
        if generator is not None and any([isinstance(rules, str) for rules in generator.parts_given]):
            # A generator of a user that does not call the method of its base.
            SpaceGenerator._initialize_with_tune_context(generator, self)

    def generate_design_space(self) -> list[Schedule]:
        """The design spaces: schedules whose traces have sampled decisions. Raises TVMError without a space generator or a module."""
        if self.space_generator is None or self.mod is None:
            raise TVMError("a design space needs a module and a space generator, and TuneContext was not given both")
        return self.space_generator.generate_design_space(self.mod)

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int = 64,
        design_spaces: list[Schedule] | None = None,
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Begins the search. design_spaces: None generates them. database: None: one in memory. cost_model: None: random scores."""
        from tilewright.meta_schedule.cost_model import RandomModel
        from tilewright.meta_schedule.database import MemoryDatabase

        self._strategy().pre_tuning(
            max_trials,
            num_trials_per_iter,
            self.generate_design_space() if design_spaces is None else design_spaces,
            MemoryDatabase() if database is None else database,
            RandomModel(seed=self.random.getrandbits(30)) if cost_model is None else cost_model,
        )

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next schedules to be measured; None when there are no more."""
        return self._strategy().generate_measure_candidates()

    def notify_runner_results(self, measure_candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        """Tells what was measured."""
        self._strategy().notify_runner_results(measure_candidates, results)

    def post_tuning(self) -> None:
        """Ends the search."""
        self._strategy().post_tuning()

    def _strategy(self) -> SearchStrategy:
        if self.search_strategy is None:
            raise TVMError('a search needs a strategy: give TuneContext one, such as "evolutionary"')
        return self.search_strategy

    def clone(self) -> TuneContext:
        """An independent context with parts of its own."""
        return TuneContext(
            self.mod,
            target=self.target,
            space_generator=self.space_generator.clone() if self.space_generator is not None else None,
            search_strategy=self.search_strategy.clone() if self.search_strategy is not None else None,
            task_name=self.task_name,
            rand_state=self.random.getrandbits(30) + 1,
            num_threads=self.num_threads,
            logger=self.logger,
        )
