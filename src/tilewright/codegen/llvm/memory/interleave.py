"""Vector loads whose lanes lie at fixed distances that are no arithmetic sequence: interleaved or transposed copies.

The lanes are taken from a few vectors where they lie in a few runs, else put together from pieces that are contiguous.
"""

from __future__ import annotations

from tilewright.ir import IntImm, PrimExpr
from tilewright.tir import Add, Broadcast, FloorDiv, FloorMod, Mul, Ramp, Sub

MOST_RUNS = 4
LEAST_RUN = 4


def fixed_lanes(e: PrimExpr) -> tuple[PrimExpr, tuple[int, ...]] | None:
    """A vector of integers as a scalar plus a fixed distance for each lane; None where it is not known to be one."""
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
    # A scalar that the divisor surely divides would do as well; a constant one is what fused loops of fixed extents give.
    if c <= 0 or type(a[0]) is not IntImm:
        return None
    lanes = [a[0].value + x for x in a[1]]
    parts = [x // c if kind is FloorDiv else x % c for x in lanes]
    zero = IntImm(e.dtype.element, 0)
    return zero, tuple(parts)


MOST_STEP = 4
"""Distance of lanes up to which it pays to load all that lies between them."""


def stepped(lanes: int, step: int) -> tuple[list[int], list[tuple[int, int]]]:
    """(starts of vectors of `lanes` elements, the vector and the element in it of each lane) for lanes `step` elements apart. The last
    vector ends with the last lane, so that nothing beyond is read."""
    span = (lanes - 1) * step + 1
    starts = [*range(0, span - lanes, lanes), span - lanes]
    places = [(min(at // lanes, len(starts) - 1), at) for at in range(0, span, step)]
    return starts, [(vector, at - starts[vector]) for vector, at in places]


def segments(distances: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """(first, length) of the few contiguous runs that hold all distances."""
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
    """How many neighbouring lanes, at most 64 bits, lie next to each other everywhere."""
    best = 1
    size = 2
    while size * element_bits <= 64 and len(distances) % size == 0:
        groups = [distances[i : i + size] for i in range(0, len(distances), size)]
        if not all([g[j] == g[0] + j for g in groups for j in range(size)]):
            break
        best = size
        size *= 2
    return best
