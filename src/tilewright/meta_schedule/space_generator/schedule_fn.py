"""Design spaces by a function that schedules."""

from __future__ import annotations

from tilewright.ir import IRModule
from tilewright.meta_schedule.space_generator.space_generator import (
    MutatorProbType,
    PostprocType,
    ScheduleFnType,
    ScheduleRuleType,
    SpaceGenerator,
)
from tilewright.support.errors import TVMError
from tilewright.tir.schedule import Schedule


class ScheduleFn(SpaceGenerator, kind="function"):
    """A design space is what a function makes of a schedule: it changes it and returns nothing, or returns one or several others."""

    def __init__(
        self,
        sch_fn: ScheduleFnType,
        sch_rules: ScheduleRuleType = None,
        postprocs: PostprocType = None,
        mutator_probs: MutatorProbType = None,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        if self.context is None:
            raise TVMError("a space generator needs a context: initialize_with_tune_context")
        sch = Schedule(mod, seed=self.context.random.getrandbits(30) + 1)
        made = self.sch_fn(sch)
        if made is None:
            return [sch]
        if isinstance(made, Schedule):
            return [made]
        if isinstance(made, (list, tuple)) and all([isinstance(s, Schedule) for s in made]):
            return list(made)
        raise TypeError(f"a function that schedules returns None, a Schedule or several, but returned {made!r}")
