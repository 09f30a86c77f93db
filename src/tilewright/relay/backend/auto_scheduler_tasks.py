"""The tasks of auto_scheduler in a model: the computations of its kernels."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

from tilewright.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from tilewright.auto_scheduler.hardware import HardwareParams
from tilewright.auto_scheduler.relay_integration import TracingEnvironment, TracingMode
from tilewright.auto_scheduler.search_task import SearchTask
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.node import deep_recursion
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.backend.kernels.devices import DeviceCompilers
from tilewright.relay.backend.kernels.recorded import USE
from tilewright.relay.backend.kernels.recorded_layouts import NAME, constants_of
from tilewright.relay.backend.planning.plan import make_plan
from tilewright.relay.backend.targets import config_of
from tilewright.relay.expr import Function
from tilewright.relay.parameters import Params
from tilewright.support.errors import TVMError
from tilewright.target import CompilationConfig, Target
from tilewright.target.virtual_device import Targets


def extract_tasks(
    mod: IRModule | Function,
    params: Params | None = None,
    target: Targets = None,
    target_host: Any = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
    dump_workload_to_dag_log: str | os.PathLike[str] | None = None,
    opt_level: int = 3,
    other_targets: Any = None,
) -> tuple[list[SearchTask], list[int]]:
    """(the computations of a model's kernels as tasks, each once; how often a run of the model calls each).

    The model is taken as a build takes it, after all passes: weights that a build packs are packed. Layouts of weights that are constants
    are free: programs are measured on weights in the layouts that fit their loops, to which builds convert them. So `relay.build` in
    `ApplyHistoryBest(log)`, with the option "relay.backend.use_auto_scheduler", finds the records of the tasks. Kernels of dynamic shapes
    and of external code have no tasks. params: weights by name. include_simple_tasks: also kernels without reductions.
    dump_workload_to_dag_log: a file that gets the texts of all workloads, as JSON. opt_level: of the passes. Raises TVMError for more than
    one target: one machine is tuned at a time.
    """
    config = config_of(target, target_host)
    if other_targets or len(config.targets) > 1:
        raise TVMError("extract_tasks takes one target: tasks of each device are extracted and tuned by themselves")
    mode = TracingMode.EXTRACT_TASK if include_simple_tasks else TracingMode.EXTRACT_COMPLEX_TASK_ONLY
    env = TracingEnvironment(mode)
    _trace(env, mod, params, config, opt_level)
    names: dict[str, list[str]] = {}
    for name, key in env.func_name_to_wkl_key.items():
        names.setdefault(key, []).append(name)
    if dump_workload_to_dag_log is not None:
        with open(dump_workload_to_dag_log, "w") as file:
            json.dump({key: str(ComputeDAG(key)) for key in names}, file)
    chosen = config.targets[0]
    tasks = [
        SearchTask(
            workload_key=key,
            target=chosen,
            hardware_params=hardware_params,
            layout_rewrite_option=LayoutRewriteOption.get_target_default(chosen, True),
            desc=",".join(called),
        )
        for key, called in names.items()
    ]
    return tasks, [env.wkl_key_to_weight[task.workload_key] for task in tasks]


def _trace(
    env: TracingEnvironment, mod: IRModule | Function, params: Params | None, config: CompilationConfig, opt_level: int
) -> None:
    """Notes the workloads of a model's kernels, and how often each is called."""
    options = {**PassContext.current().config, USE: True}
    # Tasks are the kernels as they are before weights are packed for records.
    context = PassContext(
        opt_level=opt_level, config=options, disabled_pass=[*PassContext.current().disabled_pass, NAME]
    )
    with context, config.targets[0], deep_recursion():
        optimized, _ = optimize(mod, config, params)
        env.constants = constants_of(optimized)
        with env:
            plan = make_plan(optimized, DeviceCompilers(optimized, config))
    te_compiler_update_weights(dict(Counter([call.kernel.name for call in plan.calls])), env)


def te_compiler_update_weights(function_weights: dict[str, int], env: TracingEnvironment | None = None) -> None:
    """Adds calls of kernels, by their names, to the weights of their workloads. env: by default, the one that is entered."""
    known = env if env is not None else TracingEnvironment.current
    if known is None:
        return
    for name, weight in function_weights.items():
        key = known.func_name_to_wkl_key.get(name)
        if key is not None:
            known.wkl_key_to_weight[key] = known.wkl_key_to_weight.get(key, 0) + int(weight)


def call_all_topi_funcs(
    mod: IRModule | Function, params: Params | None, target: Target | str, error_list: list[str], opt_level: int = 3
) -> None:
    """Makes the computations of all kernels of a model, so that the TracingEnvironment that is entered notes them. Errors are added to
    error_list as texts."""
    env = TracingEnvironment.current
    try:
        _trace(env or TracingEnvironment(TracingMode.EXTRACT_TASK), mod, params, config_of(target), opt_level)
    except TVMError as error:
        error_list.append(str(error))
    finally:
        TracingEnvironment.current = env
