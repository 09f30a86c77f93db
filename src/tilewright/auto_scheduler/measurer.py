"""The measurer: builds and runs programs of tasks, and keeps the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.auto_scheduler.loops import StateObject
from tilewright.auto_scheduler.measure import (
    MAX_FLOAT,
    BuildResult,
    MeasureCallback,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
)
from tilewright.auto_scheduler.measure_programs import Fastest, ProgramBuilder, ProgramRunner, packings_of, reference_of
from tilewright.support.errors import TVMError
from tilewright.tuning.measure import Source
from tilewright.tuning.plausible import peak_flops, reasons, why_impossible

if TYPE_CHECKING:
    from tilewright.auto_scheduler.search_task import SearchTask


class TaskFailure(TVMError):
    """A task cannot be tuned; others may be."""


class ProgramMeasurer:
    """Builds, runs and tells of it. A program counts only if its outputs are those of the one to which nothing was done.

    best_states, best_seconds: the fastest program of each workload, and mean seconds of its calls. A time that no machine can reach is a
    failure. Raises TaskFailure after `max_continuous_error` failures in a row.
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
        self._failures: dict[str, list[tuple[str, str]]] = {}

    def measure(self, task: SearchTask, policy: Any, inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """The results of programs of a task."""
        self._need_reference(task)
        builds = self.builder.build(inputs, self.verbose)
        found = self.runner.measure(inputs, builds, self._references, self._fastest)
        results = [_true(inp, result) for inp, result in zip(inputs, found, strict=True)]
        for inp, build, result in zip(inputs, builds, results, strict=True):
            self._note(inp, build, result)
        for callback in self.callbacks:
            callback.callback(policy, inputs, results)
        if self.errors > self.max_continuous_error:
            failed, self.errors = self.errors, 0
            raise TaskFailure(f"{failed} programs of {task.workload_key} failed one after the other{self.why(task)}")
        return results

    def _need_reference(self, task: SearchTask) -> None:
        if task.workload_key in self._references:
            return
        (built,) = self.builder.compile([Source(reference_of(task), task.target)])
        if built.path is None:
            raise TaskFailure(f"{task.workload_key} cannot be tuned: its plain program is not built: {built.message}")
        self._references[task.workload_key] = built.path

    def why(self, task: SearchTask) -> str:
        """What is said of the failures of a task: its most frequent reasons; "" if there are none."""
        found = self._failures.get(task.workload_key)
        return f". The most frequent reasons:{reasons(found)}" if found else ""

    def _note(self, inp: MeasureInput, build: BuildResult, result: MeasureResult) -> None:
        key, seconds = inp.task.workload_key, result.seconds
        self.count += 1
        self.errors = self.errors + 1 if result.error_no else 0
        if result.error_no:
            kind = MeasureErrorNo(result.error_no).name
            self._failures.setdefault(key, []).append((kind, result.error_msg or ""))
        if seconds < self.best_seconds.get(key, float("inf")):
            self.best_seconds[key], self.best_states[key] = seconds, inp.state
            if build.filename is not None:
                self._fastest[key] = Fastest(Path(build.filename), seconds, packings_of(inp))
        if self.verbose > 0:
            flops = inp.task.compute_dag.flop_ct / 1e9
            best = flops / self.best_seconds[key] if key in self.best_seconds else 0.0
            print(f"No: {self.count}\tGFLOPS: {flops / seconds:.2f} / {best:.2f}\tresults: {result}", flush=True)


def _true(inp: MeasureInput, result: MeasureResult) -> MeasureResult:
    """The result; a failure in its place if its time cannot be true."""
    task = inp.task
    peak = peak_flops(task.target, cores=task.hardware_params.num_cores)
    why = "" if result.error_no else why_impossible(result.seconds, task.compute_dag.flop_ct, peak)
    if not why:
        return result
    return MeasureResult([MAX_FLOAT], MeasureErrorNo.UNKNOWN_ERROR, why, result.all_cost, result.timestamp)
