"""What all steps of a program have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from tilewright.auto_scheduler.application import Application
from tilewright.auto_scheduler.loops import StateObject
from tilewright.support.errors import TVMError

Replay = Callable[[Sequence["Step"]], Application]
"""Applies steps to a te schedule."""

STEPS: dict[str, type[Step]] = {}
"""By the words that records have for them."""


@dataclass(frozen=True)
class Step:
    """A step. Its fields, after the word, are what a record has of it. stage_id: the stage that it changes."""

    stage_id: int
    word: ClassVar[str] = ""

    def __init_subclass__(cls, word: str = "") -> None:
        cls.word = word
        if word:
            STEPS[word] = cls

    def to_json(self) -> list[Any]:
        return [self.word, *[_written(getattr(self, f.name)) for f in fields(self)]]

    def apply(self, state: StateObject, replay: Replay) -> None:
        """Changes the loops of a state, whose last step this is."""
        raise NotImplementedError

    def schedule(self, app: Application) -> None:
        """Changes a te schedule, and adds lines to its program."""
        raise NotImplementedError


def _written(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else list(value) if isinstance(value, tuple) else value


def follow(app: Application, steps: Sequence[Step]) -> Application:
    """Applies steps to a te schedule. Raises TVMError where one is refused."""
    for i, step in enumerate(steps):
        app.steps = steps[:i]
        try:
            step.schedule(app)
        except (IndexError, KeyError) as error:
            raise TVMError(f"step {i}, {step.to_json()}, names a stage or a loop that there is not") from error
    return app
