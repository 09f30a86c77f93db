"""The design spaces of several generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from tilewright.ir import IRModule
from tilewright.meta_schedule.space_generator.space_generator import (
    MutatorProbType,
    PostprocType,
    ScheduleRuleType,
    SpaceGenerator,
)
from tilewright.tir.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.meta_schedule.tune_context import TuneContext


class SpaceGeneratorUnion(SpaceGenerator, kind="union"):
    """Has the design spaces of all its generators; its own post-processors and mutators apply to them."""

    def __init__(
        self,
        space_generators: Sequence[SpaceGenerator],
        sch_rules: ScheduleRuleType = "from-target",
        postprocs: PostprocType = "from-target",
        mutator_probs: MutatorProbType = "from-target",
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = list(space_generators)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        for generator in self.space_generators:
            generator._initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        return [design for generator in self.space_generators for design in generator.generate_design_space(mod)]

    def clone(self) -> Self:
        new = super().clone()
        new.space_generators = [generator.clone() for generator in self.space_generators]
        return new
