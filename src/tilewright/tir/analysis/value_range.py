"""Which values integer expressions may have, by what is known of the variables in them."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.dtype import most_lanes
from tilewright.tir.expr import Add, BinaryOpExpr, Broadcast, Cast, FloorDiv, FloorMod, Max, Min, Mul, Ramp, Sub, Var
from tilewright.tir.scalars import fits

Range = tuple[int, int]
Known = Callable[[Var], Range | None]


def value_range(e: PrimExpr, known: Known, wraps: bool = True) -> Range | None:
    """The least and the greatest value of an integer, or of the lanes of a vector of them; None where nothing is known. wraps: a result
    beyond its type wraps around, so nothing is known of it; else that does not happen, as in index arithmetic."""
    if type(e) is IntImm:
        return e.value, e.value
    if isinstance(e, Var):
        return known(e)
    if isinstance(e, BinaryOpExpr):
        combine = _COMBINED.get(type(e))
        found = combine and combine(value_range(e.a, known, wraps), value_range(e.b, known, wraps))
    elif isinstance(e, Ramp):
        found = _lanes(value_range(e.base, known, wraps), value_range(e.stride, known, wraps), e.dtype.lanes)
    elif isinstance(e, Broadcast):
        return value_range(e.value, known, wraps)
    elif isinstance(e, Cast) and not e.value.dtype.is_float and (wraps or e.dtype.bits >= 32):
        found = value_range(e.value, known, wraps)
    else:
        return None
    return found if found is None or not wraps or fits(found, e.dtype) else None


def _lanes(base: Range | None, stride: Range | None, lanes: int) -> Range | None:
    if base is None or stride is None:
        return None
    steps = [k * (most_lanes(lanes) - 1) for k in (0, *stride)]
    return base[0] + min(steps), base[1] + max(steps)


def _sum(a: Range | None, b: Range | None) -> Range | None:
    return (a[0] + b[0], a[1] + b[1]) if a and b else None


def _difference(a: Range | None, b: Range | None) -> Range | None:
    return (a[0] - b[1], a[1] - b[0]) if a and b else None


def _product(a: Range | None, b: Range | None) -> Range | None:
    if a is None or b is None:
        return None
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _quotient(a: Range | None, b: Range | None) -> Range | None:
    if a is None or b is None or b[0] <= 0:
        return None
    corners = [x // y for x in a for y in b]
    return min(corners), max(corners)


def _remainder(a: Range | None, b: Range | None) -> Range | None:
    if b is None or b[0] != b[1] or b[0] <= 0:
        return None
    return a if a is not None and a[0] >= 0 and a[1] < b[0] else (0, b[0] - 1)


def _least(a: Range | None, b: Range | None) -> Range | None:
    return (min(a[0], b[0]), min(a[1], b[1])) if a and b else None


def _greatest(a: Range | None, b: Range | None) -> Range | None:
    return (max(a[0], b[0]), max(a[1], b[1])) if a and b else None


_COMBINED: dict[type, Callable[[Range | None, Range | None], Range | None]] = {
    Add: _sum,
    Sub: _difference,
    Mul: _product,
    FloorDiv: _quotient,
    FloorMod: _remainder,
    Min: _least,
    Max: _greatest,
}

__all__ = ["Known", "Range", "value_range"]
