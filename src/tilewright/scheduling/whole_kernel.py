"""Schedules of whole kernels, by the rules for their target."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.backend import CPU_RULES, GPU_RULES, NO_RULES
from tilewright.scheduling.cpu.whole_kernel import schedule_kernel_for_cpu
from tilewright.scheduling.family import rules_of
from tilewright.scheduling.gpu.whole_kernel import schedule_kernel_for_gpu
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule

RULES: dict[str, Callable[[Schedule, Target, KernelPlan], Schedule]] = {
    CPU_RULES: schedule_kernel_for_cpu,
    GPU_RULES: schedule_kernel_for_gpu,
    NO_RULES: lambda sch, target, plan: sch,
}
"""What is done to kernels, by the family of rules."""


def scheduled(func: PrimFunc, target: Target, plan: KernelPlan | None = None) -> Schedule:
    """The schedule of a kernel for the target, as the plan decides (the cost model, where none is given). Its trace, replayed
    on the kernel, gives the same program. If a step is refused because of what the plan gives, the model decides instead.
    """
    plan = KernelPlan(target) if plan is None else plan
    plan.begin_schedule()
    try:
        return _by_rules(func, target, plan)
    except ScheduleError as error:
        if not plan.refuse_schedule(f"a step of the schedule is refused with what is given ({error})"):
            raise
    plan.begin_schedule()
    return _by_rules(func, target, plan)


def _by_rules(func: PrimFunc, target: Target, plan: KernelPlan) -> Schedule:
    sch = RULES[rules_of(target)](Schedule(func, seed=0, error_render_level="fast"), target, plan)
    plan.fallbacks = sch.fallbacks
    return sch


def schedule_kernel(func: PrimFunc, target: Target, plan: KernelPlan | None = None) -> PrimFunc:
    """Schedule a kernel for the target. It computes the same values."""
    (made,) = scheduled(func, target, plan).mod.functions.values()
    assert isinstance(made, PrimFunc)
    return made


__all__ = ["schedule_kernel", "scheduled"]
