"""Schedules of kernels: programs of public tir.Schedule primitives, chosen by the form of a kernel and the target.

The graph compiler calls `schedule_kernel(func, target)`. Each rule can also be called alone, and copied.
"""

from __future__ import annotations

from tilewright.target import Target
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule
from tilewright.topi.schedule.ahead import fetch_ahead
from tilewright.topi.schedule.bordered import with_border, without_border
from tilewright.topi.schedule.kernel import KernelView
from tilewright.topi.schedule.merged import merge_axes, with_parameters_of
from tilewright.topi.schedule.rules import schedule_cpu
from tilewright.topi.schedule.symbolic import has_symbolic_loops, schedule_symbolic, schedule_versions


def schedule_kernel(func: PrimFunc, target: Target) -> PrimFunc:
    """Tile, vectorise and parallelise a kernel for the target. It computes the same values."""
    found = without_border(func)
    if found is not None and merge_axes(found[0]) is found[0]:
        inside, border = found
        return with_border(func, schedule_kernel(inside, target), border, target)
    merged = merge_axes(func)
    sch = Schedule(merged, seed=0, error_render_level="fast")
    if has_symbolic_loops(sch):
        return fetch_ahead(with_parameters_of(func, schedule_versions(merged, target)))
    schedule_cpu(sch, target)
    (scheduled,) = sch.mod.functions.values()
    assert isinstance(scheduled, PrimFunc)
    return fetch_ahead(with_parameters_of(func, scheduled))


__all__ = ["KernelView", "schedule_cpu", "schedule_kernel", "schedule_symbolic"]
