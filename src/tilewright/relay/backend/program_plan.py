"""The plan of a program that is compiled, with the decisions of the file that the option `relay.plans` names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakKeyDictionary

from tilewright.ir.transform import PassContext
from tilewright.relay.backend.keys import PLANS
from tilewright.scheduling.database import PlanDatabase, PlanWarning
from tilewright.scheduling.graph_plan import GraphPlan, given_plan
from tilewright.target import Target

_read: WeakKeyDictionary[PassContext, tuple[object, PlanDatabase]] = WeakKeyDictionary()
"""By context: what told a file from others when it was read, and what it held."""


def kept_plans() -> PlanDatabase | None:
    """The plans in the file of this build; None without a file. Several steps of a build ask, and lines that are left out are told once.
    Raises TVMError for a file that cannot be read."""
    context = PassContext.current()
    path = context.config.get(PLANS)
    if not path:
        return None
    with suppress(OSError):
        found = os.stat(path)
        state = str(path), found.st_ino, found.st_mtime_ns, found.st_size
        known = _read.get(context)
        if known is None or known[0] != state:
            _read[context] = known = state, PlanDatabase(str(path))
        return known[1]
    return PlanDatabase(str(path))


@contextmanager
def program_plan(target: Target) -> Iterator[GraphPlan]:
    """The current plan, if a program or a tuner set one; otherwise a new one with the decisions of the file of plans."""
    plan = given_plan()
    if plan is not None:
        yield plan
        return
    kept = kept_plans()
    with GraphPlan(target, kept.of_problems(target.text_for_all) if kept is not None else None) as plan:
        yield plan
    for decision, why in plan.refused.items():
        warnings.warn(f"the plan of the program does not fit: {decision}: {why}", PlanWarning, stacklevel=3)


__all__ = ["kept_plans", "program_plan"]
