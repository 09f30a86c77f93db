"""Layouts of parameters that follow the loops of a program: elements that are read one after the other lie next to each other.

Computes name the parameters whose layouts are free, by their attribute "layout_free_placeholders".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any, NamedTuple

from tilewright.auto_scheduler.loops import StateObject
from tilewright.auto_scheduler.sketch_facts import FREE, loads
from tilewright.auto_scheduler.steps import FollowFusedSplit, FollowSplit, Fuse, Reorder, Split, Step
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Mutator, on
from tilewright.support.errors import TVMError
from tilewright.te.compute import compute
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp
from tilewright.te.schedule_rewrite import redirected
from tilewright.te.tensor import Tensor
from tilewright.tir.arithmetic import floordiv, floormod
from tilewright.tir.expr import FloorDiv, FloorMod, ProducerLoad, Reduce, Var
from tilewright.tuning.packing import Packing, Part, covers, parts_of_text, with_strides

COPY = ".layout"
"""The end of the names of copies."""


class Layout(NamedTuple):
    """A parameter in another layout. reader: the compute that reads it, whose loops are the axes; old: the parts of axes that its
    dimensions are; parts: those that they become, outermost first."""

    tensor: Tensor
    reader: ComputeOp
    old: tuple[Part, ...]
    parts: tuple[Part, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple([part.extent for part in self.parts])

    def indices(self) -> list[PrimExpr]:
        """The indices at which the reader reads it."""
        axes = [axis.var for axis in self.reader.loop_axes]
        return [floormod(floordiv(axes[p.axis], p.stride), p.extent) for p in self.parts]

    def old_indices(self, new: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Where an element of the new layout was in the old one."""
        axes: dict[int, PrimExpr] = {}
        for part, index in zip(self.parts, new, strict=True):
            axes[part.axis] = axes.get(part.axis, IntImm("int32", 0)) + index * part.stride
        sizes = [prod([p.extent for p in self.old if p.axis == part.axis]) for part in self.old]
        return [
            axes.get(p.axis, IntImm("int32", 0))
            if p.extent == size
            else floormod(floordiv(axes[p.axis], p.stride), p.extent)
            for p, size in zip(self.old, sizes, strict=True)
        ]

    def packing(self, tensors: Sequence[Tensor]) -> Packing:
        """What becomes of the values of the parameter, which is one of these."""
        return Packing(list(tensors).index(self.tensor), self.old, self.parts)


def get_shape_from_rewritten_layout(rewritten_layout: str, axis_names: Sequence[str]) -> list[int]:
    """The sizes of axes by a layout such as "2i8k4i": 8 of i, 8 of k."""
    parts = parts_of_text(rewritten_layout, axis_names)
    return [prod([extent for axis, extent in parts if axis == name]) for name in axis_names]


def layout_of_text(op: ComputeOp, tensor: Tensor, text: str) -> Layout:
    """The layout of a parameter that a text such as "2i8k4i" says, by the names of a compute's axes. Raises TVMError where the parameter is
    read at anything else than these axes."""
    found = _read_at(op, tensor)
    if found is None:
        raise TVMError(
            f"{op.name} reads {tensor.name} at something else than its axes, so the layout of that is not free"
        )
    names = {op.loop_axes[part.axis].var.name: part.axis for part in found if part.extent > 1}
    parts = with_strides([(names[name], extent) for name, extent in parts_of_text(text, list(names))])
    return Layout(tensor, op, tuple(found), parts)


def read_in(op: ComputeOp, layout: Layout) -> ComputeOp:
    """A compute that reads a parameter, whose shape is that of the layout already, in it."""
    return _reading(op, {layout.tensor: (layout, layout.tensor)})


def layouts(ops: Sequence[Operation], state: StateObject) -> list[Layout]:
    """The layouts of free parameters that fit the loops of a state. Those are left as they are that several computes read, or that are
    not read at the axes of a compute, or whose loops do not divide an axis."""
    found = []
    for number, op in enumerate(ops):
        if not isinstance(op, ComputeOp) or FREE not in op.attrs:
            continue
        parts = parts_of_loops(op, number, state.transform_steps)
        for tensor in op.attrs[FREE]:
            users = [other for other in ops if tensor in other.input_tensors]
            old = reading_digits(op, tensor) if isinstance(tensor.op, PlaceholderOp) and users == [op] else None
            if parts is None or old is None:
                continue
            axes = {part.axis for part in old if part.extent > 1}
            mine = [p for p in parts if p.axis in axes and p.extent > 1]
            if mine and covers(mine, _extents(op)):
                found.append(Layout(tensor, op, old, tuple(mine)))
    return found


def is_free(op: Operation, tensor: Tensor) -> bool:
    """Whether a compute reads a parameter so that its layout can follow the loops: each element by one set of indices."""
    return isinstance(op, ComputeOp) and isinstance(op.body[0], Reduce) and reading_digits(op, tensor) is not None


def _extents(op: ComputeOp) -> list[int]:
    """The extents of all loops; -1 where one is not known."""
    return [int(getattr(axis.dom.extent, "value", -1)) if axis.dom is not None else -1 for axis in op.loop_axes]


def reading_digits(op: ComputeOp, tensor: Tensor) -> tuple[Part, ...] | None:
    """The parts of axes that the dimensions of a tensor are; None where they are anything else, or have elements that are not read."""
    found = _read_at(op, tensor)
    if found is None or not covers(found, _extents(op)):
        return None
    sizes = [getattr(d, "value", None) for d in tensor.shape]
    return found if sizes == [part.extent for part in found] else None


def _read_at(op: ComputeOp, tensor: Tensor) -> tuple[Part, ...] | None:
    """The parts of axes at which a compute reads a tensor; None for other indices, or several of them."""
    axes, extents = [axis.var for axis in op.loop_axes], _extents(op)
    found: set[tuple[Part | None, ...]] = set()
    for load in loads(op):
        if load.producer is tensor:
            found.add(tuple([_part(index, axes, extents) for index in load.indices]))
    if len(found) != 1:
        return None
    (order,) = found
    parts = [part for part in order if part is not None]
    return tuple(parts) if len(parts) == len(order) else None


def _part(index: PrimExpr, axes: Sequence[Var], extents: Sequence[int]) -> Part | None:
    """The part of an axis that an index is: the axis, a quotient, a remainder, or a remainder of a quotient."""
    extent, stride = None, 1
    if isinstance(index, IntImm) and index.value == 0:
        return Part(0, 1, 1)
    if isinstance(index, FloorMod) and isinstance(index.b, IntImm):
        extent, index = index.b.value, index.a
    if isinstance(index, FloorDiv) and isinstance(index.b, IntImm):
        stride, index = index.b.value, index.a
    if not isinstance(index, Var) or index not in axes:
        return None
    axis = axes.index(index)
    if extents[axis] < 1 or extents[axis] % stride:
        return None
    rest = extents[axis] // stride
    return Part(axis, rest if extent is None else min(extent, rest), stride)


def parts_of_loops(op: ComputeOp, number: int, steps: Sequence[Step]) -> list[Part] | None:
    """The parts of axes that the loops of a compute are, outermost first; None where they are not such."""
    sizes = [a.dom.extent for a in op.loop_axes if a.dom is not None]
    whole = [[Part(i, int(s.value), 1)] for i, s in enumerate(sizes) if isinstance(s, IntImm)]
    if len(whole) != len(op.loop_axes):
        return None
    loops = list(whole)
    for i, step in enumerate(steps):
        if step.word in ("CHR", "CHW", "RF"):
            if step.stage_id == number and step.word == "RF":
                return None
            number += step.stage_id < number
        elif step.stage_id != number:
            continue
        elif isinstance(step, Fuse):
            first, count = step.fused_ids[0], len(step.fused_ids)
            loops[first : first + count] = [[part for loop in loops[first : first + count] for part in loop]]
        elif isinstance(step, Reorder):
            loops = [loops[k] for k in step.after_ids]
        elif isinstance(step, (Split, FollowSplit, FollowFusedSplit)):
            made = _split(loops[step.iter_id], *_lengths(step, steps[:i]))
            if made is None:
                return None
            loops[step.iter_id : step.iter_id + 1] = made
    return [part for loop in loops for part in loop]


def _lengths(step: Step, before: Sequence[Step]) -> tuple[Sequence[int | None], bool]:
    if isinstance(step, Split):
        return step.lengths, step.inner_to_outer
    if isinstance(step, FollowSplit):
        return step.lengths(before), True
    assert isinstance(step, FollowFusedSplit)
    return [step.length(before)], step.factor_or_nparts


def _split(loop: Sequence[Part], lengths: Sequence[int | None], inner_to_outer: bool) -> list[list[Part]] | None:
    if len(loop) != 1 or None in lengths:
        return None
    part, sizes = loop[0], [n for n in lengths if n is not None]
    if part.extent % prod(sizes):
        return None
    rest = part.extent // prod(sizes)
    extents = [rest, *sizes] if inner_to_outer else [*sizes, rest]
    return [[Part(part.axis, e, part.stride * prod(extents[i + 1 :]))] for i, e in enumerate(extents)]


class _Reads(Mutator):
    """Reads parameters in their new layouts."""

    def __init__(self, layouts: Mapping[Tensor, tuple[Layout, Tensor]]) -> None:
        self.layouts = layouts

    @on(ProducerLoad)
    def _load(self, load: ProducerLoad) -> PrimExpr:
        known = self.layouts.get(load.producer) if isinstance(load.producer, Tensor) else None
        if known is None:
            return load
        layout, tensor = known
        return ProducerLoad(tensor, tuple(layout.indices()))


def rewritten(
    tensors: Sequence[Tensor], ops: Sequence[Operation], found: Sequence[Layout], given: bool
) -> tuple[list[Tensor], list[Operation]]:
    """The parameters and the operations with new layouts. given: parameters are given in them; otherwise they are copied to them first."""
    made: dict[Tensor, tuple[Layout, Tensor]] = {}
    moved: dict[Tensor, Tensor] = {}
    for layout in found:
        old = layout.tensor
        if given:
            new = PlaceholderOp(
                old.op.name, shape=tuple([IntImm("int32", n) for n in layout.shape]), dtype=old.dtype
            ).output(0)
            moved[old] = new
        else:
            new = _copied(layout)
        made[old] = layout, new
    order = []
    for op in ops:
        if isinstance(op, ComputeOp) and any([layout.reader is op for layout in found]):
            changed: Operation = _reading(op, made)
        else:
            changed = op
        if isinstance(op, ComputeOp):
            changed = redirected(changed, {t: n for t, n in moved.items() if t not in made})
        if changed is not op:
            moved.update(zip(op.outputs, changed.outputs, strict=True))
        order.append(changed)
    return [moved.get(t, t) for t in tensors], order


def _copied(layout: Layout) -> Tensor:
    found = compute(layout.shape, lambda *i: layout.tensor(*layout.old_indices(i)), name=layout.tensor.op.name + COPY)
    assert isinstance(found, Tensor)
    return found


def _reading(op: ComputeOp, made: Mapping[Tensor, tuple[Layout, Tensor]]) -> ComputeOp:
    reads, first = _Reads(made), op.body[0]
    body: tuple[PrimExpr, ...]
    attrs = {name: value for name, value in op.attrs.items() if name != FREE}
    if isinstance(first, Reduce):
        changed = reads.rebuild(first)
        body = tuple([changed.replace(value_index=i) for i in range(len(op.body))])
    else:
        body = tuple([reads.visit(e) for e in op.body])
    return op.replace(body=body, attrs=attrs)


STAGES = ("stage_id", "target_stage_id", "reader_stage_ids")
"""The fields of steps that are numbers of stages."""


def after_copies(steps: Sequence[Step], at: Sequence[int]) -> list[Step]:
    """Steps of a program in which each of some stages, by number, is followed by a new one."""
    return [
        replace(s, **{f.name: _shifted(getattr(s, f.name), at) for f in fields(s) if f.name in STAGES}) for s in steps
    ]


def _shifted(value: Any, at: Sequence[int]) -> Any:
    if isinstance(value, tuple):
        return tuple([_shifted(v, at) for v in value])
    return value + sum([1 for place in at if place < value])
