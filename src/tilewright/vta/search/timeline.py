"""When instructions start and end: three units that wait for each other, and a bus that fetch, loads and stores share.

The bus moves a beat in a cycle; reads share it evenly, and reads and writes take turns. Between two changes of who is on the bus all
proceed evenly, so time goes from change to change, not from cycle to cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.vta.search.costs import Cost

LOAD, COMPUTE, STORE, FETCH = range(4)


class Operation(NamedTuple):
    """What a unit does: the unit, its cost, the operations (their numbers) that must have ended before."""

    unit: int
    cost: Cost
    after: tuple[int, ...] = ()


def _shares(rates: list[float]) -> list[float]:
    """Beats in a cycle for each of load, compute, store and fetch, from the most that each can take; 0: it is not on the bus."""
    write = rates[STORE]
    readers = [u for u in (LOAD, COMPUTE, FETCH) if rates[u]]
    wanted = sum([rates[u] for u in readers])
    write = min(write, max(0.5, 1.0 - wanted))
    free, given = 1.0 - write, [0.0] * 4
    given[STORE] = write
    while readers:
        even = free / len(readers)
        least = min(readers, key=lambda u: rates[u])
        if rates[least] < even:
            given[least] = rates[least]
            free -= rates[least]
            readers.remove(least)
            continue
        for u in readers:
            given[u] = even
        break
    return given


class Timeline:
    """The times at which operations end, in the order of the program. fetch: cycles until the first instruction is there, and between two;
    beats of an instruction."""

    def __init__(self, operations: Sequence[Operation], fetch: tuple[float, float, float]) -> None:
        self.operations = operations
        first, between, beats = fetch
        self.ends = [0.0] * len(operations)
        self._known = [False] * len(operations)
        self._queues = [[n for n, o in enumerate(operations) if o.unit == u] for u in (LOAD, COMPUTE, STORE)]
        self._next, self._free = [0, 0, 0], [0.0, 0.0, 0.0]
        self._first, self._between = first, between
        self._begin: list[float | None] = [None] * 4
        self._left, self._rates = [0.0] * 4, [0.0] * 4
        self._on = [-1] * 4
        self._begin[FETCH], self._left[FETCH] = 0.0, beats * len(operations)
        self._run(beats)

    def _issue(self) -> None:
        """Starts what can start; operations without beats end at once."""
        moved = True
        while moved:
            moved = False
            for u in (LOAD, COMPUTE, STORE):
                queue = self._queues[u]
                while self._on[u] < 0 and self._next[u] < len(queue):
                    n = queue[self._next[u]]
                    o = self.operations[n]
                    start = max(self._free[u], self._first + self._between * n)
                    for other in o.after:
                        if not self._known[other]:
                            break
                        start = max(start, self.ends[other])
                    else:
                        self._next[u] += 1
                        moved = True
                        if not o.cost.beats:
                            self._end(u, n, start + o.cost.head)
                            continue
                        self._on[u], self._begin[u], self._left[u] = n, start + o.cost.head, o.cost.beats
                        continue
                    break

    def _end(self, u: int, n: int, at: float) -> None:
        self.ends[n] = self._free[u] = at
        self._known[n] = True

    def _run(self, fetch_beats: float) -> None:
        now, shares = 0.0, [0.0] * 4
        rates = [0.0] * 4
        while True:
            self._issue()
            begins = [(b, u) for u, b in enumerate(self._begin) if b is not None]
            nexts = [(now + self._left[u] / shares[u], u) for u in range(4) if rates[u]]
            if not begins and not nexts:
                return
            at, u = min([*begins, *nexts])
            at = max(at, now)
            for v in range(4):
                if rates[v]:
                    self._left[v] -= shares[v] * (at - now)
            now = at
            if self._begin[u] is not None:
                self._begin[u] = None
                rates[u] = 1.0 if u == FETCH else self.operations[self._on[u]].cost.rate
            else:
                rates[u] = 0.0
                if u != FETCH:
                    n, self._on[u] = self._on[u], -1
                    self._end(u, n, now + self.operations[n].cost.tail)
            shares = _shares(rates)


__all__ = ["COMPUTE", "FETCH", "LOAD", "STORE", "Operation", "Timeline"]
