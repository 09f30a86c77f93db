"""What the candidates of a kernel are, as the search sees them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from random import Random
from typing import Generic, TypeVar

from tilewright.ir import IRModule

Candidate = TypeVar("Candidate")


class Space(ABC, Generic[Candidate]):
    """The candidates of a kernel.

    A face of the engine defines what a candidate is: decisions of a plan, a configuration of a template, a trace with its samples, steps
    of a sketch. The engine only passes candidates on.
    """

    @abstractmethod
    def untuned(self) -> IRModule:
        """The scheduled program of a build without records. Candidates must compute what it computes, and are to be faster."""

    @abstractmethod
    def program(self, candidate: Candidate) -> IRModule:
        """The scheduled program of a candidate. Raises TVMError where a step is refused."""

    @abstractmethod
    def draw(self, random: Random) -> Candidate:
        """A candidate of the whole space. Like `neighbour` and `crossed`, it may raise TVMError where it finds none that fits."""

    @abstractmethod
    def neighbour(self, candidate: Candidate, random: Random) -> Candidate:
        """A candidate that differs in a single choice."""

    def crossed(self, first: Candidate, second: Candidate, random: Random) -> Candidate:
        """A candidate with choices of both. Spaces whose choices depend on each other change the first instead."""
        return self.neighbour(first, random)

    @abstractmethod
    def write(self, candidate: Candidate) -> object:
        """The candidate as JSON holds it."""

    @abstractmethod
    def read(self, data: object) -> Candidate:
        """The candidate that `write` wrote. Raises TVMError for anything else."""

    def key(self, candidate: Candidate) -> str:
        """The same text for the same candidate."""
        return json.dumps(self.write(candidate), sort_keys=True)
