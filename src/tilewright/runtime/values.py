"""Strings and shapes under their classic names; the runtime takes Python's own as well."""

from __future__ import annotations

from typing import SupportsIndex


class String(str):
    """Text; any str does."""

    __slots__ = ()


class ShapeTuple(tuple[int, ...]):
    """Extents of a tensor; any tuple of ints does."""

    __slots__ = ()

    def __new__(cls, shape: list[int] | tuple[int, ...]) -> ShapeTuple:
        return super().__new__(cls, [int(extent) for extent in shape])

    def __getitem__(self, index: SupportsIndex) -> int:  # type: ignore[override]
        return super().__getitem__(index)
