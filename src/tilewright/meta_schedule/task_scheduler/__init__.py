"""The loop of tuning, and the order of tasks."""

from __future__ import annotations

from tilewright.meta_schedule.task_scheduler.kinds import GradientBased, RoundRobin
from tilewright.meta_schedule.task_scheduler.task_scheduler import (
    PyTaskScheduler,
    TaskRecord,
    TaskScheduler,
    create,
)
from tilewright.support import lazy

__all__ = ["GradientBased", "PyTaskScheduler", "RoundRobin", "TaskRecord", "TaskScheduler", "create"]

# Classic modules of single classes.
lazy.faces(
    __name__,
    {
        "gradient_based": ("tilewright.meta_schedule.task_scheduler.kinds:GradientBased",),
        "round_robin": ("tilewright.meta_schedule.task_scheduler.kinds:RoundRobin",),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
