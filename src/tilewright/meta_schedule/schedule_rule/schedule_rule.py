"""Rules that make design spaces, and those of a target."""

from __future__ import annotations

from abc import abstractmethod

from tilewright.meta_schedule.part import Part
from tilewright.tir.schedule import BlockRV, Schedule


class ScheduleRule(Part):
    """Makes of a schedule those in which a block is scheduled by the rule."""

    @abstractmethod
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules that the rule makes; [sch] where it does not apply."""

    @staticmethod
    def create(kind: str) -> list[ScheduleRule]:
        """The rules of a kind of target: "llvm", "cuda" or "cuda-tensorcore". Raises ValueError for others."""
        from tilewright.meta_schedule import defaults

        return defaults.schedule_rules(kind)


class PyScheduleRule(ScheduleRule):
    """The base of rules of users, which define apply, clone and, if they need the context, _initialize_with_tune_context."""


create = ScheduleRule.create
