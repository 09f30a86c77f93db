"""What the operands of a compute read, by its axes."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.arith import Analyzer
from tilewright.tir.expr import IterVar, ProducerLoad
from tilewright.tir.stmt_functor import post_order_visit, substitute
from tilewright.topi.stage_schedules import loads_of
from tilewright.topi.utils import as_int


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
        step = as_int(analyzer.simplify(substitute(last, {axis.var: axis.var + 1}) - last))
        if not (isinstance(step, int) and step == 1) or any([uses_in(index, axis) for index in outer]):
            return False
    return True
