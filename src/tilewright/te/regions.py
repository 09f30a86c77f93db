"""The regions that a block reads: the loads of its body, merged for each buffer into one box over the block's
variables.
"""

from __future__ import annotations

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import structural_equal
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import BufferRegion


def point_region(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> BufferRegion:
    """The region of one element."""
    return BufferRegion(buffer, tuple([Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in indices]))


def full_region(buffer: Buffer) -> BufferRegion:
    """The region of all elements."""
    return BufferRegion(buffer, tuple([Range.from_min_extent(IntImm(d.dtype, 0), d) for d in buffer.shape]))


class ReadSet:
    """Collects loads; `regions()` gives one region per buffer, in the order of first use."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._loads: dict[Buffer, list[tuple[PrimExpr, ...]]] = {}

    def reserve(self, buffer: Buffer) -> list[tuple[PrimExpr, ...]]:
        """The list of index tuples of `buffer`, to which the caller appends those of a load."""
        return self._loads.setdefault(buffer, [])

    def regions(self) -> tuple[BufferRegion, ...]:
        return tuple([self._merge(buffer, loads) for buffer, loads in self._loads.items()])

    def _merge(self, buffer: Buffer, loads: list[tuple[PrimExpr, ...]]) -> BufferRegion:
        if len(loads) == 1:
            return point_region(buffer, loads[0])
        return BufferRegion(
            buffer, tuple([self._span(buffer, d, [load[d] for load in loads]) for d in range(len(buffer.shape))])
        )

    def _span(self, buffer: Buffer, dim: int, indices: list[PrimExpr]) -> Range:
        """The smallest range known to hold all indices; the whole dimension if their distances are not constant."""
        first = indices[0]
        if all([i is first or structural_equal(i, first) for i in indices]):
            return Range.from_min_extent(first, IntImm(first.dtype, 1))
        analyzer = self._analyzer
        low = high = 0
        for index in indices[1:]:
            distance = analyzer.simplify(index - first)
            if not isinstance(distance, IntImm):
                return Range.from_min_extent(IntImm(first.dtype, 0), buffer.shape[dim])
            low, high = min(low, distance.value), max(high, distance.value)
        begin = analyzer.simplify(first + low) if low else first
        return Range.from_min_extent(begin, IntImm(first.dtype, high - low + 1))
