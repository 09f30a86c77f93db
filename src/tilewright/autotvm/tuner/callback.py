"""What is done after each batch of measurements."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.autotvm import record
from tilewright.autotvm.database import Database
from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.autotvm.tuner.tuner import Callback
from tilewright.autotvm.utils import format_si_prefix

logger = logging.getLogger("autotvm")


def log_to_file(file_out: Any, protocol: str = "json") -> Callback:
    """Adds the measurements to a log. They are on the disk before the next batch begins, and several processes may write to one log.

    file_out: a path, whose folder is created, or an open file.
    """

    def callback(_: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        pairs = list(zip(inputs, results, strict=True))
        if isinstance(file_out, (str, os.PathLike)):
            record.write(file_out, pairs)
        else:
            file_out.writelines([record.encode(*pair, protocol) + "\n" for pair in pairs])
            file_out.flush()

    if protocol != "json":
        raise ValueError(f"records are written as json, not as {protocol!r}")
    return callback


def log_to_database(db: Database) -> Callback:
    """Keeps the measurements in a database."""

    def callback(_: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for given, result in zip(inputs, results, strict=True):
            db.save(given, result)

    return callback


class Monitor:
    """Keeps the speed of each measurement, and when it was made."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all."""
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, _: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for given, result in zip(inputs, results, strict=True):
            self.scores.append(flops_of(given, result))
            self.timestamps.append(result.timestamp)

    def trial_scores(self) -> np.ndarray[Any, Any]:
        """FLOPS of each measurement; 0 of those that failed."""
        return np.array(self.scores)

    def trial_timestamps(self) -> np.ndarray[Any, Any]:
        """When each measurement was made, in seconds since 1970."""
        return np.array(self.timestamps)


def flops_of(given: MeasureInput, result: MeasureResult) -> float:
    """FLOPS of a measurement; 0 if it failed."""
    return 0.0 if result.error_no else float(given.task.flop / np.mean(result.costs))


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Callback:
    """Writes how far tuning is, and the speed of the last batch and of the fastest, in one line of the terminal.

    total: measurements in all. prefix: what the line begins with. si_prefix: of FLOPS.
    """
    format_si_prefix(0, si_prefix)
    begun, best, done = time.monotonic(), 0.0, 0

    def callback(tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        nonlocal best, done
        now = max([flops_of(g, r) for g, r in zip(inputs, results, strict=True)], default=0.0)
        best, done = max(best, now), done + len(inputs)
        if logger.isEnabledFor(logging.DEBUG):
            return  # each measurement is a line of its own there
        current, fastest = format_si_prefix(now, si_prefix), format_si_prefix(best, si_prefix)
        ended = done >= total or tuner is not None and tuner.ttl <= 0
        sys.stdout.write(
            f"\r{prefix} Current/Best: {current:7.2f}/{fastest:7.2f} {si_prefix}FLOPS | Progress: ({done}/{total}) |"
            f" {time.monotonic() - begun:.2f} s" + (" Done.\n" if ended else "")
        )
        sys.stdout.flush()

    return callback
