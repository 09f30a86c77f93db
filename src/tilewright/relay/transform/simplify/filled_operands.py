"""Rules of SimplifyExpr for tensors that are filled with one number, roots in a denominator, and orders of dequantised numbers."""

from __future__ import annotations

import numpy as np

from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, const
from tilewright.relay.rewriting import constant_of, is_op, same_type, scalar_of, static_shape, tensor_of, typed
from tilewright.relay.transform.simplify.rules import operand, rule


def _filling(e: Expr) -> Expr | None:
    """The scalar that a tensor is filled with; None for other tensors."""
    if is_op(e, "zeros", "zeros_like", "ones", "ones_like"):
        number = 0 if e.operator.name.startswith("zeros") else 1
        return const(np.array(number, str(tensor_of(e).dtype)))
    if is_op(e, "full", "full_like"):
        value, dtype = e.args[-1], tensor_of(e).dtype
        return value if tensor_of(value).dtype == dtype else constructor("cast")(value, str(dtype))
    return None


@rule("zeros_like", "ones_like", "full_like")
def known_shape(call: Call) -> Expr | None:
    """zeros_like(x) -> zeros, ones_like(x) -> ones, full_like(x, v) -> full(v), if the shape of x is known."""
    shape, dtype = static_shape(call), str(tensor_of(call).dtype)
    if shape is None:
        return None
    if is_op(call, "full_like"):
        return constructor("full")(call.args[1], shape, dtype)
    return constructor(call.operator.name.removesuffix("_like"))(shape, dtype)


@rule("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "mod", "floor_divide", "floor_mod")
def filled_operand(call: Call) -> Expr | None:
    """x + full(v, shape) -> x + v, if x has the shape of the sum: the scalar is broadcast."""
    for i in (0, 1):
        scalar, other = _filling(call.args[i]), call.args[1 - i]
        if scalar is not None and same_type(typed(other).checked_type, typed(call).checked_type):
            pair = (other, scalar) if i else (scalar, other)
            return Call(call.op, pair, call.attrs, (), call.span)
    return None


@rule("divide")
def divide_by_root(call: Call) -> Expr | None:
    """c / sqrt(x) -> c * rsqrt(x); 1 / sqrt(x) -> rsqrt(x)."""
    number, root = scalar_of(call.args[0]), call.args[1]
    if number is None or not is_op(root, "sqrt"):
        return None
    inverse = typed(constructor("rsqrt")(root.args[0]))
    if not same_type(inverse.checked_type, typed(call).checked_type):
        return None
    return inverse if number == 1 else constructor("multiply")(call.args[0], inverse)


@rule("argmax", "argmin", "argsort")
def order_of_dequantised(call: Call) -> Expr | None:
    """argmax(dequantize(x)) -> argmax(x), if all numbers have one positive scale."""
    if not is_op(call.args[0], "qnn.dequantize"):
        return None
    data, scale, zero = operand(call).args
    factors, offsets = constant_of(scale), constant_of(zero)
    if factors is None or offsets is None or factors.size != 1 or offsets.size != 1 or not bool(np.all(factors > 0)):
        return None
    return Call(call.op, (data, *call.args[1:]), call.attrs, (), call.span)
