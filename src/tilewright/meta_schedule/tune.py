"""Tuning of tasks, with the parts named or given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.meta_schedule.builder import Builder
from tilewright.meta_schedule.cost_model import CostModel
from tilewright.meta_schedule.database import Database
from tilewright.meta_schedule.measure_callback import MeasureCallback
from tilewright.meta_schedule.runner import Runner
from tilewright.meta_schedule.task_scheduler import TaskScheduler
from tilewright.meta_schedule.tune_context import TuneContext


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: str,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Builder | str = "local",
    runner: Runner | str = "local",
    database: Database | str = "json",
    cost_model: CostModel | str = "xgb",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | str = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    module_equality: str = "structural",
) -> Database:
    """Tunes tasks, and returns the database with what was measured.

    task_weights: how often each is called. work_dir: the folder of the database. max_trials_global: measurements in all.
    max_trials_per_task: of each task; None: max_trials_global. num_trials_per_iter: at once, at most; EvolutionarySearch takes 16.
    """
    if not tasks:
        raise ValueError("there is nothing to be tuned: the list of tasks is empty")
    if isinstance(database, str):
        given: dict[str, Any] = {"work_dir": work_dir} if database == "json" else {}
        database = Database.create(database, module_equality=module_equality, **given)
    if isinstance(cost_model, str):
        cost_model = CostModel.create(cost_model)
    if isinstance(measure_callbacks, str):
        measure_callbacks = MeasureCallback.create(measure_callbacks)
    elif isinstance(measure_callbacks, MeasureCallback):
        measure_callbacks = [measure_callbacks]
    if isinstance(task_scheduler, str):
        task_scheduler = TaskScheduler.create(task_scheduler)
    task_scheduler.tune(
        tasks,
        task_weights,
        max_trials_global,
        max_trials_per_task if max_trials_per_task is not None else max_trials_global,
        num_trials_per_iter,
        builder if isinstance(builder, Builder) else Builder.create(builder),
        runner if isinstance(runner, Runner) else Runner.create(runner),
        measure_callbacks,
        database,
        cost_model,
    )
    return database
