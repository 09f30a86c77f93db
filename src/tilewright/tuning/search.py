"""Which candidates to measure next: evolutionary search, guided by a cost model.

A population of the best that was measured and of drawn candidates is mutated and crossed, generation by generation; the cost model tells
which survive. A share of what is measured is drawn at random, so that the model also learns where it is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning.measure import CostModel
from tilewright.tuning.space import Space


class Proposal(NamedTuple):
    """A candidate to be measured, and its scheduled program."""

    candidate: Any
    key: str
    program: IRModule


@dataclass(frozen=True)
class Effort:
    """How much is searched for one batch of measurements.

    population: candidates of a generation; generations; crossed: the share of children of two parents; drawn: the share of the proposals
    that are drawn at random, whatever the model says of them; seconds: time after which no further generation begins; near: the share that
    are neighbours of the fastest measured ones. A model that has seen little takes some slow candidates for faster than all, but is seldom
    wrong about small changes.
    """

    population: int = 128
    generations: int = 4
    crossed: float = 0.15
    drawn: float = 0.1
    seconds: float = float("inf")
    near: float = 0.0


DRAWING = 0.25
"""The share of the time after which no more candidates are drawn: what is left is for generations, which find better ones."""
FASTEST, NEIGHBOURS = 3, 4
"""Measured candidates whose neighbours are looked at, and how many neighbours of each for one that is proposed."""
AT_ONCE = 8
"""Candidates that are drawn before it is asked whether the time is over."""
TIRED = 32
"""Draws that bring nothing new, after which the time that drawing may take counts: a small space is exhausted then."""
ATTEMPTS = 20
"""Draws for one candidate, until a space whose candidates are refused or known counts as exhausted."""


class Search:
    """Proposes candidates of a space. Each candidate is proposed once; those whose schedule is refused, never.

    clock: of the seconds that a search takes. refused: the reasons for refusals by key.
    """

    def __init__(
        self,
        space: Space[Any],
        target: Target,
        model: CostModel,
        random: Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.space, self.target, self.model, self.random, self.clock = space, target, model, random, clock
        self.refused: dict[str, str] = {}
        self._known: set[str] = set()
        self._measured: list[tuple[float, Proposal]] = []
        self._suggested: list[Proposal] = []
        self._ahead: list[Proposal] = []

    def told(self, proposal: Proposal, seconds: float) -> None:
        """A measurement of a candidate: the search does not propose it again. seconds: infinite if it failed."""
        self._known.add(proposal.key)
        if seconds < float("inf"):
            self._measured.append((seconds, proposal))
            self._measured.sort(key=lambda m: m[0])

    def recall(self, candidate: Any, seconds: float) -> Proposal | None:
        """Tells of a candidate that was measured earlier. None if its schedule is refused now."""
        proposal = self._proposal(candidate)
        if proposal is not None:
            self.told(proposal, seconds)
        return proposal

    def suggest(self, candidate: Any) -> None:
        """A candidate that is proposed first, unless it is known, or its schedule is refused."""
        proposal = self._proposal(candidate)
        if proposal is not None:
            self._suggested.append(proposal)

    def skip(self, candidate: Any) -> None:
        """The search does not propose a candidate."""
        self._known.add(self.space.key(candidate))

    def ahead(self, count: int, is_over: Callable[[], bool]) -> None:
        """Draws what `propose` begins with next, while others are measured: until there are so many, or is_over ends it. Generations wait
        for what these measurements tell."""
        while len(self._ahead) < count and not is_over():
            drawn = self._drawn(min(AT_ONCE, count - len(self._ahead)), float("inf"), is_over)
            if not drawn:
                break
            # What a model asks of a program is known the second time.
            self._scores(drawn)
            self._ahead += drawn

    def propose(self, count: int, effort: Effort, given: Sequence[Any] = ()) -> list[Proposal]:
        """The next candidates to be measured, the most promising first; fewer, or none, when the space is exhausted. given: candidates to
        begin with, besides the best of those that were measured; by default what `ahead` found, or they are drawn."""
        now = self.clock()
        ends = now + effort.seconds
        drawn, self._ahead = self._ahead, []
        if given:
            drawn = [p for p in [self._proposal(candidate) for candidate in given] if p is not None]
        else:
            wanted = max(count, effort.population // 2) - len(drawn)
            drawn += self._drawn(wanted, now + (DRAWING * effort.seconds if len(drawn) < count else 0.0))
        population, scores = self._evolved(drawn, effort, lambda: self.clock() >= ends)
        ranked = [
            p
            for _, p in sorted(zip(scores, population, strict=True), key=lambda pair: -pair[0])
            if p.key not in self._known
        ]
        exploring = [p for p in drawn if p.key not in self._known][: round(effort.drawn * count)]
        near = self._near(round(effort.near * count))
        best = ranked[: count - len(exploring) - len(near)]
        chosen = _distinct([*self._suggested, *near, *best, *exploring, *ranked, *drawn], self._known)[:count]
        self._suggested = []
        self._known.update(p.key for p in chosen)
        return chosen

    def _evolved(
        self, start: Sequence[Proposal], effort: Effort, is_over: Callable[[], bool]
    ) -> tuple[list[Proposal], list[float]]:
        """A population after generations from the best that was measured and what is given, with its scores."""
        measured = [proposal for _, proposal in self._measured[: effort.population // 2]]
        population = list({p.key: p for p in [*measured, *start]}.values())
        scores = self._scores(population)
        for _ in range(effort.generations):
            if is_over() or not population:
                break
            children = self._children(population, scores, effort, is_over)
            if not children:
                break
            population, scores = self._fittest(
                [*population, *children], [*scores, *self._scores(children)], effort.population
            )
        return population, scores

    def _drawn(self, count: int, ends: float, is_over: Callable[[], bool] = lambda: False) -> list[Proposal]:
        found: dict[str, Proposal] = {}
        failures = 0
        while len(found) < count and failures < ATTEMPTS * count:
            if ((found or failures >= TIRED) and self.clock() >= ends) or is_over():
                break
            candidate = self._candidate(self.space.draw, self.random)
            proposal = self._proposal(candidate) if candidate is not None else None
            if proposal is None or proposal.key in self._known or proposal.key in found:
                failures += 1
            else:
                found[proposal.key] = proposal
        return list(found.values())

    def _near(self, count: int) -> list[Proposal]:
        """What the model takes for the best among neighbours of the fastest measured candidates."""
        made: dict[str, Proposal] = {}
        for _, parent in self._measured[:FASTEST]:
            for _ in range(NEIGHBOURS * count):
                proposal = self._proposal(self.space.neighbour(parent.candidate, self.random))
                if proposal is not None and proposal.key not in self._known:
                    made[proposal.key] = proposal
        found = list(made.values())
        scores = self._scores(found)
        return [found[i] for i in sorted(range(len(found)), key=lambda i: -scores[i])[:count]]

    def _children(
        self, population: Sequence[Proposal], scores: Sequence[float], effort: Effort, is_over: Callable[[], bool]
    ) -> list[Proposal]:
        weights = _weights(scores)
        known = {p.key for p in population}
        made: dict[str, Proposal] = {}
        for _ in range(effort.population):
            if is_over():
                break
            first, second = self.random.choices(population, weights, k=2)
            if self.random.random() < effort.crossed and first is not second:
                candidate = self._candidate(self.space.crossed, first.candidate, second.candidate, self.random)
            else:
                candidate = self._candidate(self.space.neighbour, first.candidate, self.random)
            if candidate is None:
                continue
            key = self.space.key(candidate)
            if key in known or key in made or key in self._known:
                continue
            proposal = self._proposal(candidate)
            if proposal is not None and proposal.key not in known:
                made[proposal.key] = proposal
        return list(made.values())

    def _candidate(self, make: Callable[..., Any], *args: Any) -> Any:
        """What a space makes; None where it finds nothing that fits."""
        try:
            return make(*args)
        except TVMError:
            return None

    def _proposal(self, candidate: Any) -> Proposal | None:
        key = self.space.key(candidate)
        if key in self.refused:
            return None
        try:
            return Proposal(candidate, key, self.space.program(candidate))
        except TVMError as error:
            self.refused[key] = str(error)
            return None

    def _scores(self, population: Sequence[Proposal]) -> list[float]:
        return self.model.predict([p.program for p in population], self.target) if population else []

    @staticmethod
    def _fittest(
        population: Sequence[Proposal], scores: Sequence[float], count: int
    ) -> tuple[list[Proposal], list[float]]:
        order = sorted(range(len(population)), key=lambda i: -scores[i])[:count]
        return [population[i] for i in order], [scores[i] for i in order]


def _weights(scores: Sequence[float]) -> list[float]:
    """The chance of being a parent: by rank, so that it does not depend on the unit of scores."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    weights = [0.0] * len(scores)
    for rank, i in enumerate(order):
        weights[i] = 1.0 / (rank + 1)
    return weights


def _distinct(proposals: Sequence[Proposal], known: set[str]) -> list[Proposal]:
    """Without repetitions and without what is known."""
    return list({p.key: p for p in proposals if p.key not in known}.values())
