"""Table of the operators that importers evaluate at import, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Folder = Callable[..., Any]


class Folders(dict[str, Folder]):
    """Functions that compute operators of known values, by the operator's name."""

    def of(self, *names: str) -> Callable[[Folder], Folder]:
        """Decorator that registers a function for these operators."""

        def register(f: Folder) -> Folder:
            self.update(dict.fromkeys(names, f))
            return f

        return register
