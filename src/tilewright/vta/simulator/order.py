"""In which order the instructions of a program start, from its queues and tokens alone; programs that wait forever are found before they
run.

Written apart from the native library's (native/devices/vta/order.cc), which it checks; the texts of errors are the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tilewright.vta.configuration import Configuration
from tilewright.vta.isa.assembly import instruction_text
from tilewright.vta.isa.program import Insn
from tilewright.vta.isa.tables import UNITS


class Order(NamedTuple):
    """What tokens say of a program, whatever the times of its units are. starts: numbers of instructions in the order of their starts: of
    those that can start, the first of the program. numbers: by instruction, how many its unit has begun with it. done: by instruction, how
    many of each unit are done for certain when it starts."""

    starts: list[int]
    numbers: dict[int, int]
    done: dict[int, dict[str, int]]


QUEUES = ("load to compute", "compute to load", "compute to store", "store to compute")


def place_text(i: Insn, index: int) -> str:
    """An instruction in messages: "instruction 3 (gemm uop_end=1)"."""
    return f"instruction {index} ({instruction_text(i)})"


def queue_of(unit: str, flag: str) -> str | None:
    """The queue from which a flag of a unit takes a token, or to which it gives one; None where it has no neighbour there."""
    neighbour = UNITS.index(unit) + (1 if flag.endswith("next") else -1)
    if not 0 <= neighbour < len(UNITS):
        return None
    ends = (unit, UNITS[neighbour]) if flag.startswith("push") else (UNITS[neighbour], unit)
    return " to ".join(ends)


def _check_flags(program: Sequence[Insn]) -> None:
    for n, i in enumerate(program):
        for flag in ("pop_prev", "pop_next", "push_prev", "push_next"):
            if i[flag] and queue_of(i.unit, flag) is None:
                side = "before" if flag.endswith("prev") else "behind"
                raise ValueError(f"{place_text(i, n)}: the {i.unit} unit has no unit {side} it")
        if i.name == "finish" and n + 1 != len(program):
            raise ValueError(f"{place_text(i, n)} is not the last of {len(program)} instructions")
    if not program or program[-1].name != "finish":
        raise ValueError("the program does not end with finish")


def _flagged(i: Insn, unit: str, way: str) -> list[str]:
    """The queues of the flags of an instruction. way: "pop" or "push"."""
    return [str(queue_of(unit, f"{way}_{side}")) for side in ("prev", "next") if i.values.get(f"{way}_{side}")]


class _Queues:
    def __init__(self, config: Configuration, program: Sequence[Insn]) -> None:
        self.config, self.program = config, program
        self.units = [i.unit for i in program]
        self.pops, self.pushes = (
            [_flagged(i, u, way) for i, u in zip(program, self.units, strict=True)] for way in ("pop", "push")
        )
        """By instruction, the queues from which it takes tokens, and to which it gives them."""
        self.waiting: dict[str, deque[int]] = {u: deque() for u in UNITS}
        self.tokens = dict.fromkeys(QUEUES, 0)
        self.done: dict[str, int] = {}
        """By unit, the instruction that has yet to give tokens."""
        self.owed: dict[str, list[str]] = {u: [] for u in UNITS}
        self.fetched = 0
        self.order = Order([], {}, {})
        self.known: dict[str, dict[str, int]] = {u: dict.fromkeys(UNITS, 0) for u in UNITS}
        """By unit, how many instructions of each are done for certain."""
        self.begun = dict.fromkeys(UNITS, 0)
        self.said: dict[str, deque[dict[str, int]]] = {q: deque() for q in QUEUES}
        """What a token says: what its giver knew, and that its giver is done."""

    def fetch(self) -> None:
        while self.fetched < len(self.program):
            queue = self.waiting[self.units[self.fetched]]
            if len(queue) >= self.config.command_queue:
                return
            queue.append(self.fetched)
            self.fetched += 1

    def give(self) -> bool:
        moved = False
        for unit in list(self.done):
            for queue in list(self.owed[unit]):
                if self.tokens[queue] < self.config.token_queue:
                    self.tokens[queue] += 1
                    self.owed[unit].remove(queue)
                    self.said[queue].append({**self.known[unit], unit: self.begun[unit]})
                    moved = True
            if not self.owed[unit]:
                del self.done[unit]
                moved = True
        return moved

    def start(self) -> bool:
        ready = [
            (queue[0], unit)
            for unit, queue in self.waiting.items()
            if queue and unit not in self.done and all([self.tokens[q] for q in self.pops[queue[0]]])
        ]
        if not ready:
            return False
        n, unit = min(ready)
        self.waiting[unit].popleft()
        for queue in self.pops[n]:
            self.tokens[queue] -= 1
            said = self.said[queue].popleft()
            self.known[unit] = {u: max(k, said[u]) for u, k in self.known[unit].items()}
        self.begun[unit] += 1
        self.order.starts.append(n)
        self.order.numbers[n], self.order.done[n] = self.begun[unit], self.known[unit]
        self.done[unit] = n
        self.owed[unit] = list(self.pushes[n])
        return True

    def state(self) -> str:
        lines = []
        for unit in UNITS:
            line = "has no instruction left"
            if unit in self.done:
                n = self.done[unit]
                line = " ".join(
                    [
                        f"has done {place_text(self.program[n], n)}, whose token has no room in the queue",
                        *self.owed[unit],
                    ]
                )
            elif self.waiting[unit]:
                n = self.waiting[unit][0]
                missing = [q for q in self.pops[n] if not self.tokens[q]]
                line = " ".join([f"waits at {place_text(self.program[n], n)} for a token in the queue", *missing])
            lines.append(f"\n  {unit} {line}")
        if self.fetched < len(self.program):
            i = self.program[self.fetched]
            lines.append(
                f"\n  fetch waits at {place_text(i, self.fetched)}, because the queue of the {i.unit} unit is full"
            )
        return "".join(lines) + f"\n  tokens: {self.held()}"

    def held(self) -> str:
        return ", ".join([f"{queue} {count}" for queue, count in self.tokens.items()])


def order_of(config: Configuration, program: Sequence[Insn]) -> Order:
    """What tokens say of a program.

    RuntimeError, with the state of the queues, where the program waits forever or leaves tokens; ValueError where it does not end with
    `finish`, or a unit has no neighbour for a flag."""
    _check_flags(program)
    queues = _Queues(config, program)
    while True:
        queues.fetch()
        moved = queues.give()
        if not queues.start() and not moved:
            break
    if len(queues.order.starts) < len(program) or queues.done:
        raise RuntimeError(f"the program waits forever:{queues.state()}")
    if any(queues.tokens.values()):
        raise RuntimeError(f"the program leaves tokens, with which the next one would begin: {queues.held()}")
    return queues.order


__all__ = ["QUEUES", "Order", "order_of", "place_text", "queue_of"]
