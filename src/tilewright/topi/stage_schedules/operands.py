"""What the operands of a compute read, by its axes."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.arith import Analyzer
from tilewright.arith.pattern import constant_step
from tilewright.tir.expr import IterVar, ProducerLoad
from tilewright.tir.stmt_functor import post_order_visit
from tilewright.topi.stage_schedules import extent, loads_of


def uses_in(index: Any, axis: IterVar) -> bool:
    """Whether an index depends on an axis."""
    found = []

    def note(node: Any) -> None:
        if node is axis.var:
            found.append(node)

    post_order_visit(index, note)
    return bool(found)


def uses(load: ProducerLoad, axis: IterVar) -> bool:
    """Whether an index of a load depends on an axis."""
    return any([uses_in(index, axis) for index in load.indices])


def neighbours(op: te.ComputeOp, axis: IterVar) -> bool:
    """Whether elements that are read at neighbours along an axis are the same one, or neighbours in memory."""
    analyzer = Analyzer()
    for load in loads_of(op):
        if not uses(load, axis):
            continue
        *outer, last = load.indices
        if constant_step(last, axis.var, analyzer) != 1 or any([uses_in(index, axis) for index in outer]):
            return False
    return True


def reused_axis(op: te.ComputeOp, of_neighbours: bool = False) -> IterVar | None:
    """The last axis of results, apart from the very last one, along which something that was loaded is used again. of_neighbours: something
    that differs between neighbours along the very last axis, if there is such an axis."""
    loads = loads_of(op)
    wanted = [load for load in loads if uses(load, op.axis[-1])] if of_neighbours and op.axis else loads
    for axis in reversed(op.axis[:-1]):
        size = extent(axis)
        if size is not None and size > 1 and not all([uses(load, axis) for load in wanted]):
            return axis
    return reused_axis(op) if of_neighbours else None


def divisor(size: int, most: int) -> int:
    """The largest divisor of a size that is not above a number."""
    return max([d for d in range(1, most + 1) if size % d == 0])
