"""The engine's search as a strategy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tilewright.meta_schedule.cost_model import CostModel, RandomModel
from tilewright.meta_schedule.cost_model.engine import EngineModel
from tilewright.meta_schedule.plans import KernelPlans
from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
from tilewright.meta_schedule.search_strategy.search_strategy import Counted
from tilewright.meta_schedule.trace_space import TraceSpace, trace_of
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule
from tilewright.tuning.search import Effort, Proposal, Search

if TYPE_CHECKING:
    from tilewright.meta_schedule.database import Database
    from tilewright.meta_schedule.runner import RunnerResult

SECONDS = 2.5
"""Of the first search, whose end also ends a generation."""
SHARE = 0.25
"""Of the time of the measurements before: what later ones take."""
LEAST, MOST = 1.0, 30.0
"""Bounds of the seconds of later searches."""
BATCH = 16
"""Schedules that are measured before the next are chosen, at most: what the cost model learns from them is worth more than fewer rounds."""


class EvolutionarySearch(Counted, kind="evolutionary"):
    """Mutates the fastest schedules, and lets the cost model choose among them: the search of `tuning`. With the default rules of a target,
    the first schedule is that of the compiler's own rules (`plans`), and what they could decide otherwise is searched too.

    population_size: schedules of a generation. genetic_num_iters: generations. eps_greedy: the share of what is measured that is drawn at
    random. init_measured_ratio: how many of the first generation are the fastest of the database. The other parameters have no
    effect: they limit attempts of the classic search, and the engine has limits of its own.
    """

    def __init__(
        self,
        *,
        population_size: int = 512,
        init_measured_ratio: float = 0.2,
        init_min_unmeasured: int = 50,
        max_fail_count: int = 5,
        genetic_num_iters: int = 4,
        genetic_mutate_prob: float = 0.85,
        genetic_max_fail_count: int = 10,
        eps_greedy: float = 0.05,
    ) -> None:
        self.population_size, self.genetic_num_iters, self.eps_greedy = population_size, genetic_num_iters, eps_greedy
        self.init_measured_ratio, self.init_min_unmeasured = init_measured_ratio, init_min_unmeasured
        self.max_fail_count, self.genetic_max_fail_count = max_fail_count, genetic_max_fail_count
        self.genetic_mutate_prob = genetic_mutate_prob
        self._proposals: list[Proposal] = []
        self._seconds, self._chosen_at = SECONDS, 0.0

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: list[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        super().pre_tuning(max_trials, min(num_trials_per_iter, BATCH), design_spaces, database, cost_model)
        context = self.tuned()
        target = context.target or Target("llvm")
        # Rules of a user are the user's whole space.
        plans = None
        if context.mod is not None and context.space_generator is not None and context.space_generator.is_of_target:
            plans = KernelPlans.of(context.mod, target)
        self._space = TraceSpace(context, [trace_of(sch) for sch in design_spaces], plans)
        model = EngineModel(context, cost_model or RandomModel(seed=context.random.getrandbits(30)))
        self._search = Search(self._space, target, model, Random(context.random.getrandbits(30)))
        if plans is not None:
            self._search.suggest(plans.start())
        if database is not None and database.has_workload(self._space.mod):
            workload = database.commit_workload(self._space.mod)
            for record in database.get_top_k(workload, int(self.population_size * self.init_measured_ratio)):
                try:
                    # The search adds what post-processors do by itself.
                    candidate = self._space.read(record.trace.as_json(remove_postproc=True))
                except TVMError:
                    continue
                self._search.recall(candidate, record.seconds)

    def chosen(self, count: int) -> list[Schedule]:
        effort = Effort(self.population_size, self.genetic_num_iters, 0.0, self.eps_greedy, self._seconds)
        self._proposals = self._search.propose(count, effort)
        found = [self._space.schedule(p.candidate) for p in self._proposals]
        self._chosen_at = time.monotonic()
        return found

    def meanwhile(self, is_over: Callable[[], bool]) -> None:
        if self._left > 0:
            self._search.ahead(self.population_size // 2, is_over)

    def notify_runner_results(self, measure_candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        super().notify_runner_results(measure_candidates, results)
        self._seconds = min(max(SHARE * (time.monotonic() - self._chosen_at), LEAST), MOST)
        for proposal, result in zip(self._proposals, results, strict=False):
            self._search.told(proposal, statistics.median(result.run_secs) if result.run_secs else float("inf"))
