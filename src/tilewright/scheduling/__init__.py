"""Schedules of kernels: programs of public tir.Schedule primitives, chosen by the form of a kernel and the target.

The graph compiler calls `schedule_kernel(func, target)`. `cpu` holds the rules for CPUs. Each can also be called alone, and copied.
"""

from __future__ import annotations

from tilewright.scheduling.cpu.entry import schedule_kernel

__all__ = ["schedule_kernel"]
