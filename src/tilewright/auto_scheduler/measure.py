"""Measurements under their classic names: inputs, results, builders, runners. The tuning engine does the work."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.auto_scheduler.classic_log import FAILED
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.loops import StateObject
from tilewright.auto_scheduler.task_inputs import with_values
from tilewright.ir import IRModule
from tilewright.support import lazy
from tilewright.support.errors import TVMError
from tilewright.support.files import kept_folder
from tilewright.tuning.inputs import signature_of
from tilewright.tuning.measure import Builder, Built, Failure, Measured, Run, Runner, Signature, Source

if TYPE_CHECKING:
    from tilewright.auto_scheduler.search_task import SearchTask

lazy.declare(
    __name__,
    {
        name: f"tilewright.auto_scheduler.measure_places:{name}"
        for name in ("LocalBuilder", "LocalRPCMeasureContext", "LocalRunner", "RPCRunner")
    }
    | {"recover_measure_input": "tilewright.auto_scheduler.measure_record:recover_measure_input"}
    | {
        name: f"tilewright.auto_scheduler.task_inputs:{name}"
        for name in ("TASK_INPUT_CHECK_FUNC_REGISTRY", "prepare_input_map", "register_task_input_check_func")
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


def _close(engine: Builder | Runner) -> None:
    close = getattr(engine, "close", None)
    if close is not None:
        close()


class ProgramBuilder:
    """Builds programs by a builder of the engine. Libraries are kept as long as the builder."""

    def __init__(self, engine: Builder) -> None:
        self.engine = engine
        self._folder = kept_folder("tilewright-auto-scheduler-")
        self._rounds = 0

    def close(self) -> None:
        """Ends the processes of the builder, if it has any."""
        _close(self.engine)

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """The library of each program."""
        sources: list[Source | str] = []
        for inp in measure_inputs:
            try:
                sources.append(Source(program_of(inp), inp.task.target))
            except TVMError as error:
                sources.append(str(error))
        built = iter(self.compile([s for s in sources if isinstance(s, Source)]))
        results = []
        for inp, source in zip(measure_inputs, sources, strict=True):
            made = next(built) if isinstance(source, Source) else Built(None, 0.0, Failure.REFUSED, source)
            number = MeasureErrorNo.NO_ERROR if made.failure is None else ERRORS[made.failure]
            path = None if made.path is None else str(made.path)
            results.append(
                BuildResult(path, inp.task.compute_dag.tensors, int(number), made.message or None, made.seconds)
            )
        return results

    def compile(self, sources: Sequence[Source]) -> list[Built]:
        """The library of each scheduled program."""
        self._rounds += 1
        folder = Path(self._folder.name) / str(self._rounds)
        folder.mkdir()
        return self.engine.build(sources, folder) if sources else []


class Fastest(NamedTuple):
    """The library of the fastest program of a workload, and seconds of a call."""

    library: Path
    seconds: float


class ProgramRunner:
    """Runs libraries by a runner of the engine. cooldown_interval: seconds between them."""

    def __init__(self, engine: Runner, cooldown_interval: float = 0.0) -> None:
        self.engine, self.cooldown_interval = engine, cooldown_interval

    def close(self) -> None:
        """Ends the processes of the runner, if it has any."""
        _close(self.engine)

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        """The times of each library."""
        return self.measure(measure_inputs, build_results, {}, {})

    def measure(
        self,
        inputs: Sequence[MeasureInput],
        builds: Sequence[BuildResult],
        references: Mapping[str, Path],
        fastest: Mapping[str, Fastest],
    ) -> list[MeasureResult]:
        """The times of each library. By workload, references: libraries whose outputs are compared with those of the others; fastest: those
        whose runs alternate with theirs, so that load on the machine does not decide."""
        signatures: dict[str, Signature] = {}
        runs = []
        for inp, build in zip(inputs, builds, strict=True):
            key = inp.task.workload_key
            if key not in signatures:
                signatures[key] = with_values(signature_of(untuned_of(inp.task)), inp.task)
            if build.filename is not None:
                beside = fastest[key].library if key in fastest else None
                runs.append(Run(Path(build.filename), signatures[key], references.get(key), beside))
        found = iter(self._run(runs))
        results = []
        for inp, build in zip(inputs, builds, strict=True):
            measured = next(found) if build.filename is not None else None
            results.append(_result(build, measured, fastest.get(inp.task.workload_key)))
        return results

    def _run(self, runs: Sequence[Run]) -> list[Measured]:
        if not self.cooldown_interval:
            return self.engine.run(runs) if runs else []
        found = []
        for run in runs:
            found += self.engine.run([run])
            time.sleep(self.cooldown_interval)
        return found


def _result(build: BuildResult, measured: Measured | None, fastest: Fastest | None) -> MeasureResult:
    if measured is None:
        return MeasureResult([MAX_FLOAT], build.error_no, build.error_msg, build.time_cost)
    if measured.failure is not None:
        return MeasureResult([MAX_FLOAT], int(ERRORS[measured.failure]), measured.message, build.time_cost)
    slower = statistics.median(measured.beside) / fastest.seconds if measured.beside and fastest is not None else 1.0
    return MeasureResult(
        [seconds / slower for seconds in measured.seconds], 0, None, build.time_cost + measured.elapsed
    )


def program_of(inp: MeasureInput) -> IRModule:
    """The scheduled program of an input. Raises TVMError where a step is refused."""
    schedule, args = inp.task.compute_dag.apply_steps_from_state(inp.state, inp.task.layout_rewrite_option)
    return IRModule.from_expr(schedule.to_prim_func(args))


def untuned_of(task: SearchTask) -> IRModule:
    """The program to whose loops nothing is done."""
    return program_of(MeasureInput(task, task.compute_dag.init_state))


class ProgramMeasurer:
    """Builds, runs and tells of it. A program counts only if its outputs are those of the one to which nothing was done.

    best_states, best_seconds: the fastest program of each workload, and mean seconds of its calls. Raises TVMError after
    `max_continuous_error` failures in a row.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        runner: ProgramRunner,
        callbacks: Sequence[MeasureCallback] = (),
        verbose: int = 1,
        max_continuous_error: int = 150,
    ) -> None:
        self.builder, self.runner, self.callbacks, self.verbose = builder, runner, list(callbacks or ()), verbose
        self.max_continuous_error = max_continuous_error if max_continuous_error and max_continuous_error > 0 else 150
        self.reset()

    def reset(self) -> None:
        """Forgets what was measured."""
        self.count = self.errors = 0
        self.best_states: dict[str, StateObject] = {}
        self.best_seconds: dict[str, float] = {}
        self._references: dict[str, Path] = {}
        self._fastest: dict[str, Fastest] = {}

    def measure(self, task: SearchTask, policy: Any, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """The results of programs of a task."""
        self._need_reference(task)
        builds = self.builder.build(inputs, self.verbose)
        results = self.runner.measure(inputs, builds, self._references, self._fastest)
        for inp, build, result in zip(inputs, builds, results, strict=True):
            self._note(inp, build, result)
        for callback in self.callbacks:
            callback.callback(policy, inputs, results)
        if self.errors > self.max_continuous_error:
            raise TVMError(
                f"{self.errors} programs of {task.workload_key} failed one after the other; the last one: {results[-1].error_msg}"
            )
        return results

    def _need_reference(self, task: SearchTask) -> None:
        if task.workload_key in self._references:
            return
        (built,) = self.builder.compile([Source(untuned_of(task), task.target)])
        if built.path is None:
            raise TVMError(f"{task.workload_key} cannot be tuned: its plain program is not built: {built.message}")
        self._references[task.workload_key] = built.path

    def _note(self, inp: MeasureInput, build: BuildResult, result: MeasureResult) -> None:
        key, seconds = inp.task.workload_key, result.seconds
        self.count += 1
        self.errors = self.errors + 1 if result.error_no else 0
        if seconds < self.best_seconds.get(key, float("inf")):
            self.best_seconds[key], self.best_states[key] = seconds, inp.state
            if build.filename is not None:
                self._fastest[key] = Fastest(Path(build.filename), seconds)
        if self.verbose > 0:
            flops = inp.task.compute_dag.flop_ct / 1e9
            best = flops / self.best_seconds[key] if key in self.best_seconds else 0.0
            print(f"No: {self.count}\tGFLOPS: {flops / seconds:.2f} / {best:.2f}\tresults: {result}", flush=True)
