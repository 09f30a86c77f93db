"""When instructions start and end: three units that wait for each other, and a bus that fetch, loads and stores share.

The bus moves a beat in a cycle, and reads and writes take turns. Requests are served in their order: what a load may ask for at once (its
window) comes behind what others have asked for before, and ahead of what they ask for later; from then on reads share the bus evenly.
Between two changes of who is on the bus all proceed evenly, so time goes from change to change, not from cycle to cycle."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tilewright.vta.search.costs import Cost

LOAD, COMPUTE, STORE, FETCH = range(4)
_EARLY = 1e-6
"""Beats by which a program may seem to be fetched less far than it is, by rounding."""


class Operation(NamedTuple):
    """What a unit does: the unit, its cost, the operations (their numbers) that must have ended before, and its instructions."""

    unit: int
    cost: Cost
    after: tuple[int, ...] = ()
    instructions: int = 1


class Bus(NamedTuple):
    """Cycles until the first beat of a read comes, beats that a unit may have asked for at once, and in how many requests; of the fetch
    unit beats of an instruction, the most beats in a cycle, cycles until a unit has an instruction, and how many of them may wait at a
    unit."""

    latency: float = 0.0
    window: float = 1e9
    requests: int = 1
    beats: float = 0.0
    rate: float = 1.0
    delay: float = 0.0
    queue: int = 1 << 30


class _Pace(NamedTuple):
    """How fast a unit can be: the most beats in a cycle while it is on the bus (0: it is not there), and the cycles for each beat in which
    it is not. requests: of a unit that waits for answers, those under way: what delays one of them, delays all behind only once."""

    rate: float = 0.0
    gap: float = 0.0
    requests: int = 1

    def of(self, part: float) -> float:
        """Beats in a cycle, with this part of the bus."""
        return 1 / max(1 / part, self.gap + 1 / (self.requests * part)) if part > _EARLY else 0.0


@lru_cache(maxsize=1 << 14)
def _shares(paces: tuple[_Pace, ...], first: tuple[int, ...]) -> tuple[float, ...]:
    """Beats in a cycle for each of load, compute, store and fetch. first: reads that come before the others, in their order."""
    readers = [u for u in (LOAD, COMPUTE, FETCH) if paces[u].rate]
    alone = [pace.of(pace.rate) for pace in paces]
    given = [0.0] * 4
    for u in readers:
        wanted = [paces[v].rate if v == u else alone[v] for v in readers]
        free = 1.0 - min(alone[STORE], max(0.5, 1.0 - sum(wanted)))
        rest = [n for n, v in enumerate(readers) if v not in first]
        for v in first:
            if v == u:
                break
            free -= min(alone[v], free)
        part = (
            min(paces[u].rate, free)
            if u in first
            else _part(free, [wanted[n] for n in rest], rest.index(readers.index(u)))
        )
        given[u] = paces[u].of(part)
    given[STORE] = paces[STORE].of(min(paces[STORE].rate, max(0.5, 1.0 - sum(given))))
    return tuple(given)


def _part(free: float, wanted: list[float], which: int) -> float:
    """The part of one of several that share evenly, and want no more than so much."""
    own, left = wanted[which], len(wanted)
    for want in sorted(wanted):
        if want >= own or want * left >= free:
            return min(own, free / left)
        free, left = free - want, left - 1
    return own


class Alone:
    """The times at which operations end at the earliest: each as if it had the bus for itself, after those of its unit and those that it
    waits for, and when it can have been fetched."""

    def __init__(self, bus: Bus) -> None:
        self.ends: list[float] = []
        self.beats, self._fetched, self._instruction = 0.0, bus.latency + 1, bus.beats
        self._free = [0.0] * 3

    def add(self, operations: Sequence[Operation]) -> None:
        """The next operations of the program."""
        free, ends, fetched = self._free, self.ends, self._fetched
        for unit, cost, after, instructions in operations:
            begin = max(free[unit], fetched + self._instruction)
            for n in after:
                begin = max(begin, ends[n])
            free[unit] = begin + cost.alone
            ends.append(free[unit])
            fetched += instructions * self._instruction
            self.beats += cost.beats
        self._fetched = fetched

    @property
    def end(self) -> float:
        """Cycles until all is done, and the bus has moved all beats."""
        return max(*self._free, self.beats + self._fetched)


class Timeline:
    """The times at which operations end, in the order of the program."""

    def __init__(self, operations: Sequence[Operation], bus: Bus) -> None:
        self.operations, self.bus = operations, bus
        self.ends = [0.0] * len(operations)
        self._known = [False] * len(operations)
        self._queues = [[n for n, o in enumerate(operations) if o.unit == u] for u in (LOAD, COMPUTE, STORE)]
        self._next, self._free = [0, 0, 0], [0.0, 0.0, 0.0]
        self._begin: list[float | None] = [None] * 4
        self._left, self._paces = [0.0] * 4, [_Pace()] * 4
        self._on = [-1] * 4
        self._fresh: dict[int, float] = {}
        """Of loads that are within their window, in the order in which they came: how many beats of it are left."""
        self._delayed = [False] * 4
        self._shares: tuple[float, ...] = (0.0,) * 4
        self._needs: list[float] = []
        """Beats of the program that are fetched when an operation can start."""
        count = 0
        for o in operations:
            self._needs.append((count + 1) * bus.beats)
            count += o.instructions
        self._total, self._fetched, self._allowed = count * bus.beats, 0.0, 0.0
        self._waiting, self._seen = [0, 0, 0], 0
        self._late = [-1] * 3
        """Operations that have waited until they were fetched."""
        self._now = 0.0
        self._allow()
        if self._total:
            self._begin[FETCH], self._left[FETCH] = bus.latency, self._allowed
        self._run()

    def _allow(self) -> None:
        """Lets fetch go on to the first operation whose unit has no room for it."""
        while self._seen < len(self.operations):
            o = self.operations[self._seen]
            if self._waiting[o.unit] and self._waiting[o.unit] + o.instructions > self.bus.queue:
                return
            self._waiting[o.unit] += o.instructions
            self._seen += 1
            self._allowed += o.instructions * self.bus.beats

    def _started(self, o: Operation) -> None:
        self._waiting[o.unit] -= o.instructions
        before = self._allowed
        self._allow()
        more = self._allowed - before
        if more and self.bus.beats:
            self._left[FETCH] += more
            if not self._paces[FETCH].rate and self._begin[FETCH] is None:
                self._begin[FETCH] = self._now

    def _issue(self) -> float:
        """Starts what can start; operations without beats end at once. Returns how far fetch must go before another one can start."""
        moved, wanted = True, float("inf")
        while moved:
            moved, wanted = False, float("inf")
            for u in (LOAD, COMPUTE, STORE):
                queue = self._queues[u]
                while self._on[u] < 0 and self._next[u] < len(queue):
                    n = queue[self._next[u]]
                    o = self.operations[n]
                    start = self._free[u]
                    for other in o.after:
                        if not self._known[other]:
                            break
                        start = max(start, self.ends[other])
                    else:
                        if self._fetched < self._needs[n] - _EARLY:
                            wanted, self._late[u] = min(wanted, self._needs[n]), n
                            break
                        if self._late[u] == n:
                            start = max(start, self._now + self.bus.delay)
                        self._next[u] += 1
                        moved = True
                        self._started(o)
                        if not o.cost.beats:
                            self._end(u, n, start + o.cost.head)
                            continue
                        self._on[u], self._begin[u], self._left[u] = n, start + o.cost.head, o.cost.beats
                        continue
                    break
        return wanted

    def _end(self, u: int, n: int, at: float) -> None:
        self.ends[n] = self._free[u] = at
        self._known[n] = True

    def _run(self) -> None:
        paces, left = self._paces, self._left
        while True:
            wanted, shares = self._issue(), self._shares
            events = [(b, u) for u, b in enumerate(self._begin) if b is not None]
            events += [(self._now + left[u] / shares[u], u) for u in range(4) if shares[u]]
            if shares[FETCH] and wanted < self._fetched + left[FETCH]:
                events.append((self._now + (wanted - self._fetched) / shares[FETCH], -1))
            if self._fresh:
                several = sum([paces[u].rate > 0 for u in (LOAD, COMPUTE, FETCH)]) > 1
                for u, b in self._fresh.items():
                    if shares[u] and (several or self.operations[self._on[u]].cost.later):
                        events.append((self._now + b / shares[u], -1))
            if not events:
                return
            at, u = min(events)
            self._go_on(max(at, self._now))
            if u >= 0:
                self._change(u)
            self._shares = _shares(tuple(paces), tuple(self._fresh))

    def _go_on(self, at: float) -> None:
        """All that is on the bus until a time."""
        for v in range(4):
            moved = self._shares[v] * (at - self._now)
            self._left[v] -= moved
            if v == FETCH:
                self._fetched += moved
            elif v in self._fresh:
                self._fresh[v] -= moved
                if self._fresh[v] < _EARLY:
                    del self._fresh[v]
                    self._paces[v] = self._answered(self.operations[self._on[v]].cost)
        self._now = at

    def _answered(self, cost: Cost) -> _Pace:
        """The pace of a copy that waits for answers."""
        if not cost.later:
            return _Pace(cost.rate, cost.gap)
        return _Pace(cost.rate, cost.later + (1 - 1 / self.bus.requests) / cost.rate, self.bus.requests)

    def _backlog(self, u: int) -> float:
        """Cycles for which a load waits for what others asked for before it, beyond its latency."""
        latency, ahead = self.bus.latency + 1, 0.0
        for v in (LOAD, COMPUTE, FETCH):
            if v != u and self._paces[v].rate and not self._paces[v].gap:
                ahead += min(self.bus.window, self._left[v] + latency * self._shares[v])
        return max(ahead / max(1.0 - self._shares[STORE], 0.5) - latency, 0.0)

    def _change(self, u: int) -> None:
        """A unit comes to the bus, or leaves it."""
        if self._begin[u] is None:
            self._paces[u] = _Pace()
            self._fresh.pop(u, None)
            if u != FETCH:
                n, self._on[u] = self._on[u], -1
                self._end(u, n, self._now + self.operations[n].cost.tail)
            return
        if u == FETCH:
            self._begin[u], self._paces[u] = None, _Pace(self.bus.rate)
            return
        cost = self.operations[self._on[u]].cost
        if u != STORE and not cost.gap:
            backlog = 0.0 if self._delayed[u] else self._backlog(u)
            self._delayed[u] = backlog > _EARLY
            if self._delayed[u]:
                self._begin[u] = self._now + backlog
                return
            self._fresh[u] = cost.window or min(self.bus.window, cost.beats)
        elif u != STORE and self.bus.window <= self.bus.latency + 1:
            # Each of several copies is within its window, and what others have asked for is done within its latency.
            self._fresh[u] = cost.beats
        self._begin[u], self._paces[u] = None, self._answered(cost) if u == STORE else _Pace(cost.rate, cost.gap)


__all__ = ["COMPUTE", "FETCH", "LOAD", "STORE", "Alone", "Bus", "Operation", "Timeline"]
