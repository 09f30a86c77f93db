"""Requantisation in float32 that is exact, because its factors are powers of two: the same in integers.

Where numbers have at most 24 bits, float32 holds them, their sums and their multiples by powers of two as they are. A value is then that
of accumulators over a power of two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright.relay.cards.card import constructor as op
from tilewright.relay.expr import Call, Expr
from tilewright.relay.rewriting import card_of, constant_of, is_op, tensor_of
from tilewright.vta.top.refusals import Refused

if TYPE_CHECKING:
    from tilewright.vta.top.accumulators import Acc, Kernel

LARGEST = 1 << 24
"""Integers up to this one are float32."""
MOST_BITS = 30


class Exact(NamedTuple):
    """A value in float32: accumulators over 2 to the power of `bits`."""

    acc: Acc
    bits: int = 0


def integral(kernel: Kernel, e: Expr) -> Acc:
    """The accumulators of an expression in float32 whose values are whole numbers. Refused where it may round, or is not whole."""
    found = _exact(kernel, e)
    if found.bits > 0:
        raise Refused(f"{_name(e)} of float32 is not whole before it becomes an integer")
    return _raised(kernel, found, 0).acc


def _exact(kernel: Kernel, e: Expr) -> Exact:
    dtype = str(tensor_of(e).dtype)
    if dtype != "float32" or not isinstance(e, Call):
        raise Refused(f"{_name(e)} is computed in {dtype}")
    if is_op(e, "cast"):
        if str(tensor_of(e.args[0]).dtype) not in ("int8", "int32"):
            raise Refused(f"{tensor_of(e.args[0]).dtype} becomes float32")
        return _checked(Exact(kernel.acc(e.args[0])), e)
    if is_op(e, "multiply", "divide"):
        return _scaled(kernel, e)
    if is_op(e, "add"):
        return _checked(_sum(kernel, e), e)
    if is_op(e, "floor", "round"):
        x = _exact(kernel, e.args[0])
        if x.bits <= 0:
            return x
        return Exact(_floor(kernel, x) if is_op(e, "floor") else _nearest(kernel, x))
    if is_op(e, "clip", "nn.relu", "maximum", "minimum"):
        return _bounded(kernel, e)
    raise Refused(f"{_name(e)} is computed in float32")


def _checked(x: Exact, e: Expr) -> Exact:
    if max(abs(x.acc.low), abs(x.acc.high)) > LARGEST:
        raise Refused(f"{_name(e)} of float32 may round: it may be more than 24 bits")
    return x


def _number(e: Expr) -> float | None:
    """The one number that a constant holds."""
    value = constant_of(e)
    if (
        value is None
        or value.size == 0
        or not np.array_equal(value, np.full_like(value, value.reshape(-1)[0]), equal_nan=True)
    ):
        return None
    return float(value.reshape(-1)[0])


def _scaled(kernel: Kernel, e: Call) -> Exact:
    a, b = (_number(x) for x in e.args)
    factor = b if b is not None else a if is_op(e, "multiply") else None
    mantissa, exponent = math.frexp(factor) if factor is not None else (0.0, 0)
    if factor is None or mantissa != 0.5:
        raise Refused(f"{_name(e)} is computed in float32, by what is no power of two")
    x = _exact(kernel, e.args[0 if b is not None else 1])
    if kernel.shape_of(e) != x.acc.shape:
        raise Refused(f"{_name(e)} broadcasts its operand")
    power = exponent - 1 if is_op(e, "multiply") else 1 - exponent
    return Exact(x.acc, x.bits - power)


def _raised(kernel: Kernel, x: Exact, bits: int) -> Exact:
    """The same value over a larger power of two."""
    by = bits - x.bits
    if by == 0:
        return x
    if not 0 < by <= MOST_BITS:
        raise Refused("float32 holds numbers of very different sizes")
    factor = 1 << by
    low, high = x.acc.low * factor, x.acc.high * factor
    if max(abs(low), abs(high)) >= 1 << 31:
        raise Refused("a sum of float32 needs more than 32 bits")
    return Exact(kernel.with_constant("multiply", x.acc, np.int64(factor), low, high), bits)


def _sum(kernel: Kernel, e: Call) -> Exact:
    a, b = (_number(x) for x in e.args)
    if a is None and b is None:
        x, y = (_exact(kernel, arg) for arg in e.args)
        bits = max(x.bits, y.bits)
        left, right = (_raised(kernel, v, bits).acc for v in (x, y))
        if left.shape != right.shape:
            raise Refused(f"{_name(e)} broadcasts one of its operands")
        total = op("add")(left.value, right.value)
        return Exact(left._replace(value=total, low=left.low + right.low, high=left.high + right.high), bits)
    x = _exact(kernel, e.args[0 if b is not None else 1])
    number = float(b if b is not None else a)  # type: ignore[arg-type]
    if not abs(number) < 1 << 31:
        raise Refused(f"{_name(e)} is computed in float32, with {number:g}, which is no number of 32 bits")
    numerator, denominator = number.as_integer_ratio()
    bits = max(x.bits, denominator.bit_length() - 1)
    x = _raised(kernel, x, bits)
    more = numerator * ((1 << bits) // denominator)
    acc = x.acc
    return Exact(kernel.with_constant("add", acc, np.int64(more), acc.low + more, acc.high + more), bits)


def _floor(kernel: Kernel, x: Exact) -> Acc:
    if x.bits > MOST_BITS:
        raise Refused("a factor of requantisation is very small")
    acc = x.acc
    return kernel.with_constant("right_shift", acc, np.int64(x.bits), acc.low >> x.bits, acc.high >> x.bits)


def _nearest(kernel: Kernel, x: Exact) -> Acc:
    """The nearest whole number, the even one of two: a half less the least fraction is added, and that fraction again where the floor is
    odd."""
    down = _floor(kernel, x)
    halved = kernel.with_constant("right_shift", down, np.int64(1), down.low >> 1, down.high >> 1)
    even = kernel.with_constant("multiply", halved, np.int64(-2), -2 * halved.high, -2 * halved.low)
    odd = op("add")(down.value, even.value)
    acc = x.acc._replace(value=op("add")(x.acc.value, odd), low=x.acc.low, high=x.acc.high + 1)
    half = (1 << (x.bits - 1)) - 1
    return _floor(
        kernel, Exact(kernel.with_constant("add", acc, np.int64(half), acc.low + half, acc.high + half), x.bits)
    )


def _bounded(kernel: Kernel, e: Call) -> Exact:
    bounds: tuple[float, float]
    if is_op(e, "clip"):
        card: Any = card_of(e)
        bounds = float(card.a_min), float(card.a_max)
    elif is_op(e, "nn.relu"):
        bounds = 0.0, math.inf
    else:
        bound = _number(e.args[1])
        if bound is None:
            raise Refused(f"{_name(e)} of two tensors")
        bounds = (bound, math.inf) if is_op(e, "maximum") else (-math.inf, bound)
    if any([math.isnan(v) for v in bounds]):
        raise Refused(f"{_name(e)} bounds float32 by NaN")
    x = _exact(kernel, e.args[0])
    x = _raised(kernel, x, max(x.bits, 0))
    ends = [v * 2.0**x.bits for v in bounds]
    if any([math.isfinite(v) and v != math.floor(v) for v in ends]):
        raise Refused(f"{_name(e)} bounds float32 by a fraction")
    low, high = (int(max(min(v, 2.0**62), -(2.0**62))) for v in ends)
    return Exact(kernel.clipped(x.acc, low, high), x.bits)


def _name(e: Expr) -> str:
    name = getattr(getattr(e, "op", None), "name", "")
    return name or type(e).__name__


__all__ = ["Exact", "integral"]
