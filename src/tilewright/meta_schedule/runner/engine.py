"""Between the runners of meta_schedule and those of the engine."""

from __future__ import annotations

from pathlib import Path

from tilewright.meta_schedule.arg_info import TensorInfo
from tilewright.meta_schedule.runner.runner import RunnerInput
from tilewright.support.workers import Ending, Outcome
from tilewright.tuning.measure import Argument, Measured, Run, Signature
from tilewright.tuning.running.local import failed

ON_CPU = ("llvm", "c", "interp")
"""Kinds of targets whose device is named otherwise."""


def device_of(given: RunnerInput) -> str:
    """The name of the device of a kind of targets."""
    return "cpu" if given.device_type in ON_CPU else given.device_type


def run_of(given: RunnerInput) -> Run:
    """A library as the engine's runners take it. Which parameters are outputs is not known, so none are compared."""
    infos = [info for info in given.args_info if isinstance(info, TensorInfo)]
    return Run(Path(given.artifact_path), Signature(tuple([Argument(i.shape, i.dtype) for i in infos]), ()))


def told(measured: Measured) -> tuple[list[float] | None, str | None]:
    """Seconds, or what to say of the failure."""
    if measured.failure is None:
        return list(measured.seconds), None
    return None, f"{measured.failure.value}: {measured.message}"


def told_by_worker(outcome: Outcome) -> tuple[list[float] | None, str | None]:
    """The same of a job that returns seconds."""
    return (list(outcome.value), None) if outcome.ending is Ending.DONE else told(failed(outcome))
