"""The loop of tuning, and the order of tasks."""

from __future__ import annotations

from tilewright.meta_schedule.task_scheduler.kinds import GradientBased, RoundRobin
from tilewright.meta_schedule.task_scheduler.task_scheduler import (
    PyTaskScheduler,
    TaskRecord,
    TaskScheduler,
    create,
)

__all__ = ["GradientBased", "PyTaskScheduler", "RoundRobin", "TaskRecord", "TaskScheduler", "create"]
