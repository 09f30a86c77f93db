"""The classic schedule of tensor expressions: stages with their relations, applied to a tir.Schedule when lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.ir import PrimExpr
from tilewright.support import lazy
from tilewright.support.errors import ScheduleError
from tilewright.te import schedule_rewrite
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.primfunc import post_order
from tilewright.te.schedule_stage import (
    INLINE,
    AttachType,
    Fuse,
    IterVarAttr,
    Singleton,
    SpecializedCondition,
    Split,
    Stage,
)
from tilewright.te.tensor import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IterVar, ProducerLoad, Reduce, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt_functor import post_order_visit

# Questions about schedules stand in a module of their own.
lazy.declare(
    __name__,
    {
        name: f"tilewright.te.schedule_graph:{name}"
        for name in (
            "CreateAttachPath",
            "CreateReadGraph",
            "InferBound",
            "PostDFSOrder",
            "ScanFixPointAnalysis",
            "ScanGetBody",
            "ScheduleOps",
            "SchedulePostProcToPrimFunc",
            "VerifyCompactBuffer",
        )  # fmt: skip
    },
)
__getattr__, __dir__ = lazy.late(__name__)

__all__ = [
    "AttachType", "AutoInlineBroadcast", "AutoInlineElemWise", "AutoInlineInjective", "Buffer", "Fuse", "IterVarAttr",
    "Schedule", "Singleton", "SpecializedCondition", "Split", "Stage", "create_schedule",
]  # fmt: skip


def create_schedule(ops: Any) -> Schedule:
    """A schedule of what `ops` (an operation or tensor, or a list of them) need; each operation is a stage."""
    given = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    outputs: list[Operation] = []
    for op in given:
        op = op.op if isinstance(op, Tensor) else op
        if not isinstance(op, Operation):
            raise TypeError(f"create_schedule takes operations or tensors, but was given {type(op).__name__}")
        outputs.append(op)
    return Schedule(outputs)


class Schedule:
    """Stages in the order of computation; `s[tensor]` or `s[op]` is the stage of an operation.

    Operations that cache_read, cache_write and rfactor replaced go on naming their stage.
    """

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self._outputs = list(outputs)
        self.stages: list[Stage] = []
        self.groups: list[Stage] = []
        self._stage_of: dict[Operation, Stage] = {}
        for op in post_order(list(outputs)):
            stage = Stage(self, op, op in self._outputs)
            self.stages.append(stage)
            self.register(stage)

    @property
    def outputs(self) -> list[Operation]:
        return [self._stage_of[op].op for op in self._outputs]

    @property
    def stage_map(self) -> dict[Operation, Stage]:
        return dict(self._stage_of)

    def register(self, stage: Stage) -> None:
        self._stage_of[stage.op] = stage

    def adopt(self, stage: Stage, op: Operation) -> None:
        """The stage's operation changes; the old one goes on naming it."""
        stage.op = op
        self.register(stage)

    def current(self, tensor: Tensor) -> Tensor:
        """The tensor that stands for `tensor` now; itself when it is no part of the schedule (an input that nothing reads)."""
        if tensor.op not in self._stage_of:
            return tensor
        return self[tensor].op.output(tensor.value_index)

    def __getitem__(self, tensor: Tensor | Operation) -> Stage:
        op = tensor.op if isinstance(tensor, Tensor) else tensor
        stage = self._stage_of.get(op) if isinstance(op, Operation) else None
        if stage is None:
            known = ", ".join([s.name for s in self.stages])
            raise ValueError(f"{getattr(op, 'name', op)} is no operation of the schedule, whose stages are {known}")
        return stage

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """A copy of `tensor` in storage `scope`, which `readers` (operations or tensors) read from then on."""
        many = list(readers) if isinstance(readers, (list, tuple)) else [readers]
        ops = [r.op if isinstance(r, Tensor) else r for r in many]
        return schedule_rewrite.cache_read(self, tensor, scope, ops)

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """The computation of `tensor` goes to storage `scope`, and its own stage becomes a copy from there.

        A list or tuple with all outputs of one operation gives the list of what is computed.
        """
        several = isinstance(tensor, (list, tuple))
        made = schedule_rewrite.cache_write(self, list(tensor) if several else [tensor], scope)
        return made if several else made[0]

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """Reduces along `axis`, a leaf of the reduction, last: the rest goes to a tensor with one more dimension.

        That dimension is number `factor_axis`. Returns the new tensor, or the list of them for a tuple reduction. The
        stage of `tensor` starts over with one reduction axis, `s[tensor].op.reduce_axis[0]`.
        """
        made = schedule_rewrite.rfactor(self, tensor, axis, factor_axis)
        return made[0] if len(made) == 1 else made

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Stage:
        """A stage that stands for the operations between `inputs` and `outputs`: its compute_at moves them together."""
        outs = [self[t].op for t in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]
        ins = {self[t].op for t in (inputs if isinstance(inputs, (list, tuple)) else [inputs])}
        seen: set[Operation] = set()
        stack = list(outs)
        while stack:
            op = stack.pop()
            if op in seen or (op in ins and not include_inputs):
                continue
            seen.add(op)
            if op not in ins and isinstance(op, ComputeOp):
                stack += [t.op for t in op.input_tensors]
        members = [st for st in self.stages if st.op in seen and isinstance(st.op, ComputeOp)]
        if not members:
            raise ScheduleError("create_group: no computed operation stands between the inputs and the outputs")
        group = Stage(self, members[-1].op, False)
        group.members = members
        group.leaf_iter_vars = []
        for member in members:
            member.group = group
        self.groups.append(group)
        return group

    def normalize(self) -> Schedule:
        """The schedule itself: stages attach by position, so that axes need no rebasing."""
        return self

    def to_prim_func(
        self, args: Sequence[Tensor | Var | Buffer], binds: Mapping[Tensor, Buffer] | None = None
    ) -> PrimFunc:
        """The function of parameters `args`, with all stages applied; `binds` gives the buffers of tensors.

        Raises ScheduleError where a stage cannot be.
        """
        from tilewright.te.schedule_apply import apply_schedule

        return apply_schedule(self, list(args), binds)


def _inlinable(stage: Stage) -> bool:
    op = stage.op
    return (
        isinstance(op, ComputeOp)
        and not stage.is_output
        and len(op.body) == 1
        and not isinstance(op.body[0], Reduce)
        and stage.attach_type != INLINE
        and not stage.actions
    )


def AutoInlineInjective(sch: Schedule) -> None:
    """Inlines every stage that is no output and no reduction."""
    for stage in sch.stages:
        if _inlinable(stage):
            stage.compute_inline()


def AutoInlineElemWise(sch: Schedule) -> None:
    """Inlines the stages whose elements read elements at the same place only."""
    _inline_where(
        sch, lambda indices, axes: len(indices) == len(axes) and all(i is a for i, a in zip(indices, axes, strict=True))
    )


def AutoInlineBroadcast(sch: Schedule) -> None:
    """Inlines the stages whose elements read along a selection of their axes, in order."""

    def broadcast(indices: Sequence[Any], axes: Sequence[Var]) -> bool:
        places = [next((k for k, a in enumerate(axes) if a is i), -1) for i in indices if isinstance(i, Var)]
        return -1 not in places and places == sorted(places)

    _inline_where(sch, broadcast)


def _inline_where(sch: Schedule, allowed: Any) -> None:
    for stage in sch.stages:
        if not _inlinable(stage):
            continue
        op = stage.op
        assert isinstance(op, ComputeOp)
        if all([allowed(load.indices, [a.var for a in op.axis]) for load in _loads(op.body[0])]):
            stage.compute_inline()


def _loads(expr: PrimExpr) -> list[ProducerLoad]:
    found: list[ProducerLoad] = []

    def note(e: Any) -> None:
        if isinstance(e, ProducerLoad):
            found.append(e)

    post_order_visit(expr, note)
    return found
