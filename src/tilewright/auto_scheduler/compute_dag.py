"""A computation as a graph of operations: where programs of it begin, and what their steps make of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from tilewright.arith import Analyzer
from tilewright.auto_scheduler.application import Application
from tilewright.auto_scheduler.flops import flops_of
from tilewright.auto_scheduler.layout import COPY, after_copies, layouts, rewritten
from tilewright.auto_scheduler.layout import get_shape_from_rewritten_layout as get_shape_from_rewritten_layout
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.loops import Iterator, Stage, StateObject
from tilewright.auto_scheduler.steps import Step, follow
from tilewright.auto_scheduler.utils import get_const_tuple
from tilewright.auto_scheduler.workload_registry import workload_key_to_tensors
from tilewright.ir import IntImm, Range
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp
from tilewright.te.primfunc import post_order
from tilewright.te.schedule import Schedule
from tilewright.te.schedule_apply import infer_ranges
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import Reduce


class LayoutRewriteOption(IntEnum):
    """What is done with parameters whose layouts are free: nothing; they are copied to layouts that fit; they are given in these."""

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    REWRITE_FOR_PRE_TRANSFORMED = 2

    @staticmethod
    def get_target_default(target: Any, in_relay_integration: bool = False) -> LayoutRewriteOption:
        """What tasks for a target do: programs for CPUs copy such parameters. in_relay_integration: of kernels of a model, whose weights
        are given in these layouts."""
        made = target if isinstance(target, Target) else Target(target)
        if made.kind.name != "llvm":
            return LayoutRewriteOption.NO_REWRITE
        if in_relay_integration:
            return LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
        return LayoutRewriteOption.INSERT_TRANSFORM_STAGE


class ComputeDAG:
    """Operations in the order of computation.

    compute_or_sche: inputs and outputs (a list of tensors), the key of a workload, or a te schedule.
    tensors: inputs and outputs. ops: all operations. flop_ct: floating-point operations of a call. init_state: nothing is done to it.
    """

    def __init__(self, compute_or_sche: str | Sequence[Tensor] | Schedule) -> None:
        if isinstance(compute_or_sche, str):
            tensors = workload_key_to_tensors(compute_or_sche)
        elif isinstance(compute_or_sche, Schedule):
            tensors = _tensors_of(compute_or_sche)
        else:
            tensors = list(compute_or_sche)
        for t in tensors:
            if not isinstance(t, Tensor):
                raise TVMError(f"a ComputeDAG is made of tensors, but {t!r} was given")
        self.tensors = tensors
        read = {t.op for op in post_order([t.op for t in tensors]) for t in op.input_tensors}
        self.outputs = list(dict.fromkeys([t.op for t in tensors if t.op not in read]))
        if not self.outputs or any([isinstance(op, PlaceholderOp) for op in self.outputs]):
            raise TVMError("a ComputeDAG needs its outputs among its tensors, and inputs that they read")
        self.ops = post_order(self.outputs)
        for op in self.ops:
            if not isinstance(op, (ComputeOp, PlaceholderOp)):
                raise TVMError(
                    f"{op.name} has no programs to search for: steps are for computes, and it is a stage of another kind,"
                    f" {type(op).__name__}"
                )
        self.flop_ct = float(sum([flops_of(op) for op in self.ops]))
        self.init_state = StateObject([Stage.of(op) for op in self.ops])

    def get_init_state(self) -> State:
        """The state to which nothing is done."""
        return State(self.init_state, self)

    def added(self, state: StateObject, step: Step) -> StateObject:
        """A state with one more step. Raises TVMError where the step is refused."""
        made = state.copy()
        made.transform_steps.append(step)
        try:
            step.apply(made, self.replay)
        except IndexError as error:
            raise TVMError(f"the step {step.to_json()} names a stage or a loop that there is not") from error
        return made

    def state_of(self, steps: Sequence[Step]) -> StateObject:
        """The state of steps. Raises TVMError where one is refused."""
        state = self.init_state
        for step in steps:
            state = self.added(state, step)
        return state

    def replay(self, steps: Sequence[Step]) -> Application:
        """Steps applied to a te schedule. Raises TVMError where one is refused."""
        return follow(Application(self.outputs), steps)

    def apply_steps_from_state(
        self, state: State | StateObject, layout_rewrite: int = LayoutRewriteOption.NO_REWRITE
    ) -> tuple[Schedule, list[Tensor]]:
        """The te schedule of a state, and its parameters. layout_rewrite: what is done with parameters whose layouts are free."""
        found = _object(state)
        if layout_rewrite == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED:
            return self.rewrite_layout_from_state(found).apply_steps_from_state(found)
        if layout_rewrite == LayoutRewriteOption.INSERT_TRANSFORM_STAGE:
            return self._with_copies(found)
        return self.replay(found.transform_steps).schedule, list(self.tensors)

    def rewrite_layout_from_state(self, state: State | StateObject) -> ComputeDAG:
        """The computation on parameters in the layouts that fit the loops of a state, where a compute says that their layouts are free, by
        its attribute "layout_free_placeholders". The state's steps are those of the new computation too."""
        tensors, _ = rewritten(self.tensors, self.ops, layouts(self.ops, _object(state)), given=True)
        return ComputeDAG(tensors)

    def _with_copies(self, state: StateObject) -> tuple[Schedule, list[Tensor]]:
        found = layouts(self.ops, state)
        tensors, _ = rewritten(self.tensors, self.ops, found, given=False)
        steps = after_copies(state.transform_steps, [self.ops.index(layout.tensor.op) for layout in found])
        schedule = ComputeDAG(tensors).replay(steps).schedule
        for stage in schedule.stages:
            if stage.name.endswith(COPY):
                stage.parallel(stage.leaf_iter_vars[0])
        return schedule, tensors

    def print_python_code_from_state(self, state: State | StateObject) -> str:
        """The te schedule of a state as a program, whose variables are the names of the tensors, and `s` the schedule."""
        return "\n".join(self.replay(_object(state).transform_steps).lines) + "\n"

    def infer_bound_from_state(self, state: State | StateObject) -> State:
        """The state with the ranges of all loops, also of stages in loops of others."""
        found = _object(state).copy()
        if not found.concrete:
            raise TVMError("the lengths of all splits must be chosen before bounds can be inferred")
        app = self.replay(found.transform_steps)
        ranges = {axis.var: dom for axis, dom in infer_ranges(app.schedule, list(self.tensors)).items()}
        for i, stage in enumerate(found.stages):
            iters = [
                Iterator(it.name, _known(ranges.get(axis.var), it.range), it.iter_kind, it.annotation)
                for it, axis in zip(stage.iters, app.axes[i], strict=True)
            ]
            found.change(i, iters=tuple(iters))
        return State(found, self)

    def hash_key(self) -> str:
        """A key of the computation, the same in every process. Computations whose tensors have other names have other keys."""
        for tensor in self.tensors:
            if not all([isinstance(d, IntImm) for d in tensor.shape]):
                raise TVMError(
                    f"{tensor.op.name} has the shape {list(tensor.shape)}, but what is tuned has static shapes"
                )
        parts = [_described(op) for op in self.ops]
        return hashlib.md5("\n".join(parts).encode(), usedforsecurity=False).hexdigest()

    def workload_key(self) -> str:
        """The key under which the computation is registered without a name: its hash and the shapes of its tensors."""
        return json.dumps([self.hash_key(), *[list(get_const_tuple(t.shape)) for t in self.tensors]])

    def __str__(self) -> str:
        return "".join([_printed(op) for op in self.ops])

    __repr__ = __str__


def _object(state: State | StateObject) -> StateObject:
    return state.state_object if isinstance(state, State) else state


def _tensors_of(schedule: Schedule) -> list[Tensor]:
    inputs = [t for stage in schedule.stages if isinstance(stage.op, PlaceholderOp) for t in stage.op.outputs]
    return [*inputs, *[t for op in schedule.outputs for t in op.outputs]]


def _known(inferred: Range | None, before: Range | None) -> Range | None:
    if inferred is None:
        return before
    analyzer = Analyzer()
    return Range.from_min_extent(analyzer.simplify(inferred.min), analyzer.simplify(inferred.extent))


def _described(op: Operation) -> str:
    """All that a key depends on of an operation."""
    if isinstance(op, PlaceholderOp):
        return f"{op.name} placeholder {list(op.shape)} {op.dtype}"
    assert isinstance(op, ComputeOp)
    axes = [f"{a.var.name} in {a.dom}" for a in op.loop_axes]
    return f"{op.name} {axes} {[str(e.dtype) for e in op.body]} {'; '.join([str(e) for e in op.body])}"


def _printed(op: Operation) -> str:
    if isinstance(op, PlaceholderOp):
        return f"{op.name} = PLACEHOLDER {list(op.shape)}\n"
    assert isinstance(op, ComputeOp)
    axes = ", ".join([a.var.name for a in op.axis])
    lines = []
    for i, body in enumerate(op.body):
        head = f"{op.name}{f'.v{i}' if len(op.body) > 1 else ''}({axes})"
        if not isinstance(body, Reduce):
            lines.append(f"{head} = {body}\n")
            continue
        kind = type(body.combiner.result[i]).__name__
        sign = {"Add": "+=", "Max": "max=", "Min": "min=", "Mul": "*="}.get(kind, "reduce=")
        source = body.source[i]
        lines.append(f"{head} {sign} {source}\n")
    return "".join(lines)
