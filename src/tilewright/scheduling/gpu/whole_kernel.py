"""What a kernel for a GPU goes through: its axes merged, the rules."""

from __future__ import annotations

from tilewright.scheduling.gpu.rules import schedule_gpu
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.long_rows import merge_rows
from tilewright.target import Target
from tilewright.tir.schedule import Schedule


def schedule_kernel_for_gpu(sch: Schedule, target: Target, plan: KernelPlan) -> Schedule:
    """The schedule after all rules."""
    merge_rows(sch)
    return schedule_gpu(sch, target, plan)


__all__ = ["schedule_kernel_for_gpu"]
