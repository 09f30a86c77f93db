"""What a session of tuning reached, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.tuning.allocation import Progress, model_seconds
from tilewright.tuning.session import Event, Limits


class Point(NamedTuple):
    """After a round: seconds and candidates of the session so far; the number of the task that was measured, -1 before the first round; the
    seconds of its fastest candidate or of the untuned kernel; the seconds of all kernels of the model."""

    elapsed: float
    trials: int
    task: int
    task_seconds: float
    model_seconds: float


class Candidate(NamedTuple):
    """A candidate: the session's seconds and candidates when it was measured, the number of its task, its seconds (None: it failed)."""

    elapsed: float
    trials: int
    task: int
    seconds: float | None


class History:
    """The rounds of a session. tasks: as `Session.progress` has them."""

    def __init__(self, tasks: Sequence[Progress], limits: Limits) -> None:
        self.tasks, self.limits = tasks, limits
        self.points: list[Point] = []
        self.candidates: list[Candidate] = []

    def begin(self) -> None:
        """The untuned kernels are measured."""
        self.points.append(Point(0.0, 0, -1, 0.0, model_seconds(self.tasks)[1]))

    def add(self, event: Event) -> None:
        """A round is over."""
        before = self.points[-1].trials if self.points else 0
        for i, record in enumerate(event.records, 1):
            seconds = None if record.failure is not None else record.median
            self.candidates.append(Candidate(event.elapsed, before + i, event.number, seconds))
        now = model_seconds(self.tasks)[1]
        self.points.append(Point(event.elapsed, event.trials, event.number, event.progress.fastest, now))

    def counts(self) -> dict[str, tuple[int, int]]:
        """Candidates that were tried and that failed, by the keys of tasks."""
        found: dict[str, tuple[int, int]] = {}
        for candidate in self.candidates:
            key = self.tasks[candidate.task].task.key
            tried, failed = found.get(key, (0, 0))
            found[key] = tried + 1, failed + (candidate.seconds is None)
        return found

    def seconds_left(self, elapsed: float) -> float | None:
        """At most so many seconds until a limit is reached; None if there is no telling."""
        left = []
        if self.limits.seconds is not None:
            left.append(max(self.limits.seconds - elapsed, 0.0))
        last = self.points[-1] if self.points else None
        if self.limits.trials is not None and last is not None and last.trials:
            missing = self.limits.trials - last.trials
            left.append(max(last.elapsed / last.trials * missing - (elapsed - last.elapsed), 0.0))
        return min(left, default=None)

    def state(self, elapsed: float) -> str:
        """One line: what was measured, the time of the model so far, the time that is left."""
        measured = f"{candidates_text(self.points[-1].trials if self.points else 0)} measured"
        left = self.seconds_left(elapsed)
        at_most = [] if left is None else [f"at most {duration_text(left)} left" if left else "the last round"]
        return ", ".join([measured, model_text(self.tasks), *at_most])


def candidates_text(count: int) -> str:
    """`1 candidate`, `2 candidates`."""
    return "1 candidate" if count == 1 else f"{count} candidates"


def model_text(tasks: Sequence[Progress]) -> str:
    """The time of all kernels of a model, and what part of the untuned time it is."""
    untuned, now = model_seconds(tasks)
    return f"model {now * 1e3:.3f} ms ({now / untuned if untuned else 1.0:.3f} of untuned)"


def duration_text(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `1 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
