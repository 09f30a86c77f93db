"""Searches under their classic names: which programs of a task are measured."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.auto_scheduler import classic_log
from tilewright.auto_scheduler.cost_model.cost_model import CostModel, RandomModel, StateModel
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.loops import StateObject
from tilewright.auto_scheduler.measure import MeasureInput, MeasureResult
from tilewright.auto_scheduler.measurer import ProgramMeasurer, TaskFailure
from tilewright.auto_scheduler.sampling import Limits, Sampler
from tilewright.auto_scheduler.sketch_rules import RULES, Condition, CustomRule, Problem, generate
from tilewright.auto_scheduler.sketch_space import SketchSpace
from tilewright.support.errors import TVMError
from tilewright.tuning.search import Effort, Search

if TYPE_CHECKING:
    from tilewright.auto_scheduler.search_task import SearchTask

NEAR = 0.3
"""The share of measured programs that are small changes of the fastest ones."""


AT_ONCE = 8
"""Programs that are measured before the model learns again, however many a round has."""
SEARCHED = 0.7
"""Seconds of the processor that a search takes for each program that is measured: about as long as it is measured for. Other work on the
machine makes no search shallow."""


class SearchCallback:
    """What changes a search before it begins."""


class PreloadMeasuredStates(SearchCallback):
    """The search knows the programs of a log: it does not measure them again, and begins with the fastest. A log that is missing has
    none."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = filename


class PreloadCustomSketchRule(SearchCallback):
    """A rule of the user's, before the others.

    meet_condition_func(policy, state, stage_id): PASS, APPLY or APPLY_AND_SKIP_REST. apply_func(policy, state, stage_id): pairs of a state
    and of the stage at which its derivation goes on. States are objects: `State(state, policy.search_task.compute_dag)` changes one.
    """

    PASS, APPLY, APPLY_AND_SKIP_REST = (int(c) for c in Condition)

    def __init__(self, meet_condition_func: Any, apply_func: Any, rule_name: str = "CustomSketchRule") -> None:
        self.meet_condition_func, self.apply_func, self.rule_name = meet_condition_func, apply_func, rule_name


class SearchPolicy(ABC):
    """A search of a task. search_task: the task. verbose: 0 is silent."""

    def __init__(self, task: SearchTask, verbose: int = 1) -> None:
        self.search_task, self.verbose = task, verbose

    def set_verbose(self, verbose: int) -> None:
        self.verbose = verbose

    @abstractmethod
    def continue_search_one_round(
        self, num_measure: int, measurer: ProgramMeasurer
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Chooses and measures programs. Empty when there are no more."""

    def search(
        self,
        num_measure_trials: int,
        early_stopping: int | None,
        num_measures_per_round: int,
        measurer: ProgramMeasurer,
    ) -> State:
        """Measures in rounds. Returns the fastest program. early_stopping: measurements in a row without a faster one after which it ends.

        Raises TaskFailure, a TVMError, where no program could be measured; it says the most frequent reasons.
        """
        key = self.search_task.workload_key
        done, last, fastest = 0, 0, float("inf")
        while done < num_measure_trials:
            inputs, _ = self.continue_search_one_round(min(num_measures_per_round, num_measure_trials - done), measurer)
            done += len(inputs)
            if measurer.best_seconds.get(key, float("inf")) < fastest:
                fastest, last = measurer.best_seconds[key], done
            if not inputs or (early_stopping is not None and 0 < early_stopping <= done - last):
                break
        if key not in measurer.best_states:
            raise TaskFailure(f"none of {done} programs of {key} could be measured{measurer.why(self.search_task)}")
        return State(measurer.best_states[key], self.search_task.compute_dag)


class EmptyPolicy(SearchPolicy):
    """Measures the program to which nothing is done."""

    def __init__(self, task: SearchTask, init_search_callbacks: Sequence[SearchCallback] | None = None) -> None:
        super().__init__(task)
        self._done = False

    def continue_search_one_round(
        self, num_measure: int, measurer: ProgramMeasurer
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        if self._done:
            return [], []
        self._done = True
        inputs = [MeasureInput(self.search_task, self.search_task.compute_dag.init_state)]
        return inputs, measurer.measure(self.search_task, self, inputs)

    def search(
        self,
        num_measure_trials: int,
        early_stopping: int | None,
        num_measures_per_round: int,
        measurer: ProgramMeasurer,
    ) -> State:
        if num_measure_trials > 0:
            self.continue_search_one_round(1, measurer)
        return self.search_task.compute_dag.get_init_state()


class SketchPolicy(SearchPolicy):
    """Evolutionary search in the programs of sketches, as a cost model guides it.

    params: changes of DEFAULT_PARAMS. seed: of what is drawn; None: another one each time.
    """

    DEFAULT_PARAMS: ClassVar[dict[str, Any]] = {
        "eps_greedy": 0.05,
        "sample_init_min_population": 50,
        "evolutionary_search_population": 128,
        "evolutionary_search_num_iters": 4,
        "evolutionary_search_mutation_prob": 0.85,
        "cpu_multi_level_tiling_structure": "SSRSRS",
        "max_innermost_split_factor": 64,
        "max_vectorize_size": 16,
        "disable_change_compute_location": 0,
    }

    def __init__(
        self,
        task: SearchTask,
        program_cost_model: CostModel | None = None,
        params: dict[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[SearchCallback] | None = None,
    ) -> None:
        super().__init__(task, verbose)
        self.params = {**self.DEFAULT_PARAMS, **(params or {})}
        unknown = sorted(set(self.params) - set(self.DEFAULT_PARAMS))
        if unknown:
            known = ", ".join(self.DEFAULT_PARAMS)
            raise TVMError(f"SketchPolicy has no parameter {', '.join(unknown)}; its parameters are {known}")
        self.program_cost_model = program_cost_model if program_cost_model is not None else RandomModel()
        self.random = Random(seed)
        callbacks = list(init_search_callbacks or ())
        self._rules = [
            CustomRule(self, c.meet_condition_func, c.apply_func)
            for c in callbacks
            if isinstance(c, PreloadCustomSketchRule)
        ]
        self._space: SketchSpace | None = None
        self._searcher = self._new_search()
        for callback in callbacks:
            if isinstance(callback, PreloadMeasuredStates):
                self._preload(callback)

    @property
    def space(self) -> SketchSpace:
        """The programs that are searched."""
        if self._space is None:
            task, params = self.search_task, self.params
            problem = Problem(task.compute_dag, task.hardware_params, params["cpu_multi_level_tiling_structure"])
            moves = not params["disable_change_compute_location"]
            limits = Limits(params["max_innermost_split_factor"], params["max_vectorize_size"], moves)
            sketches = generate(problem, [*self._rules, *RULES])
            sampler = Sampler(task.compute_dag, task.hardware_params, limits)
            self._space = SketchSpace(sampler, sketches, task.layout_rewrite_option)
        return self._space

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """The sketches. print_for_debug: prints them too."""
        found = self._states(self.space.sketches)
        if print_for_debug:
            for i, state in enumerate(found):
                print(f"=============== {i} ===============\n{state}")
        return found

    def sample_initial_population(self) -> list[State]:
        """Programs that are drawn at random."""
        wanted = int(self.params["sample_init_min_population"])
        found: dict[str, StateObject] = {}
        for _ in range(4 * wanted):
            try:
                state = self.space.draw(self.random)
                self.space.program(state)
            except TVMError:
                continue
            found[self.space.key(state)] = state
            if len(found) == wanted:
                break
        return self._states(list(found.values()))

    def evolutionary_search(self, init_populations: Sequence[State | StateObject], out_size: int) -> list[State]:
        """The programs that the cost model takes for the fastest, after generations that begin with those given."""
        given = [s.state_object if isinstance(s, State) else s for s in init_populations]
        proposals = self._new_search().propose(out_size, self._effort(float("inf")), given)
        return self._states([p.candidate for p in proposals])

    def continue_search_one_round(
        self, num_measure: int, measurer: ProgramMeasurer
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        inputs: list[MeasureInput] = []
        results: list[MeasureResult] = []
        while len(inputs) < num_measure:
            found, measured = self._measure_some(min(AT_ONCE, num_measure - len(inputs)), measurer)
            if not found:
                break
            inputs += found
            results += measured
        return inputs, results

    def _measure_some(self, count: int, measurer: ProgramMeasurer) -> tuple[list[MeasureInput], list[MeasureResult]]:
        proposals = self._searcher.propose(count, self._effort(SEARCHED * count))
        if not proposals:
            return [], []
        inputs = [MeasureInput(self.search_task, p.candidate) for p in proposals]
        results = measurer.measure(self.search_task, self, inputs)
        for proposal, result in zip(proposals, results, strict=True):
            self._searcher.told(proposal, result.seconds)
        self.program_cost_model.update(inputs, results)
        return inputs, results

    def search(
        self,
        num_measure_trials: int,
        early_stopping: int | None,
        num_measures_per_round: int,
        measurer: ProgramMeasurer,
    ) -> State:
        """Measures in rounds, and returns the fastest program. Without measurements (num_measure_trials below 2): what the cost model takes
        for the fastest."""
        if num_measure_trials < 2:
            (best,) = self.evolutionary_search(self.sample_initial_population(), 1)
            return best
        return super().search(num_measure_trials, early_stopping, num_measures_per_round, measurer)

    def _states(self, found: Sequence[StateObject]) -> list[State]:
        return [State(state, self.search_task.compute_dag) for state in found]

    def _new_search(self) -> Search:
        model = StateModel(self.search_task, self.program_cost_model, self.space)
        return Search(self.space, self.search_task.target, model, Random(self.random.random()), time.thread_time)

    def _effort(self, seconds: float) -> Effort:
        params = self.params
        return Effort(
            int(params["evolutionary_search_population"]),
            int(params["evolutionary_search_num_iters"]),
            1.0 - params["evolutionary_search_mutation_prob"],
            params["eps_greedy"],
            seconds,
            NEAR,
        )

    def _preload(self, callback: PreloadMeasuredStates) -> None:
        if not os.path.exists(callback.filename):
            return
        task = self.search_task
        for entry in classic_log.entries(callback.filename):
            if entry.workload_key != task.workload_key or classic_log.kind_of(entry.target) != task.target.kind.name:
                continue
            try:
                self._searcher.recall(task.compute_dag.state_of(entry.steps), entry.seconds)
            except TVMError:
                # A step that is refused here.
                continue
