"""The kernels of a model as tasks of meta_schedule, their tuning, and builds with its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tilewright.codegen.backend import IS_SCHEDULED
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.meta_schedule import (
    Builder,
    CostModel,
    Database,
    ExtractedTask,
    MeasureCallback,
    Runner,
    TaskScheduler,
    TuneContext,
    tune_tasks,
)
from tilewright.meta_schedule.logging import get_loggers_from_work_dir
from tilewright.meta_schedule.module_equality import ModuleEquality
from tilewright.meta_schedule.utils import fork_seed
from tilewright.node import deep_recursion
from tilewright.relay.backend.build import build
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.backend.kernels.database_schedules import DISPATCH, USE, workload_of
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.planning.plan import make_plan
from tilewright.relay.backend.targets import config_of
from tilewright.relay.backend.te_compiler import composed
from tilewright.relay.expr import Function
from tilewright.relay.parameters import Params
from tilewright.target import Target

OPTIONS: Mapping[str, Any] = MappingProxyType({USE: True, DISPATCH: 1})
"""Of the passes, where none are given."""


def is_meta_schedule_enabled() -> bool:
    """Whether builds in the current PassContext use the records of the database in use."""
    return bool(PassContext.current().config.get(USE, False))


def extract_tasks(
    mod: IRModule | Function,
    target: Target | str,
    params: Params | None = None,
    *,
    opt_level: int = 3,
    pass_config: Mapping[str, Any] = OPTIONS,
    executor: Any = None,
    runtime: Any = None,
    module_equality: str = "structural",
    disabled_pass: Sequence[str] | None = None,
    instruments: Sequence[Any] | None = None,
) -> list[ExtractedTask]:
    """The kernels of a model, as a build with the same options makes them: each once, with the number of its calls as weight.

    params: weights by name. module_equality: when kernels are the same: see ModuleEquality. executor, runtime: kernels do not depend on
    them. Left out are kernels that a program schedules itself, those of dynamic shapes, and calls of external code.
    """
    del executor, runtime
    chosen, equality = Target(target), ModuleEquality(module_equality)
    found: list[ExtractedTask] = []
    places: dict[int, list[ExtractedTask]] = {}
    with chosen, _passes(opt_level, pass_config, disabled_pass, instruments), deep_recursion():
        config = config_of(chosen)
        optimized, _ = optimize(mod, config, params)
        plan = make_plan(optimized, DeviceCompilers(optimized, config))
        for call in plan.calls:
            kernel = call.kernel
            if kernel.program is None or not kernel.told or kernel.func.attrs.get(IS_SCHEDULED):
                continue
            module = workload_of(composed(kernel.program, kernel.name, (), chosen, None))
            same = places.setdefault(equality.hash(module), [])
            known = next((task for task in same if equality.equal(task.dispatched[0], module)), None)
            if known is not None:
                known.weight += 1
                continue
            task = ExtractedTask(kernel.name, IRModule.from_expr(kernel.program), chosen, [module], 1)
            same.append(task)
            found.append(task)
    return found


def extracted_tasks_to_tune_contexts(
    extracted_tasks: Sequence[ExtractedTask],
    work_dir: str,
    space: Any = "post-order-apply",
    strategy: Any = "evolutionary",
    num_tuning_cores: int | str = "physical",
    seed: int | None = None,
) -> tuple[list[TuneContext], list[float]]:
    """The tasks as `tune_tasks` takes them, and their weights. work_dir: the folder of the log files. space, strategy: a generator of
    design spaces and a search, or their names."""
    names = [task.task_name for task in extracted_tasks]
    loggers, seeds = get_loggers_from_work_dir(work_dir, names), fork_seed(seed, len(names))
    contexts = [
        TuneContext(
            task.dispatched[0],
            target=task.target,
            space_generator=space if isinstance(space, str) or callable(space) else space.clone(),
            search_strategy=strategy if isinstance(strategy, str) else strategy.clone(),
            task_name=task.task_name,
            rand_state=own,
            num_threads=num_tuning_cores,
            logger=logger,
        )
        for task, own, logger in zip(extracted_tasks, seeds, loggers, strict=True)
    ]
    return contexts, [float(task.weight) for task in extracted_tasks]


def tune_relay(
    mod: IRModule | Function,
    params: Params | None,
    target: Target | str,
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
    seed: int | None = None,
    module_equality: str = "structural",
    num_tuning_cores: int | str = "physical",
    opt_level: int = 3,
    disabled_pass: Sequence[str] | None = None,
    instruments: Sequence[Any] | None = None,
) -> Database:
    """Tunes the kernels of a model, and returns the database, with which `compile_relay` builds it. The parameters are those of
    `extract_tasks` and `tune_tasks`."""
    tasks, weights = extracted_tasks_to_tune_contexts(
        extract_tasks(
            mod,
            target,
            params,
            opt_level=opt_level,
            module_equality=module_equality,
            disabled_pass=disabled_pass,
            instruments=instruments,
        ),
        work_dir,
        space,
        strategy,
        num_tuning_cores,
        seed,
    )
    return tune_tasks(
        tasks=tasks,
        task_weights=weights,
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


def compile_relay(
    database: Database,
    mod: IRModule | Function,
    target: Target | str,
    params: Params | None,
    *,
    backend: str = "graph",
    opt_level: int = 3,
    pass_config: Mapping[str, Any] = OPTIONS,
    executor: Any = None,
    disabled_pass: Sequence[str] | None = None,
    runtime: Any = None,
    instruments: Sequence[Any] | None = None,
) -> Any:
    """A model built with the fastest records of a database; kernels without one are scheduled as in other builds.

    backend: "graph", what `relay.build` returns, or "vm", what `relay.vm.compile` returns. Raises ValueError for others.
    """
    if backend not in ("graph", "vm"):
        raise ValueError(f'the backend of a model is "graph" or "vm", but {backend!r} was given')
    chosen = Target(target)
    with chosen, database, _passes(opt_level, pass_config, disabled_pass, instruments):
        if backend == "graph":
            return build(mod, chosen, executor=executor, runtime=runtime, params=params)
        from tilewright.relay.backend.vm import compile

        return compile(mod, chosen, params=params)


def _passes(
    opt_level: int, config: Mapping[str, Any], disabled: Sequence[str] | None, instruments: Sequence[Any] | None
) -> PassContext:
    return PassContext(
        opt_level=opt_level,
        config=dict(config),
        disabled_pass=list(disabled or ()),
        instruments=list(instruments or ()),
    )
