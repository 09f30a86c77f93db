"""A model as a program whose decisions are tuned: those of its GraphPlan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.backend.targets import config_of
from tilewright.relay.backend.tuning_tasks import tuning_tasks
from tilewright.relay.expr import Function
from tilewright.relay.parameters import Params
from tilewright.scheduling.database import append_plan
from tilewright.scheduling.graph_plan import GraphPlan
from tilewright.support.errors import TVMError
from tilewright.target.virtual_device import Targets
from tilewright.tuning.program import Program, Variant

ORDER = ("tile", "form", "layout", "place", "panel", "branch", "filters", "rows", "split", "halo", "block")
"""What decisions are about, the ones with the largest effects first."""


class ModelProgram(Program):
    """A model for a target. Options of the PassContext that is current when a variant is made count, as in a build."""

    def __init__(self, mod: IRModule | Function, target: Targets = None, params: Params | None = None) -> None:
        self.mod, self.target, self.params = mod, target, params

    def variant(self, given: Mapping[str, Any]) -> Variant:
        with GraphPlan(config_of(self.target).targets[0], given) as plan:
            tasks = tuning_tasks(self.mod, self.target, self.params)
        if plan.refused:
            raise TVMError("; ".join([f"{name}: {why}" for name, why in plan.refused.items()]))
        return Variant(tasks, plan.values(), plan.space())

    def order(self, name: str) -> int:
        what = name.rpartition(".")[2]
        return ORDER.index(what) if what in ORDER else len(ORDER)

    def keep(self, path: str | os.PathLike[str], given: Mapping[str, Any]) -> None:
        """Adds decisions to a file of plans, which builds find by the option `relay.plans`."""
        target = str(config_of(self.target).targets[0])
        problems: dict[str, dict[str, Any]] = {}
        for name, value in given.items():
            problem, _, what = name.rpartition(".")
            problems.setdefault(problem, {})[what] = value
        for problem, plan in problems.items():
            append_plan(path, problem, problem.partition("(")[0], target, plan)
