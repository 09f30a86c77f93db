"""What a database holds: workloads, and what was measured of their schedules."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.ir import IRModule
from tilewright.meta_schedule.arg_info import ArgInfo
from tilewright.node import load_json, save_json, structural_hash
from tilewright.support.errors import ScheduleError, TVMError
from tilewright.target import Target
from tilewright.tir.schedule import Schedule, Trace

if TYPE_CHECKING:
    from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate

FAILED = 1e10
"""Seconds that stand for a schedule which could not be measured."""


class Workload:
    """A module that is tuned. shash: its structural hash."""

    def __init__(self, mod: IRModule, shash: int | None = None) -> None:
        self.mod = mod
        self.shash = structural_hash(mod) if shash is None else shash

    def as_json(self) -> list[str]:
        """[hash, module], the module as base64 of its JSON."""
        return [str(self.shash), base64.b64encode(save_json(self.mod).encode()).decode()]

    @staticmethod
    def from_json(json_obj: Any) -> Workload:
        """The workload that `as_json` wrote. Raises TVMError for anything else."""
        match json_obj:
            case [str(digits), str(text)] if digits.isdecimal():
                try:
                    mod = load_json(base64.b64decode(text, validate=True).decode())
                except ValueError as error:
                    raise TVMError(f"the module of a workload cannot be read: {error}") from error
                if isinstance(mod, IRModule):
                    return Workload(mod, int(digits))
        raise TVMError("a workload is [hash, module], a number in digits and base64")


class TuningRecord:
    """The trace of a schedule and its times.

    run_secs: seconds of a call, one number a repeat; None: it was not measured. target, args_info: None where they are not known.
    """

    def __init__(
        self,
        trace: Trace,
        workload: Workload,
        run_secs: Sequence[float] | None = None,
        target: Target | None = None,
        args_info: Sequence[ArgInfo] | None = None,
    ) -> None:
        self._trace: Trace | None = trace
        self._steps: Any = None
        self.workload = workload
        self.run_secs = None if run_secs is None else [float(s) for s in run_secs]
        self.target = target
        self.args_info = None if args_info is None else list(args_info)

    @property
    def trace(self) -> Trace:
        """The trace. That of a record which was read is replayed on the workload when it is first asked for: raises TVMError where it
        does not fit it."""
        if self._trace is None:
            sch = Schedule(self.workload.mod, error_render_level="fast")
            try:
                Trace.apply_json_to_schedule(self._steps, sch)
            except (ScheduleError, TypeError, ValueError, KeyError, IndexError, StopIteration) as error:
                raise TVMError(f"the trace of a record does not fit its workload: {error}") from error
            self._trace = sch.trace
            assert self._trace is not None
        return self._trace

    @property
    def is_valid(self) -> bool:
        """Whether it was measured without failure."""
        return bool(self.run_secs) and all([s < FAILED for s in self.run_secs or ()])

    @property
    def seconds(self) -> float:
        """Mean seconds of a call; infinite if it was not measured, or failed."""
        return sum(self.run_secs) / len(self.run_secs) if self.run_secs and self.is_valid else float("inf")

    def of(self, workload: Workload) -> TuningRecord:
        """The record as one of a workload of another database, whose module is the same."""
        return TuningRecord(self.trace, workload, self.run_secs, self.target, self.args_info)

    def as_measure_candidate(self) -> MeasureCandidate:
        """The schedule, to be measured again."""
        from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate

        sch = Schedule(self.workload.mod, error_render_level="fast")
        self.trace.apply_to_schedule(sch)
        return MeasureCandidate(sch, self.args_info or ArgInfo.from_entry_func(self.workload.mod))

    def as_json(self) -> list[Any]:
        """[trace, seconds, target, parameters]."""
        infos = None if self.args_info is None else [info.as_json() for info in self.args_info]
        trace = self._steps if self._trace is None else self._trace.as_json()
        return [trace, self.run_secs, None if self.target is None else self.target.export(), infos]

    @staticmethod
    def from_json(json_obj: Any, workload: Workload) -> TuningRecord:
        """The record that `as_json` wrote. Raises TVMError for anything else."""
        match json_obj:
            case [[list(), list()] as steps, run_secs, target, infos] if _are_seconds(run_secs):
                made = TuningRecord(
                    Trace(),
                    workload,
                    run_secs,
                    None if target is None else Target(target),
                    None if infos is None else [ArgInfo.from_json(info) for info in infos],
                )
                made._trace, made._steps = None, steps
                return made
        raise TVMError("a record is [trace, seconds, target, parameters]")


def _are_seconds(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and all([isinstance(s, (int, float)) and s > 0 for s in value])
