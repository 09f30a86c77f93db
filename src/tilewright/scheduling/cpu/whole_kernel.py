"""What a kernel goes through: its halo set apart, its axes merged, the rules, and the halo written."""

from __future__ import annotations

from tilewright.scheduling.cpu.block_views import KernelView
from tilewright.scheduling.cpu.dynamic import has_symbolic_loops, schedule_symbolic, schedule_versions
from tilewright.scheduling.cpu.halo import set_halo_apart, write_halo
from tilewright.scheduling.cpu.long_rows import merge_rows
from tilewright.scheduling.cpu.rules import schedule_cpu
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.support.errors import ScheduleError
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule


def scheduled(func: PrimFunc, target: Target, plan: KernelPlan | None = None) -> Schedule:
    """The schedule of a kernel for the target, as the plan decides (the cost model, where none is given). Its trace, replayed
    on the kernel, gives the same program. If a step is refused because of what the plan gives, the model decides instead.
    """
    plan = KernelPlan(target) if plan is None else plan
    plan.begin_schedule()
    try:
        return _scheduled(func, target, plan)
    except ScheduleError as error:
        if not plan.refuse_schedule(f"a step of the schedule is refused with what is given ({error})"):
            raise
    plan.begin_schedule()
    return _scheduled(func, target, plan)


def _scheduled(func: PrimFunc, target: Target, plan: KernelPlan) -> Schedule:
    sch = Schedule(func, seed=0, error_render_level="fast")
    halo = set_halo_apart(sch)
    merge_rows(sch)
    if has_symbolic_loops(sch):
        sch = schedule_versions(sch, target, plan)
    else:
        schedule_cpu(sch, target, plan)
    if halo is not None:
        write_halo(KernelView(sch, plan), halo, target)
    plan.fallbacks = sch.fallbacks
    return sch


def schedule_kernel(func: PrimFunc, target: Target, plan: KernelPlan | None = None) -> PrimFunc:
    """Tile, vectorise and parallelise a kernel for the target. It computes the same values."""
    (made,) = scheduled(func, target, plan).mod.functions.values()
    assert isinstance(made, PrimFunc)
    return made


__all__ = ["KernelView", "schedule_cpu", "schedule_kernel", "schedule_symbolic", "scheduled"]
