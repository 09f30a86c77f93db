"""A rule that calls functions of users for the blocks that name them."""

from __future__ import annotations

from tilewright.meta_schedule.blocks import is_root, note
from tilewright.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tilewright.runtime import get_global_func
from tilewright.support.errors import TVMError
from tilewright.tir.schedule import BlockRV, Schedule


class ApplyCustomRule(ScheduleRule):
    """Applies to a block that is annotated "schedule_rule" = NAME the registered function "meta_schedule.KEY.NAME" of (schedule, block),
    for the first key of the target that has one. "None" stands for no function.

    Raises TVMError where no key has the function.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        name = None if is_root(sch, block) else note(sch.get(block), "schedule_rule")
        if name in (None, "None"):
            return [sch]
        if self.context is None or self.context.target is None:
            raise TVMError(f"the schedule rule {name!r} of block {sch.get(block).name_hint} needs a target")
        for key in self.context.target.keys:
            rule = get_global_func(f"meta_schedule.{key}.{name}", allow_missing=True)
            if rule is not None:
                made = rule(sch, block)
                return [made] if isinstance(made, Schedule) else list(made)
        raise TVMError(
            f"block {sch.get(block).name_hint} names the schedule rule {name!r}, but none of"
            f" {', '.join([f'meta_schedule.{key}.{name}' for key in self.context.target.keys])} is registered"
        )
