"""Measurements under their classic names: inputs, results, builders, runners. The tuning engine does the work."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tilewright.auto_scheduler.classic_log import FAILED
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.loops import StateObject
from tilewright.auto_scheduler.workload_registry import (
    deserialize_workload_registry_entry,
    serialize_workload_registry_entry,
)
from tilewright.support import lazy
from tilewright.tuning.measure import Failure

if TYPE_CHECKING:
    from tilewright.auto_scheduler.search_task import SearchTask

lazy.declare(
    __name__,
    {
        name: f"tilewright.auto_scheduler.{module}:{name}"
        for module, names in {
            "measure_places": "LocalBuilder LocalRPCMeasureContext LocalRunner RPCRunner",
            "measure_calls": "local_builder_build local_run rpc_runner_run",
            "measure_programs": "ProgramBuilder ProgramRunner program_of",
            "measure_record": "dump_record_to_string load_record_from_string recover_measure_input",
            "measurer": "ProgramMeasurer",
            "task_inputs": "TASK_INPUT_CHECK_FUNC_REGISTRY prepare_input_map register_task_input_check_func",
        }.items()
        for name in names.split()
    },
)
__getattr__, __dir__ = lazy.late(__name__)

MAX_FLOAT = FAILED


class MeasureErrorNo(IntEnum):
    """Why there is no time for a program."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


ERRORS = {
    Failure.REFUSED: MeasureErrorNo.INSTANTIATION_ERROR,
    Failure.BUILD: MeasureErrorNo.COMPILE_HOST,
    Failure.BUILD_TIMEOUT: MeasureErrorNo.BUILD_TIMEOUT,
    Failure.RUN: MeasureErrorNo.RUNTIME_DEVICE,
    Failure.RUN_TIMEOUT: MeasureErrorNo.RUN_TIMEOUT,
    Failure.WRONG: MeasureErrorNo.WRONG_ANSWER,
    Failure.LOST: MeasureErrorNo.UNKNOWN_ERROR,
}


class MeasureInput:
    """A program to be measured: a task, and a state of its computation."""

    def __init__(self, task: SearchTask, state: State | StateObject) -> None:
        self.task = task
        self.state = state.state_object if isinstance(state, State) else state

    def serialize(self) -> list[Any]:
        """The input for another process: a record, and what is registered for its workload."""
        dump_record_to_string = sys.modules[__name__].dump_record_to_string
        key = self.task.workload_key
        return [dump_record_to_string(self, MeasureResult([0.0])), serialize_workload_registry_entry(key)]

    @staticmethod
    def deserialize(data: Sequence[Any]) -> MeasureInput:
        """The input that `serialize` wrote. Data from strangers may run any code."""
        # Records are above this.
        records = sys.modules[__name__]
        deserialize_workload_registry_entry(data[1])
        found: MeasureInput = records.recover_measure_input(records.load_record_from_string(data[0])[0], True)
        return found


@dataclass
class BuildResult:
    """A library, or why there is none. args: the parameters of its function. time_cost: seconds."""

    filename: str | None
    args: Sequence[Any]
    error_no: int
    error_msg: str | None
    time_cost: float


@dataclass
class MeasureResult:
    """costs: seconds of a call, one number a repeat; [MAX_FLOAT] if there are none. all_cost: seconds of building and running. timestamp:
    seconds since 1970."""

    costs: Sequence[float]
    error_no: int = 0
    error_msg: str | None = ""
    all_cost: float = 0.0
    timestamp: float = field(default_factory=time.time)

    @property
    def seconds(self) -> float:
        """Mean seconds of a call; infinite if it failed."""
        return sum(self.costs) / len(self.costs) if self.costs and not self.error_no else float("inf")

    def __str__(self) -> str:
        if self.error_no:
            found = f"error_type:{MeasureErrorNo(self.error_no).name}, error_msg:{self.error_msg}"
        else:
            found = f"cost:[{', '.join([f'{cost:.4g}' for cost in self.costs])}], error_no:0"
        return f"MeasureResult({found}, all_cost:{self.all_cost:.2f}, Tstamp:{self.timestamp:.2f})"


class MeasureCallback(ABC):
    """Hears of measurements."""

    @abstractmethod
    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Is called after each round of measurements."""


class PythonBasedMeasureCallback(MeasureCallback):
    """A callback that a user defines."""
