"""From steps to a te schedule, and to the Python program that makes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.auto_scheduler.loops import clean
from tilewright.te.operation import BaseComputeOp, Operation, PlaceholderOp
from tilewright.te.schedule import Schedule
from tilewright.te.schedule_stage import SCOPE, Stage
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import IterVar


class Application:
    """A te schedule to which steps are applied. axes: the axes of each stage, as states number them. lines: the program.
    steps: those before the one that is applied."""

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.schedule = Schedule(list(outputs))
        self.axes: list[list[IterVar]] = []
        self.lines: list[str] = []
        self.steps: Sequence[Any] = ()
        for stage in self.schedule.stages:
            self.axes.append(axes_of(stage))
            if not isinstance(stage.op, PlaceholderOp):
                self.lines.append(self.declaration(len(self.axes) - 1))

    @property
    def stages(self) -> list[Stage]:
        return self.schedule.stages

    def tensor(self, stage: int) -> Tensor:
        return self.stages[stage].op.output(0)

    def name(self, stage: int) -> str:
        """The variable of a stage's tensor."""
        return clean(self.stages[stage].op.name)

    def axis_name(self, stage: int, axis: IterVar) -> str:
        """The variable of an axis."""
        return f"{self.name(stage)}_{clean(axis.var.name)}"

    def axis(self, stage: int, place: int) -> IterVar:
        return self.axes[stage][place]

    def call(self, stage: int, what: str) -> None:
        self.lines.append(f"s[{self.name(stage)}].{what}")

    def replace(self, stage: int, first: int, count: int, made: Sequence[IterVar]) -> None:
        """New axes for `count` ones. What was attached to these is attached to the innermost of the new ones."""
        old = self.axes[stage][first : first + count]
        self.axes[stage][first : first + count] = made
        parent = self.stages[stage]
        for number, other in enumerate(self.stages):
            if other.attach_type == SCOPE and other.attach_stage is parent:
                here = other.attach_ivar
                if here is not None and any([a.var is here.var for a in old]):
                    self.attach(number, stage, made[-1])

    def attach(self, stage: int, target: int, axis: IterVar) -> None:
        self.stages[stage].compute_at(self.stages[target], axis)
        self.call(stage, f"compute_at(s[{self.name(target)}], {self.axis_name(target, axis)})")

    def renew(self, stage: int) -> None:
        """After a step that changed a stage's operation."""
        self.axes[stage] = axes_of(self.stages[stage])

    def declaration(self, stage: int) -> str:
        """The line that names the axes of a stage."""
        name, op = self.name(stage), self.stages[stage].op
        reductions = getattr(op, "reduce_axis", ())
        many = ", ".join([self.axis_name(stage, a) for a in self.axes[stage]])
        comma = "," if len(self.axes[stage]) == 1 else ""
        return f"{many}{comma} = tuple({name}.op.axis)" + (
            f" + tuple({name}.op.reduce_axis)" if reductions else " + tuple(())"
        )


def axes_of(stage: Stage) -> list[IterVar]:
    op: Any = stage.op
    return [*op.axis, *getattr(op, "reduce_axis", ())] if isinstance(op, BaseComputeOp) else []
