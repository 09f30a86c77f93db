"""Rules that may be refused: the schedule and the plan then stay as they were."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.tir.schedule import Schedule


def attempt(sch: Schedule, plan: KernelPlan, rule: Callable[[Schedule], None], given_up: str) -> Schedule:
    """The schedule after a rule, or the given one, and the decisions before it, if the rule does not apply."""
    trial, decided = sch.copy(), dict(plan.decisions)
    with sch.tried(given_up) as step:
        rule(trial)
    if step.refused:
        plan.decisions = decided
    return sch if step.refused else trial


__all__ = ["attempt"]
