"""Operators of virtual machine programs with explicit memory (classic `relay.op.vm`)."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.cards.card import constructor
from tilewright.relay.cards.relations import Dim
from tilewright.relay.expr import Expr, ExprWithOp
from tilewright.support import lazy

__all__ = ["invoke_tvm_op", "reshape_tensor", "shape_func", "shape_of"]


def shape_of(expr: Expr) -> ExprWithOp:
    """The shape of a tensor at run time, as int64 numbers."""
    return constructor("vm.shape_of")(expr, dtype="int64")


def reshape_tensor(data: Expr, shape: Expr, newshape: Sequence[Dim]) -> ExprWithOp:
    """A tensor in the shape that another tensor holds. newshape: the known dimensions, with `Any` for the others."""
    return constructor("vm.reshape_tensor")(data, shape, newshape=tuple(newshape))


def invoke_tvm_op(func: Expr, inputs: Expr, outputs: Expr) -> ExprWithOp:
    """Calls a primitive function on a tuple of tensors; it writes its results to another tuple. The value is the empty tuple."""
    return constructor("vm.invoke_tvm_op")(func, inputs, outputs)


def shape_func(func: Expr, inputs: Expr, outputs: Expr, is_inputs: Sequence[bool]) -> ExprWithOp:
    """Writes the shapes of a primitive function's results to a tuple of tensors. inputs: for each argument the tensor itself (if
    `is_inputs`) or its shape."""
    return constructor("vm.shape_func")(func, inputs, outputs, is_input=tuple([bool(i) for i in is_inputs]))


lazy.faces(__name__, {"vm": ()})
