"""Multiplications by fixed-point numbers, as quantised models write them: which expression is one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tilewright.relay.expr import Call, Expr
from tilewright.relay.rewriting import card_of, constant_of, is_op, tensor_of

Array = np.ndarray[Any, Any]


class Scaled(NamedTuple):
    """(data * q + half) >> shift in 64 bits. away_from_zero: how halves of negative numbers are rounded; rounded: whether there is a half,
    or only the floor."""

    data: Expr
    q: Array
    shift: Array
    away_from_zero: bool = False
    rounded: bool = True


def high_product(e: Call) -> Scaled | None:
    """What `high_product` with constant factors is; None for others. Bits that the data were shifted by are taken from the shift."""
    factor = constant_of(e.args[1])
    if factor is None:
        return None
    data, places = e.args[0], _places(e)
    if is_op(data, "left_shift"):
        by = constant_of(data.args[1])
        if by is not None and by.size == 1 and 0 <= int(by.reshape(-1)[0]) < places:
            data, places = data.args[0], places - int(by.reshape(-1)[0])
    return Scaled(data, factor.astype(np.int64), np.full(factor.shape, places, np.int64))


def _places(e: Call) -> int:
    """By how many bits `high_product` shifts."""
    return int(getattr(card_of(e), "places", 31))


def fixed_point(e: Call) -> Scaled | None:
    """The multiplication that a right shift of 64 bits ends, where it is one as requantisation writes it; without one, q is 1."""
    shift, total = constant_of(e.args[1]), e.args[0]
    if shift is None or str(tensor_of(e).dtype) != "int64" or not is_op(total, "add", "subtract"):
        return None
    away, data, half = False, total.args[0], total.args[1]
    if is_op(total, "subtract"):  # (data + half) - (data < 0)
        if not (is_op(data, "add") and _is_below_zero(half, data.args[0])):
            return None
        away, data, half = True, *data.args
    elif is_op(half, "subtract"):  # data + (half - (data < 0))
        if not _is_below_zero(half.args[1], data):
            return None
        away, half = True, half.args[0]
    halves = constant_of(half)
    if halves is None or not np.array_equal(
        np.broadcast_to(halves, shift.shape), np.left_shift(np.int64(1), shift.astype(np.int64) - 1)
    ):
        return None
    q: Array | None = None
    if is_op(data, "multiply"):
        q = constant_of(data.args[1])
        data = data.args[0] if q is not None else data
    factors = np.ones(shift.shape, np.int64) if q is None else q.astype(np.int64)
    return Scaled(data, factors, shift.astype(np.int64), away)


def _is_below_zero(e: Expr, data: Expr) -> bool:
    """Whether a number is 1 where data are negative, else 0."""
    less = e.args[0] if is_op(e, "cast") else None
    if not is_op(less, "less") or less.args[0] is not data:
        return False
    zero = constant_of(less.args[1])
    return zero is not None and not zero.any()


def floored_product(e: Call) -> Scaled | None:
    """(data * q) >> places, as `high_product` without its rounding: less the highest bit that was lost, which is in the product of 32
    bits."""
    high, lost = e.args
    if not (is_op(e, "subtract") and is_op(high, "high_product") and is_op(lost, "cast")):
        return None
    bit = lost.args[0]
    if not (is_op(bit, "bitwise_and") and _is_number(bit.args[1], 1) and is_op(bit.args[0], "right_shift")):
        return None
    product, by = bit.args[0].args
    if not (_is_number(by, _places(high) - 1) and is_op(product, "multiply") and is_op(product.args[0], "cast")):
        return None
    whole, q, low = high_product(high), constant_of(high.args[1]), constant_of(product.args[1])
    same = q is not None and low is not None and np.array_equal(q.astype(np.uint32), low)
    if not same or product.args[0].args[0] is not high.args[0] or whole is None:
        return None
    return whole._replace(rounded=False)


def _is_number(e: Expr, wanted: int) -> bool:
    value = constant_of(e)
    return value is not None and bool((value == wanted).all())


__all__ = ["Scaled", "fixed_point", "floored_product", "high_product"]
