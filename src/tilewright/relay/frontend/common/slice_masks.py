"""Masks of strided slices of TensorFlow and TensorFlow Lite: bit k of each mask is for entry k of begin, end and strides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class SliceMasks(NamedTuple):
    """begin, end: the slice begins or ends with the axis; ellipsis: the entry stands for all axes between; new_axis: the entry adds
    an axis; shrink_axis: the entry selects one element and removes its axis."""

    begin: int
    end: int
    ellipsis: int
    new_axis: int
    shrink_axis: int

    @classmethod
    def read(cls, attribute: Callable[[str], Any]) -> SliceMasks:
        """The masks in the attributes of a node."""
        return cls(*[int(attribute(f"{name}_mask")) for name in cls._fields])

    def key(self, begins: Iterable[Any], ends: Iterable[Any], steps: Iterable[Any]) -> tuple[Any, ...]:
        """The slice as a NumPy index."""
        found: list[Any] = []
        for k, (b, e, s) in enumerate(zip(begins, ends, steps, strict=True)):
            if self.ellipsis >> k & 1:
                found.append(Ellipsis)
            elif self.new_axis >> k & 1:
                found.append(None)
            elif self.shrink_axis >> k & 1:
                found.append(b)
            else:
                found.append(slice(None if self.begin >> k & 1 else b, None if self.end >> k & 1 else e, s))
        return tuple(found)
