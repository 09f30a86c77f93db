"""Constants for calls whose arguments are known, by the cards' references."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir import TensorType
from tilewright.relay.cards.card import OpCard
from tilewright.relay.evaluation.run_card import run_card
from tilewright.relay.expr import Call, Constant, Expr, Tuple, const
from tilewright.relay.rewriting import CallRewriter, card_of, static_shape

SHAPE_OPS = ("shape_of", "ndarray_size")
GROWTH_FROM = 1 << 16
"""A result of more bytes than this, and than twice the operands', is not folded: a library should not grow for it."""


def known_value(e: Expr) -> Any:
    """The array of a constant, the tuple of arrays of a tuple of constants, else None."""
    if type(e) is Constant:
        return e.value
    if type(e) is Tuple:
        parts = [known_value(f) for f in e.fields]
        return None if any([p is None for p in parts]) else tuple(parts)
    return None


def _bytes(value: Any) -> int:
    return sum(map(_bytes, value)) if isinstance(value, tuple) else value.nbytes


def _as_expr(value: Any) -> Expr:
    if isinstance(value, tuple):
        return Tuple(tuple([_as_expr(v) for v in value]))
    return const(np.asarray(value))


def fold_call(call: Call) -> Expr | None:
    """The constant that a call stands for, or None."""
    card = card_of(call)
    if type(card).ref is OpCard.ref or not card.pure:
        return None
    if call.operator.name in SHAPE_OPS:
        shape = static_shape(call.args[0])
        if shape is None:
            return None
        args = [np.broadcast_to(np.zeros((), "float32"), shape)]
    else:
        args = [known_value(a) for a in call.args]
        if any([a is None for a in args]):
            return None
        found = call.checked_type
        if isinstance(found, TensorType):
            shape = static_shape(call)
            if shape is None:
                return None
            size = int(np.prod(shape, dtype=np.int64)) * found.dtype.bytes
            if size > GROWTH_FROM and size > 2 * sum(map(_bytes, args)):
                return None
    return _as_expr(run_card(call, args))


def folded(expr: Expr) -> Expr:
    """The expression with constants for all calls that stand for one."""
    return CallRewriter(fold_call).visit(expr)
