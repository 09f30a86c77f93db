"""Masks of strided slices, as TensorFlow and TensorFlow Lite write them: bit k of each speaks of entry k of begin, end and strides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class SliceMasks(NamedTuple):
    """begin, end: the slice begins or ends where the axis does; ellipsis: the entry stands for all axes between; new_axis: for an axis
    that is added; shrink_axis: for one element, whose axis goes."""

    begin: int
    end: int
    ellipsis: int
    new_axis: int
    shrink_axis: int

    @classmethod
    def read(cls, attribute: Callable[[str], Any]) -> SliceMasks:
        """From the attributes of a node."""
        return cls(*[int(attribute(f"{name}_mask")) for name in cls._fields])

    def key(self, begins: Iterable[Any], ends: Iterable[Any], steps: Iterable[Any]) -> tuple[Any, ...]:
        """The slice as an index of NumPy."""
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
