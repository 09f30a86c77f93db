"""Which values integer expressions may have: what tells plain arithmetic of C from that which wraps around."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import Add, Broadcast, Cast, FloorDiv, FloorMod, Max, Min, Mul, Ramp, Sub, Var

Range = tuple[int, int]


def range_of(e: PrimExpr, known: Mapping[Var, Range]) -> Range | None:
    """The least and the greatest value that an integer may have; None where nothing is known."""
    if isinstance(e, IntImm):
        return e.value, e.value
    if isinstance(e, Var):
        return known.get(e)
    if isinstance(e, Broadcast):
        return range_of(e.value, known)
    if isinstance(e, Cast):
        inner = range_of(e.value, known) if not e.value.dtype.is_float else None
        return inner if inner is not None and fits(inner, e.dtype) else None
    if isinstance(e, Ramp):
        base, step = range_of(e.base, known), range_of(e.stride, known)
        if base is None or step is None:
            return None
        ends = [k * (e.dtype.lanes - 1) for k in (0, *step)]
        return base[0] + min(ends), base[1] + max(ends)
    if isinstance(e, FloorMod):
        return _remainder(range_of(e.a, known), range_of(e.b, known))
    if not isinstance(e, (Add, Sub, Mul, Min, Max, FloorDiv)):
        return None
    a, b = range_of(e.a, known), range_of(e.b, known)
    if a is None or b is None:
        return None
    found = _combined(e, a, b)
    return found if found is not None and fits(found, e.dtype) else None


def _remainder(a: Range | None, b: Range | None) -> Range | None:
    if b is None or b[0] != b[1] or b[0] <= 0:
        return None
    return a if a is not None and a[0] >= 0 and a[1] < b[0] else (0, b[0] - 1)


def _combined(e: PrimExpr, a: Range, b: Range) -> Range | None:
    if isinstance(e, Add):
        return a[0] + b[0], a[1] + b[1]
    if isinstance(e, Sub):
        return a[0] - b[1], a[1] - b[0]
    if isinstance(e, FloorDiv):
        if b[0] <= 0:
            return None
        corners = [x // y for x in a for y in b]
    elif isinstance(e, Mul):
        corners = [x * y for x in a for y in b]
    else:
        pick = min if isinstance(e, Min) else max
        return pick(a[0], b[0]), pick(a[1], b[1])
    return min(corners), max(corners)


def fits(found: Range, dtype: DataType) -> bool:
    """Whether a type holds all values of a range."""
    if dtype.is_bool:
        return found[0] >= 0 and found[1] <= 1
    if dtype.is_uint:
        return found[0] >= 0 and found[1] < 1 << dtype.bits
    return -(1 << dtype.bits - 1) <= found[0] and found[1] < 1 << dtype.bits - 1
