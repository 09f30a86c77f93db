"""The loop of tuning: choose a task, search, build, run, tell."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar

from tilewright.meta_schedule.builder import Builder, BuilderInput, BuilderResult
from tilewright.meta_schedule.cost_model import CostModel
from tilewright.meta_schedule.database import Database
from tilewright.meta_schedule.measure_callback import MeasureCallback
from tilewright.meta_schedule.profiler import Profiler
from tilewright.meta_schedule.runner import Runner, RunnerFuture, RunnerResult
from tilewright.meta_schedule.search_strategy import MeasureCandidate
from tilewright.meta_schedule.task_scheduler import guarded
from tilewright.meta_schedule.task_scheduler.standing import Standing
from tilewright.meta_schedule.tune_context import TuneContext
from tilewright.meta_schedule.utils import print_table, raised
from tilewright.runtime import num_threads
from tilewright.support.errors import TVMError
from tilewright.support.processors import usable_processors


class TaskRecord:
    """A task, and what became of it. latency_ms: after each measurement, milliseconds of the fastest schedule; infinite while there is
    none."""

    def __init__(self, ctx: TuneContext, task_weight: float = 1.0) -> None:
        self.ctx, self.task_weight = ctx, task_weight
        self.is_terminated = False
        self.build_error_count = self.run_error_count = 0
        self.latency_ms: list[float] = []
        self.best: list[float] = []
        """After each batch, seconds of the fastest schedule."""
        self.measure_candidates: list[MeasureCandidate] | None = None
        self.builder_results: list[BuilderResult] | None = None
        self.runner_futures: list[RunnerFuture] | None = None
        self.standing: Standing | None = None
        """What schedules are compared with, from the first measurement on."""

    @property
    def fastest(self) -> float:
        """Seconds of the fastest schedule; infinite while there is none."""
        return min(self.latency_ms, default=float("inf")) / 1e3


class TaskScheduler(ABC):
    """Tunes tasks in turn."""

    kinds: ClassVar[dict[str, Callable[..., TaskScheduler]]] = {}
    """The schedulers by the names that `create` takes."""

    def __init__(self) -> None:
        self.tasks_: list[TaskRecord] = []
        self.measure_callbacks_: list[MeasureCallback] = []
        self.database_: Database | None = None
        self.cost_model_: CostModel | None = None
        self.remaining_tasks_ = 0
        self._errors: list[Exception] = []
        self._thread = ThreadPoolExecutor(1)
        self._standings: dict[int, Future[Standing]] = {}
        self._interrupted = False
        self._searches = False
        """Whether schedules are searched while others are measured: where that does not disturb."""

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            TaskScheduler.kinds[kind] = cls

    @abstractmethod
    def next_task_id(self) -> int:
        """The number of the task that is measured next; -1 when all are done."""

    def tune(
        self,
        tasks: Sequence[TuneContext],
        task_weights: Sequence[float],
        max_trials_global: int,
        max_trials_per_task: int,
        num_trials_per_iter: int,
        builder: Builder,
        runner: Runner,
        measure_callbacks: Sequence[MeasureCallback] = (),
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Measures until there is no task left, or max_trials_global schedules were measured.

        What parts of a task raise, such as rules, ends the task, and is logged; it is raised again where nothing was measured. What
        builders and runners raise are failures of the schedules. Raises ValueError unless each task has a weight."""
        if len(tasks) != len(task_weights):
            raise ValueError(f"there are {len(tasks)} tasks, but {len(task_weights)} weights")
        self.tasks_ = [TaskRecord(ctx, weight) for ctx, weight in zip(tasks, task_weights, strict=True)]
        self.measure_callbacks_, self.database_, self.cost_model_ = list(measure_callbacks), database, cost_model
        self.remaining_tasks_, self._errors, self._standings = len(self.tasks_), [], {}
        self._interrupted = False
        measured = 0
        try:
            for task_id, task in enumerate(self.tasks_):
                with Profiler.timeit("pre_tuning"), self._ending(task_id):
                    task.ctx.pre_tuning(max_trials_per_task, num_trials_per_iter, None, database, cost_model)
            while measured < max_trials_global and (task_id := self.next_task_id()) != -1:
                candidates: list[MeasureCandidate] | None = None
                self._begin(task_id, builder, runner)
                with Profiler.timeit("search"), self._ending(task_id):
                    candidates = self.tasks_[task_id].ctx.generate_measure_candidates()
                if not candidates:
                    self._exhausted(task_id)
                    continue
                candidates = candidates[: max_trials_global - measured]
                measured += len(candidates)
                self._measure(task_id, candidates, builder, runner)
            for task_id, task in enumerate(self.tasks_):
                if task.runner_futures is not None:
                    self.join_running_task(task_id)
        except KeyboardInterrupt:
            # Threads would go on, and the end of this process would wait for them.
            self._interrupted = True
            runner.close()
            raise
        finally:
            for task in self.tasks_:
                task.ctx.post_tuning()
        self.log(self.print_tuning_statistics())
        if not measured and self._errors:
            raise self._errors[0]

    def _begin(self, task_id: int, builder: Builder, runner: Runner) -> None:
        """Before schedules of a task are searched: the untuned kernel of a new task is built and run meanwhile."""
        task, target = self.tasks_[task_id], self.tasks_[task_id].ctx.target
        self._searches = not runner.measures_here or usable_processors() > num_threads()
        if task.standing is None and task_id not in self._standings and target is not None:
            self._settle(runner)
            self._standings[task_id] = self._thread.submit(
                Standing, task.ctx, target, builder, runner, lambda: self._interrupted
            )
        elif not self._searches:
            self._settle(runner)

    def _settle(self, runner: Runner) -> None:
        """Waits for measurements on this machine, which builds would disturb."""
        if runner.measures_here:
            with Profiler.timeit("run"):
                for future in [f for task in self.tasks_ for f in task.runner_futures or ()]:
                    future.result()

    def _exhausted(self, task_id: int) -> None:
        """Ends a task that has no more schedules, and says why it never had any."""
        task = self.tasks_[task_id]
        if not task.is_terminated and not task.latency_ms:
            why = f"; the last one was refused, since {task.ctx.refused}" if task.ctx.refused else ""
            task.ctx.logger.warning("no schedule of the task %s is measured%s", task.ctx.task_name, why)
        self.terminate_task(task_id)

    @contextmanager
    def _ending(self, task_id: int) -> Iterator[None]:
        """What is raised ends the task, and is logged; it ends tuning only where nothing is measured."""
        try:
            yield
        except Exception as error:
            logger = self.tasks_[task_id].ctx.logger
            logger.warning("the task %s is not tuned further: %s", self.tasks_[task_id].ctx.task_name, raised(error))
            logger.debug("raised there:", exc_info=error)
            self._errors.append(error)
            self.terminate_task(task_id)

    def _measure(self, task_id: int, candidates: list[MeasureCandidate], builder: Builder, runner: Runner) -> None:
        """Builds schedules, and begins to run them."""
        task = self.tasks_[task_id]
        target = task.ctx.target
        if target is None:
            raise TVMError(f"the task {task.ctx.task_name} cannot be measured: its TuneContext has no target")
        if task.standing is None:
            with Profiler.timeit("pre_tuning"):
                task.standing = self._standings.pop(task_id).result()
            if task.standing.refused:
                self.log(
                    f"schedules of {task.ctx.task_name} are not compared with the untuned kernel: {task.standing.refused}"
                )
        self._settle(runner)
        with Profiler.timeit("build"):
            built = guarded.build(builder, [BuilderInput(c.sch.mod, target) for c in candidates])
        inputs = [
            task.standing.input(result.artifact_path, candidate)
            for result, candidate in zip(built, candidates, strict=True)
            if result.artifact_path is not None
        ]
        with Profiler.timeit("run"):
            futures = iter(guarded.run(runner, inputs) if inputs else [])
        task.measure_candidates, task.builder_results = candidates, built
        task.runner_futures = [next(futures) if r.artifact_path is not None else _failed(r) for r in built]

    def touch_task(self, task_id: int) -> None:
        """Takes the results of a task whose measurements are done."""
        futures = self.tasks_[task_id].runner_futures
        if futures is not None and all([future.done() for future in futures]):
            self.join_running_task(task_id)

    def join_running_task(self, task_id: int) -> list[RunnerResult]:
        """Waits for the measurements of a task, and tells them to its search and to the callbacks."""
        task = self.tasks_[task_id]
        candidates, built, futures = task.measure_candidates, task.builder_results, task.runner_futures
        if candidates is None or built is None or futures is None:
            raise TVMError(f"nothing of the task {task.ctx.task_name} is being measured")
        if self._searches and task.ctx.search_strategy is not None:
            with Profiler.timeit("search"), self._ending(task_id):
                task.ctx.search_strategy.meanwhile(lambda: all([future.done() for future in futures]))
        with Profiler.timeit("run"):
            results = [future.result() for future in futures]
            if task.standing is not None:
                task.standing.note(built, results)
        task.measure_candidates = task.builder_results = task.runner_futures = None
        task.ctx.notify_runner_results(candidates, results)
        for callback in self.measure_callbacks_:
            callback.apply(self, task_id, candidates, built, results)
        for made, result in zip(built, results, strict=True):
            task.build_error_count += made.error_msg is not None
            task.run_error_count += made.error_msg is None and result.error_msg is not None
            seconds = sum(result.run_secs) / len(result.run_secs) if result.run_secs else float("inf")
            task.latency_ms.append(min(seconds, task.fastest) * 1e3)
        task.best.append(task.fastest)
        for count, message in _failures(results):
            task.ctx.logger.warning("%d of %d schedules failed: %s", count, len(results), message)
        return results

    def terminate_task(self, task_id: int) -> None:
        """Measures no more of a task."""
        task = self.tasks_[task_id]
        if not task.is_terminated:
            task.is_terminated = True
            self.remaining_tasks_ -= 1
            self.log(f"task {task.ctx.task_name} is done: {len(task.latency_ms)} trials, {task.fastest * 1e6:.1f} us")

    def print_tuning_statistics(self) -> str:
        """What was reached, as a table, which is logged, too."""
        rows = [
            (
                t.ctx.task_name,
                f"{t.task_weight:g}",
                str(len(t.latency_ms)),
                f"{t.fastest * 1e6:.2f}",
                f"{t.fastest * 1e6 * t.task_weight:.2f}",
                str(t.build_error_count),
                str(t.run_error_count),
                "yes" if t.is_terminated else "",
            )
            for t in self.tasks_
        ]
        head = ("task", "weight", "trials", "us", "weighted us", "not built", "failed", "done")
        return print_table([head, *rows])

    def log(self, text: str) -> None:
        """Writes to the log of the first task."""
        logger = self.tasks_[0].ctx.logger if self.tasks_ else logging.getLogger("tilewright.meta_schedule")
        logger.info("%s", text)

    def _next_in_turn(self, last: int) -> int:
        """The next task after one that is not done, when its measurements are taken; -1 if all are done."""
        count = len(self.tasks_)
        for step in range(1, count + 1):
            task_id = (last + step) % count
            self.touch_task(task_id)
            if not self.tasks_[task_id].is_terminated:
                if self.tasks_[task_id].runner_futures is not None:
                    self.join_running_task(task_id)
                return task_id
        return -1

    @staticmethod
    def create(kind: str = "gradient", *args: Any, **kwargs: Any) -> TaskScheduler:
        """A scheduler by its name: "gradient" or "round-robin". Raises ValueError for others."""
        if kind not in TaskScheduler.kinds:
            raise ValueError(
                f"a task scheduler is one of {', '.join(sorted(TaskScheduler.kinds))}, but {kind!r} was given"
            )
        return TaskScheduler.kinds[kind](*args, **kwargs)


class PyTaskScheduler(TaskScheduler):
    """The base of schedulers of users, which define next_task_id, and may override tune and join_running_task."""


def _failures(results: Sequence[RunnerResult]) -> list[tuple[int, str]]:
    """The messages of failed measurements, each with how often it occurred, the most frequent first; of each the first line."""
    lines = [result.error_msg.strip().split("\n")[0] for result in results if result.error_msg is not None]
    return [(count, line) for line, count in Counter(lines).most_common()]


def _failed(built: BuilderResult) -> RunnerFuture:
    return RunnerFuture(lambda: True, lambda: RunnerResult(None, built.error_msg or "it was not built"))


create = TaskScheduler.create
