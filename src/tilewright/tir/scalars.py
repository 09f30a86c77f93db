"""Semantics of operations on scalars: the one definition for constant folding, the interpreter, the code generators and the printers.

Integers are computed exactly and wrapped around to their type (`wrap_int`), floats rounded to theirs after every operation
(`round_float`). Between the two, `saturated` converts as all back ends do. A quotient by zero raises ZeroDivisionError; a shift by less
than 0 or by as many bits as the type has is not defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tilewright.ir import DataType
from tilewright.node.field_values import numpy_dtype
from tilewright.tir import expr as E

Fold = Callable[[Any, Any], Any]


class Operation(NamedTuple):
    """A binary operation. word: what programs call it by; sign: how Python and C write it, "" where C has no sign for it; integers, floats:
    the result, before it is brought into its type; floats is None where the operation takes integers only."""

    word: str
    sign: str
    integers: Fold
    floats: Fold | None


def trunc_div(a: int, b: int) -> int:
    """The quotient rounded towards zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def trunc_mod(a: int, b: int) -> int:
    """The remainder of `trunc_div`; it has the sign of a."""
    r = abs(a) % abs(b)
    return -r if a < 0 else r


def lesser(a: Any, b: Any) -> Any:
    """The smaller one; NaN where either is."""
    return b if b < a or b != b else a


def greater(a: Any, b: Any) -> Any:
    """The larger one; NaN where either is."""
    return b if b > a or b != b else a


def _quotient(a: float, b: float) -> float:
    return float(np.float64(a) / np.float64(b))


def _alike(word: str, sign: str, fold: Fold) -> Operation:
    return Operation(word, sign, fold, fold)


ARITHMETIC: dict[type, Operation] = {
    E.Add: _alike("add", "+", lambda a, b: a + b),
    E.Sub: _alike("sub", "-", lambda a, b: a - b),
    E.Mul: _alike("mul", "*", lambda a, b: a * b),
}
DIVISIONS: dict[type, Operation] = {
    E.Div: Operation("truncdiv", "", trunc_div, _quotient),
    E.Mod: Operation("truncmod", "", trunc_mod, np.fmod),
    E.FloorDiv: Operation("floordiv", "", lambda a, b: a // b, None),
    E.FloorMod: Operation("floormod", "", lambda a, b: a % b, None),
}
EXTREMES: dict[type, Operation] = {
    E.Min: _alike("min", "", lesser),
    E.Max: _alike("max", "", greater),
}
COMPARISONS: dict[type, Operation] = {
    E.EQ: _alike("eq", "==", lambda a, b: a == b),
    E.NE: _alike("ne", "!=", lambda a, b: a != b),
    E.LT: _alike("lt", "<", lambda a, b: a < b),
    E.LE: _alike("le", "<=", lambda a, b: a <= b),
    E.GT: _alike("gt", ">", lambda a, b: a > b),
    E.GE: _alike("ge", ">=", lambda a, b: a >= b),
}
BINARY: dict[type, Operation] = {**ARITHMETIC, **DIVISIONS, **EXTREMES, **COMPARISONS}
BITWISE: dict[str, Operation] = {
    "bitwise_and": Operation("and", "&", lambda a, b: a & b, None),
    "bitwise_or": Operation("or", "|", lambda a, b: a | b, None),
    "bitwise_xor": Operation("xor", "^", lambda a, b: a ^ b, None),
    "shift_left": Operation("shl", "<<", lambda a, b: a << b, None),
    "shift_right": Operation("shr", ">>", lambda a, b: a >> b, None),
}
"""By the name of the intrinsic. A shift to the right keeps the sign of signed integers."""


# --- types


@cache
def int_range(dtype: DataType) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if dtype.is_bool:
        return 0, 1
    if dtype.is_int:
        return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1
    return 0, (1 << (dtype.bits or 64)) - 1


def fits(found: tuple[int, int], dtype: DataType) -> bool:
    """Whether a type holds all numbers between two."""
    low, high = int_range(dtype)
    return low <= found[0] and found[1] <= high


def wrap_int(value: int, dtype: DataType) -> int:
    """The number that an integer of that type holds after wrap-around; of a bool its lowest bit."""
    if dtype.is_bool:
        return value & 1
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_int and value >> (dtype.bits - 1) else value


def round_float(value: float, dtype: DataType) -> float:
    """The nearest value that the type can hold."""
    if dtype.bits == 64:
        return value
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.asarray(value, dtype=np.float64).astype(numpy_dtype(dtype.element)))


def saturated(value: float, low: int, high: int) -> int:
    """A float as an integer between two: towards zero, the nearest of both where it lies beyond, 0 for NaN."""
    if math.isnan(value):
        return 0
    return low if value <= low else high if value >= high else int(value)


def converted(value: float, dtype: DataType) -> float:
    """A number in another type, as a cast of it is: to bool whether it is not 0, from float to integer saturated."""
    if dtype.is_bool:
        return int(value != 0)
    if dtype.is_float:
        return round_float(float(value), dtype)
    return saturated(value, *int_range(dtype)) if isinstance(value, float) else wrap_int(int(value), dtype)


__all__ = [
    "ARITHMETIC",
    "BINARY",
    "BITWISE",
    "COMPARISONS",
    "DIVISIONS",
    "EXTREMES",
    "Operation",
    "converted",
    "fits",
    "greater",
    "int_range",
    "lesser",
    "round_float",
    "saturated",
    "trunc_div",
    "trunc_mod",
    "wrap_int",
]
