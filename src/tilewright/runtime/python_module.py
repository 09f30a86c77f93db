"""A module whose functions are Python functions, for tests of what calls modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.runtime.packed_func import PackedFunc, convert_to_packed_func


class FrontendTestModule:
    """A module to which a program adds functions. entry_name: the function that a call of the module is a call of."""

    def __init__(self, entry_name: str = "main") -> None:
        self.entry_name = entry_name
        self._functions: dict[str, PackedFunc] = {}

    def add_function(self, name: str, func: Callable[..., Any]) -> None:
        """Adds a function, or puts it in place of the one of this name."""
        self._functions[name] = convert_to_packed_func(func)

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """The function of a name. Raises AttributeError if there is none."""
        del query_imports
        if name not in self._functions:
            raise AttributeError(
                f"the module has no function {name!r}; it has {', '.join(sorted(self._functions)) or 'none'}"
            )
        return self._functions[name]

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether there is a function of this name."""
        del query_imports
        return name in self._functions

    __getitem__ = get_function

    def __call__(self, *args: Any) -> Any:
        return self.get_function(self.entry_name)(*args)
