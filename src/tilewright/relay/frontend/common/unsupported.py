"""Unsupported parts of a model, as lines of text and as fields for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.support.errors import OpNotImplemented


class Problem(str):
    """One unsupported part of a model, as a line of text. If they are known: `operator`, the `nodes` that use it, and the `nearest`
    supported operators."""

    operator: str
    nodes: tuple[str, ...]
    nearest: tuple[str, ...]

    def __new__(cls, text: str, operator: str = "", nodes: Iterable[str] = (), nearest: Iterable[str] = ()) -> Problem:
        self = super().__new__(cls, text)
        self.operator, self.nodes, self.nearest = operator, tuple(nodes), tuple(nearest)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"text": str(self), "operator": self.operator, "nodes": [*self.nodes], "nearest": [*self.nearest]}


DAMAGE = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, AssertionError, MemoryError, StopIteration,
)  # fmt: skip
"""Exceptions that Python raises in a converter if inputs or attributes are of an unsupported kind."""


def finding_of(error: Exception, name: str) -> str:
    """The text of an error without the node's name. Type rules begin with that name, and the message already has it."""
    return str(error).removeprefix(f"{name}: ")


class UnsupportedModel(OpNotImplemented):
    """The error with all unsupported parts of a model: `problems`; `advice`: a remedy for all of them, or ""."""

    def __init__(self, message: str, problems: Sequence[str], advice: str = "") -> None:
        super().__init__(f"{message}\n{advice}" if advice else message)
        self.advice = advice
        self.problems = [p if isinstance(p, Problem) else Problem(p) for p in problems]


def problems_of(error: OpNotImplemented) -> list[Problem]:
    """The problems of an importer's error. An error with only a text gives one problem per line."""
    if isinstance(error, UnsupportedModel):
        return error.problems
    first, *rest = str(error).splitlines()
    return [Problem(line.strip()) for line in rest or [first]]
