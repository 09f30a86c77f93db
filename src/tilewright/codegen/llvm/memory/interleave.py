"""Vector loads whose lanes are at fixed distances other than an arithmetic sequence: interleaved or transposed copies.

If the lanes are in a few contiguous runs, they are picked from a few vectors. Otherwise they are put together from contiguous pieces.
"""

from __future__ import annotations

from tilewright.ir import IntImm, PrimExpr
from tilewright.tir import Add, Broadcast, FloorDiv, FloorMod, Mul, Ramp, Sub

MOST_RUNS = 4
LEAST_RUN = 4


def fixed_lanes(e: PrimExpr) -> tuple[PrimExpr, tuple[int, ...]] | None:
    """A vector of integers as (scalar, distance of each lane); None for vectors of another form."""
    n = e.dtype.lanes
    if n == 1:
        return None
    if isinstance(e, Broadcast):
        value = e.value
        return (value, (0,) * n) if value.dtype.lanes == 1 else None
    if isinstance(e, Ramp):
        base, stride = e.base, e.stride
        if base.dtype.lanes != 1 or not isinstance(stride, IntImm):
            return None
        return base, tuple([k * stride.value for k in range(n)])
    if not isinstance(e, (Add, Sub, Mul, FloorDiv, FloorMod)):
        return None
    kind = type(e)
    a, b = fixed_lanes(e.a), fixed_lanes(e.b)
    if a is None or b is None:
        return None
    if kind is Add:
        return a[0] + b[0], tuple([x + y for x, y in zip(a[1], b[1], strict=True)])
    if kind is Sub:
        return a[0] - b[0], tuple([x - y for x, y in zip(a[1], b[1], strict=True)])
    if kind is Mul and type(a[0]) is IntImm and not any(a[1]):
        a, b = b, a
    if type(b[0]) is not IntImm or any(b[1]):
        return None
    c = b[0].value
    if kind is Mul:
        return a[0] * c, tuple([x * c for x in a[1]])
    # Fused loops of static extents give a constant here. A scalar that is a multiple of the divisor would do as well.
    if c <= 0 or type(a[0]) is not IntImm:
        return None
    lanes = [a[0].value + x for x in a[1]]
    parts = [x // c if kind is FloorDiv else x % c for x in lanes]
    zero = IntImm(e.dtype.element, 0)
    return zero, tuple(parts)


MOST_STEP = 4
"""The largest distance of lanes at which it pays to load the elements between them as well."""


def stepped(lanes: int, step: int) -> tuple[list[int], list[tuple[int, int]]]:
    """(starts of the vectors to load, (vector, element) of each lane) for lanes `step` elements apart. Vectors have `lanes` elements; the
    last one ends at the last lane, so that no element beyond it is read."""
    span = (lanes - 1) * step + 1
    starts = [*range(0, span - lanes, lanes), span - lanes]
    places = [(min(at // lanes, len(starts) - 1), at) for at in range(0, span, step)]
    return starts, [(vector, at - starts[vector]) for vector, at in places]


def segments(distances: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """(first, length) of the contiguous runs that hold all distances; None if there are too many."""
    runs: list[list[int]] = []
    for d in sorted(set(distances)):
        if runs and d == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([d, 1])
            if len(runs) > MOST_RUNS:
                return None
    if len(runs) == 3 or any([n < LEAST_RUN or n != runs[0][1] for _, n in runs]):
        return None
    return [(first, n) for first, n in runs]


def piece(distances: tuple[int, ...], element_bits: int) -> int:
    """The number of lanes, at most 64 bits, in the contiguous pieces into which all lanes can be divided."""
    best = 1
    size = 2
    while size * element_bits <= 64 and len(distances) % size == 0:
        groups = [distances[i : i + size] for i in range(0, len(distances), size)]
        if not all([g[j] == g[0] + j for g in groups for j in range(size)]):
            break
        best = size
        size *= 2
    return best
