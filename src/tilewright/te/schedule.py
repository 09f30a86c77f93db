"""The classic schedule of tensor expressions: stages with their relations. Lowering applies it to a tir.Schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.ir import PrimExpr
from tilewright.support import lazy
from tilewright.support.errors import ScheduleError
from tilewright.te import schedule_rewrite
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.primfunc import post_order
from tilewright.te.schedule_apply import apply_schedule
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

# Analyses of schedules are imported when they are first used.
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
    """Make a schedule of `ops` (an operation or tensor, or a list of them) and all that they need. Each operation is a
    stage.
    """
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

    Operations that cache_read, cache_write and rfactor replaced still refer to their stage.
    """

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self._outputs = list(outputs)
        self.whole: Callable[[PrimFunc], PrimFunc] | None = None
        """Schedules the function of all stages, in the place of what is said of single ones."""
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
        """Change the operation of a stage. The old operation still refers to the stage."""
        stage.op = op
        self.register(stage)

    def current(self, tensor: Tensor) -> Tensor:
        """The tensor that replaces `tensor` now; the tensor itself if it is not in the schedule (an input that nothing
        reads).
        """
        if tensor.op not in self._stage_of:
            return tensor
        return self[tensor].op.output(tensor.value_index)

    def __getitem__(self, tensor: Tensor | Operation) -> Stage:
        op = tensor.op if isinstance(tensor, Tensor) else tensor
        stage = self._stage_of.get(op) if isinstance(op, Operation) else None
        if stage is None:
            known = ", ".join([s.name for s in self.stages])
            raise ValueError(f"{getattr(op, 'name', op)} is not an operation of the schedule, whose stages are {known}")
        return stage

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """Copy `tensor` to storage `scope`. `readers` (operations or tensors) read the copy. Returns the copy."""
        many = list(readers) if isinstance(readers, (list, tuple)) else [readers]
        ops = [r.op if isinstance(r, Tensor) else r for r in many]
        return schedule_rewrite.cache_read(self, tensor, scope, ops)

    def cache_write(self, tensor: Tensor | list[Tensor] | tuple[Tensor, ...], scope: str) -> Any:
        """Computes `tensor` in storage of scope `scope`; its own stage becomes a copy from there. Returns the computed tensor.

        For a list or tuple with all outputs of one operation, returns the list of computed tensors.
        """
        if isinstance(tensor, (list, tuple)):
            return schedule_rewrite.cache_write(self, list(tensor), scope)
        return schedule_rewrite.cache_write(self, [tensor], scope)[0]

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """Divide a reduction into partial results and their reduction along `axis`, a leaf of the stage's reduction.

        The partial results have one more dimension, number `factor_axis`. Returns their tensor, or a list for a tuple
        reduction. The stage of `tensor` then has one reduction axis, `s[tensor].op.reduce_axis[0]`, and none of its
        earlier splits.
        """
        made = schedule_rewrite.rfactor(self, tensor, axis, factor_axis)
        return made[0] if len(made) == 1 else made

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Stage:
        """Make a stage for all operations between `inputs` and `outputs`. Its compute_at moves them together."""
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
            raise ScheduleError("create_group: there is no computed operation between the inputs and the outputs")
        group = Stage(self, members[-1].op, False)
        group.members = members
        group.leaf_iter_vars = []
        for member in members:
            member.group = group
        self.groups.append(group)
        return group

    @property
    def is_plain(self) -> bool:
        """Whether nothing was done to any stage."""
        return self.whole is None and not self.groups and all([stage.is_plain for stage in self.stages])

    def normalize(self) -> Schedule:
        """Return the schedule itself. Stages attach by position, so no axis needs a new base."""
        return self

    def to_prim_func(
        self, args: Sequence[Tensor | Var | Buffer], binds: Mapping[Tensor, Buffer] | None = None
    ) -> PrimFunc:
        """Apply all stages, and return the function with the parameters `args`. `binds` gives the buffers of tensors.

        Raises ScheduleError if a stage cannot be applied.
        """
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
    """Inline every stage that is neither an output nor a reduction."""
    for stage in sch.stages:
        if _inlinable(stage):
            stage.compute_inline()


def AutoInlineElemWise(sch: Schedule) -> None:
    """Inline the stages whose elements read only elements at the same indices."""
    _inline_where(
        sch, lambda indices, axes: len(indices) == len(axes) and all(i is a for i, a in zip(indices, axes, strict=True))
    )


def AutoInlineBroadcast(sch: Schedule) -> None:
    """Inline the stages whose elements read at a selection of their indices, in order."""

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
