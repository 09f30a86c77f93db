"""What makes the design spaces of a kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tilewright.ir import IRModule
from tilewright.meta_schedule import defaults
from tilewright.meta_schedule.mutator import Mutator
from tilewright.meta_schedule.part import Part
from tilewright.meta_schedule.postproc import Postproc
from tilewright.meta_schedule.schedule_rule import ScheduleRule
from tilewright.tir.schedule import Schedule

if TYPE_CHECKING:
    from tilewright.meta_schedule.tune_context import TuneContext

ScheduleRuleType = Sequence[ScheduleRule] | str | None
PostprocType = Sequence[Postproc] | str | None
MutatorProbType = Mapping[Mutator, float] | str | None
ScheduleFnType = Callable[[Schedule], None | Schedule | Sequence[Schedule]]


class SpaceGenerator(Part):
    """Makes design spaces, with the post-processors that complete their schedules and the mutators that change them.

    sch_rules, postprocs, mutator_probs: "from-target" takes those of the context's target, a kind such as "llvm" those of the kind, and
    None none.
    """

    sch_rules: Any = "from-target"
    postprocs: Any = "from-target"
    mutator_probs: Any = "from-target"
    kinds: ClassVar[dict[str, Callable[..., SpaceGenerator]]] = {}
    """The generators by the names that `create` takes."""
    needs_target = False
    """Whether there is no design space without the rules of a target."""
    is_of_target = False
    """Whether the design spaces are those of the default rules of a target, for all blocks."""

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            SpaceGenerator.kinds[kind] = cls

    def __init__(
        self,
        sch_rules: ScheduleRuleType = "from-target",
        postprocs: PostprocType = "from-target",
        mutator_probs: MutatorProbType = "from-target",
    ) -> None:
        self.sch_rules, self.postprocs, self.mutator_probs = sch_rules, postprocs, mutator_probs

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self.context = context
        self.sch_rules = self._given(self.sch_rules, defaults.schedule_rules) or []
        self.postprocs = self._given(self.postprocs, defaults.postprocs) or []
        self.mutator_probs = self._given(self.mutator_probs, defaults.mutators) or {}
        for part in [*self.sch_rules, *self.postprocs, *self.mutator_probs]:
            part._initialize_with_tune_context(context)

    @property
    def parts_given(self) -> tuple[Any, Any, Any]:
        """Rules, post-processors and mutators: names, before the generator has a context."""
        return self.sch_rules, self.postprocs, self.mutator_probs

    def _given(self, value: Any, default: Callable[[str], Any]) -> Any:
        if not isinstance(value, str):
            return value
        target = self.context.target if self.context is not None else None
        if value == "from-target" and target is None and not self.needs_target:
            return None
        return default(defaults.kind_of(target) if value == "from-target" else value)

    @abstractmethod
    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The design spaces of a module: schedules whose traces have sampled decisions."""

    def clone(self) -> Self:
        new = super().clone()
        for name in ("sch_rules", "postprocs"):
            if not isinstance(getattr(new, name), str):
                setattr(new, name, [part.clone() for part in getattr(new, name) or ()])
        if not isinstance(new.mutator_probs, str):
            new.mutator_probs = {part.clone(): chance for part, chance in (new.mutator_probs or {}).items()}
        return new

    @staticmethod
    def create(kind: str | ScheduleFnType = "post-order-apply", *args: Any, **kwargs: Any) -> SpaceGenerator:
        """A generator by its name, "post-order-apply" or "union", or from a function that schedules. Raises ValueError for others."""
        kinds = SpaceGenerator.kinds
        if callable(kind):
            return kinds["function"](kind, *args, **kwargs)
        if kind in kinds:
            return kinds[kind](*args, **kwargs)
        raise ValueError(f'a space generator is "post-order-apply", "union" or a function, but {kind!r} was given')


class PySpaceGenerator(SpaceGenerator):
    """The base of generators of users, which define generate_design_space and may define clone and _initialize_with_tune_context."""


create = SpaceGenerator.create
