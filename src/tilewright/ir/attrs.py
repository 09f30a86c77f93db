"""Attributes of calls: `Attrs` is the root of operator cards, `DictAttrs` holds free-form ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.node import Node


class Attrs(Node):
    """Root of attribute records; fields are read as attributes or by `attrs["name"]`."""

    def __getitem__(self, name: str) -> Any:
        if name not in {f.name for f in self._fields}:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}; it has {self.keys()}")
        return getattr(self, name)

    def keys(self) -> list[str]:
        return [f.name for f in self._fields]

    def get_str(self, name: str) -> str:
        return str(self[name])

    def get_int(self, name: str) -> int:
        return int(self[name])


class DictAttrs(Attrs, key="DictAttrs"):
    """A dictionary as attributes."""

    values: Mapping[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def keys(self) -> list[str]:
        return list(self.values)

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)
