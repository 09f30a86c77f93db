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
    """What a task reached: after each round, the seconds of the fastest candidate (infinite while there is none); whether its space is
    exhausted."""

    task: Task
    best: list[float] = field(default_factory=list)
    exhausted: bool = False

    @property
    def seconds(self) -> float:
        return self.best[-1] if self.best else float("inf")

    @property
    def idle_rounds(self) -> int:
        """Rounds since the last one that found a faster candidate."""
        return sum([1 for seconds in self.best if seconds == self.seconds]) - 1 if self.best else 0

    def gain(self, fastest: float) -> float:
        """Seconds of the model that the next round may save. fastest: operations a second of the best task."""
        now = self.seconds
        if now == float("inf"):
            return 0.0 if self.best else float("inf")
        before = self.best[-1 - RECENT] if len(self.best) > RECENT else self.best[0]
        trend = (before - now) / min(RECENT, max(len(self.best) - 1, 1)) if before < float("inf") else now
        hope = now / len(self.best)
        if self.task.flops and fastest:
            hope = min(hope, max(now - self.task.flops / fastest / SIMILAR, 0.0))
        return self.task.weight * (TREND * trend + (1 - TREND) * hope)


def next_task(tasks: Sequence[Progress], patience: int = PATIENCE) -> int | None:
    """The index of the task whose next round is expected to save most; None if all are exhausted or have not got faster in `patience`
    rounds. Tasks that were never measured come first, in their order."""
    for i, task in enumerate(tasks):
        if not task.best and not task.exhausted:
            return i
    fastest = max([t.task.flops / t.seconds for t in tasks if t.seconds < float("inf")], default=0.0)
    open_tasks = [i for i, t in enumerate(tasks) if not t.exhausted and t.idle_rounds < patience]
    return max(open_tasks, key=lambda i: tasks[i].gain(fastest), default=None)
