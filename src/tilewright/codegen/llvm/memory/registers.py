"""Small local buffers kept in registers: SSA values by element offset."""

from __future__ import annotations

from tilewright.ir import DataType


class Registers:
    """A local buffer kept in SSA values: `slots` of `lanes` elements each, by element offset."""

    __slots__ = ("dtype", "lanes", "slots")

    def __init__(self, dtype: DataType, lanes: int, count: int) -> None:
        self.dtype = dtype.with_lanes(lanes)
        self.lanes = lanes
        self.slots: dict[int, str] = dict.fromkeys(range(0, count, lanes), "poison")

    def holds(self, offset: int) -> bool:
        """Whether the buffer reaches to an element. Where an unrolled loop goes further, a condition keeps it from running."""
        return 0 <= offset < len(self.slots) * self.lanes
