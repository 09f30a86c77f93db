"""The steps of a program: what each does to its loops and to a te schedule, and how records write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any, ClassVar

from tilewright.auto_scheduler.application import Application
from tilewright.auto_scheduler.loops import ANNOTATION_NAMES, INLINED, ITER, MIXED, ROOT, Iterator, StateObject
from tilewright.auto_scheduler.loops import Stage as StateStage
from tilewright.ir import Range
from tilewright.support.errors import TVMError
from tilewright.te.compute import thread_axis
from tilewright.te.operation import Operation
from tilewright.tir.expr import IterVar

UNROLL_PRAGMA = "auto_unroll_max_step"

Replay = Callable[[Sequence["Step"]], Application]
"""Applies steps to a te schedule."""

STEPS: dict[str, type[Step]] = {}
"""By the words that records have for them."""


@dataclass(frozen=True)
class Step:
    """A step. Its fields, after the word, are what a record has of it. stage_id: the stage that it changes."""

    stage_id: int
    word: ClassVar[str] = ""

    def __init_subclass__(cls, word: str = "") -> None:
        cls.word = word
        if word:
            STEPS[word] = cls

    def to_json(self) -> list[Any]:
        return [self.word, *[_written(getattr(self, f.name)) for f in fields(self)]]

    def apply(self, state: StateObject, replay: Replay) -> None:
        """Changes the loops of a state, whose last step this is."""
        raise NotImplementedError

    def schedule(self, app: Application) -> None:
        """Changes a te schedule, and adds lines to its program."""
        raise NotImplementedError


def _written(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else list(value) if isinstance(value, tuple) else value


def step_from_json(data: Any) -> Step:
    """The step that `to_json` wrote. Raises TVMError for anything else."""
    kind = STEPS.get(data[0]) if isinstance(data, list) and data and isinstance(data[0], str) else None
    if kind is None:
        raise TVMError(f"a step is a list that begins with one of {', '.join(STEPS)}, but this is {str(data)[:80]}")
    wanted = fields(kind)
    if len(data) - 1 != len(wanted):
        raise TVMError(f"the step {data[0]} has {len(wanted)} fields, but {str(data)[:80]} has {len(data) - 1}")
    values = []
    for f, value in zip(wanted, data[1:], strict=True):
        many = isinstance(value, list)
        numbers = value if many else [value]
        right = many == str(f.type).startswith("tuple")
        right &= all([isinstance(v, str) if "str" in str(f.type) else isinstance(v, int) or v is None for v in numbers])
        right &= None not in numbers or "None" in str(f.type)
        if not right:
            raise TVMError(f"the field {f.name} of the step {str(data)[:80]} is no {f.type}")
        values.append(tuple(value) if many else bool(value) if f.type == "bool" else value)
    made: Callable[..., Step] = kind
    return made(*values)


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


def _without_ranges(state: StateObject, stage: int) -> None:
    iters = state.stages[stage].iters
    state.change(stage, iters=tuple([Iterator(i.name, None, i.iter_kind, i.annotation) for i in iters]))


@dataclass(frozen=True)
class ComputeAt(Step, word="CA"):
    """A stage in a loop of another one. What it computes there depends on all loops: its ranges are known again after `infer_bound`."""

    target_stage_id: int
    target_iter_id: int

    def apply(self, state: StateObject, replay: Replay) -> None:
        _without_ranges(state, self.stage_id)
        state.change(self.stage_id, compute_at=ITER)
        state.attached[self.stage_id] = (self.target_stage_id, self.target_iter_id)

    def schedule(self, app: Application) -> None:
        app.attach(self.stage_id, self.target_stage_id, app.axis(self.target_stage_id, self.target_iter_id))


@dataclass(frozen=True)
class ComputeInline(Step, word="CI"):
    """A stage in the expressions that read it."""

    def apply(self, state: StateObject, replay: Replay) -> None:
        state.change(self.stage_id, compute_at=INLINED)
        state.attached.pop(self.stage_id, None)

    def schedule(self, app: Application) -> None:
        app.stages[self.stage_id].compute_inline()
        app.call(self.stage_id, "compute_inline()")


@dataclass(frozen=True)
class ComputeRoot(Step, word="CR"):
    """A stage on its own."""

    def apply(self, state: StateObject, replay: Replay) -> None:
        _without_ranges(state, self.stage_id)
        state.change(self.stage_id, compute_at=ROOT)
        state.attached.pop(self.stage_id, None)

    def schedule(self, app: Application) -> None:
        app.stages[self.stage_id].compute_root()
        app.call(self.stage_id, "compute_root()")


@dataclass(frozen=True)
class GraphStep(Step):
    """A step that adds an operation. The operations of all stages are those of the te schedule then."""

    def adopt(self, state: StateObject, ops: Sequence[Operation], added: int, renewed: Sequence[int]) -> None:
        state.insert(added, StateStage.of(ops[added]))
        for i, op in enumerate(ops):
            state.change(i, op=op)
        for i in renewed:
            state.change(i, iters=StateStage.of(ops[i]).iters)


@dataclass(frozen=True)
class CacheRead(GraphStep, word="CHR"):
    """A copy of a stage's tensor for some of its readers. It is the next stage."""

    scope_name: str
    reader_stage_ids: tuple[int, ...]

    def apply(self, state: StateObject, replay: Replay) -> None:
        app = replay(state.transform_steps)
        self.adopt(state, [s.op for s in app.stages], self.stage_id + 1, ())

    def schedule(self, app: Application) -> None:
        readers = [app.tensor(i) for i in self.reader_stage_ids]
        names = ", ".join([app.name(i) for i in self.reader_stage_ids])
        app.schedule.cache_read(app.tensor(self.stage_id), self.scope_name, readers)
        made = self.stage_id + 1
        app.axes.insert(made, [])
        app.renew(made)
        app.lines.append(f'{app.name(made)} = s.cache_read({app.name(self.stage_id)}, "{self.scope_name}", [{names}])')
        app.lines.append(app.declaration(made))


@dataclass(frozen=True)
class CacheWrite(GraphStep, word="CHW"):
    """The computation of a stage in storage of its own, which becomes the stage; the next one copies from there."""

    scope_name: str

    def apply(self, state: StateObject, replay: Replay) -> None:
        app = replay(state.transform_steps)
        self.adopt(state, [s.op for s in app.stages], self.stage_id, (self.stage_id + 1,))

    def schedule(self, app: Application) -> None:
        outputs: Any = list(app.stages[self.stage_id].op.outputs)
        name = app.name(self.stage_id)
        app.schedule.cache_write(outputs, self.scope_name)
        app.axes.insert(self.stage_id, [])
        app.renew(self.stage_id)
        app.renew(self.stage_id + 1)
        app.lines.append(f'{app.name(self.stage_id)} = s.cache_write(list({name}.op.outputs), "{self.scope_name}")[0]')
        app.lines.append(app.declaration(self.stage_id))
        app.lines.append(app.declaration(self.stage_id + 1).replace(f"{name}.op", f"s[{name}].op"))


@dataclass(frozen=True)
class Rfactor(GraphStep, word="RF"):
    """A reduction as partial results, which become the stage, and their reduction, the next stage."""

    iter_id: int
    factor_iter_id: int

    def apply(self, state: StateObject, replay: Replay) -> None:
        app = replay(state.transform_steps)
        self.adopt(state, [s.op for s in app.stages], self.stage_id, (self.stage_id + 1,))

    def schedule(self, app: Application) -> None:
        axis, name = app.axis(self.stage_id, self.iter_id), app.name(self.stage_id)
        axis_name = app.axis_name(self.stage_id, axis)
        several = app.stages[self.stage_id].op.num_outputs > 1
        app.schedule.rfactor(app.tensor(self.stage_id), axis, self.factor_iter_id)
        app.axes.insert(self.stage_id, [])
        app.renew(self.stage_id)
        app.renew(self.stage_id + 1)
        first = "[0]" if several else ""
        app.lines.append(f"{app.name(self.stage_id)} = s.rfactor({name}, {axis_name}, {self.factor_iter_id}){first}")
        app.lines.append(app.declaration(self.stage_id))
        app.lines.append(app.declaration(self.stage_id + 1).replace(f"{name}.op", f"s[{name}].op"))


def follow(app: Application, steps: Sequence[Step]) -> Application:
    """Applies steps to a te schedule. Raises TVMError where one is refused."""
    for i, step in enumerate(steps):
        app.steps = steps[:i]
        try:
            step.schedule(app)
        except (IndexError, KeyError) as error:
            raise TVMError(f"step {i}, {step.to_json()}, names a stage or a loop that there is not") from error
    return app


__all__ = [
    "STEPS", "Annotation", "CacheRead", "CacheWrite", "ComputeAt", "ComputeInline", "ComputeRoot", "FollowFusedSplit", "FollowSplit",
    "Fuse", "Pragma", "Reorder", "Replay", "Rfactor", "Split", "Step", "StorageAlign", "follow", "step_from_json",
]  # fmt: skip
