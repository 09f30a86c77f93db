"""The space of tuning whose candidates are traces: design spaces with decisions."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tilewright.ir import IRModule
from tilewright.meta_schedule.mutator.mutator import mutated
from tilewright.meta_schedule.plans import KernelPlans, decisions_of
from tilewright.meta_schedule.postproc import Postproc
from tilewright.meta_schedule.tune_context import TuneContext
from tilewright.meta_schedule.utils import raised
from tilewright.support.errors import ScheduleError, TVMError
from tilewright.tir.schedule import Schedule, Trace
from tilewright.tuning.space import Space

PLANNED = 0.25
"""The share of the draws that are plans of the compiler's own rules."""
ATTEMPTS = 16
"""Draws, until one whose steps are all accepted is found."""


class TraceSpace(Space[Trace]):
    """A candidate is the trace of a design space with decisions of its own, without what post-processors add: they are applied when the
    program is made.

    context: with a module and a space generator. designs: the traces of the design spaces; None generates them. plans: the schedules of the
    compiler's own rules are candidates too.
    """

    def __init__(
        self, context: TuneContext, designs: list[Trace] | None = None, plans: KernelPlans | None = None
    ) -> None:
        if context.mod is None or context.space_generator is None:
            raise TVMError("a space of traces needs a module and a space generator, and TuneContext was not given both")
        self.context, self.mod = context, context.mod
        self._last: tuple[Trace, Schedule] | None = None
        self._told: set[str] = set()
        if designs is None:
            designs = [trace_of(sch) for sch in context.generate_design_space()]
        self.designs, self.plans = [design.simplified() for design in designs], plans
        if not self.designs:
            raise TVMError(f"the space generator made no design space of {context.task_name}")

    def untuned(self) -> IRModule:
        return self.mod

    def schedule(self, candidate: Trace) -> Schedule:
        """The schedule of a candidate, with post-processors. Raises TVMError where a step or a post-processor refuses it."""
        try:
            return self._scheduled(candidate)
        except TVMError as error:
            self.context.refused = raised(error)
            raise

    def _scheduled(self, candidate: Trace) -> Schedule:
        drawn, self._last = self._last, None
        sch = drawn[1] if drawn is not None and drawn[0] is candidate else self._replayed(candidate, seed=1)
        generator = self.context.space_generator
        assert generator is not None
        completed(sch, generator.postprocs)
        return sch

    def program(self, candidate: Trace) -> IRModule:
        return self.schedule(candidate).mod

    def draw(self, random: Random) -> Trace:
        if self.plans is not None and random.random() < PLANNED:
            return self.plans.draw(random)
        design = random.choice(self.designs)
        for _ in range(ATTEMPTS):
            try:
                return self._drawn(Trace(design.insts), random)
            except ScheduleError:
                design = random.choice(self.designs)
        return design

    def neighbour(self, candidate: Trace, random: Random) -> Trace:
        decisions = decisions_of(candidate)
        if decisions is not None and self.plans is not None:
            return self.plans.neighbour(decisions, random)
        generator = self.context.space_generator
        assert generator is not None
        mutators, chances = list(generator.mutator_probs), list(generator.mutator_probs.values())
        self.context.random = random
        for _ in range(ATTEMPTS if mutators else 0):
            (mutator,) = random.choices(mutators, chances)
            try:
                changed = mutated(mutator, candidate, random)
            except Exception as error:
                self._tell(f"the mutator {type(mutator).__name__} raised {raised(error)}")
                continue
            if changed is not None:
                try:
                    return self._drawn(changed, random)
                except ScheduleError:
                    continue
        return self.draw(random)

    def crossed(self, first: Trace, second: Trace, random: Random) -> Trace:
        one, other = decisions_of(first), decisions_of(second)
        if self.plans is not None and one is not None and other is not None:
            return self.plans.crossed(one, other, random)
        return self.neighbour(first, random)

    def _tell(self, text: str) -> None:
        """Logs what is wrong, once."""
        if text not in self._told:
            self._told.add(text)
            self.context.logger.warning("%s", text)

    def write(self, candidate: Trace) -> object:
        return candidate.as_json(remove_postproc=True)

    def read(self, data: object) -> Trace:
        sch = Schedule(self.mod, seed=1, error_render_level="fast")
        try:
            Trace.apply_json_to_schedule(data, sch)
        except (ScheduleError, TypeError, ValueError, KeyError, IndexError, StopIteration) as error:
            raise TVMError(f"it is no trace of this program: {error}") from error
        return trace_of(sch)

    def _drawn(self, trace: Trace, random: Random) -> Trace:
        """The trace with a decision for each sampling step: its own, or one that is drawn. Raises ScheduleError where a step is refused."""
        sch = self._replayed(trace, random.getrandbits(30) + 1)
        found = trace_of(sch).copy()
        # Most candidates are scheduled next.
        self._last = found, sch
        return found

    def _replayed(self, trace: Trace, seed: int) -> Schedule:
        sch = Schedule(self.mod, seed=seed, error_render_level="fast")
        trace.apply_to_schedule(sch, remove_postproc=True)
        return sch


def completed(sch: Schedule, postprocs: Sequence[Postproc]) -> None:
    """Applies post-processors. Raises TVMError where one refuses the schedule, or raises."""
    sch.enter_postproc()
    for postproc in postprocs:
        name = f"the post-processor {type(postproc).__name__}"
        try:
            accepted = postproc.apply(sch)
        except TVMError:
            raise
        except Exception as error:
            raise TVMError(f"{name} raised {raised(error)}") from error
        if not accepted:
            raise TVMError(f"{name} refuses the schedule")


def trace_of(sch: Schedule) -> Trace:
    """The trace of a schedule. Raises TVMError for a schedule that keeps none."""
    if sch.trace is None:
        raise TVMError("the schedule keeps no trace, so that it cannot be tuned")
    return sch.trace
