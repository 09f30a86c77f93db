"""Unsupported parts of a model: lines for people, with fields for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.support.errors import OpNotImplemented


class Problem(str):
    """A line that tells of one thing that is not supported; `operator`, `nodes` that use it and the `nearest` supported operators,
    where they are known."""

    operator: str
    nodes: tuple[str, ...]
    nearest: tuple[str, ...]

    def __new__(cls, text: str, operator: str = "", nodes: Iterable[str] = (), nearest: Iterable[str] = ()) -> Problem:
        self = super().__new__(cls, text)
        self.operator, self.nodes, self.nearest = operator, tuple(nodes), tuple(nearest)
        return self

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"text": str(self), "operator": self.operator, "nodes": [*self.nodes], "nearest": [*self.nearest]}


DAMAGE = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, AssertionError, MemoryError, StopIteration,
)  # fmt: skip
"""Exceptions that Python raises in a converter if inputs or attributes are of an unsupported kind."""


def finding_of(error: Exception, name: str) -> str:
    """The text of an error without the node's name, which the message has already and with which type rules begin."""
    return str(error).removeprefix(f"{name}: ")


class UnsupportedModel(OpNotImplemented):
    """All that is not supported in a model, at once: `problems`; `advice`: what to do about them all, where there is something."""

    def __init__(self, message: str, problems: Sequence[str], advice: str = "") -> None:
        super().__init__(f"{message}\n{advice}" if advice else message)
        self.advice = advice
        self.problems = [p if isinstance(p, Problem) else Problem(p) for p in problems]


def problems_of(error: OpNotImplemented) -> list[Problem]:
    """The problems of an importer's error; where it has only a text, one for each line."""
    if isinstance(error, UnsupportedModel):
        return error.problems
    first, *rest = str(error).splitlines()
    return [Problem(line.strip()) for line in rest or [first]]
