"""Adjoints: helpers for the gradients of operators, and the adjoint of any operator that has a compute.

A card's `grad` computes the adjoints of the arguments from the adjoint of the result. If a card has no `grad`, the expression that
it expands to is differentiated. If it does not expand, `te.gradient` derives the adjoint from its compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.codegen.backend import evaluate
from tilewright.ir import IntImm, TensorType, Type
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.card import OPAQUE, OpCard, constructor, need
from tilewright.relay.cards.relations import dims, may_equal, tensor
from tilewright.relay.expr import Expr, ExprWithOp, Tuple, TupleGetItem, const

Adjoints = Sequence[Expr | None]
"""The adjoints of all arguments; None for an argument without one (an index, a condition)."""


def op(key: str) -> Callable[..., ExprWithOp]:
    """The constructor of an operator."""
    return constructor(key)


def summed_like(dy: Expr, x: Expr) -> Expr:
    """The adjoint of an argument that was broadcast: dy summed to the shape of x."""
    return op("collapse_sum_like")(dy, x)


def number(value: float, like: Expr) -> Expr:
    """A scalar constant of a tensor's dtype."""
    t = tensor(like.checked_type)
    return const(value, str(t.dtype))


def field(e: Expr, k: int) -> Expr:
    """Field k of a tuple."""
    return e.fields[k] if isinstance(e, Tuple) else TupleGetItem(e, k)


def moved_back(data: Expr, move: Callable[[Expr], Expr], dy: Expr) -> Expr:
    """The adjoint of data, where move(data) copies some elements of data. `move` is applied to the numbers of the elements to find
    where each one came from."""
    flat = op("reshape")(data, (-1,))
    turn = op("cumsum")(op("ones_like")(op("cast")(flat, "int64")), axis=0, exclusive=True)
    places = op("reshape")(move(op("reshape_like")(turn, data)), (1, -1))
    total = op("scatter_nd")(op("zeros_like")(flat), places, op("reshape")(dy, (-1,)), mode="add")
    return op("reshape_like")(total, data)


class vjp(OpCard, key="vjp"):
    """The adjoint of argument `wrt` of the operator `card`: the product of the result's adjoint with the Jacobian, which
    `te.gradient` derives from the compute. Arguments: those of the operator, then the adjoint of its result."""

    card: Any
    wrt: int = 0
    fuse = OPAQUE

    def infer(self, *args: TensorType) -> Type:
        *inputs, head = args
        result: Any = self.card.infer(*inputs)
        alike = len(result.shape) == len(head.shape) and all(map(may_equal, dims(result), dims(head)))
        need(
            alike,
            "the adjoint must have the shape of the result",
            f"they are {head.shape} and {result.shape}",
            len(inputs),
        )
        return args[self.wrt]

    def compute(self, *args: te.Tensor) -> te.Tensor:
        *inputs, head = args
        output = self.card.compute(*inputs)
        if any([not isinstance(d, IntImm) for d in head.shape]):
            # Each tensor has separate names for sizes that are known only at run time.
            head = te.compute(output.shape, lambda *i, dy=head: dy(*i), name="head")
        (made,) = te.gradient(output, [inputs[self.wrt]], head)
        return made

    def ref(self, *args: np.ndarray) -> np.ndarray:
        """Runs the adjoint's compute in the interpreter."""
        tensors = [te.placeholder(a.shape, str(a.dtype), f"x{i}") for i, a in enumerate(args)]
        func = te.create_prim_func([*tensors, result := self.compute(*tensors)])
        out = np.empty(args[self.wrt].shape, numpy_dtype(result.dtype))
        with np.errstate(all="ignore"):
            evaluate(func, [*[np.asarray(a, order="C") for a in args], out])
        return out


def derived(card: OpCard, args: Sequence[Expr], dy: Expr) -> list[Expr | None]:
    """Adjoints by te.gradient, for float tensors as arguments and a single result."""
    made: list[Expr | None] = []
    for i, a in enumerate(args):
        t = a.checked_type
        floats = isinstance(t, TensorType) and t.dtype.is_float
        made.append(vjp.call([*args, dy], {"card": card, "wrt": i}) if floats else None)
    return made
