"""What is done with each batch of measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from tilewright.meta_schedule.builder import BuilderResult
from tilewright.meta_schedule.database.record import FAILED, TuningRecord
from tilewright.meta_schedule.runner import RunnerResult
from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
from tilewright.meta_schedule.trace_space import trace_of
from tilewright.meta_schedule.utils import raised, remove_build_dir

if TYPE_CHECKING:
    from tilewright.meta_schedule.task_scheduler import TaskScheduler


class MeasureCallback(ABC):
    """Receives each batch of measurements."""

    @abstractmethod
    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: list[MeasureCandidate],
        builder_results: list[BuilderResult],
        runner_results: list[RunnerResult],
    ) -> None:
        """Is called after a batch of a task. The lists have the same order."""

    @staticmethod
    def create(kind: str = "default") -> list[MeasureCallback]:
        """The callbacks of "default": AddToDatabase, UpdateCostModel, RemoveBuildArtifact. Raises ValueError for others."""
        if kind != "default":
            raise ValueError(f'the callbacks that are known are those of "default", but {kind!r} was given')
        return [AddToDatabase(), UpdateCostModel(), RemoveBuildArtifact()]


class PyMeasureCallback(MeasureCallback):
    """The base of callbacks of users, which define apply."""


class AddToDatabase(MeasureCallback):
    """Commits the measurements, also failed ones, to the database of the scheduler."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: list[MeasureCandidate],
        builder_results: list[BuilderResult],
        runner_results: list[RunnerResult],
    ) -> None:
        database, context = task_scheduler.database_, task_scheduler.tasks_[task_id].ctx
        if database is None or context.mod is None:
            return
        workload = database.commit_workload(context.mod)
        for candidate, result in zip(measure_candidates, runner_results, strict=True):
            seconds = result.run_secs if result.run_secs else [FAILED]
            trace = trace_of(candidate.sch)
            database.commit_tuning_record(TuningRecord(trace, workload, seconds, context.target, candidate.args_info))


class UpdateCostModel(MeasureCallback):
    """Lets the cost model of the scheduler learn from what could be built. What a model raises is logged."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: list[MeasureCandidate],
        builder_results: list[BuilderResult],
        runner_results: list[RunnerResult],
    ) -> None:
        model = task_scheduler.cost_model_
        built = [i for i, result in enumerate(builder_results) if result.error_msg is None]
        if model is not None and built:
            context = task_scheduler.tasks_[task_id].ctx
            try:
                model.update(context, [measure_candidates[i] for i in built], [runner_results[i] for i in built])
            except Exception as error:
                name = type(model).__name__
                context.logger.warning("the cost model %s did not learn, since it raised %s", name, raised(error))


class RemoveBuildArtifact(MeasureCallback):
    """Deletes the folders of the libraries."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: list[MeasureCandidate],
        builder_results: list[BuilderResult],
        runner_results: list[RunnerResult],
    ) -> None:
        for result in builder_results:
            if result.artifact_path is not None:
                remove_build_dir(result.artifact_path)


create = MeasureCallback.create
