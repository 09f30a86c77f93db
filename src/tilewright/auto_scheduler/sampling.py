"""From sketches to programs: sizes of tiles, places of stages, parallel, vectorised and unrolled loops, drawn at random.

As in Ansor (Zheng et al., OSDI 2020, section 4.2), every size that divides a loop is as likely as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from random import Random

from tilewright.auto_scheduler.compute_dag import ComputeDAG
from tilewright.auto_scheduler.hardware import HardwareParams
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.loops import COMPUTE, INLINED, REDUCTION, ROOT, SPATIAL, Iterator, StateObject
from tilewright.auto_scheduler.sketch_facts import (
    PARALLELISM,
    is_input_copy,
    is_output,
    is_untouched,
    readers,
    reduces,
    tile_ends,
)
from tilewright.auto_scheduler.steps import UNROLL_PRAGMA, Split, Step
from tilewright.support.errors import TVMError

UNROLLED = (0, 16, 64, 512)
"""Lengths of code that may come of unrolled loops."""

WIDEST = 4
"""The innermost loop of a tile may have so many times the lanes of fused loops: several vectors side by side, which are multiplied by the
same elements."""


@dataclass(frozen=True)
class Limits:
    """max_innermost_split_factor: of the innermost tile. max_vectorize_size: lanes of fused loops. moves: whether stages that have no tiles
    may be computed in loops of others."""

    max_innermost_split_factor: int = 64
    max_vectorize_size: int = 16
    moves: bool = True


@dataclass(frozen=True)
class Sampler:
    """Draws what a sketch leaves open."""

    dag: ComputeDAG
    hardware: HardwareParams
    limits: Limits = Limits()

    def sample(self, sketch: StateObject, random: Random) -> StateObject:
        """A program of a sketch. Raises TVMError where what was drawn does not fit together."""
        return self.finish(self.sizes(sketch.transform_steps, random), random)

    def sizes(self, steps: Sequence[Step], random: Random) -> list[Step]:
        """Steps whose splits have all lengths."""
        return [self._sized(s, random) if isinstance(s, Split) and None in s.lengths else s for s in steps]

    def finish(self, steps: Sequence[Step], random: Random) -> StateObject:
        """Places and marks for steps with all lengths."""
        state = State(self.dag.state_of(steps), self.dag)
        if self.limits.moves:
            for number in reversed(range(len(state.stages))):
                self._place(state, number, random)
        return self.marked(state.state_object, random)

    def marked(self, placed: StateObject, random: Random) -> StateObject:
        """Parallel, unrolled and vectorised loops."""
        state = self.dag.infer_bound_from_state(placed)
        for number, stage in enumerate(state.stages):
            if stage.op_type != COMPUTE or stage.compute_at == INLINED or not stage.iters:
                continue
            if stage.compute_at == ROOT:
                self._parallel(state, number, random)
            if reduces(stage.op):
                step = random.choice(UNROLLED)
                state.pragma(number, state[number].iters[0], f"{UNROLL_PRAGMA}${step}")
            self._vectorize(state, number, random)
        return state.state_object

    def _sized(self, step: Split, random: Random) -> Split:
        if step.extent is None:
            raise TVMError(f"the step {step.to_json()} splits a loop whose extent is not known")
        found = factorizations(step.extent, len(step.lengths), self.limits.max_innermost_split_factor)
        chosen = random.choice(found)
        return replace(step, lengths=chosen if step.inner_to_outer else chosen[::-1])

    def _place(self, state: State, number: int, random: Random) -> None:
        """Where a stage without tiles is computed: on its own, inlined, or in a loop of the stage that reads it."""
        if not is_movable(state.state_object, number):
            return
        (reader,) = readers(state.state_object, number)
        if is_input_copy(state.state_object, number):
            state.compute_at(number, *random.choice(tile_ends(state.state_object, reader)))
            return
        places: list[Iterator | int] = [ROOT, *state[reader].iters]
        if not reduces(state[number].op):
            places.append(INLINED)
        place = random.choice(places)
        if isinstance(place, Iterator):
            state.compute_at(number, reader, place)
        elif place == INLINED:
            state.compute_inline(number)

    def _parallel(self, state: State, number: int, random: Random) -> None:
        """Fuses outer loops, up to those in which others are computed, until they are enough for all cores."""
        wanted = self.hardware.num_cores * PARALLELISM
        chosen: list[Iterator] = []
        options: list[int] = []
        for place, it in enumerate(state[number].iters):
            if it.iter_kind == REDUCTION or it.extent is None or it.annotation:
                break
            chosen.append(it)
            options.append(place + 1)
            enough = prod([i.extent or 1 for i in chosen]) >= wanted
            if enough or state.state_object.attached_to(number, place):
                break
        # The most that is allowed is as likely as all others together: it is what a loop without cores to spare needs.
        count = 0 if not options else options[-1] if random.random() < 0.5 else random.choice(options)
        if count and prod([it.extent or 1 for it in chosen[:count]]) > 1:
            fused = state.fuse(number, chosen[:count]) if count > 1 else chosen[0]
            state.parallel(number, fused)

    def _vectorize(self, state: State, number: int, random: Random) -> None:
        """Fuses inner loops to vectors. Of tiles only the innermost loop: elements of other loops are not neighbours, and a vector of them
        would be gathered and scattered."""
        iters = state[number].iters
        whole = is_untouched(state.state_object, number) and not reduces(state[number].op)
        widest = self.limits.max_vectorize_size * (1 if whole else WIDEST)
        lanes, options = 1, []
        for place in range(len(iters) - 1, -1 if whole else len(iters) - 2, -1):
            it = iters[place]
            if it.iter_kind != SPATIAL or it.annotation or it.extent is None:
                break
            lanes *= it.extent
            if lanes > widest:
                break
            if lanes > 1:
                options.append(place)
            if state.state_object.attached_to(number, place - 1) or state.state_object.attached_to(number, place):
                break
        inside = [p for p in options if not state.state_object.attached_to(number, p)]
        if not inside:
            return
        first = random.choice(inside)
        fused = state.fuse(number, iters[first:]) if first < len(iters) - 1 else iters[first]
        state.vectorize(number, fused)


def is_movable(state: StateObject, number: int) -> bool:
    """Whether a stage has no tiles, nothing in its loops, and a single reader with loops."""
    stage = state.stages[number]
    if stage.op_type != COMPUTE or stage.compute_at != ROOT or is_output(state, number):
        return False
    if not is_untouched(state, number) or state.attached_to(number):
        return False
    found = readers(state, number)
    return len(found) == 1 and bool(state.stages[found[0]].iters)


@lru_cache(maxsize=4096)
def factorizations(extent: int, parts: int, innermost: int) -> tuple[tuple[int, ...], ...]:
    """All lengths of `parts` inner loops whose product divides an extent, the last of them at most `innermost`."""
    found: list[tuple[int, ...]] = [()]
    for part in range(parts):
        limit = innermost if part == 0 else extent
        found = [(size, *rest) for rest in found for size in divisors(extent // prod(rest)) if size <= limit]
    return tuple(found)


@lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    return tuple([d for d in range(1, n + 1) if n % d == 0])
