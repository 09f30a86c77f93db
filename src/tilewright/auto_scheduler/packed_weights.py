"""Kernels of models whose weights are packed as the loops of their records want them.

A kernel on packed weights first computes them in the layout that its operators know (`unpacked`). Scheduled by its record, it reads them as
they are: then the computation is the one that was tuned, on parameters in other layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tilewright.auto_scheduler.compute_dag import ComputeDAG
from tilewright.auto_scheduler.layout import Layout, is_free, layouts, reading_digits, rewritten
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.sketch_facts import FREE
from tilewright.ir import IntImm, PrimExpr
from tilewright.te.compute import compute
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp
from tilewright.te.primfunc import post_order
from tilewright.te.schedule import Schedule
from tilewright.te.schedule_rewrite import redirected
from tilewright.te.tensor import Tensor
from tilewright.tir.arithmetic import floordiv, floormod
from tilewright.tuning.packing import Part, parts_of_letters, sizes_of, text_of

UNPACKS = "auto_scheduler_unpacks"
"""The attribute of computes that `unpacked` makes: the layout of what they read, as a text."""

Find = Callable[[ComputeDAG, bool], State | None]
"""The program of a computation; None if there is none. The second argument: whether it has a reduction."""


def unpacked(data: Tensor, old: Sequence[Part], new: Sequence[Part]) -> Tensor:
    """A tensor whose dimensions are other parts of the same axes."""
    sizes = sizes_of(new)

    def element(*indices: PrimExpr) -> PrimExpr:
        axes: dict[int, PrimExpr] = {}
        for part, index in zip(new, indices, strict=True):
            if part.extent > 1:
                term = index * part.stride if part.stride > 1 else index
                axes[part.axis] = axes[part.axis] + term if part.axis in axes else term
        return data(*[_digit(axes, sizes, part) for part in old])

    found = compute(
        [part.extent for part in new],
        element,
        name="layout_transform",
        tag="injective",
        attrs={UNPACKS: text_of(old)},
    )
    assert isinstance(found, Tensor)
    return found


def _digit(axes: dict[int, PrimExpr], sizes: dict[int, int], part: Part) -> PrimExpr:
    if part.extent == 1:
        return IntImm("int32", 0)
    if part.extent == sizes[part.axis]:
        return axes[part.axis]
    return floormod(floordiv(axes[part.axis], part.stride), part.extent)


def with_free(outs: Sequence[Tensor], free: Sequence[Tensor]) -> list[Tensor]:
    """Results of a computation whose computes say that the layouts of these parameters are free, where they can be."""
    ops = post_order([t.op for t in outs])
    users = {t: [op for op in ops if t in op.input_tensors] for t in free}
    named: dict[Operation, list[Tensor]] = {}
    for tensor, readers in users.items():
        if len(readers) == 1 and is_free(readers[0], tensor):
            named.setdefault(readers[0], []).append(tensor)

    def change(op: Operation) -> Operation:
        return op.replace(attrs={**op.attrs, FREE: named[op]}) if op in named else op

    return _changed(outs, ops, change) if named else list(outs)


def _changed(
    outs: Sequence[Tensor], ops: Sequence[Operation], change: Callable[[Operation], Operation]
) -> list[Tensor]:
    moved: dict[Tensor, Tensor] = {}
    for op in ops:
        new = change(redirected(op, moved)) if not isinstance(op, PlaceholderOp) else op
        if new is not op:
            moved.update(zip(op.outputs, new.outputs, strict=True))
    return [moved.get(t, t) for t in outs]


class Unpacked(NamedTuple):
    """A computation on packed parameters, as it was before they were packed. inputs, outs: its tensors; packed: the layouts, as texts, of
    those that were packed."""

    inputs: list[Tensor]
    outs: list[Tensor]
    packed: dict[Tensor, str]


def before_packing(inputs: Sequence[Tensor], outs: Sequence[Tensor]) -> Unpacked:
    """The computation as it was before parameters were packed."""
    plain: dict[Tensor, Tensor] = {}
    moved: dict[Tensor, Tensor] = {}
    packed: dict[Tensor, str] = {}
    ops = post_order([t.op for t in outs])
    for op in ops:
        text = op.attrs.get(UNPACKS) if isinstance(op, ComputeOp) else None
        source = op.input_tensors[0] if text is not None else None
        if source is not None and source in inputs and isinstance(source.op, PlaceholderOp):
            result = op.outputs[0]
            given = PlaceholderOp(source.op.name, shape=result.shape, dtype=result.dtype).output(0)
            plain[source], moved[result], packed[given] = given, given, str(text)
            continue
        new = redirected(op, moved)
        if new is not op:
            moved.update(zip(op.outputs, new.outputs, strict=True))
    return Unpacked([plain.get(t, t) for t in inputs], [moved.get(t, t) for t in outs], packed)


def scheduled_on_packed(found: Unpacked, dag: ComputeDAG, state: State) -> tuple[Schedule, list[Tensor]]:
    """The te schedule of a state on packed parameters, and all parameters."""
    given = []
    for tensor, text in found.packed.items():
        (reader,) = [op for op in dag.ops if tensor in op.input_tensors]
        assert isinstance(reader, ComputeOp)
        old = reading_digits(reader, tensor)
        assert old is not None
        given.append(Layout(tensor, reader, old, parts_of_letters(text)))
    tensors, _ = rewritten([*found.inputs, *found.outs], dag.ops, given, given=True)
    return ComputeDAG(tensors).apply_steps_from_state(state)


def wanted_layouts(dag: ComputeDAG, state: State) -> list[Layout]:
    """The layouts that fit the loops of a state and are not those that parameters have; those that have a text."""
    found = layouts(dag.ops, state.state_object)
    return [
        layout
        for layout in found
        if layout.parts != tuple([p for p in layout.old if p.extent > 1])
        and text_of(layout.parts) is not None
        and text_of(layout.old) is not None
    ]
