"""Steps that place stages, and those that add some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.auto_scheduler.application import Application
from tilewright.auto_scheduler.loops import INLINED, ITER, ROOT, Iterator, Stage, StateObject
from tilewright.auto_scheduler.step import Replay, Step
from tilewright.te.operation import Operation


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
        state.insert(added, Stage.of(ops[added]))
        for i, op in enumerate(ops):
            state.change(i, op=op)
        for i in renewed:
            state.change(i, iters=Stage.of(ops[i]).iters)


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
