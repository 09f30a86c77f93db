"""Small local buffers that are kept in registers, as SSA values by element offset."""

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
        """Whether an element is in the buffer. Code of an unrolled loop for elements beyond it is under a condition, and never runs."""
        return 0 <= offset < len(self.slots) * self.lanes
