"""FlattenRows: converts products of tensors with several leading axes to products of matrices, if that fills register tiles.

    dense(x: (8, 197, 768), w)  ->  reshape(dense(reshape(x): (1576, 768), w)): (8, 197, ..)

For 197 rows only a tile of one row has no padded work, which would occur for each of eight images. The reshape of a
result moves no data. It then sinks below operators that work by row (biases, activations, sums, normalisation), so
that these stay epilogues of the product, and cancels with the reshape of the next product.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.ir import DataType
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import BROADCAST, OpCard, constructor
from tilewright.relay.expr import Call, Expr
from tilewright.relay.rewriting import (
    card_of,
    constant_of,
    is_op,
    rewrite_calls,
    static_shape,
    tensor_of,
    typed,
    typed_pass,
)
from tilewright.scheduling.graph_plan import graph_plan

ALONG_ROWS = ("nn.bias_add", "nn.layer_norm", "nn.softmax", "nn.log_softmax")
"""Operators along `axis`, for which the last axis is allowed."""


def fills_tiles(lead: Sequence[int], columns: int, dtype: str, constant: bool) -> bool:
    """Whether the rows of all leading axes together fill register tiles better than those of the last two axes."""
    plan = graph_plan()
    if plan is None:
        return False
    return plan.forms.together(lead, columns, plan.target.cpu.lanes(DataType(dtype).bits), constant)


class _FlattenRows:
    """`views`: reshape of a matrix -> the matrix."""

    def __init__(self) -> None:
        self.views: dict[Expr, Expr] = {}
        self.matrices: dict[Expr, Expr] = {}

    def rule(self, call: Call) -> Expr | None:
        shape = static_shape(call)
        if shape is None or len(shape) < 3 or 0 in shape:
            return None
        if is_op(call, "nn.dense", "nn.matmul"):
            return self._product(call, shape)
        if is_op(call, "reshape") and is_op(call.args[0], "nn.dense", "nn.matmul"):
            # The model itself reshapes a matrix: operators by row on the result can work on the matrix.
            if static_shape(call.args[0]) == (prod(shape[:-1]), shape[-1]):
                self.views[call] = call.args[0]
            return None
        card = card_of(call)
        if is_op(call, *ALONG_ROWS):
            if card["axis"] not in (-1, len(shape) - 1) or call.args[0] not in self.views:
                return None
            args = [self._matrix(call.args[0], shape), *call.args[1:]]
            return self._view(call, args, card.replace(axis=-1), shape)
        if card.fuse > BROADCAST or hasattr(card, "axis"):
            return None
        if not any([a in self.views and static_shape(a) == shape for a in call.args]):
            return None
        found = [a for a in [self._operand(a, shape) for a in call.args] if a is not None]
        return self._view(call, found, card, shape) if len(found) == len(call.args) else None

    def _product(self, call: Call, shape: tuple[int, ...]) -> Expr | None:
        data, weight = (static_shape(a) for a in call.args[:2])
        card = card_of(call)
        if data is None or weight is None or len(weight) != 2 or getattr(card, "transpose_a", False):
            return None
        constant = constant_of(call.args[1]) is not None
        dtype = str(tensor_of(call).dtype)
        if call.args[0] not in self.views and not fills_tiles(data[:-1], shape[-1], dtype, constant):
            return None
        return self._view(call, [self._matrix(call.args[0], data), *call.args[1:]], card, shape)

    def _matrix(self, e: Expr, shape: tuple[int, ...]) -> Expr:
        """A tensor as a matrix of rows."""
        for known in (self.views, self.matrices):
            if e in known:
                return known[e]
        found: Expr = typed(constructor("reshape")(e, (prod(shape[:-1]), shape[-1])))
        self.matrices[e] = found
        return found

    def _operand(self, e: Expr, shape: tuple[int, ...]) -> Expr | None:
        """An operand of an element-wise operator as rows; None if it varies along leading axes."""
        mine = static_shape(e)
        if mine == shape:
            return self._matrix(e, shape)
        if mine is None or len(mine) > len(shape) or any([d != 1 for d in mine[:-1]]):
            return None
        return e if len(mine) < 2 else typed(constructor("reshape")(e, (mine[-1],)))

    def _view(self, call: Call, args: Sequence[Expr], card: OpCard, shape: tuple[int, ...]) -> Expr | None:
        rows = typed(Call(call.op, tuple(args), card, (), call.span))
        if static_shape(rows) != (prod(shape[:-1]), shape[-1]):
            return None
        # The reshape keeps the source of the call, and with it the node of the model.
        result = typed(constructor("reshape")(rows, shape, span=call.span))
        self.views[result] = rows
        return result


def FlattenRows() -> Pass:
    """Flatten several leading axes of products to one, so that they become products of matrices."""
    return typed_pass("FlattenRows", 2, lambda f, mod: rewrite_calls(f, _FlattenRows().rule))


__all__ = ["FlattenRows"]
