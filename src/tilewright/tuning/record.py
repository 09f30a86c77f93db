"""What was measured of a candidate, and the records of a log.

    {"version": "0.1.0", "task": "8f3c..", "name": "fused_nn_dense", "target": "llvm -mcpu=znver4", "candidate": {"T_dense.tile": [6, 2]},
     "seconds": [1.1e-4, 1.2e-4], "untuned": 1.5e-4, "time": 1767225600.0}

A candidate that failed has "failure" and "message" instead of "seconds".
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION
from tilewright.tuning import log
from tilewright.tuning.measure import Failure
from tilewright.tuning.task import Task


@dataclass(frozen=True)
class Record:
    """seconds: of a call, one number a repeat. untuned: median seconds of the untuned kernel, where it was measured in the same session.
    time: when it was measured, in seconds since 1970."""

    task: str
    name: str
    target: str
    candidate: Any
    seconds: tuple[float, ...] = ()
    failure: Failure | None = None
    message: str = ""
    untuned: float | None = None
    time: float = field(default_factory=time.time)

    @property
    def median(self) -> float:
        """Median seconds of a call; infinite if it failed."""
        return statistics.median(self.seconds) if self.seconds else float("inf")

    def to_json(self) -> dict[str, Any]:
        """The record as a line of a log holds it."""
        head = {"version": VERSION, "task": self.task, "name": self.name, "target": self.target}
        made: dict[str, Any] = {**head, "candidate": self.candidate}
        if self.failure is None:
            made["seconds"] = list(self.seconds)
        else:
            made["failure"], made["message"] = self.failure.value, self.message
        if self.untuned is not None:
            made["untuned"] = self.untuned
        return {**made, "time": self.time}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Record:
        """The record of a line. Raises TVMError with what is wrong in it."""
        for name in ("version", "task", "name", "target"):
            if not isinstance(data.get(name), str):
                raise TVMError(f"its field {name!r} is missing, or is no text")
        if data["version"] != VERSION:
            raise TVMError(
                f"it was written by version {data['version']}, and this is {VERSION}: candidates may have other meanings"
            )
        if "candidate" not in data:
            raise TVMError("its field 'candidate' is missing")
        seconds = _numbers(data.get("seconds", []))
        failure = _failure(data.get("failure"))
        if (failure is None) == (not seconds):
            raise TVMError("it needs either 'seconds', a list of positive numbers, or 'failure'")
        untuned, when = data.get("untuned"), data.get("time", 0.0)
        if untuned is not None and not _is_time(untuned):
            raise TVMError("its field 'untuned' is no positive number")
        if isinstance(when, bool) or not isinstance(when, (int, float)):
            raise TVMError("its field 'time' is no number")
        head = (data["task"], data["name"], data["target"], data["candidate"])
        return cls(*head, seconds, failure, str(data.get("message", "")), untuned, float(when))


def _is_time(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and 0 < value < float("inf")


def _numbers(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list) or not all([_is_time(v) for v in values]):
        raise TVMError("its field 'seconds' is no list of positive numbers")
    return tuple([float(v) for v in values])


def _failure(name: Any) -> Failure | None:
    if name is None:
        return None
    try:
        return Failure(name)
    except ValueError:
        raise TVMError(f"its failure {name!r} is none of {', '.join([f.value for f in Failure])}") from None


@dataclass(frozen=True)
class Refused:
    """A line of a log that is not used, and why."""

    number: int
    why: str


def load(path: str | os.PathLike[str]) -> tuple[list[Record], list[Refused]]:
    """The records of a log, and the lines that hold neither one nor decisions (`decisions`). Raises TVMError where the file cannot be
    read."""
    records, refused = [], []
    for line in log.read(path):
        if line.record is None:
            refused.append(Refused(line.number, line.why))
            continue
        if _is_decided(line.record):
            continue
        try:
            records.append(Record.from_json(line.record))
        except TVMError as error:
            refused.append(Refused(line.number, str(error)))
    return records, refused


def decisions(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines of a log that are no measurements, but what was decided of kernels and programs: in the form of
    `scheduling.database`. Raises TVMError where the file cannot be read."""
    return [line.record for line in log.read(path) if line.record is not None and _is_decided(line.record)]


def _is_decided(line: dict[str, Any]) -> bool:
    return "plan" in line and "task" not in line


def of_task(records: Sequence[Record], task: Task) -> list[Record]:
    """The records of a task on its target."""
    target = task.target.text_for_all
    return [r for r in records if r.task == task.key and r.target == target]


def best(records: Sequence[Record]) -> dict[tuple[str, str], Record]:
    """The fastest record of each task and target."""
    found: dict[tuple[str, str], Record] = {}
    for record in records:
        key = record.task, record.target
        if record.failure is None and (key not in found or record.median < found[key].median):
            found[key] = record
    return found
