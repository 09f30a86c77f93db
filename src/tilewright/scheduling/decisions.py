"""Decisions by name: what is given is taken where it fits, else a model decides; each knows its other choices.

A value that is given must be one of the choices that there are; `unfit` says which are not, and the model decides these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from tilewright.support.errors import TVMError
from tilewright.target import Target

Value = TypeVar("Value", int, str, tuple[int, ...])


class Decision(NamedTuple):
    """What was decided, by whom ("model" or "given"), and the other values that would do."""

    value: Any
    by: str
    choices: Callable[[], Iterable[Any]]


class Decisions:
    """The decisions of one plan for a target. given: values by name, as `values` returns them or as JSON holds them."""

    def __init__(self, target: Target | str, given: Mapping[str, Any] | None = None) -> None:
        self.target = Target(target)
        self.given = {name: _value(v) for name, v in (given or {}).items()}
        self.decisions: dict[str, Decision] = {}
        self.refused: dict[str, str] = {}

    def choose(self, name: str, model: Value, choices: Callable[[], Iterable[Value]]) -> Value:
        """The value of a decision: what is given, else the model's."""
        given: Value | None = self.given.get(name)
        if given is not None:
            found = list(choices())
            if given in found:
                self.decisions[name] = Decision(given, "given", choices)
                return given
            self.refused[name] = f"{_text(given)} is none of its choices ({_listed(found)})"
        self.decisions[name] = Decision(model, "model", choices)
        return model

    def values(self) -> dict[str, Any]:
        """The decisions by name, as JSON holds them."""
        return {name: _plain(d.value) for name, d in self.decisions.items()}

    def space(self) -> dict[str, list[Any]]:
        """The choices of each decision, by name."""
        return {name: [_plain(v) for v in d.choices()] for name, d in self.decisions.items()}

    def to_json(self) -> str:
        """The decisions as a line of JSON; `from_json` reads it."""
        return json.dumps(self.values())

    @classmethod
    def from_json(cls, text: str, target: Target | str) -> Self:
        """A plan whose decisions are given. Raises TVMError for text that holds none."""
        try:
            given = json.loads(text)
        except ValueError as error:
            raise TVMError(f"a plan is a JSON object of decisions by name, but this is no JSON ({error})") from None
        if not isinstance(given, dict):
            raise TVMError(f"a plan is a JSON object of decisions by name, but this is a {type(given).__name__}")
        return cls(target, given)

    def again(self, given: Mapping[str, Any] | None = None) -> Self:
        """A plan for the same target that has decided nothing yet: with the same values given, or with others."""
        return type(self)(self.target, self.given if given is None else given)

    def unfit(self) -> dict[str, str]:
        """Given values that the kernel did not take, with the reason; empty when all were."""
        missing = self.given.keys() - self.decisions.keys()
        return {**self.refused, **dict.fromkeys(sorted(missing), "there is no such decision")}


def _value(given: Any) -> Any:
    """A value of JSON as decisions have it: lists are tuples."""
    return tuple([_value(v) for v in given]) if isinstance(given, (list, tuple)) else given


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _text(value: Any) -> str:
    return json.dumps(_plain(value))


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join([_text(v) for v in values[:8]])
    return f"{shown}, ... ({len(values)} in all)" if len(values) > 8 else shown


__all__ = ["Decision", "Decisions"]
