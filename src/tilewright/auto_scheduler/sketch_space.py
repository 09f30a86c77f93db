"""Sketches and what they leave open, as a space of the tuning engine.

A candidate is a state whose steps say everything. Its record is its steps, so nothing else is remembered of it: which of them are the
sketch, which places and which marks is read from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from random import Random

from tilewright.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from tilewright.auto_scheduler.loops import ANNOTATIONS, StateObject
from tilewright.auto_scheduler.sampling import UNROLLED, WIDEST, Sampler, divisors, is_movable
from tilewright.auto_scheduler.sketch_facts import always_inlined
from tilewright.auto_scheduler.steps import (
    UNROLL_PRAGMA,
    Annotation,
    ComputeAt,
    ComputeInline,
    Fuse,
    Pragma,
    Split,
    Step,
    step_from_json,
)
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.tuning.space import Space

TRIES = 8
KEPT = 8192
"""Programs whose candidates are known: more than a search has in hand."""


class SketchSpace(Space[StateObject]):
    """The programs of sketches.

    sampler: draws what sketches leave open. layout_rewrite: what programs do with parameters whose layouts are free. Changes of candidates
    are those of Ansor (Zheng et al., OSDI 2020, section 5.1): sizes of tiles, unrolling, parallel and vectorised loops, places; crossed
    candidates take the tiles of a stage from one of them.
    """

    def __init__(
        self,
        sampler: Sampler,
        sketches: Sequence[StateObject],
        layout_rewrite: int = LayoutRewriteOption.NO_REWRITE,
    ) -> None:
        if not sketches:
            raise TVMError("a space needs at least one sketch, but the rules made none")
        self.sampler, self.sketches, self.layout_rewrite = sampler, list(sketches), layout_rewrite
        self._states: dict[int, tuple[IRModule, StateObject]] = {}

    @property
    def dag(self) -> ComputeDAG:
        return self.sampler.dag

    def untuned(self) -> IRModule:
        schedule, args = self.dag.apply_steps_from_state(self.dag.init_state)
        return IRModule.from_expr(schedule.to_prim_func(args))

    def program(self, candidate: StateObject) -> IRModule:
        schedule, args = self.dag.apply_steps_from_state(candidate, self.layout_rewrite)
        made = IRModule.from_expr(schedule.to_prim_func(args))
        if len(self._states) >= KEPT:
            self._states.pop(next(iter(self._states)))
        self._states[id(made)] = made, candidate
        return made

    def state_of(self, program: IRModule) -> StateObject:
        """The candidate of a program that the space made, one of the last KEPT."""
        return self._states[id(program)][1]

    def draw(self, random: Random) -> StateObject:
        for _ in range(TRIES - 1):
            try:
                return self.sampler.sample(random.choice(self.sketches), random)
            except TVMError:
                continue
        return self.sampler.sample(random.choice(self.sketches), random)

    def neighbour(self, candidate: StateObject, random: Random) -> StateObject:
        changes = [self._resized, self._unrolled, self._marked_anew, self._moved]
        for _ in range(TRIES):
            change = random.choices(changes, (0.6, 0.1, 0.2, 0.1))[0]
            try:
                made = change(candidate, random)
            except TVMError:
                continue
            if made is not None and made != candidate:
                return made
        return self.draw(random)

    def crossed(self, first: StateObject, second: StateObject, random: Random) -> StateObject:
        mine, other = self._sketch(first), self._sketch(second)
        places = _without_marks(first.transform_steps)[len(mine) :]
        if [_open(s) for s in mine] != [_open(s) for s in other]:
            return self.neighbour(first, random)
        from_other = {n for n in range(len(first.stages)) if random.random() < 0.5}
        steps = [
            b if a.stage_id in from_other and isinstance(a, Split) else a for a, b in zip(mine, other, strict=True)
        ]
        try:
            return self.sampler.marked(self.dag.state_of([*steps, *places]), random)
        except TVMError:
            return self.neighbour(first, random)

    def write(self, candidate: StateObject) -> object:
        return candidate.to_json()

    def read(self, data: object) -> StateObject:
        if not isinstance(data, list):
            raise TVMError(f"a candidate is a list of steps, but this is {str(data)[:80]}")
        return self.dag.state_of([step_from_json(step) for step in data])

    def _resized(self, candidate: StateObject, random: Random) -> StateObject | None:
        """Moves a factor from one loop of a split to another one."""
        steps = list(candidate.transform_steps)
        # A structure with a single level of a kind splits its loops into one.
        splits = [i for i, s in enumerate(steps) if isinstance(s, Split) and s.lengths and (s.extent or 0) > 1]
        if not splits:
            return None
        place = random.choice(splits)
        changed = self._other_lengths(steps[place], random)
        if changed is None:
            return None
        steps[place] = changed
        bounded = self.dag.infer_bound_from_state(self.dag.state_of(steps)).state_object
        widest = self.sampler.limits.max_vectorize_size * WIDEST
        for stage in bounded.stages:
            if any([it.annotation == ANNOTATIONS["vectorize"] and (it.extent or 0) > widest for it in stage.iters]):
                return self.sampler.marked(self.dag.state_of(_without_marks(steps)), random)
        return bounded

    def _other_lengths(self, step: Step, random: Random) -> Split | None:
        assert isinstance(step, Split) and step.extent is not None
        lengths = [n or 1 for n in step.lengths]
        if not step.inner_to_outer:
            lengths.reverse()
        if step.extent % prod(lengths):
            return None
        whole = [step.extent // prod(lengths), *lengths]
        giver = random.choice([i for i, n in enumerate(whole) if n > 1])
        taker = random.choice([i for i in range(len(whole)) if i != giver])
        factor = random.choice(divisors(whole[giver])[1:])
        whole[giver] //= factor
        whole[taker] *= factor
        if whole[-1] > self.sampler.limits.max_innermost_split_factor:
            return None
        made = whole[1:] if step.inner_to_outer else whole[:0:-1]
        return replace(step, lengths=tuple(made))

    def _sketch(self, candidate: StateObject) -> list[Step]:
        """The steps that are neither marks nor drawn places."""
        steps = _without_marks(candidate.transform_steps)
        while steps:
            last = steps[-1]
            if not isinstance(last, (ComputeAt, ComputeInline)):
                break
            before = self.dag.state_of(steps[:-1])
            if always_inlined(before, last.stage_id) or not is_movable(before, last.stage_id):
                break
            steps.pop()
        return steps

    def _unrolled(self, candidate: StateObject, random: Random) -> StateObject | None:
        """Another length of unrolled code."""
        steps = list(candidate.transform_steps)
        hints = [i for i, s in enumerate(steps) if isinstance(s, Pragma) and s.pragma_type.startswith(UNROLL_PRAGMA)]
        if not hints:
            return None
        place = random.choice(hints)
        hint = steps[place]
        assert isinstance(hint, Pragma)
        steps[place] = replace(hint, pragma_type=f"{UNROLL_PRAGMA}${random.choice(UNROLLED)}")
        return self.dag.state_of(steps)

    def _marked_anew(self, candidate: StateObject, random: Random) -> StateObject:
        """Other parallel and vectorised loops."""
        return self.sampler.marked(self.dag.state_of(_without_marks(candidate.transform_steps)), random)

    def _moved(self, candidate: StateObject, random: Random) -> StateObject | None:
        """Other places of the stages that have no tiles."""
        if not self.sampler.limits.moves:
            return None
        return self.sampler.finish(self._sketch(candidate), random)


def _open(step: Step) -> Step:
    """A step without what is drawn of it."""
    return replace(step, lengths=(None,) * len(step.lengths)) if isinstance(step, Split) else step


def _without_marks(steps: Sequence[Step]) -> list[Step]:
    """Steps without those at the end that fuse and mark loops."""
    end = len(steps)
    while end and isinstance(steps[end - 1], (Annotation, Fuse, Pragma)):
        end -= 1
    return list(steps[:end])
