"""Which task of a model to measure next.

The gain of a task is estimated as in Ansor's task scheduler (Zheng et al., OSDI 2020, section 6.1): from how fast its time fell lately, and
from how far it is from what its operations could take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.tuning.task import Task

RECENT = 3
"""Rounds over which the fall of a task's time is measured."""
TREND = 0.2
"""The weight of the fall that was seen; the rest is that of the fall that may still come."""
SIMILAR = 2.0
"""A task is expected to become at most so many times slower, by its operations, than the best task."""
PATIENCE = 5
"""Rounds without a faster candidate until a task rests."""


@dataclass
class Progress:
    """What a task reached.

    untuned: seconds of the untuned kernel, once it is measured. best: after each round, seconds of the fastest candidate; infinite while
    there is none. exhausted: whether all candidates are measured.
    """

    task: Task
    untuned: float | None = None
    best: list[float] = field(default_factory=list)
    exhausted: bool = False

    @property
    def seconds(self) -> float:
        """Of the fastest candidate."""
        return self.best[-1] if self.best else float("inf")

    @property
    def fastest(self) -> float:
        """Seconds of what a build would use: the fastest candidate or the untuned kernel."""
        return min(self.seconds, float("inf") if self.untuned is None else self.untuned)

    @property
    def idle_rounds(self) -> int:
        """Rounds since the last one that found a faster candidate."""
        return sum([1 for seconds in self.best if seconds == self.seconds]) - 1 if self.best else 0

    def gain(self, rate: float) -> float:
        """Seconds of the model that the next round may save. rate: operations a second of the best task; 0 if not known."""
        now, rounds = self.fastest, len(self.best)
        if now == float("inf"):
            return 0.0 if self.best else float("inf")
        hope = now / (rounds + 1)
        if self.task.flops and rate:
            hope = min(hope, max(now - self.task.flops / rate / SIMILAR, 0.0))
        if not rounds:
            return self.task.weight * hope
        before = self.best[-1 - RECENT] if rounds > RECENT else self.untuned or self.best[0]
        trend = max(before - now, 0.0) / min(RECENT, rounds) if before < float("inf") else now
        return self.task.weight * (TREND * trend + (1 - TREND) * hope)


def next_task(tasks: Sequence[Progress], patience: int = PATIENCE) -> int | None:
    """The place of the task whose next round is expected to save most; None if all are exhausted or have not got faster in `patience`
    rounds."""
    rate = max([t.task.flops / t.fastest for t in tasks if t.fastest < float("inf")], default=0.0)
    waiting = [i for i, t in enumerate(tasks) if not t.exhausted and t.idle_rounds < patience]
    return max(waiting, key=lambda i: tasks[i].gain(rate), default=None)


def model_seconds(tasks: Sequence[Progress]) -> tuple[float, float]:
    """Seconds of all calls of the tasks: untuned, and with the fastest of each. Tasks that were not measured are left out."""
    measured = [t for t in tasks if t.untuned is not None]
    untuned = sum([t.task.weight * t.untuned for t in measured if t.untuned is not None])
    return untuned, sum([t.task.weight * t.fastest for t in measured])
