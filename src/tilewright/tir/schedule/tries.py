"""Optional steps of a schedule: they are tried, and recorded as fallbacks if they are refused."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple

from tilewright.support.errors import ScheduleError


class Fallback(NamedTuple):
    """A step that was refused: what is given up, and the reason."""

    given_up: str
    reason: str

    def __str__(self) -> str:
        return f"{self.given_up}: {self.reason}"


class Try:
    """One primitive that may be refused, as a context: `with sch.tried("...") as step: sch.compute_at(..)`. `refused` says
    after it whether it was; the refusal is then a fallback of the schedule.
    """

    def __init__(self, fallbacks: list[Fallback], given_up: str) -> None:
        self.fallbacks, self.given_up = fallbacks, given_up
        self.refused = False

    def __enter__(self) -> Try:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if not isinstance(error, ScheduleError):
            return False
        self.refused = True
        self.fallbacks.append(Fallback(self.given_up, str(error).split("\n", 1)[0]))
        return True
