"""Partitioned boolean quadratic problems, and their solution by reductions (B. Scholz, E. Eckstein, Register Allocation for Irregular
Architectures, 2002).

Variables have choices. A choice has a cost, and so has a pair of choices of two variables that an edge joins. Wanted are choices whose sum
of costs is the least. Variables are taken out of the problem one by one:

    R0   no edge: the cheapest choice
    RI   one edge: for each choice of the neighbour, the cheapest choice is added to the neighbour's costs
    RII  two edges: for each pair of choices of the neighbours, the cheapest choice is added to the costs of their edge
    RN   otherwise the variable with the most edges takes the choice that is the cheapest by itself and with the best of each neighbour

Choices of variables that R0, RI and RII took out are read off in reverse order. Without RN the solution is optimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

Choices = dict[int, int]


class Pbqp:
    """costs: a vector for each variable. edges: matrices by pairs of variables, the smaller number first."""

    def __init__(self, costs: Iterable[Iterable[float]]) -> None:
        self.costs = [np.array([*c], np.float64) for c in costs]
        self.edges: dict[tuple[int, int], np.ndarray] = {}
        empty = [i for i, c in enumerate(self.costs) if not c.size]
        if empty:
            raise ValueError(f"the variable {empty[0]} has no choices")

    def add_edge(self, a: int, b: int, costs: np.ndarray) -> None:
        """Adds costs of pairs: a row for each choice of a, a column for each of b. Of a variable with itself, the diagonal counts."""
        if a == b:
            self.costs[a] = self.costs[a] + np.diagonal(costs)
            return
        key, matrix = ((a, b), costs) if a < b else ((b, a), costs.T)
        self.edges[key] = self.edges[key] + matrix if key in self.edges else np.array(matrix, np.float64)

    def cost(self, choices: Choices) -> float:
        """The sum of costs of a choice for each variable."""
        alone = sum([c[choices[i]] for i, c in enumerate(self.costs)])
        return float(alone + sum([m[choices[a], choices[b]] for (a, b), m in self.edges.items()]))

    def neighbours(self) -> list[set[int]]:
        """The variables that edges join each variable with."""
        found: list[set[int]] = [set() for _ in self.costs]
        for a, b in self.edges:
            found[a].add(b)
            found[b].add(a)
        return found

    def between(self, a: int, b: int) -> np.ndarray:
        """The costs of the edge between two variables: a row for each choice of a."""
        return self.edges[a, b] if a < b else self.edges[b, a].T

    def copy(self) -> Pbqp:
        made = Pbqp(self.costs)
        made.edges = dict(self.edges)
        return made


def solve(problem: Pbqp) -> Choices:
    """A choice for each variable, by reductions."""
    return _Reduction(problem.copy()).solved()


class _Reduction:
    """The reduction of a problem, which it consumes. later: how the variables that were taken out choose, in that order."""

    def __init__(self, problem: Pbqp) -> None:
        self.problem, self.near = problem, problem.neighbours()
        self.left = set(range(len(problem.costs)))
        self.later: list[tuple[int, Callable[[Choices], int]]] = []

    def solved(self) -> Choices:
        while self.left:
            x = min(self.left, key=lambda v: (len(self.near[v]), v))
            degree = len(self.near[x])
            if degree == 0:
                self._settle(x, int(np.argmin(self.problem.costs[x])))
            elif degree == 1:
                self._into_neighbour(x)
            elif degree == 2:
                self._into_edge(x)
            else:
                self._guess(max(self.left, key=lambda v: (len(self.near[v]), -v)))
        choices: Choices = {}
        for x, chosen in reversed(self.later):
            choices[x] = chosen(choices)
        return choices

    def _settle(self, x: int, choice: int) -> None:
        self.later.append((x, lambda _: choice))
        self.left.remove(x)

    def _without(self, x: int) -> None:
        """Takes a variable and its edges out."""
        for y in self.near[x]:
            del self.problem.edges[min(x, y), max(x, y)]
            self.near[y].remove(x)
        self.near[x] = set()
        self.left.discard(x)

    def _into_neighbour(self, x: int) -> None:
        (y,) = self.near[x]
        whole = self.problem.costs[x][:, None] + self.problem.between(x, y)
        self._without(x)
        self.problem.costs[y] = self.problem.costs[y] + whole.min(axis=0)
        best = whole.argmin(axis=0)
        self.later.append((x, lambda choices: int(best[choices[y]])))

    def _into_edge(self, x: int) -> None:
        y, z = sorted(self.near[x])
        to_y, to_z = self.problem.between(x, y), self.problem.between(x, z)
        whole = self.problem.costs[x][:, None, None] + to_y[:, :, None] + to_z[:, None, :]
        self._without(x)
        self.problem.add_edge(y, z, whole.min(axis=0))
        self.near[y].add(z)
        self.near[z].add(y)
        best = whole.argmin(axis=0)
        self.later.append((x, lambda choices: int(best[choices[y], choices[z]])))

    def _guess(self, x: int) -> None:
        costs = self.problem.costs[x].copy()
        for y in self.near[x]:
            costs += (self.problem.between(x, y) + self.problem.costs[y]).min(axis=1)
        choice = int(np.argmin(costs))
        for y in self.near[x]:
            self.problem.costs[y] = self.problem.costs[y] + self.problem.between(x, y)[choice]
        self._without(x)
        self.later.append((x, lambda _: choice))
