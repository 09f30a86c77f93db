"""What the rules of sketches ask about a stage."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.auto_scheduler.loops import INLINED, PLACEHOLDER, REDUCTION, ROOT, SPATIAL, Iterator, StateObject
from tilewright.auto_scheduler.steps import Step
from tilewright.ir import PrimExpr
from tilewright.node import nodes_of
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp
from tilewright.tir.expr import Call, ProducerLoad, Reduce, Select, Var

FREE = "layout_free_placeholders"
"""The attribute of computes that names the parameters whose layouts are free."""
PARALLELISM = 16
"""Pieces of work for each core from which on more of them bring nothing."""


def readers(state: StateObject, number: int) -> list[int]:
    """The stages that read a stage's results, directly or through inlined stages."""
    found: list[int] = []
    for other, stage in enumerate(state.stages):
        if other != number and any([t.op is state.stages[number].op for t in stage.op.input_tensors]):
            found += readers(state, other) if stage.compute_at == INLINED else [other]
    return sorted(set(found))


def is_output(state: StateObject, number: int) -> bool:
    return not any([t.op is state.stages[number].op for s in state.stages for t in s.op.input_tensors])


def loads(op: ComputeOp) -> list[ProducerLoad]:
    return [load for body in op.body for load in nodes_of(body, ProducerLoad)]


def reduces(op: Operation) -> bool:
    return isinstance(op, ComputeOp) and isinstance(op.body[0], Reduce)


def is_simple(op: Operation) -> bool:
    """Whether elements cost next to nothing: one output, no reduction, no choice, no function."""
    if not isinstance(op, ComputeOp) or len(op.body) > 1 or reduces(op):
        return False
    return not nodes_of(op.body[0], Select) and not nodes_of(op.body[0], Call)


def always_inlined(state: StateObject, number: int) -> bool:
    """Whether a stage is computed in the expressions that read it, whatever is chosen."""
    stage = state.stages[number]
    return (
        stage.op_type != PLACEHOLDER
        and stage.compute_at == ROOT
        and not is_output(state, number)
        and is_simple(stage.op)
    )


def has_data_reuse(state: StateObject, number: int) -> bool:
    """Whether elements that are read are needed by many results: a reduction that reads something without one of the spatial axes."""
    op = state.stages[number].op
    if not isinstance(op, ComputeOp) or not reduces(op):
        return False
    axes = [a.var for a in op.axis if a.dom is not None and getattr(a.dom.extent, "value", 0) != 1]
    for load in loads(op):
        used = {v for i in load.indices for v in nodes_of(i, Var)}
        if any([axis not in used for axis in axes]):
            return True
    return False


def is_untouched(state: StateObject, number: int) -> bool:
    """Whether the loops of a stage are still those of its operation."""
    op: Any = state.stages[number].op
    return len(state.stages[number].iters) == len(op.loop_axes) and not is_tiled(state.transform_steps, number)


def is_tiled(steps: Sequence[Step], number: int) -> bool:
    """Whether steps split loops of a stage. Stages had other numbers before a step that adds an operation: those are not looked at."""
    for step in reversed(steps):
        if step.word in ("CHR", "CHW", "RF"):
            return False
        if step.stage_id == number and step.word in ("SP", "FSP", "FFSP"):
            return True
    return False


def fusible_reader(state: StateObject, number: int) -> int | None:
    """The single stage that reads a stage, element by element, and whose loops could hold its tiles."""
    op = state.stages[number].op
    while True:
        direct = [i for i, s in enumerate(state.stages) if any([t.op is op for t in s.op.input_tensors])]
        if len(direct) != 1:
            return None
        (reader,) = direct
        stage = state.stages[reader]
        if not isinstance(stage.op, ComputeOp) or reduces(stage.op):
            return None
        mine = [load for load in loads(stage.op) if getattr(load.producer, "op", None) is op]
        axes = [axis.var for axis in stage.op.axis]
        if not all([_same(load.indices, axes) for load in mine]):
            return None
        if stage.compute_at != INLINED:
            return reader if stage.compute_at == ROOT and is_untouched(state, reader) else None
        op = stage.op


def _same(indices: Sequence[PrimExpr], axes: Sequence[Var]) -> bool:
    return len(indices) == len(axes) and all([i is a for i, a in zip(indices, axes, strict=True)])


def is_copy(state: StateObject, number: int) -> bool:
    """Whether a stage only copies from the stage before, which a cache was made of."""
    op = state.stages[number].op
    return isinstance(op, ComputeOp) and number > 0 and isinstance(op.body[0], ProducerLoad)


def is_input_copy(state: StateObject, number: int) -> bool:
    """Whether a stage copies an input for a reduction."""
    op = state.stages[number].op
    if not isinstance(op, ComputeOp) or not isinstance(op.body[0], ProducerLoad):
        return False
    found = readers(state, number)
    return isinstance(op.input_tensors[0].op, PlaceholderOp) and len(found) == 1 and reduces(state.stages[found[0]].op)


def tiled_column_reader(state: StateObject, number: int) -> int | None:
    """The single stage that reads an input, if it is tiled and its reduction steps along columns: what one step reads is far from what the
    next one reads, but the same for many results. In a copy of a tile it is near."""
    op = state.stages[number].op
    if not isinstance(op, PlaceholderOp) or len(op.shape) < 2:
        return None
    found = readers(state, number)
    if len(found) != 1 or not has_data_reuse(state, found[0]) or is_untouched(state, found[0]):
        return None
    reader: Any = state.stages[found[0]].op
    mine = [load for load in loads(reader) if getattr(load.producer, "op", None) is op]
    if len(mine) != 1 or op.output(0) in reader.attrs.get(FREE, ()):
        return None
    reduction = {axis.var for axis in reader.reduce_axis}
    spatial = {axis.var for axis in reader.axis}
    *outer, last = [set(nodes_of(index, Var)) for index in mine[0].indices]
    columns = last <= spatial and any([used & reduction for used in outer])
    return found[0] if columns and not spatial <= last.union(*outer) else None


def tile_ends(state: StateObject, number: int) -> list[tuple[int, Iterator]]:
    """Where tiles of the inputs of a tiled reduction can be copied, as stages and their loops: the ends of its levels of tiles, up to its
    first loops of the reduction; and those around the place where it is computed itself."""
    op: Any = state.stages[number].op
    iters, width = state.stages[number].iters, len(op.axis)
    first = next((i for i, it in enumerate(iters) if it.iter_kind == REDUCTION), 0)
    ends = [*range(width, first + 1, width), first + len(op.reduce_axis)]
    found = [(number, iters[end - 1]) for end in ends if 0 < end <= len(iters)]
    place = state.attached.get(number)
    if place is None:
        return found
    around, last = place
    outer = state.stages[around].iters[: last + 1]
    return [*[(around, outer[end - 1]) for end in range(width, len(outer) + 1, width)], *found]


def wants_partial_reductions(state: StateObject, number: int, cores: int) -> bool:
    """Whether there is little to do at once besides the reduction."""
    iters = state.stages[number].iters
    if not reduces(state.stages[number].op) or not is_untouched(state, number):
        return False
    if any([it.extent is None for it in iters]):
        return False
    space = prod([it.extent or 1 for it in iters if it.iter_kind == SPATIAL])
    reduction = prod([it.extent or 1 for it in iters if it.iter_kind == REDUCTION])
    return reduction > space and space < cores * PARALLELISM
