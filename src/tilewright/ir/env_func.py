"""Functions of the global registry as nodes, which JSON and attributes refer to by name."""

from __future__ import annotations

from typing import Any

from tilewright.node import Node
from tilewright.runtime import get_global_func


class EnvFunc(Node, key="EnvFunc"):
    """A global function, referred to by its name."""

    name: str

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The node for a registered function. Raises ValueError when none has that name."""
        get_global_func(name)
        return EnvFunc(name)

    @property
    def func(self) -> Any:
        """The function that is registered under the name now."""
        return get_global_func(self.name)

    def __call__(self, *args: Any) -> Any:
        return self.func(*args)
