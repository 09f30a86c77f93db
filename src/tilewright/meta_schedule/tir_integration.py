"""Tuning of TensorIR programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir import IRModule
from tilewright.meta_schedule.builder import Builder
from tilewright.meta_schedule.cost_model import CostModel
from tilewright.meta_schedule.database import Database
from tilewright.meta_schedule.logging import get_loggers_from_work_dir
from tilewright.meta_schedule.measure_callback import MeasureCallback
from tilewright.meta_schedule.runner import Runner
from tilewright.meta_schedule.task_scheduler import TaskScheduler
from tilewright.meta_schedule.tune import tune_tasks
from tilewright.meta_schedule.tune_context import TuneContext
from tilewright.meta_schedule.utils import fork_seed
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule


def tune_tir(
    mod: IRModule | PrimFunc,
    target: str | Target,
    work_dir: str,
    max_trials_global: int,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Builder | str = "local",
    runner: Runner | str = "local",
    database: Database | str = "json",
    cost_model: CostModel | str = "xgb",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | str = "default",
    task_scheduler: TaskScheduler | str = "gradient",
    space: Any = "post-order-apply",
    strategy: Any = "evolutionary",
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, Any] | None = None,
) -> Database:
    """Tunes a function, or each function of a module, and returns the database with what was measured.

    work_dir: the folder of the database and of the log files. max_trials_global: measurements in all. space, strategy: a generator of
    design spaces and a search, or their names; special_space: other generators by the names of functions. seed: None draws one.
    """
    functions = _functions(mod)
    seeds = fork_seed(seed, len(functions))
    loggers = get_loggers_from_work_dir(work_dir, list(functions))
    tasks = []
    for (name, func), own, logger in zip(functions.items(), seeds, loggers, strict=True):
        generator = (special_space or {}).get(name, space)
        tasks.append(
            TuneContext(
                func,
                target=target,
                space_generator=generator if isinstance(generator, str) or callable(generator) else generator.clone(),
                search_strategy=strategy if isinstance(strategy, str) else strategy.clone(),
                task_name=name,
                rand_state=own,
                num_threads=num_tuning_cores,
                logger=logger,
            )
        )
    return tune_tasks(
        tasks=tasks,
        task_weights=[1.0] * len(tasks),
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task,
        num_trials_per_iter=num_trials_per_iter,
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler,
        module_equality=module_equality,
    )


def compile_tir(database: Database, mod: IRModule | PrimFunc, target: Target | str) -> Schedule | None:
    """The schedule of the fastest record of a function; None without any."""
    (func,) = _functions(mod).values()
    return database.query_schedule(func, target, "main")


def _functions(mod: IRModule | PrimFunc) -> dict[str, IRModule]:
    """Modules of the single functions, by their names in the module. Raises TypeError for others than functions."""
    if isinstance(mod, PrimFunc):
        return {"main": _alone(mod)}
    if not isinstance(mod, IRModule):
        raise TypeError(f"an IRModule or a PrimFunc is tuned, but {type(mod).__name__} was given")
    return {g.name_hint: _alone(f) for g, f in mod.functions.items() if isinstance(f, PrimFunc)}


def _alone(func: PrimFunc) -> IRModule:
    functions: Any = {"main": func.with_attr("global_symbol", "main")}
    return IRModule(functions)
