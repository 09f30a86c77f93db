"""Schedules of a kernel as the compiler's own rules make them, and what these could decide otherwise.

Rules of a design space know loops and blocks. The rules of the compiler know processors: register tiles, vectors, what the caches hold.
Where they know a kernel, theirs is a good schedule to begin with. Its decisions are written into the trace, so that they can be changed.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tilewright.ir import IRModule
from tilewright.meta_schedule.mutator.mutator import argument
from tilewright.scheduling.plan_space import Decisions, PlanSpace
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Trace

PLAN = "meta_schedule.kernel_plan"
"""The annotation of the root block that holds the decisions of a plan, as JSON."""


class KernelPlans:
    """The plans of a module's only function."""

    def __init__(self, name: str, func: PrimFunc, target: Target) -> None:
        named = func.with_attr("global_symbol", name)
        self._space = PlanSpace(lambda plan: named, target)
        self._name = name

    @classmethod
    def of(cls, mod: IRModule, target: Target) -> KernelPlans | None:
        """None for what the rules do not schedule: other processors than CPUs, several functions, and what they refuse."""
        if target.kind.name not in ("llvm", "c") or len(mod.functions) != 1:
            return None
        ((var, func),) = mod.functions.items()
        if not isinstance(func, PrimFunc):
            return None
        made = cls(var.name_hint, func, target)
        try:
            made.start()
        except TVMError:
            return None
        return made

    def start(self) -> Trace:
        """What the cost model decides."""
        return self._trace({})

    def draw(self, random: Random) -> Trace:
        """With decisions of the whole space."""
        return self._trace(self._space.draw(random))

    def neighbour(self, decisions: Decisions, random: Random) -> Trace:
        """With one other decision."""
        return self._trace(self._space.neighbour(decisions, random))

    def crossed(self, first: Decisions, second: Decisions, random: Random) -> Trace:
        """With decisions of both."""
        return self._trace(self._space.crossed(first, second, random))

    def _trace(self, decisions: Decisions) -> Trace:
        sch, decided = self._space.schedule(decisions)
        sch.annotate(sch.get_block("root", self._name), PLAN, json.dumps(decided, sort_keys=True))
        assert sch.trace is not None
        return sch.trace.simplified()


def decisions_of(trace: Trace) -> Decisions | None:
    """The decisions of the plan that made a trace; None for others."""
    for inst in reversed(trace.insts):
        if inst.kind.method == "annotate" and argument(inst, "ann_key") == PLAN:
            found: Any = json.loads(argument(inst, "ann_val"))
            return found if isinstance(found, dict) else None
    return None


__all__ = ["PLAN", "KernelPlans", "decisions_of"]
