"""What a kernel for a GPU goes through: the rules, and threads for what is left."""

from __future__ import annotations

from tilewright.scheduling.gpu.rules import schedule_gpu
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.target import Target
from tilewright.tir.schedule import Schedule


def schedule_kernel_for_gpu(sch: Schedule, target: Target, plan: KernelPlan) -> Schedule:
    """The schedule after all rules."""
    schedule_gpu(sch, target, plan)
    return sch


__all__ = ["schedule_kernel_for_gpu"]
