"""Between the runners of meta_schedule and those of the engine."""

from __future__ import annotations

import statistics
from pathlib import Path

from tilewright.meta_schedule.arg_info import TensorInfo
from tilewright.meta_schedule.runner.runner import Rivals, RunnerInput
from tilewright.support.workers import Ending, Outcome
from tilewright.tuning.measure import Argument, Measured, Run, Signature
from tilewright.tuning.running.local import failed

ON_CPU = ("llvm", "c", "interp")
"""Kinds of targets whose device is named otherwise."""


def device_of(given: RunnerInput) -> str:
    """The name of the device of a kind of targets."""
    return "cpu" if given.device_type in ON_CPU else given.device_type


def run_of(given: RunnerInput) -> Run:
    """A library as the engine's runners take it. Without rivals, it is not known which parameters are outputs: none are compared."""
    infos = [info for info in given.args_info if isinstance(info, TensorInfo)]
    arguments, library, rivals = (
        tuple([Argument(i.shape, i.dtype) for i in infos]),
        Path(given.artifact_path),
        given.rivals,
    )
    if rivals is None:
        return Run(library, Signature(arguments, ()))
    beside = Path(rivals.fastest[0]) if rivals.fastest is not None else None
    return Run(library, Signature(arguments, rivals.outputs), Path(rivals.reference), beside)


def told(measured: Measured, rivals: Rivals | None = None) -> tuple[list[float] | None, str | None]:
    """Seconds, or what to say of the failure. Seconds are scaled by how much slower than before the fastest schedule was meanwhile."""
    if measured.failure is None:
        fastest = rivals.fastest if rivals is not None else None
        scale = fastest[1] / statistics.median(measured.beside) if fastest and measured.beside else 1.0
        return [s * scale for s in measured.seconds], None
    return None, f"{measured.failure.value}: {measured.message}"


def told_by_worker(outcome: Outcome) -> tuple[list[float] | None, str | None]:
    """The same of a job that returns seconds."""
    return (list(outcome.value), None) if outcome.ending is Ending.DONE else told(failed(outcome))
