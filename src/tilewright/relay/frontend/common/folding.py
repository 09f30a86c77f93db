"""Operators that importers evaluate at import, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Folder = Callable[..., Any]


class Folders(dict[str, Folder]):
    """Functions that compute operators on values which are known, by the operator's name."""

    def of(self, *names: str) -> Callable[[Folder], Folder]:
        """Decorates the one for these operators."""

        def register(f: Folder) -> Folder:
            self.update(dict.fromkeys(names, f))
            return f

        return register
