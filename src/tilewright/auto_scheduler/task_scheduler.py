"""Several tasks, such as those of a model: which of them the next round is for.

The strategy "gradient" is that of Ansor (Zheng et al., OSDI 2020, section 6): the task whose next measurements are expected to lower the
objective most.
"""

from __future__ import annotations

import logging
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.auto_scheduler import classic_log
from tilewright.auto_scheduler.compute_dag import ComputeDAG
from tilewright.auto_scheduler.cost_model.cost_model import CostModel, RandomModel
from tilewright.auto_scheduler.measurer import ProgramMeasurer, TaskFailure
from tilewright.auto_scheduler.search_policy import PreloadMeasuredStates, SearchPolicy, SketchPolicy
from tilewright.auto_scheduler.search_task import SearchTask, TuningOptions, default_model
from tilewright.auto_scheduler.task_scheduler_callbacks import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskSchedulerCallback,
)
from tilewright.support.errors import TVMError

logger = logging.getLogger("auto_scheduler")

EXPLORED = 0.05
"""The share of rounds whose task is drawn at random."""
SETTLED = 5
"""A task is known well after so many windows of rounds."""
TAG = "auto_scheduler_task_scheduler_tag"
"""The attribute of computes by which tasks are similar."""

Objective = Callable[[Sequence[float]], float]


class TaskScheduler:
    """Tunes tasks together.

    task_weights: how often a model calls each; the objective is then the time of all calls. objective_func: another objective, of the
    seconds of all tasks. strategy: "gradient" or "round-robin". load_log_file: records from which the tasks go on. load_model_file: what a
    cost model learned earlier. alpha: the weight of how fast a task became faster lately, over backward_window_size rounds; beta: how many
    times slower than similar tasks, by operations, a task may remain; gamma: a task is not similar to others any more if it remains slower
    than that by 1 / gamma. callbacks: by default tables are printed.

    task_cts: rounds of each task; task_trials: its measurements. best_costs: seconds of its fastest program. task_costs_history: these
    after each round. ct: measurements of all tasks. cur_score: the objective now.
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Objective | None = None,
        strategy: str = "gradient",
        load_model_file: str | os.PathLike[str] | None = None,
        load_log_file: str | os.PathLike[str] | None = None,
        alpha: float = 0.2,
        beta: float = 2.0,
        gamma: float = 0.5,
        backward_window_size: int = 3,
        callbacks: Sequence[TaskSchedulerCallback] | None = None,
    ) -> None:
        if strategy not in ("gradient", "round-robin"):
            raise TVMError(f"strategy is {strategy!r}, but must be 'gradient' or 'round-robin'")
        if task_weights is not None and objective_func is not None:
            raise TVMError("give either task_weights or objective_func: weights are an objective")
        if task_weights is not None and len(task_weights) != len(tasks):
            raise TVMError(f"there are {len(tasks)} tasks, but {len(task_weights)} weights")
        weights = list(task_weights) if task_weights is not None else [1.0] * len(tasks)
        self.tasks, self.strategy = list(tasks), strategy
        self.task_weights = weights
        self.objective_func: Objective = objective_func or (
            lambda costs: sum([c * w for c, w in zip(costs, weights, strict=True)])
        )
        self.load_model_file, self.load_log_file = load_model_file, load_log_file
        self.alpha, self.beta, self.gamma, self.backward_window_size = alpha, beta, gamma, backward_window_size
        self.callbacks = (
            list(callbacks) if callbacks is not None else [PrintTableInfo(), LogEstimatedLatency("total_latency.tsv")]
        )
        self.task_cts = [0] * len(tasks)
        self.task_best_cts = [0] * len(tasks)
        self.task_trials = [0] * len(tasks)
        self.task_costs_history: list[list[float]] = [[] for _ in tasks]
        self.best_costs = [classic_log.FAILED] * len(tasks)
        self.flop_cts = [task.compute_dag.flop_ct for task in tasks]
        self.dead_tasks: set[int] = set()
        self.ct = self.best_ct = 0
        self.cur_score = self.best_score = self._score()
        self.tic = time.time()
        self.search_policies: list[SearchPolicy] = []
        self._groups = [derive_similarity_tag(task.compute_dag) for task in tasks]

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: str | Sequence[SearchPolicy] = "default",
        search_policy_params: dict[str, Any] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Measures in rounds until all trials are used, or nothing becomes faster.

        search_policy: "default", "sketch.xgb", "sketch.random", or a policy for each task. per_task_early_stopping: a task is
        measured no more after so many measurements without a faster program. Raises TVMError where there are fewer trials than tasks.
        A task of which no program could be measured stays untuned, which a warning of the log `auto_scheduler` tells.
        """
        trials, count = tune_option.num_measure_trials, len(self.tasks)
        per_round = min(tune_option.num_measures_per_round, trials // max(count, 1))
        if per_round < 1:
            raise TVMError(f"num_measure_trials is {trials}, but {count} tasks need one each at least")
        measurer = tune_option.measurer()
        self.search_policies = make_search_policies(
            search_policy,
            search_policy_params,
            self.tasks,
            per_round,
            tune_option.verbose,
            self.load_model_file,
            self.load_log_file,
            adaptive_training,
        )
        if self.load_log_file is not None:
            self._restore(self.load_log_file, per_round)
        self.tic = time.time()
        for i in range(count):
            if not self.task_cts[i] and self.ct < trials:
                self._round(i, per_round, measurer, per_task_early_stopping)
        self.best_ct, self.best_score = self.ct, self.cur_score
        while self.ct < trials and len(self.dead_tasks) < count:
            chosen = self._next()
            self._round(chosen, min(per_round, trials - self.ct), measurer, per_task_early_stopping)
            if self.cur_score < self.best_score:
                self.best_score, self.best_ct = self.cur_score, self.ct
            stopping = tune_option.early_stopping
            if stopping is not None and 0 < stopping <= self.ct - self.best_ct:
                break
        for i, task in enumerate(self.tasks):
            why = measurer.why(task)
            if self.best_costs[i] >= classic_log.FAILED and why:
                name = task.desc or "without a name"
                logger.warning("task %d (%s) stays untuned: none of its programs could be measured%s", i, name, why)

    def _round(self, i: int, count: int, measurer: ProgramMeasurer, patience: int | None) -> None:
        for callback in self.callbacks:
            callback.pre_tune(self, i)
        try:
            inputs, results = self.search_policies[i].continue_search_one_round(count, measurer)
        except TaskFailure as failure:
            # It stays untuned, and the others go on.
            logger.warning("task %d (%s): %s", i, self.tasks[i].desc or "without a name", failure)
            self.ct += count
            inputs, results = [], []
        self.task_cts[i] += 1
        for result in results:
            self.ct += 1
            self.task_trials[i] += 1
            if result.seconds < self.best_costs[i]:
                self.best_costs[i], self.task_best_cts[i] = result.seconds, self.task_cts[i]
        self.task_costs_history[i].append(self.best_costs[i])
        idle = (self.task_cts[i] - self.task_best_cts[i]) * len(results)
        if not inputs or (patience is not None and 0 < patience <= idle):
            self.dead_tasks.add(i)
        self.cur_score = self._score()
        for callback in self.callbacks:
            callback.post_tune(self, i)

    def _next(self) -> int:
        alive = [i for i in range(len(self.tasks)) if i not in self.dead_tasks]
        if self.strategy == "round-robin":
            return min(alive, key=lambda i: self.task_cts[i])
        if random.random() < EXPLORED:
            return random.choice(alive)
        gains = {i: -self.gradient(i) for i in alive}
        most = max(gains.values())
        return random.choice([i for i in alive if gains[i] == most])

    def gradient(self, i: int) -> float:
        """How the objective is expected to change by another round of a task."""
        history, rounds, best = self.task_costs_history[i], self.task_cts[i], self.best_costs[i]
        if best >= classic_log.FAILED:
            return 0.0
        window = self.backward_window_size
        backward = (history[-1] - history[-1 - window]) / window if len(history) > window else 0.0
        # A program that failed at the start says nothing of how fast the task becomes faster.
        backward = max(backward, -best)
        expected = best - best / max(rounds, 1)
        similar = self._fastest_similar(i)
        if similar > 0 and self.flop_cts[i]:
            expected = min(expected, self.beta * self.flop_cts[i] / similar)
        forward = expected - best
        return self._slope(i) * (self.alpha * backward + (1 - self.alpha) * forward)

    def _fastest_similar(self, i: int) -> float:
        """Operations a second of the fastest other task of the same group; 0 if there is none."""
        if not self._groups[i]:
            return 0.0
        rates = [
            self.flop_cts[k] / self.best_costs[k]
            for k, group in enumerate(self._groups)
            if group == self._groups[i] and k != i
        ]
        fastest, own = max(rates, default=0.0), self.flop_cts[i] / self.best_costs[i]
        known = self.task_cts[i] > SETTLED * self.backward_window_size
        if known and own < fastest / self.beta * self.gamma:
            self._groups[i] = ""
            return 0.0
        return fastest

    def _slope(self, i: int) -> float:
        """How the objective changes with the seconds of a task."""
        step = self.best_costs[i] * 1e-4
        more, less = list(self.best_costs), list(self.best_costs)
        more[i] += step
        less[i] -= step
        return (self.objective_func(more) - self.objective_func(less)) / (2 * step)

    def _score(self) -> float:
        return float(self.objective_func(self.best_costs))

    def _restore(self, path: str | os.PathLike[str], per_round: int) -> None:
        """The tasks as they were after the measurements of a log."""
        counts = [0] * len(self.tasks)
        for entry in classic_log.entries(path):
            for i, task in enumerate(self.tasks):
                if (
                    entry.workload_key != task.workload_key
                    or classic_log.kind_of(entry.target) != task.target.kind.name
                ):
                    continue
                counts[i] += 1
                self.best_costs[i] = min(self.best_costs[i], entry.seconds)
                if counts[i] % per_round == 0:
                    self.task_costs_history[i].append(self.best_costs[i])
        self.task_cts = [len(history) for history in self.task_costs_history]
        self.task_best_cts = list(self.task_cts)
        self.cur_score = self._score()


def make_search_policies(
    search_policy: str | Sequence[SearchPolicy],
    search_policy_params: dict[str, Any] | None,
    tasks: Sequence[SearchTask],
    num_measures_per_round: int,
    verbose: int,
    load_model_file: str | os.PathLike[str] | None = None,
    load_log_file: str | os.PathLike[str] | None = None,
    adaptive_training: bool = False,
) -> list[SearchPolicy]:
    """A policy for each task. All have one cost model, which learns from all tasks, in each round (num_measures_per_round and
    adaptive_training do not change that)."""
    if not isinstance(search_policy, str):
        if len(search_policy) != len(tasks):
            raise TVMError(f"there are {len(tasks)} tasks, but {len(search_policy)} search policies")
        return list(search_policy)
    name = "sketch.xgb" if search_policy == "default" else search_policy
    kind, _, model_name = name.partition(".")
    if kind != "sketch" or model_name not in ("xgb", "random"):
        raise TVMError(
            f"search_policy is {search_policy!r}, but must be 'default', 'sketch.xgb', 'sketch.random' or a policy for each task"
        )
    model: CostModel = default_model() if model_name == "xgb" else RandomModel()
    load = getattr(model, "load", None)
    if load_model_file is not None and load is not None:
        load(load_model_file)
    callbacks = [PreloadMeasuredStates(load_log_file)] if load_log_file is not None else None
    return [
        SketchPolicy(task, model, search_policy_params, verbose=verbose, init_search_callbacks=callbacks)
        for task in tasks
    ]


def derive_similarity_tag(dag: ComputeDAG, log_base: float = 1.618) -> str:
    """What similar tasks have in common: the tags of their computes, and the size of their work. "" for computes without tags."""
    tags = [str(op.attrs[TAG]) for op in dag.ops if TAG in op.attrs]
    if not tags:
        return ""
    size = int(math.log(dag.flop_ct + 1, log_base))
    return "_".join(tags) + f"_{size}"


__all__ = [
    "LogEstimatedLatency",
    "PrintTableInfo",
    "TaskScheduler",
    "TaskSchedulerCallback",
    "derive_similarity_tag",
    "make_search_policies",
]
