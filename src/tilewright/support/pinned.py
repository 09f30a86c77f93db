"""Extents given for an input of a model."""

from __future__ import annotations

from collections.abc import Sequence


class Pinned(tuple[int, ...]):
    """Extents, and an element type ("": not said) for formats whose files do not say it."""

    dtype: str

    def __new__(cls, extents: Sequence[int] = (), dtype: str = "") -> Pinned:
        self = super().__new__(cls, extents)
        self.dtype = dtype
        return self
