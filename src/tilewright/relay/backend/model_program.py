"""A model as a program whose decisions are tuned: those of its GraphPlan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.backend.targets import config_of
from tilewright.relay.backend.tuning_tasks import KernelTask, tuning_tasks
from tilewright.relay.expr import Function
from tilewright.relay.parameters import Params
from tilewright.scheduling.database import PlanDatabase, append_plan
from tilewright.scheduling.graph_plan import GraphPlan
from tilewright.support.errors import TVMError
from tilewright.target.virtual_device import Targets
from tilewright.tuning.measure import Builder, Runner
from tilewright.tuning.program import Decided, Program, Report, Variant, decide
from tilewright.tuning.record import load
from tilewright.tuning.session import Limits

ORDER = ("algorithm", "tile", "form", "layout", "place", "panel", "branch", "filters", "rows", "split", "halo", "block")
"""What decisions are about, the ones with the largest effects first."""
SHARE = 0.25
"""The share of a session that these decisions may take."""


class ModelProgram(Program):
    """A model for a target. Options of the PassContext that is current when a variant is made count, as in a build."""

    def __init__(self, mod: IRModule | Function, target: Targets = None, params: Params | None = None) -> None:
        self.mod, self.target, self.params = mod, target, params
        self.chosen = config_of(target).targets[0]

    def variant(self, given: Mapping[str, Any]) -> Variant:
        with GraphPlan(self.chosen, given) as plan:
            tasks = tuning_tasks(self.mod, self.target, self.params)
        if plan.refused:
            raise TVMError("; ".join([f"{name}: {why}" for name, why in plan.refused.items()]))
        return Variant(tasks, plan.values(), plan.space())

    def tasks(self, records: str | os.PathLike[str]) -> list[KernelTask]:
        """The kernels with the decisions in a file of records, if it exists."""
        with GraphPlan(self.chosen, self.kept(records)):
            return tuning_tasks(self.mod, self.target, self.params)

    def kept(self, records: str | os.PathLike[str]) -> dict[str, Any]:
        """The decisions in a file of records; none if it does not exist."""
        return PlanDatabase(records).of_problems(self.chosen.text_for_all) if os.path.exists(records) else {}

    def order(self, name: str) -> int:
        what = name.rpartition(".")[2]
        return ORDER.index(what) if what in ORDER else len(ORDER)

    def keep(self, path: str | os.PathLike[str], given: Mapping[str, Any], changed: str) -> None:
        """Adds the decisions about the problem of the one that was changed to a file of plans, which builds find by the option
        `relay.plans`."""
        problem = changed.rpartition(".")[0]
        names = [name for name in given if name.rpartition(".")[0] == problem]
        plan = {name.rpartition(".")[2]: given[name] for name in names}
        append_plan(path, problem, problem.partition("(")[0], self.chosen.text_for_all, plan)


def decide_program(
    program: ModelProgram,
    builder: Builder,
    runner: Runner,
    path: str | os.PathLike[str],
    limits: Limits,
    report: Report | None = None,
) -> Decided | None:
    """Tunes the decisions about a model, and keeps them in its file of records. It takes SHARE of the limits' time and trials at most.

    None if the file has records of the model's kernels: then the decisions are taken, since other ones would lead to other kernels.
    """
    given = program.kept(path)
    if os.path.exists(path):
        keys = {task.key for task in program.variant(given).tasks}
        if any([record.task in keys for record in load(path)[0]]):
            return None
    seconds, trials = (float("inf") if limit is None else SHARE * limit for limit in (limits.seconds, limits.trials))
    return decide(program, builder, runner, seconds, trials, given, partial(program.keep, path), report)
