"""Schedules of whole computes, stage by stage, for the classic `schedule_*` functions of targets.

A function of that name gets the outputs of any compute, whatever was computed with it or after it. What cheap stages compute is
inlined into their readers; each other stage gets loops by what it does (`cpu`, `gpu`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te
from tilewright.te.schedule_graph import ScanGetBody
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import IterVar, ProducerLoad, Reduce
from tilewright.tir.stmt_functor import post_order_visit
from tilewright.topi.stages import MATERIALIZE
from tilewright.topi.tag import is_broadcast
from tilewright.topi.utils import as_int

Schedule = Callable[[Any], te.Schedule]


def listed(outs: Any) -> list[Tensor]:
    """One output or a sequence of outputs as a list."""
    return list(outs) if isinstance(outs, (list, tuple)) else [outs]


def loads_of(op: te.ComputeOp) -> list[ProducerLoad]:
    """The elements that a compute reads, in order, each as often as it is read."""
    found: list[ProducerLoad] = []

    def note(node: Any) -> None:
        if isinstance(node, ProducerLoad):
            found.append(node)

    for body in op.body:
        for part in body.source if isinstance(body, Reduce) else [body]:
            post_order_visit(part, note)
    return found


def is_reduction(op: te.Operation) -> bool:
    """Whether an operation combines elements along axes of its own."""
    return isinstance(op, te.ComputeOp) and isinstance(op.body[0], Reduce)


def extent(axis: IterVar) -> int | None:
    """The extent of an axis; None if it is known only at run time."""
    assert axis.dom is not None
    known = as_int(axis.dom.extent)
    return known if isinstance(known, int) else None


class StageGraph:
    """A schedule of outputs, or a schedule that nothing was done to, in which cheap stages are inlined.

    computed: the operations that get loops, producers first; those of a recurrence do not, as their loops belong to its steps.
    ends: of reductions, the element-wise operations that take their results, and whose loops are tiled in place of their own.
    windows_inlined: whether padding, too, is computed where it is read, as pays where loads are dear.
    """

    def __init__(self, outs: Any, windows_inlined: bool = False) -> None:
        given = isinstance(outs, te.Schedule)
        self.schedule = outs if given else te.create_schedule([t.op for t in listed(outs)])
        readers: dict[te.Operation, list[te.Operation]] = {}
        steps: set[te.Operation] = set()
        for stage in self.schedule.stages:
            for tensor in stage.op.input_tensors:
                readers.setdefault(tensor.op, []).append(stage.op)
            if isinstance(stage.op, te.ScanOp):
                steps.update(ScanGetBody(stage.op), [t.op for t in stage.op.init])
        self.computed: list[te.ComputeOp] = []
        through: dict[te.Operation, list[te.Operation]] = {}
        for stage in reversed(list(self.schedule.stages)):
            op = stage.op
            # Readers through inlined stages.
            through[op] = [last for r in readers.get(op, []) for last in through.get(r, [r])] or []
            if not isinstance(op, te.ComputeOp) or op in steps:
                through[op] = []
                continue
            if not stage.is_output and _cheap(op, readers.get(op, []), windows_inlined):
                stage.compute_inline()
            else:
                self.computed.insert(0, op)
                through[op] = [*through[op], op]
        self.ends: dict[te.Operation, te.ComputeOp] = {}
        for op in self.computed:
            found = [r for r in dict.fromkeys(through[op]) if r is not op]
            if is_reduction(op) and len(op.body) == 1 and len(found) == 1 and not self.schedule[op].is_output:
                last = found[0]
                if _takes(last, op) and last not in self.ends.values():
                    assert isinstance(last, te.ComputeOp)
                    self.ends[op] = last
        self.computed = [op for op in self.computed if op not in self.ends.values()]


def _takes(last: te.Operation, op: te.ComputeOp) -> bool:
    """Whether an operation takes the result of another one at the same indices."""
    if not isinstance(last, te.ComputeOp) or is_reduction(last) or not is_broadcast(last.tag):
        return False
    shapes = [[as_int(d) for d in o.output(0).shape] for o in (last, op)]
    return all([isinstance(d, int) for shape in shapes for d in shape]) and shapes[0] == shapes[1]


def _keeps_rows(op: te.ComputeOp) -> bool:
    """Whether neighbours along the last axis of what an operation moves were neighbours before."""
    load = op.body[0]
    assert isinstance(load, ProducerLoad)
    return not op.axis or (bool(load.indices) and load.indices[-1] is op.axis[-1].var)


def _cheap(op: te.ComputeOp, readers: Sequence[te.Operation], windows_inlined: bool) -> bool:
    """Whether a stage is computed where it is read: not more often than once for an element, or by no arithmetic."""
    if is_reduction(op) or len(op.body) > 1 or MATERIALIZE in op.attrs:
        return False
    if not all([isinstance(reader, te.ComputeOp) for reader in readers]):
        return False
    if "const_matrix" in op.tag or op.attrs.get("const_matrix"):
        return True
    moves = isinstance(op.body[0], ProducerLoad)
    if any([is_reduction(reader) for reader in readers]):
        return (moves and (windows_inlined or _keeps_rows(op))) or (windows_inlined and "pad" in op.tag)
    return moves or len(readers) == 1
