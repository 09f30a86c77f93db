"""Operations of a compute."""

from __future__ import annotations

import math
from typing import Any

from tilewright import te
from tilewright.autotvm.utils import get_const_int
from tilewright.ir import FloatImm, IntImm
from tilewright.te.primfunc import post_order
from tilewright.tir.expr import BinaryOpExpr, Call, Cast, Let, Not, ProducerLoad, Reduce, Select, StringImm, Var


class FlopCalculationError(RuntimeError):
    """A compute whose operations cannot be counted."""


def compute_flop(sch: te.Schedule) -> int:
    """The arithmetic operations of all stages that the outputs of a schedule need, without those of indices.

    Raises RuntimeError where they cannot be counted: the template then says them by `cfg.add_flop`.
    """
    try:
        total = sum([_of_operation(op) for op in post_order(sch.outputs)])
    except FlopCalculationError as error:
        raise RuntimeError(f"{error}; say how many there are by cfg.add_flop(...) in the template") from error
    if not total:
        raise RuntimeError(
            "the compute has no arithmetic operations, so its speed cannot be told in FLOPS; say how many there are by"
            " cfg.add_flop(...) in the template"
        )
    return total


def _of_operation(op: Any) -> int:
    if isinstance(op, te.PlaceholderOp):
        return 0
    if not isinstance(op, te.ComputeOp):
        raise FlopCalculationError(f"the operations of {op.name}, of {type(op).__name__}, cannot be counted")
    if len(op.body) != 1:
        raise FlopCalculationError(f"the operations of {op.name}, which has {len(op.body)} outputs, cannot be counted")
    return _extent(op, op.axis) * _of_value(op, op.body[0])


def _extent(op: Any, axes: Any) -> int:
    try:
        return math.prod([get_const_int(axis.dom.extent) for axis in axes])
    except ValueError as error:
        raise FlopCalculationError(f"the operations of {op.name} depend on its shape: {error}") from error


def _of_value(op: Any, e: Any) -> int:
    if isinstance(e, (IntImm, FloatImm, StringImm, Var, ProducerLoad)):
        return 0
    if isinstance(e, Reduce):
        return _extent(op, e.axis) * sum([_of_value(op, v) for v in (*e.combiner.result, *e.source)])
    if isinstance(e, BinaryOpExpr):
        return 1 + _of_value(op, e.a) + _of_value(op, e.b)
    if isinstance(e, Select):
        return _of_value(op, e.condition) + max(_of_value(op, e.true_value), _of_value(op, e.false_value))
    if isinstance(e, Call):
        return sum([_of_value(op, a) for a in e.args])
    if isinstance(e, (Cast, Not)):
        return _of_value(op, e.value if isinstance(e, Cast) else e.a)
    if isinstance(e, Let):
        return _of_value(op, e.value) + _of_value(op, e.body)
    raise FlopCalculationError(f"the operations of {op.name} cannot be counted: it has {type(e).__name__}")
