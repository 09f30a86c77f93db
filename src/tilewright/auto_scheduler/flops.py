"""Floating-point operations of computes."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Visitor, on
from tilewright.te.operation import ComputeOp, Operation
from tilewright.tir.expr import Add, Call, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, ProducerLoad, Reduce, Sub


def flops_of(op: Operation) -> float:
    """Operations of a compute: those on numbers of its own kind (floats, or integers), for each element. Its attribute "FLOP" says it
    otherwise."""
    if not isinstance(op, ComputeOp):
        return 0.0
    if "FLOP" in op.attrs:
        return float(getattr(op.attrs["FLOP"], "value", op.attrs["FLOP"]))
    total = 0.0
    for i, body in enumerate(op.body):
        axes = op.loop_axes if isinstance(body, Reduce) else op.axis
        extents = [a.dom.extent for a in axes if a.dom is not None]
        sizes = [int(e.value) for e in extents if isinstance(e, IntImm)]
        if len(sizes) < len(extents):
            return 0.0
        counted = _Counter(body)
        total += prod(sizes) * counted.of(body, i)
    return total


class _Counter(Visitor):
    """Counts operations on the type of the result. Indices are not looked at."""

    def __init__(self, body: PrimExpr) -> None:
        self.dtype = body.dtype
        self.count = 0

    def of(self, body: PrimExpr, part: int) -> int:
        if isinstance(body, Reduce):
            self.visit(body.source[part])
            return self.count + 1
        self.visit(body)
        return self.count

    @on(Add, Sub, Mul, Div, FloorDiv, FloorMod, Mod, Max, Min)
    def _binary(self, e: Any) -> None:
        if str(e.dtype).rstrip("0123456789") == str(self.dtype).rstrip("0123456789") and not isinstance(e, IntImm):
            self.count += 1
        self.visit_children(e)

    @on(Call)
    def _call(self, e: Call) -> None:
        self.count += 1
        self.visit_children(e)

    @on(ProducerLoad)
    def _load(self, e: ProducerLoad) -> None:
        """The operations on indices are no work."""
