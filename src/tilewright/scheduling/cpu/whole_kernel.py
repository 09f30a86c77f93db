"""What a kernel goes through: its halo set apart, its axes merged, the rules, and the halo written."""

from __future__ import annotations

from tilewright.scheduling.block_views import KernelView
from tilewright.scheduling.cpu.dynamic import has_symbolic_loops, schedule_versions
from tilewright.scheduling.cpu.halo import set_halo_apart, write_halo
from tilewright.scheduling.cpu.rules import schedule_cpu
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.long_rows import merge_rows
from tilewright.target import Target
from tilewright.tir.schedule import Schedule


def schedule_kernel_for_cpu(sch: Schedule, target: Target, plan: KernelPlan) -> Schedule:
    """The schedule after all rules."""
    halo = set_halo_apart(sch)
    merge_rows(sch)
    if has_symbolic_loops(sch):
        sch = schedule_versions(sch, target, plan)
    else:
        schedule_cpu(sch, target, plan)
    if halo is not None:
        write_halo(KernelView(sch, plan), halo, target)
    return sch


__all__ = ["schedule_kernel_for_cpu"]
