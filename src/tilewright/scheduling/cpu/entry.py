"""What a kernel goes through: its halo set apart, its axes merged, and the rules."""

from __future__ import annotations

from tilewright.scheduling.cpu.dynamic import has_symbolic_loops, schedule_symbolic, schedule_versions
from tilewright.scheduling.cpu.halo import with_border, without_border
from tilewright.scheduling.cpu.kernel import KernelView
from tilewright.scheduling.cpu.merged_axes import merge_axes, with_parameters_of
from tilewright.scheduling.cpu.rules import schedule_cpu
from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule


def schedule_kernel(func: PrimFunc, target: Target) -> PrimFunc:
    """Tile, vectorise and parallelise a kernel for the target. It computes the same values."""
    found = without_border(func)
    if found is not None and merge_axes(found[0]) is found[0]:
        inside, border = found
        return with_border(func, schedule_kernel(inside, target), border, target)
    merged = merge_axes(func)
    sch = Schedule(merged, seed=0, error_render_level="fast")
    if has_symbolic_loops(sch):
        return with_parameters_of(func, schedule_versions(merged, target))
    schedule_cpu(sch, target)
    (scheduled,) = sch.mod.functions.values()
    assert isinstance(scheduled, PrimFunc)
    return with_parameters_of(func, scheduled)


__all__ = ["KernelView", "schedule_cpu", "schedule_kernel", "schedule_symbolic"]
