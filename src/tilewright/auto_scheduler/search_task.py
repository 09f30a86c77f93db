"""Tasks: what is tuned, for which target."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from tilewright.auto_scheduler import classic_log
from tilewright.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from tilewright.auto_scheduler.cost_model.cost_model import CostModel, EngineModel
from tilewright.auto_scheduler.cost_model.xgb_model import XGBModel
from tilewright.auto_scheduler.hardware import HardwareParams
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.measure import MeasureCallback
from tilewright.auto_scheduler.measure_places import LocalBuilder, LocalRunner
from tilewright.auto_scheduler.measure_programs import ProgramBuilder, ProgramRunner
from tilewright.auto_scheduler.measurer import ProgramMeasurer
from tilewright.auto_scheduler.search_policy import SearchPolicy, SketchPolicy
from tilewright.auto_scheduler.task_inputs import registered_names
from tilewright.auto_scheduler.workload_registry import make_workload_key, register_workload_tensors
from tilewright.support import lazy
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.te.schedule import Schedule
from tilewright.te.tensor import Tensor
from tilewright.tuning.cost_model import AnalyticModel

lazy.declare(
    __name__,
    {
        name: f"tilewright.auto_scheduler.task_inputs:{name}"
        for name in ("TASK_INPUT_BUFFER_TABLE", "get_task_input_buffer", "register_task_input_buffer")
    },
)
__getattr__, __dir__ = lazy.late(__name__)


class TuningOptions:
    """How a task is tuned.

    num_measure_trials: measurements. early_stopping: of these in a row without a faster program, after which it ends.
    num_measures_per_round: at once. verbose: 0 is silent. builder, runner: "local", or objects. measure_callbacks: are told of each round.
    """

    def __init__(
        self,
        num_measure_trials: int = 0,
        early_stopping: int | None = None,
        num_measures_per_round: int = 64,
        verbose: int = 1,
        builder: ProgramBuilder | str = "local",
        runner: ProgramRunner | str = "local",
        measure_callbacks: Sequence[MeasureCallback] | None = None,
    ) -> None:
        for what, given in (("builder", builder), ("runner", runner)):
            if isinstance(given, str) and given != "local":
                raise TVMError(f"{what} is {given!r}, but must be 'local' or an object")
        self.num_measure_trials, self.early_stopping = num_measure_trials, early_stopping
        self.num_measures_per_round, self.verbose = num_measures_per_round, verbose
        self.builder = LocalBuilder() if isinstance(builder, str) else builder
        self.runner = LocalRunner() if isinstance(runner, str) else runner
        self.measure_callbacks = list(measure_callbacks or ())

    def measurer(self) -> ProgramMeasurer:
        """What measures by these options."""
        return ProgramMeasurer(self.builder, self.runner, self.measure_callbacks, self.verbose)


class SearchTask:
    """A computation for a target.

    Given by a registered function (or its name) and its arguments, by a ComputeDAG, or by the key of a workload. target: the current one by
    default. hardware_params: by default the target's. desc: what the task is called in tables.

    layout_rewrite_option: what is done with parameters whose layouts are free; by default, programs for CPUs copy them first. With
    REWRITE_FOR_PRE_TRANSFORMED they are measured on parameters that are packed before, as builds of models pack their weights.
    task_inputs: values that inputs are measured with, by name, or names of inputs whose values are registered (see task_inputs.py);
    task_inputs_overwrite: instead of those that are registered; task_inputs_save_to_file: they are written to files, too.
    """

    def __init__(
        self,
        func: Any = None,
        args: Any = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: Target | str | None = None,
        target_host: Target | str | None = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: int | None = None,
        task_inputs: Mapping[str, Any] | Sequence[str] | None = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        given = [g for g in (func, compute_dag, workload_key) if g is not None]
        if not given:
            raise TVMError("a task needs a function with arguments, a ComputeDAG, or the key of a workload")
        if func is not None:
            workload_key = make_workload_key(func, args)
        elif compute_dag is not None and workload_key is None:
            workload_key = register_workload_tensors(compute_dag.workload_key(), compute_dag.tensors)
        assert workload_key is not None
        chosen = target if target is not None else Target.current()
        if chosen is None:
            raise TVMError("a task needs a target: give one, or enter one by `with Target(...)`")
        self.target = chosen if isinstance(chosen, Target) else Target(chosen)
        if target_host is not None:
            self.target = self.target.with_host(target_host)
        if "cpu" not in self.target.keys:
            raise TVMError(f"sketches are for CPUs, but the target is {self.target}")
        self.workload_key, self.desc = workload_key, desc
        option = LayoutRewriteOption.get_target_default(self.target)
        self.layout_rewrite_option = (
            option if layout_rewrite_option is None else LayoutRewriteOption(layout_rewrite_option)
        )
        self.task_input_names = registered_names(
            task_inputs, workload_key, task_inputs_overwrite, task_inputs_save_to_file
        )
        self.hardware_params = hardware_params if hardware_params is not None else HardwareParams(target=self.target)
        self._compute_dag = compute_dag

    @property
    def target_host(self) -> Target | None:
        return self.target.host

    @property
    def compute_dag(self) -> ComputeDAG:
        """The computation. Raises TVMError for a workload that is not registered."""
        if self._compute_dag is None:
            self._compute_dag = ComputeDAG(self.workload_key)
        return self._compute_dag

    def tune(
        self, tuning_options: TuningOptions, search_policy: SearchPolicy | None = None, adaptive_training: bool = False
    ) -> None:
        """Searches and measures. What is measured is in the log of a `RecordToFile` among the callbacks; `apply_best` reads it."""
        policy = search_policy if search_policy is not None else SketchPolicy(self, default_model())
        policy.set_verbose(tuning_options.verbose)
        options = tuning_options
        policy.search(
            options.num_measure_trials, options.early_stopping, options.num_measures_per_round, options.measurer()
        )

    def apply_best(
        self,
        log_file: str | os.PathLike[str],
        include_compatible: bool = False,
        layout_rewrite_option: int | None = None,
    ) -> tuple[Schedule, list[Tensor]]:
        """The te schedule of the fastest record of this task, and its parameters. layout_rewrite_option: as in
        `ComputeDAG.apply_steps_from_state`; by default, as the task was measured. Raises TVMError where the log has no record."""
        return self.compute_dag.apply_steps_from_state(
            self._best(log_file, include_compatible),
            self.layout_rewrite_option if layout_rewrite_option is None else layout_rewrite_option,
        )

    def print_best(self, log_file: str | os.PathLike[str], print_mode: str = "schedule") -> str:
        """The fastest record of this task as a Python program."""
        if print_mode != "schedule":
            raise TVMError(f"print_mode is {print_mode!r}, but the best record is printed as 'schedule' only")
        return self.compute_dag.print_python_code_from_state(self._best(log_file, False))

    def _best(self, log_file: str | os.PathLike[str], include_compatible: bool) -> State:
        entries, flops = classic_log.entries(log_file), self.compute_dag.flop_ct
        found = classic_log.best(entries, self.workload_key, self.target, include_compatible, flops)
        if found is None:
            raise TVMError(f"the log {os.fspath(log_file)} has no record of {self.workload_key} for {self.target}")
        return State(self.compute_dag.state_of(found.steps), self.compute_dag)


def default_model() -> CostModel:
    """The model of tasks for which no search was given: trees where xgboost is installed, else the engine's analytic model."""
    return XGBModel() if find_spec("xgboost") else EngineModel(AnalyticModel())


def create_task(
    func: Any,
    args: Any,
    target: Target | str,
    target_host: Target | str | None = None,
    hardware_params: HardwareParams | None = None,
) -> SearchTask:
    """A task of a registered function: an older form of `SearchTask(...)`."""
    return SearchTask(func=func, args=args, target=target, target_host=target_host, hardware_params=hardware_params)


def auto_schedule(
    task: SearchTask, search_policy: SearchPolicy | None = None, tuning_options: TuningOptions | None = None
) -> tuple[Schedule, list[Tensor]]:
    """Searches and measures; the te schedule of the fastest program, and its parameters: an older form of `task.tune(...)`."""
    options = tuning_options if tuning_options is not None else TuningOptions()
    policy = search_policy if search_policy is not None else SketchPolicy(task, default_model())
    state = policy.search(
        options.num_measure_trials, options.early_stopping, options.num_measures_per_round, options.measurer()
    )
    return task.compute_dag.apply_steps_from_state(state, task.layout_rewrite_option)
