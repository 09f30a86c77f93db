"""Logs in the classic format: a line of JSON for each measurement.

{"i": [[workload key, target, hardware parameters, target host, layout option, names of given inputs], [[], steps]],
 "r": [[seconds], error number, seconds of building and running, seconds since 1970], "v": "v0.6"}
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tilewright.auto_scheduler.steps import Step, step_from_json
from tilewright.auto_scheduler.utils import calc_workload_dis_factor, decode_workload_key
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning import log
from tilewright.tuning.plausible import peak_flops, why_impossible

logger = logging.getLogger("auto_scheduler")

VERSION = "v0.6"
FAILED = 1e10
"""Seconds of a candidate that failed."""


@dataclass(frozen=True)
class Entry:
    """What a line says. costs: seconds of a call, one number a repeat. error_no: 0 for a measurement. all_cost: seconds of building and
    running. timestamp: seconds since 1970."""

    workload_key: str
    target: str
    hardware: tuple[int, ...]
    steps: tuple[Step, ...]
    costs: tuple[float, ...]
    error_no: int = 0
    all_cost: float = 0.0
    timestamp: float = 0.0
    target_host: str = ""
    layout_option: int = 0
    input_names: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Mean seconds of a call; infinite if it failed."""
        return sum(self.costs) / len(self.costs) if self.costs and not self.error_no else float("inf")

    def to_json(self) -> dict[str, Any]:
        head = [self.workload_key, self.target, list(self.hardware), self.target_host, self.layout_option]
        result = [list(self.costs), self.error_no, self.all_cost, int(self.timestamp)]
        steps = [step.to_json() for step in self.steps]
        return {"i": [[*head, list(self.input_names)], [[], steps]], "r": result, "v": VERSION}

    @classmethod
    def from_json(cls, data: Any) -> Entry:
        """The entry of a line. Raises TVMError with what is wrong in it."""
        if not isinstance(data, dict) or not isinstance(data.get("i"), list) or not isinstance(data.get("r"), list):
            raise TVMError('a record has the fields "i" and "r", lists of what was measured and of what came of it')
        match data["i"], data["r"]:
            case (
                [[str(key), str(target), [*hardware], *rest], [[], [*steps]]],
                [[*costs], int(error_no), float() | int() as all_cost, float() | int() as timestamp],
            ) if all([isinstance(c, (int, float)) for c in costs]) and all([isinstance(n, int) for n in hardware]):
                host, layout, names = _rest(rest)
                made = [step_from_json(step) for step in steps]
                return cls(
                    key, target, tuple(hardware), tuple(made), tuple([float(c) for c in costs]), error_no, float(all_cost),
                    float(timestamp), host, layout, tuple(names),
                )  # fmt: skip
        raise TVMError(f"the fields of the record are not as the format has them: {str(data)[:80]}")


def _rest(found: Sequence[Any]) -> tuple[str, int, list[str]]:
    """What a line says of host, layouts and inputs: older ones say less."""
    host, layout, names = [*found, *("", 0, [])[len(found) :]][:3]
    if not isinstance(host, str) or not isinstance(layout, int) or not isinstance(names, list):
        raise TVMError(
            f"the target's host, the layout option and the names of inputs are not as the format has them: {str(found)[:80]}"
        )
    return host, layout, names


def entries(path: str | os.PathLike[str], count: int | None = None, skip: int = 0) -> Iterator[Entry]:
    """The entries of a log. Lines that hold none, such as one that was cut, are left out with a warning, and so are measurements without a
    time, such as 0. Raises TVMError where the file cannot be read."""
    return islice(_all(path), skip, None if count is None or count < 0 else skip + count)


def _all(path: str | os.PathLike[str]) -> Iterator[Entry]:
    for line in log.read(path):
        try:
            if line.record is None:
                raise TVMError(line.why)
            found = Entry.from_json(line.record)
            why = "" if found.error_no else why_impossible(found.seconds)
            if why:
                raise TVMError(why)
        except TVMError as error:
            logger.warning("line %d of %s is not used: %s", line.number, os.fspath(path), error)
            continue
        yield found


def kind_of(target: Target | str) -> str:
    """The kind of a target, by which entries of one fit another."""
    return target.kind.name if isinstance(target, Target) else target.split(" ", 1)[0]


def fitting_seconds(
    entry: Entry, workload_key: str | None, target: Target | str | None, include_compatible: bool
) -> float:
    """Seconds of an entry for a workload; infinite where it does not fit. Those of a smaller workload of the same kind are taken as many
    times as the workload is larger, where `include_compatible`."""
    if target is not None and kind_of(entry.target) != kind_of(target):
        return float("inf")
    if workload_key is None or entry.workload_key == workload_key:
        return entry.seconds
    if not include_compatible:
        return float("inf")
    mine, other = decode_workload_key(workload_key), decode_workload_key(entry.workload_key)
    if mine[0] is None or other[0] is None:
        return float("inf")
    return entry.seconds * calc_workload_dis_factor(mine, other)


def best(
    found: Iterable[Entry],
    workload_key: str | None,
    target: Target | str | None,
    include_compatible: bool = False,
    flops: float = 0.0,
) -> Entry | None:
    """The fastest entry of a workload; None if there is none. flops: operations of the workload, if they are known: entries whose times no
    machine can reach are left out, with a warning."""
    fastest, chosen = float("inf"), None
    for entry in found:
        seconds = fitting_seconds(entry, workload_key, target, include_compatible)
        if seconds < fastest and (entry.workload_key != workload_key or is_possible(entry, flops)):
            fastest, chosen = seconds, entry
    return chosen


def is_possible(entry: Entry, flops: float) -> bool:
    """Whether the time of a measurement can be true for so many operations; otherwise a warning says why not."""
    cores = entry.hardware[0] if entry.hardware else None
    why = why_impossible(entry.seconds, flops, peak_flops(entry.target, cores=cores)) if flops else ""
    if why:
        logger.warning("a record of %s for %s is not used: %s", entry.workload_key, entry.target, why)
    return not why
