"""The decisions of a kernel's plan as a space of the tuning engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tilewright.ir import IRModule
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule
from tilewright.tuning.space import Space

Decisions = dict[str, Any]
KEPT = 512
"""Programs that are kept, since a candidate is made before it is asked for."""


class PlanSpace(Space[Decisions]):
    """What the schedule rules could decide otherwise. A candidate has all decisions of a plan by name, as `KernelPlan.values` gives them.

    compose: the PrimFunc of the kernel, whose computes ask the plan for their forms.
    """

    def __init__(self, compose: Callable[[KernelPlan], PrimFunc], target: Target) -> None:
        self.compose, self.target = compose, target
        self._composed: list[tuple[KernelPlan, PrimFunc]] = []
        self._programs: dict[str, IRModule] = {}
        self._last: tuple[str, Schedule] | None = None
        self._choices: dict[str, Mapping[str, list[Any]]] = {}
        self._start: Decisions | None = None

    def untuned(self) -> IRModule:
        return self._scheduled(KernelPlan(self.target)).mod

    def program(self, candidate: Decisions) -> IRModule:
        found = self._programs.get(self.key(candidate))
        return found if found is not None else self._fitting(candidate).mod

    def schedule(self, candidate: Decisions) -> tuple[Schedule, Decisions]:
        """The schedule of a candidate, whose trace gives its program from `compose`'s, and all of its decisions. Raises TVMError where a
        step is refused."""
        complete = self._complete(candidate)
        if self._last is not None and self._last[0] == self.key(complete):
            return self._last[1].copy(), complete
        return self._fitting(complete), complete

    def _fitting(self, candidate: Decisions) -> Schedule:
        """The schedule of a candidate. Raises TVMError where it does not fit the kernel."""
        plan = KernelPlan(self.target, candidate)
        sch = self._scheduled(plan)
        if plan.unfit():
            raise TVMError("; ".join([f"{name}: {why}" for name, why in plan.unfit().items()]))
        return sch

    def draw(self, random: Random) -> Decisions:
        if self._start is None:
            self._start = self._complete({})
        start = self._start
        # From few changes of what the model decides to many: where it is nearly right, few are better.
        share = random.random() ** 2
        choices = self._choices_of(start)
        names = [n for n in choices if random.random() < share] or [random.choice([*choices, ""])]
        return self._complete({**start, **{n: random.choice(choices[n]) for n in names if n}})

    def neighbour(self, candidate: Decisions, random: Random) -> Decisions:
        others = {n: [v for v in c if v != candidate[n]] for n, c in self._choices_of(candidate).items()}
        names = [n for n, values in others.items() if values]
        if not names:
            return candidate
        name = random.choice(names)
        return self._complete({**candidate, name: random.choice(others[name])})

    def crossed(self, first: Decisions, second: Decisions, random: Random) -> Decisions:
        common = [n for n in first if n in second]
        return self._complete({**first, **{n: second[n] for n in common if random.random() < 0.5}})

    def write(self, candidate: Decisions) -> object:
        return candidate

    def read(self, data: object) -> Decisions:
        if not isinstance(data, dict) or not all([isinstance(name, str) for name in data]):
            raise TVMError(f"a candidate is an object of decisions by name, but this is {json.dumps(data)[:80]}")
        return data

    def _complete(self, given: Decisions) -> Decisions:
        """All decisions of a plan with those that are given, as far as they fit: some exist only after others."""
        plan = KernelPlan(self.target, given)
        try:
            sch = self._scheduled(plan)
        except TVMError:
            # The search asks for its program, and hears why there is none.
            return given
        found = plan.values()
        key = self.key(found)
        if len(self._programs) >= KEPT:
            self._programs.pop(next(iter(self._programs)))
        self._programs[key], self._last = sch.mod, (key, sch)
        self._choices[key] = plan.space()
        return found

    def _choices_of(self, candidate: Decisions) -> Mapping[str, list[Any]]:
        key = self.key(candidate)
        if key not in self._choices:
            plan = KernelPlan(self.target, candidate)
            self._scheduled(plan)
            self._choices[key] = plan.space()
        return self._choices[key]

    def _scheduled(self, plan: KernelPlan) -> Schedule:
        return scheduled(self._func(plan), self.target, plan)

    def _func(self, plan: KernelPlan) -> PrimFunc:
        """The kernel, unscheduled. Most candidates differ in what the schedule decides, and have it in common."""
        for other, func in self._composed:
            if plan.takes_computes_of(other):
                return func
        func = self.compose(plan)
        if len(self._composed) >= KEPT:
            self._composed.pop(0)
        self._composed.append((plan, func))
        return func
