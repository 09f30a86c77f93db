"""Steps that split, fuse, order and mark the loops of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tilewright.auto_scheduler.application import Application
from tilewright.auto_scheduler.loops import ANNOTATION_NAMES, MIXED, Iterator, StateObject
from tilewright.auto_scheduler.step import Replay, Step
from tilewright.ir import Range
from tilewright.support.errors import TVMError
from tilewright.te.compute import thread_axis
from tilewright.tir.expr import IterVar

UNROLL_PRAGMA = "auto_unroll_max_step"


@dataclass(frozen=True)
class Annotation(Step, word="AN"):
    """A mark of a loop, by its number in ANNOTATIONS."""

    iter_id: int
    annotation: int

    def apply(self, state: StateObject, replay: Replay) -> None:
        it = state.stages[self.stage_id].iters[self.iter_id]
        changed = Iterator(it.name, it.range, it.iter_kind, self.annotation)
        state.replace_iters(self.stage_id, self.iter_id, 1, [changed])

    def schedule(self, app: Application) -> None:
        stage, axis = app.stages[self.stage_id], app.axis(self.stage_id, self.iter_id)
        word, name = ANNOTATION_NAMES[self.annotation], app.axis_name(self.stage_id, axis)
        if word in ("unroll", "vectorize", "parallel"):
            getattr(stage, word)(axis)
            app.call(self.stage_id, f"{word}({name})")
        elif word == "vthread" or "Idx" in word:
            stage.bind(axis, thread_axis(word))
            app.call(self.stage_id, f'bind({name}, te.thread_axis("{word}"))')
        else:
            raise TVMError(f"a step marks {name} as {word}, which needs more than a number")


@dataclass(frozen=True)
class Fuse(Step, word="FU"):
    """Loops, one in the other, as one."""

    fused_ids: tuple[int, ...]

    def apply(self, state: StateObject, replay: Replay) -> None:
        iters = [state.stages[self.stage_id].iters[i] for i in self.fused_ids]
        if list(self.fused_ids) != list(range(self.fused_ids[0], self.fused_ids[0] + len(iters))):
            raise TVMError(f"only loops that follow each other can be fused, but these are {[i.name for i in iters]}")
        for i in self.fused_ids[:-1]:
            if state.attached_to(self.stage_id, i):
                raise TVMError(
                    f"{iters[0].name} cannot be fused: a stage is computed in {iters[i - self.fused_ids[0]].name}"
                )
        extents = [it.extent for it in iters]
        size = prod([e for e in extents if e is not None])
        kinds = {it.iter_kind for it in iters}
        made = Iterator(
            "".join([f"{it.name}@" for it in iters]),
            Range(0, size) if None not in extents else None,
            kinds.pop() if len(kinds) == 1 else MIXED,
        )
        state.replace_iters(self.stage_id, self.fused_ids[0], len(iters), [made])

    def schedule(self, app: Application) -> None:
        axes = [app.axis(self.stage_id, i) for i in self.fused_ids]
        if len(axes) == 1:
            return
        fused = app.stages[self.stage_id].fuse(*axes)
        many = ", ".join([app.axis_name(self.stage_id, a) for a in axes])
        app.lines.append(f"{app.axis_name(self.stage_id, fused)} = s[{app.name(self.stage_id)}].fuse({many})")
        app.replace(self.stage_id, self.fused_ids[0], len(axes), [fused])


@dataclass(frozen=True)
class Pragma(Step, word="PR"):
    """A hint for a loop: "auto_unroll_max_step$64" is one with its value."""

    iter_id: int
    pragma_type: str

    def apply(self, state: StateObject, replay: Replay) -> None:
        name, _, value = self.pragma_type.partition("$")
        if name == UNROLL_PRAGMA:
            state.change(self.stage_id, auto_unroll_max_step=int(value))

    def schedule(self, app: Application) -> None:
        stage, axis = app.stages[self.stage_id], app.axis(self.stage_id, self.iter_id)
        name, _, value = self.pragma_type.partition("$")
        hints: list[tuple[str, Any]] = [(name, int(value) if value else None)]
        if name == UNROLL_PRAGMA:
            hints.append(("unroll_explicit", True))
        for key, number in hints:
            stage.pragma(axis, key, number)
            app.call(self.stage_id, f'pragma({app.axis_name(self.stage_id, axis)}, "{key}", {number})')


@dataclass(frozen=True)
class Reorder(Step, word="RE"):
    """All loops of a stage in another order."""

    after_ids: tuple[int, ...]

    def apply(self, state: StateObject, replay: Replay) -> None:
        iters = state.stages[self.stage_id].iters
        if sorted(self.after_ids) != list(range(len(iters))):
            raise TVMError(
                f"the order of all {len(iters)} loops is needed, each once, but it is {list(self.after_ids)}"
            )
        state.change(self.stage_id, iters=tuple([iters[i] for i in self.after_ids]))
        for other in state.attached_to(self.stage_id):
            state.attached[other] = (self.stage_id, self.after_ids.index(state.attached[other][1]))

    def schedule(self, app: Application) -> None:
        axes = [app.axis(self.stage_id, i) for i in self.after_ids]
        app.stages[self.stage_id].reorder(*axes)
        app.call(self.stage_id, f"reorder({', '.join([app.axis_name(self.stage_id, a) for a in axes])})")
        app.axes[self.stage_id] = axes


def split_state(
    state: StateObject, stage: int, place: int, lengths: Sequence[int | None], inner_to_outer: bool
) -> list[Iterator]:
    """Loops for one: with the given extents, from the inside to the outside or the other way round."""
    it = state.stages[stage].iters[place]
    known = [n for n in lengths if n is not None]
    rest = None if len(known) < len(lengths) or it.extent is None else -(-it.extent // prod(known))
    sizes = [rest, *lengths] if inner_to_outer else [*lengths, rest]
    made = [Iterator(f"{it.name}.{i}", None if n is None else Range(0, n), it.iter_kind) for i, n in enumerate(sizes)]
    if len(known) < len(lengths):
        state.concrete = False
    state.replace_iters(stage, place, 1, made)
    return made


def split_axis(app: Application, stage: int, place: int, lengths: Sequence[int | None], inner_to_outer: bool) -> None:
    rest, made = app.axis(stage, place), list[IterVar]()
    for length in reversed(lengths) if inner_to_outer else lengths:
        # A length that is still to be chosen does not matter for the graph of operations.
        size, what = length or 1, "factor" if inner_to_outer else "nparts"
        factor, nparts = (size, None) if inner_to_outer else (None, size)
        outer, inner = app.stages[stage].split(rest, factor, nparts)
        names = f"{app.axis_name(stage, outer)}, {app.axis_name(stage, inner)}"
        app.lines.append(f"{names} = s[{app.name(stage)}].split({app.axis_name(stage, rest)}, {what}={size})")
        if inner_to_outer:
            made.insert(0, inner)
            rest = outer
        else:
            made.append(outer)
            rest = inner
    app.replace(stage, place, 1, [rest, *made] if inner_to_outer else [*made, rest])


@dataclass(frozen=True)
class Split(Step, word="SP"):
    """A loop as several. extent: of the loop, where known. lengths: of the inner loops (or of the outer ones), None where still to be
    chosen."""

    iter_id: int
    extent: int | None
    lengths: tuple[int | None, ...]
    inner_to_outer: bool

    def apply(self, state: StateObject, replay: Replay) -> None:
        split_state(state, self.stage_id, self.iter_id, self.lengths, self.inner_to_outer)

    def schedule(self, app: Application) -> None:
        split_axis(app, self.stage_id, self.iter_id, self.lengths, self.inner_to_outer)


@dataclass(frozen=True)
class FollowSplit(Step, word="FSP"):
    """A split with the lengths of an earlier one, the last of them taken together."""

    iter_id: int
    src_step_id: int
    n_split: int

    def lengths(self, steps: Sequence[Step]) -> list[int | None]:
        source = steps[self.src_step_id] if self.src_step_id < len(steps) else None
        if not isinstance(source, Split) or not 0 < self.n_split <= len(source.lengths):
            raise TVMError(
                f"step {self.src_step_id} is no split into more than {self.n_split} loops, which another could follow"
            )
        inner = source.lengths[self.n_split - 1 :]
        last = None if None in inner else prod([n for n in inner if n is not None])
        return [*source.lengths[: self.n_split - 1], last]

    def apply(self, state: StateObject, replay: Replay) -> None:
        split_state(state, self.stage_id, self.iter_id, self.lengths(state.transform_steps), True)

    def schedule(self, app: Application) -> None:
        split_axis(app, self.stage_id, self.iter_id, self.lengths(app.steps), True)


@dataclass(frozen=True)
class FollowFusedSplit(Step, word="FFSP"):
    """A split by the product of the lengths, at one level, of several earlier splits."""

    iter_id: int
    src_step_ids: tuple[int, ...]
    level: int
    factor_or_nparts: bool

    def length(self, steps: Sequence[Step]) -> int | None:
        size = 1
        for i in self.src_step_ids:
            source = steps[i] if i < len(steps) else None
            if not isinstance(source, Split) or not 0 <= self.level < len(source.lengths):
                raise TVMError(f"step {i} is no split with a length at level {self.level}, which another could follow")
            length = source.lengths[self.level]
            if length is None:
                return None
            size *= length
        return size

    def apply(self, state: StateObject, replay: Replay) -> None:
        length = self.length(state.transform_steps)
        split_state(state, self.stage_id, self.iter_id, [length], self.factor_or_nparts)

    def schedule(self, app: Application) -> None:
        split_axis(app, self.stage_id, self.iter_id, [self.length(app.steps)], self.factor_or_nparts)


@dataclass(frozen=True)
class StorageAlign(Step, word="SA"):
    """Strides of the dimension before a loop: `factor` elements times a number, and `offset`."""

    iter_id: int
    factor: int
    offset: int

    def apply(self, state: StateObject, replay: Replay) -> None:
        state.change(self.stage_id, storage_offset=self.offset)

    def schedule(self, app: Application) -> None:
        axis = app.axis(self.stage_id, self.iter_id)
        app.stages[self.stage_id].storage_align(axis, self.factor, self.offset)
        app.call(self.stage_id, f"storage_align({app.axis_name(self.stage_id, axis)}, {self.factor}, {self.offset})")
