"""Decisions about a program that change which kernels it has: layouts, forms of convolutions, packed weights.

They are decided before the kernels are tuned, one after the other, by the times of the untuned kernels that differ:

    program ── variant(given) ──▶ kernels, decisions, their other values
      │                             │
      │  one decision otherwise     ▼
      └── variant(given + one) ──▶ kernels ──▶ seconds of those that only one of both has ──▶ kept, or not
"""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.ir import IRModule
from tilewright.support.errors import RPCError, TVMError
from tilewright.support.files import kept_folder
from tilewright.tuning.inputs import signature_of
from tilewright.tuning.measure import Builder, Run, Runner, Signature, Source
from tilewright.tuning.task import Task

FASTER, TURNS = 0.97, 5
"""A decision is changed if the kernels that differ take at most so many times the time of those that they replace: the median of so many
turns, in each of which both are measured."""
PROMISING = 1.05
"""Kernels that seem to take longer than so many times the time of those that they replace are not measured in turns."""


class Variant(NamedTuple):
    """A program with all of its decisions taken: its kernels, each once, with the number of its calls as weight; the decisions by name;
    and all values that each could have."""

    tasks: Sequence[Task]
    values: Mapping[str, Any]
    choices: Mapping[str, Sequence[Any]]


class Program(ABC):
    """A program whose decisions can be given."""

    @abstractmethod
    def variant(self, given: Mapping[str, Any]) -> Variant:
        """The program with decisions given by name; those that there are not are left out, others are the model's. Raises TVMError for a
        value that does not fit."""

    @abstractmethod
    def order(self, name: str) -> int:
        """Decisions of a lower number are tried first."""


class Decided(NamedTuple):
    """given: the decisions that are taken otherwise than by the model. seconds, untuned: of all kernels, with them and without. tried: how
    many values were tried."""

    given: dict[str, Any]
    seconds: float
    untuned: float
    tried: int


Report = Callable[[int, int, str], None]


def decide(
    program: Program,
    builder: Builder,
    runner: Runner,
    seconds: float = float("inf"),
    tries: float = float("inf"),
    given: Mapping[str, Any] | None = None,
    keep: Callable[[Mapping[str, Any], str], None] | None = None,
    report: Report | None = None,
) -> Decided:
    """Changes the decisions of a program one by one, where its kernels become faster. seconds, tries: after which no further value is
    tried. given: decisions to begin with. keep: is called after each change with all decisions that are taken otherwise than by the model,
    and the name of the changed one. report: is called with the values that were tried, how many there are, and the next.

    Kernels that cannot be built and run count nothing; values that lead to others of them are refused. Raises RPCError where no machine is
    left to measure on; changes that were kept before are kept.
    """
    ends = time.monotonic() + seconds
    times = _Times(builder, runner)
    given = dict(given or {})
    base = program.variant(given)
    times.measure(base.tasks)
    untuned = times.sum_of(_weights(base.tasks))
    known = {(name, repr(value)) for name, value in base.values.items()}
    tried = 0
    while time.monotonic() < ends and tried < tries:
        waiting = [
            (name, value)
            for name, values in sorted(base.choices.items(), key=lambda item: program.order(item[0]))
            for value in values
            if (name, repr(value)) not in known
        ]
        if not waiting:
            break
        name, value = waiting[0]
        if report is not None:
            report(tried, tried + len(waiting), f"{name} = {value}")
        known.add((name, repr(value)))
        tried += 1
        try:
            other = program.variant({**given, name: value})
            if times.is_faster(other.tasks, base.tasks):
                base = other
                known |= {(n, repr(v)) for n, v in base.values.items()}
                given = {n: v for n, v in {**given, name: value}.items() if n in other.values}
                if keep is not None:
                    keep(given, name)
        except RPCError:
            raise  # no machine is left to measure on
        except TVMError:
            # It does not fit.
            continue
    return Decided(given, times.sum_of(_weights(base.tasks)), untuned, tried)


def _weights(tasks: Sequence[Task]) -> Counter[str]:
    """The calls of each kernel."""
    return Counter({task.key: round(task.weight) for task in tasks})


class _Kernel(NamedTuple):
    library: Path
    signature: Signature


class _Times:
    """The times of untuned kernels by their keys, each built once."""

    def __init__(self, builder: Builder, runner: Runner) -> None:
        self.builder, self.runner = builder, runner
        self.folder = kept_folder("tilewright-tune-")
        self._kernels: dict[str, _Kernel] = {}
        self._seconds: dict[str, list[float]] = {}
        self.failed: set[str] = set()

    def measure(self, tasks: Sequence[Task]) -> None:
        """Measures those that are new. What cannot be built and run is in `failed`."""
        new = [task for task in tasks if task.key not in self._kernels and task.key not in self.failed]
        if new:
            programs = self._untuned(new)
            new = [task for task in new if task.key in programs]
            folder = Path(self.folder.name) / str(len(self._kernels) + len(self.failed))
            folder.mkdir(exist_ok=True)
            sources = [Source(programs[task.key], task.target) for task in new]
            for task, built in zip(new, self.builder.build(sources, folder), strict=True):
                if built.path is None:
                    self.failed.add(task.key)
                else:
                    self._kernels[task.key] = _Kernel(built.path, signature_of(programs[task.key]))
            self.failed |= self._run([task.key for task in new if task.key in self._kernels])

    def _untuned(self, tasks: Sequence[Task]) -> dict[str, IRModule]:
        """The untuned programs of tasks by their keys."""
        found = {}
        for task in tasks:
            try:
                found[task.key] = task.space.untuned()
            except TVMError:
                self.failed.add(task.key)
        return found

    def is_faster(self, tasks: Sequence[Task], before: Sequence[Task]) -> bool:
        """Whether kernels take clearly less time than those that they replace."""
        self.measure(tasks)
        mine, theirs = _weights(tasks), _weights(before)
        gone, new = theirs - mine, mine - theirs
        if not gone or self.failed & (gone | new).keys() or self.sum_of(new) > PROMISING * self.sum_of(gone):
            return False
        # In turns: the others were measured at another time, and the least of many times is too good to be true.
        ratios: list[float] = []
        for turn in range(TURNS):
            if self._run([*new, *gone] if turn % 2 else [*gone, *new]):
                return False
            ratios.append(self._last_sum_of(new) / self._last_sum_of(gone))
            if turn > 0 and min(ratios) > 1:
                return False
        return statistics.median(ratios) <= FASTER

    def sum_of(self, weights: Mapping[str, int]) -> float:
        """Seconds of all calls."""
        return sum(
            [count * statistics.median(self._seconds[key]) for key, count in weights.items() if key not in self.failed]
        )

    def _last_sum_of(self, weights: Mapping[str, int]) -> float:
        """Seconds of all calls, by the last measurement of each kernel."""
        return sum([count * self._seconds[key][-1] for key, count in weights.items()])

    def _run(self, keys: Sequence[str]) -> set[str]:
        """Measures kernels, and returns those that do not run."""
        # Forms differ in how much weights take, which in a model come from memory.
        runs = [Run(self._kernels[key].library, self._kernels[key].signature, cold=True) for key in keys]
        failed = set()
        for key, measured in zip(keys, self.runner.run(runs) if runs else [], strict=True):
            if measured.failure is not None:
                failed.add(key)
            else:
                self._seconds.setdefault(key, []).append(statistics.median(measured.seconds))
        return failed
