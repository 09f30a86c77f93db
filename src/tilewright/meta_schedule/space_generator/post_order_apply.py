"""Design spaces by rules, applied to each block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.ir import IRModule
from tilewright.meta_schedule.blocks import exists
from tilewright.meta_schedule.schedule_rule import PyScheduleRule, ScheduleRule
from tilewright.meta_schedule.space_generator.space_generator import (
    MutatorProbType,
    PostprocType,
    ScheduleRuleType,
    SpaceGenerator,
)
from tilewright.meta_schedule.utils import raised
from tilewright.support.errors import ScheduleError, TVMError
from tilewright.tir import Block
from tilewright.tir.schedule import BlockRV, Schedule
from tilewright.tir.schedule.facts.leaves import leaves
from tilewright.tir.schedule.state import StmtSRef

if TYPE_CHECKING:
    from tilewright.meta_schedule.tune_context import TuneContext


class PostOrderApply(SpaceGenerator, kind="post-order-apply"):
    """Applies each rule to each block, consumers first. A rule that makes several schedules of one multiplies the design spaces.

    f_block_filter: which blocks are scheduled. Raises TVMError where a rule raises, with its name and the block; a step of a rule of a user
    that a primitive refuses leaves the rule out there.
    """

    needs_target = True

    def __init__(
        self,
        f_block_filter: Callable[[Block], bool] | None = None,
        sch_rules: ScheduleRuleType = "from-target",
        postprocs: PostprocType = "from-target",
        mutator_probs: MutatorProbType = "from-target",
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.f_block_filter = f_block_filter

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        if isinstance(self.sch_rules, str) and self.f_block_filter is None:
            self.is_of_target = True
        super()._initialize_with_tune_context(context)

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        if self.context is None:
            raise TVMError("a space generator needs a context: initialize_with_tune_context")
        sch = Schedule(mod, seed=self.context.random.getrandbits(30) + 1, error_render_level="fast")
        blocks = [sch.get_block(name, func) for func, name in self._names(sch)]
        designs = [sch]
        for rule in self.sch_rules:
            pending: list[tuple[Schedule, list[BlockRV]]] = [(design, blocks) for design in reversed(designs)]
            designs = []
            while pending:
                design, left = pending.pop()
                if not left:
                    designs.append(design)
                    continue
                *rest, block = left
                made = self._applied(rule, design, block) if exists(design, block) else [design]
                pending += [(new, rest) for new in reversed(made)]
        return designs

    def _applied(self, rule: ScheduleRule, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """What a rule makes. Where a primitive refuses a step of a rule of a user, the rule is left out."""
        before = sch.copy() if isinstance(rule, PyScheduleRule) else None
        where = f"the schedule rule {type(rule).__name__}, applied to the block {sch.get(block).name_hint},"
        try:
            made = rule.apply(sch, block)
        except ScheduleError as error:
            if before is None or self.context is None:
                raise
            self.context.logger.warning("%s is left out: %s", where, raised(error))
            return [before]
        except Exception as error:
            raise TVMError(f"{where} raised {raised(error)}") from error
        if isinstance(made, Schedule):
            return [made]
        if not isinstance(made, (list, tuple)) or not all([isinstance(s, Schedule) for s in made]):
            raise TVMError(f"{where} must return a list of schedules, but returned {made!r}")
        return list(made)

    def _names(self, sch: Schedule) -> list[tuple[str, str]]:
        """The blocks of all functions, those inside of others first, the root of a function last."""
        found = []
        for gvar, root in sch.state.roots.items():
            names: list[Any] = []
            _collect(root, root.stmt, names)
            found += [(gvar.name_hint, b.name_hint) for b in names if not self.f_block_filter or self.f_block_filter(b)]
        return found


def _collect(root: StmtSRef, block: Any, found: list[Any]) -> None:
    for leaf in leaves(block.body):
        _collect(root, leaf.block, found)
    found.append(block)
