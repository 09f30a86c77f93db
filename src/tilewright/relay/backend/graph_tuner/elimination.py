"""The exact solution of a partitioned boolean quadratic problem by dynamic programming.

Variables are decided in their order. What the rest depends on are only the choices of those among the decided that still have an edge to
an undecided one, the frontier: a table has the least cost of each combination of its choices. In a chain the frontier is one variable.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.backend.graph_tuner.pbqp import Choices, Pbqp
from tilewright.support.errors import TVMError

MOST_STATES = 1_000_000
"""The most entries of a table."""


def solve_exactly(problem: Pbqp, most_states: int = MOST_STATES) -> Choices:
    """The best choices. Raises TVMError if a frontier has more than most_states combinations."""
    near = problem.neighbours()
    last = [max([i, *n]) for i, n in enumerate(near)]
    frontier: list[int] = []
    table = np.zeros(())
    dropped: list[tuple[int, list[int], np.ndarray]] = []
    for x, costs in enumerate(problem.costs):
        if table.size * costs.size > most_states:
            raise TVMError(
                f"dynamic programming takes a table of {table.size * costs.size} combinations of layouts, but at most {most_states} are"
                " allowed; use PBQPTuner, or a smaller max_sch_num"
            )
        table = table[..., None] + costs
        for place, y in enumerate(frontier):
            if y in near[x]:
                shape = [1] * table.ndim
                shape[place], shape[-1] = problem.costs[y].size, costs.size
                table = table + problem.between(y, x).reshape(shape)
        frontier.append(x)
        for y in [v for v in frontier if last[v] <= x]:
            place = frontier.index(y)
            frontier.remove(y)
            dropped.append((y, [*frontier], table.argmin(axis=place)))
            table = table.min(axis=place)
    choices: Choices = {}
    for x, others, best in reversed(dropped):
        choices[x] = int(best[tuple([choices[y] for y in others])])
    return choices
