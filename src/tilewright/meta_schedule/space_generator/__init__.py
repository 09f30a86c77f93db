"""Generators of design spaces."""

from __future__ import annotations

from tilewright.meta_schedule.space_generator.post_order_apply import PostOrderApply
from tilewright.meta_schedule.space_generator.schedule_fn import ScheduleFn
from tilewright.meta_schedule.space_generator.space_generator import (
    MutatorProbType,
    PostprocType,
    PySpaceGenerator,
    ScheduleFnType,
    ScheduleRuleType,
    SpaceGenerator,
    create,
)
from tilewright.meta_schedule.space_generator.space_generator_union import SpaceGeneratorUnion

__all__ = [
    "MutatorProbType",
    "PostOrderApply",
    "PostprocType",
    "PySpaceGenerator",
    "ScheduleFn",
    "ScheduleFnType",
    "ScheduleRuleType",
    "SpaceGenerator",
    "SpaceGeneratorUnion",
    "create",
]
