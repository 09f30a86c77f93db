"""Decisions by name: what is given is taken where it fits, else a model decides; each knows its other choices.

A value that is given must be one of the choices that there are; `unfit` says which are not, and the model decides these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.schedule import Fallback

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


class KernelDecisions(Decisions):
    """The decisions of one kernel: first those of its computes, then those of its schedule."""

    def __init__(self, target: Target | str, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(target, given)
        self.fallbacks: list[Fallback] = []
        """What the last schedule does without, and why."""
        self._of_computes: dict[str, Decision] | None = None

    def begin_schedule(self) -> None:
        """The decisions of computes are complete. What a schedule decided before is forgotten: a kernel may be scheduled again."""
        if self._of_computes is None:
            self._of_computes = dict(self.decisions)
        self.decisions = dict(self._of_computes)

    def takes_computes_of(self, other: KernelDecisions) -> bool:
        """Whether computes ask for what they asked the other plan for, and hear the same. Then their program is the same, and the
        decisions are this plan's too."""
        decided = other.decisions if other._of_computes is None else other._of_computes
        for name, decision in decided.items():
            if (
                name in other.refused
                or self.given.get(name, None if decision.by == "given" else decision.value) != decision.value
            ):
                return False
        self.decisions = {n: d._replace(by="given" if n in self.given else d.by) for n, d in decided.items()}
        return True

    def refuse_schedule(self, why: str) -> bool:
        """Takes back what is given for the schedule; `unfit` says why. False if nothing is."""
        names = [n for n in self.given if n not in (self._of_computes or {}) and n in self.decisions]
        self.refused.update({n: why for n in names if self.decisions[n].by == "given"})
        for n in names:
            del self.given[n]
        return bool(names)

    def choose(self, name: str, model: Value, choices: Callable[[], Iterable[Value]]) -> Value:
        """The value of a decision. A name that was decided before gets a number, as names of blocks do."""
        block, _, what = name.rpartition(".")
        number, found = 1, name
        while found in self.decisions:
            found, number = f"{block}_{number}.{what}", number + 1
        return super().choose(found, model, choices)

    def once(self, name: str, model: Value, choices: Callable[[], Iterable[Value]]) -> Value:
        """The value of a decision that is the same for all of a kernel."""
        if name in self.decisions:
            value: Value = self.decisions[name].value
            return value
        return super().choose(name, model, choices)


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


__all__ = ["Decision", "Decisions", "KernelDecisions"]
