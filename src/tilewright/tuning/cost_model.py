"""Cost models: which programs are fast, by their features and by what was measured.

AnalyticModel   a roofline, which learns nothing
TreeModel       gradient boosted trees, which start from a prior that comes with the package, and learn from the measurements of a session
default_model   the better of those that can be used here
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.tuning.features import COLUMNS, Rows, features, host_threads
from tilewright.tuning.measure import CostModel
from tilewright.tuning.trees import Forest, Vector, prior, train

MOST_PROGRAMS = 1500
"""Programs that a training looks at: the fastest ones of each task, and of the others those that came last."""
FEWEST = 16
"""Measurements from which on trees are trained: with fewer, the prior alone ranks better."""
ROUNDS = 100
"""Trees of a training."""


class AnalyticModel(CostModel):
    """Ranks programs by the estimate that is among their features. It learns nothing. threads: see `features`."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads

    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        return [-cycles(features(p, target, self.threads)) for p in programs]

    def update(self, key: str, programs: Sequence[IRModule], target: Target, seconds: Sequence[float]) -> None:
        pass


class TreeModel(CostModel):
    """Scores a program by the sum of what trees give for each of its rows: the square root of its throughput in that of the fastest program
    of its task, so that slow programs are told apart, too.

    Until there are measurements, the prior decides. Then trees are trained, with all measurements so far, on what the prior leaves over.
    Needs xgboost; raises TVMError where it is missing. threads: see `features`; workers: threads that training takes, one less than there
    are by default, since measurements may run; options: parameters of xgboost, where they are not `trees.PARAMETERS`.
    """

    def __init__(
        self,
        threads: int | None = None,
        workers: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.threads, self.workers, self.options = threads or host_threads(), workers, options
        self._prior = prior()
        self._learned: Forest | None = None
        self._tasks: dict[str, _Measured] = {}
        self._outdated = False

    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        return self.predict_rows(self._rows(programs, target), self._used(target))

    def update(self, key: str, programs: Sequence[IRModule], target: Target, seconds: Sequence[float]) -> None:
        self.update_rows(key, self._rows(programs, target), seconds, self._used(target))

    def predict_rows(self, rows: Sequence[Rows], threads: int) -> list[float]:
        """The scores of programs by their features. threads: those that the features are for."""
        if self._outdated:
            self._learn()
        scores = self._before(rows, threads)
        if self._learned is not None:
            scores = scores + self._learned.scores(rows)
        return [float(s) for s in scores]

    def predict_parts(self, rows: Rows, threads: int) -> list[float]:
        """What each row of a program adds to its score."""
        if self._outdated:
            self._learn()
        if not len(rows):
            return []
        single = [rows[i : i + 1] for i in range(len(rows))]
        gain = cycles(rows, threads=False) / max(cycles(rows), 1.0)
        found: Vector = self._prior.scores(single) * np.sqrt(gain / threads)
        if self._learned is not None:
            found = found + self._learned.scores(single)
        return [float(s) for s in found]

    def update_rows(self, key: str, rows: Sequence[Rows], seconds: Sequence[float], threads: int) -> None:
        """Learns from measurements of programs by their features."""
        task = self._tasks.setdefault(key, _Measured())
        task.rows += rows
        task.seconds += seconds
        task.before += self._before(rows, threads).tolist()
        self._outdated = True

    def _used(self, target: Target) -> int:
        return min(self.threads, target.cpu.threads)

    def _rows(self, programs: Sequence[IRModule], target: Target) -> list[Rows]:
        return [features(p, target, self._used(target)) for p in programs]

    def _before(self, rows: Sequence[Rows], threads: int) -> Vector:
        """What the prior gives. It was learned on one thread; the estimate says what further ones bring."""
        gains = np.array([cycles(r, threads=False) / max(cycles(r), 1.0) for r in rows])
        scores: Vector = self._prior.scores(rows) * np.sqrt(gains / threads)
        return scores

    def _learn(self) -> None:
        self._outdated = False
        share = MOST_PROGRAMS // len(self._tasks)
        rows: list[Rows] = []
        wanted: list[float] = []
        for task in self._tasks.values():
            throughput = task.throughput()
            for i in task.chosen(share):
                rows.append(task.rows[i])
                wanted.append(float(throughput[i]) ** 0.5 - task.before[i])
        if len(rows) >= FEWEST:
            self._learned = train(rows, np.array(wanted), ROUNDS, self.workers, self.options)


class _Measured:
    """The measurements of a task. before: what the prior gives for each program."""

    def __init__(self) -> None:
        self.rows: list[Rows] = []
        self.seconds: list[float] = []
        self.before: list[float] = []

    def throughput(self) -> Vector:
        """That of each program, in that of the fastest; 0 of those that failed."""
        seconds = np.array(self.seconds)
        best = float(seconds.min(initial=np.inf))
        return best / seconds if best < np.inf else np.zeros(len(seconds))

    def chosen(self, most: int) -> list[int]:
        """The programs to learn from: a half of the fastest, a half of the last."""
        count = len(self.seconds)
        if count <= most:
            return list(range(count))
        fastest = sorted(range(count), key=lambda i: self.seconds[i])[: most // 2]
        known = set(fastest)
        last = [i for i in range(count - 1, -1, -1) if i not in known][: most - len(fastest)]
        return sorted([*fastest, *last])


def cycles(rows: Rows, threads: bool = True) -> float:
    """The estimate of the cycles of a program: on its threads, or on one."""
    one = _number(rows, "cycles")
    if not threads:
        return float(one.sum())
    return float((one / np.maximum(_number(rows, "spread"), 1.0) + _number(rows, "starts_cycles")).sum())


def _number(rows: Rows, column: str) -> Vector:
    found: Vector = np.exp2(rows[:, COLUMNS.index(column)].astype(np.float64)) - 1
    return found


def default_model(threads: int | None = None) -> CostModel:
    """Trees where xgboost is installed, else the analytic model."""
    return TreeModel(threads) if importlib.util.find_spec("xgboost") else AnalyticModel(threads)


__all__ = ["AnalyticModel", "TreeModel", "cycles", "default_model"]
