"""What a kernel goes through: its halo set apart, its axes merged, and the rules."""

from __future__ import annotations

from tilewright.scheduling.cpu.dynamic import has_symbolic_loops, schedule_symbolic, schedule_versions
from tilewright.scheduling.cpu.halo import with_border, without_border
from tilewright.scheduling.cpu.kernel import KernelView
from tilewright.scheduling.cpu.merged_axes import merge_axes, with_parameters_of
from tilewright.scheduling.cpu.rules import schedule_cpu
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule


def schedule_kernel(func: PrimFunc, target: Target, plan: KernelPlan | None = None) -> PrimFunc:
    """Tile, vectorise and parallelise a kernel for the target, as the plan decides (the cost model, where none is given). It
    computes the same values.
    """
    plan = KernelPlan(target) if plan is None else plan
    plan.begin_schedule()
    found = without_border(func)
    if found is not None and merge_axes(found[0]) is found[0]:
        inside, border = found
        return with_border(func, schedule_kernel(inside, target, plan), border, target)
    merged = merge_axes(func)
    sch = Schedule(merged, seed=0, error_render_level="fast")
    if has_symbolic_loops(sch):
        return with_parameters_of(func, schedule_versions(merged, target, plan))
    schedule_cpu(sch, target, plan)
    (scheduled,) = sch.mod.functions.values()
    assert isinstance(scheduled, PrimFunc)
    return with_parameters_of(func, scheduled)


__all__ = ["KernelView", "schedule_cpu", "schedule_kernel", "schedule_symbolic"]
