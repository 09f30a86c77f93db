"""Times of repeated runs: contestants in interleaved rounds, each in one or several streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.cli.screen import Report
from tilewright.cli.tensors import Array

ROUNDS = 6
LEAST_RUNS = 5
"""Smallest number of runs in a round, however short it is."""
SPREAD = 2.0
"""Largest ratio of p95 to p5 on a quiet machine."""


class Contestant:
    """A measured program: its name, its precision, and one function per stream that runs it once."""

    def __init__(self, name: str, precision: str, runs: Sequence[Callable[[], Any]]) -> None:
        self.name, self.precision, self.runs = name, precision, list(runs)
        self.milliseconds: list[float] = []
        self.seconds = 0.0
        """Wall time of all runs, in seconds."""

    def measure(self, seconds: float, count: int | None, warmup: int) -> None:
        """Runs all streams for `seconds`, or `count` times in total, after `warmup` runs that are not counted."""
        shares = [
            None if count is None else count // len(self.runs) + (k < count % len(self.runs))
            for k in range(len(self.runs))
        ]
        found: list[list[float]] = [[] for _ in self.runs]
        failed: list[BaseException] = []
        start = threading.Barrier(len(self.runs) + 1)

        def stream(k: int) -> None:
            try:
                for _ in range(warmup):
                    self.runs[k]()
            except BaseException as error:
                failed.append(error)
            start.wait()
            if not failed:
                found[k] = repeated(self.runs[k], seconds, shares[k])

        if len(self.runs) == 1:
            for _ in range(warmup):
                self.runs[0]()
            begin = time.perf_counter()
            found = [repeated(self.runs[0], seconds, count)]
        else:
            threads = [threading.Thread(target=stream, args=(k,)) for k in range(len(self.runs))]
            for t in threads:
                t.start()
            start.wait()
            begin = time.perf_counter()
            for t in threads:
                t.join()
            if failed:
                raise failed[0]
        self.seconds += time.perf_counter() - begin
        self.milliseconds += [ms for part in found for ms in part]

    def row(self) -> dict[str, Any]:
        """Milliseconds per run, and runs per second of all streams together."""
        t = np.array(self.milliseconds)
        p5, p95, p99 = np.percentile(t, [5, 95, 99])
        return {
            "contestant": self.name, "precision": self.precision, "median": float(np.median(t)), "mean": float(t.mean()),
            "p5": float(p5), "p95": float(p95), "p99": float(p99), "min": float(t.min()), "max": float(t.max()),
            "runs": len(t), "runs_per_second": len(t) / self.seconds, "disturbed": bool(p95 > SPREAD * p5),
        }  # fmt: skip


def disturbance(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """A warning if the spread of the samples shows that the machine had other work; else None."""
    found = [f"{r['contestant']} {r['p95'] / r['p5']:.1f}" for r in rows if r["disturbed"]]
    if not found:
        return None
    return (
        f"the machine was disturbed: p95 over p5 is more than {SPREAD:g} ({', '.join(found)}), so the times include other work."
        " Measure again when it is idle, longer (--duration), or on reserved CPUs (taskset -c 0,1)"
    )


def repeated(run: Callable[[], Any], seconds: float, count: int | None) -> list[float]:
    """Milliseconds of each of `count` runs, or of the runs made in `seconds`."""
    times: list[float] = []
    clock = time.perf_counter
    stop = clock() + seconds
    while len(times) < count if count is not None else len(times) < LEAST_RUNS or clock() < stop:
        begin = clock()
        run()
        times.append((clock() - begin) * 1e3)
    return times


def measure_in_turn(
    contestants: Sequence[Contestant], seconds: float, iterations: int | None, warmup: int, report: Report | None = None
) -> None:
    """Measures each contestant for `seconds` or `iterations` runs, in interleaved rounds."""
    rounds = ROUNDS if iterations is None else min(ROUNDS, iterations)
    for done in range(rounds):
        if report is not None:
            report(done, rounds, "measuring")
        count = None if iterations is None else iterations // rounds + (done < iterations % rounds)
        for c in contestants:
            c.measure(seconds / rounds, count, warmup)


def timed(run: Callable[[], Any], seconds: float) -> Array:
    """Milliseconds of each call made in about `seconds`, after two calls that are not counted."""
    one = Contestant("", "", [run])
    one.measure(seconds, None, 2)
    return np.array(one.milliseconds)
