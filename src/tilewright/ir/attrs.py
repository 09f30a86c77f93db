"""Attributes of calls: `Attrs` is the root of operator cards, `DictAttrs` holds free-form ones."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, NamedTuple

from tilewright.node import Node, node_types


class AttrFieldInfo(NamedTuple):
    """A field of an attribute record: its name, its type as it is declared, and what it is."""

    name: str
    type_info: str
    description: str


class Attrs(Node):
    """Root of attribute records; fields are read as attributes or by `attrs["name"]`."""

    def __getitem__(self, key: str) -> Any:
        if key not in {f.name for f in self._fields}:
            raise AttributeError(f"{type(self).__name__} has no attribute {key!r}; it has {self.keys()}")
        return getattr(self, key)

    def keys(self) -> list[str]:
        return [f.name for f in self._fields]

    def list_field_info(self) -> list[AttrFieldInfo]:
        """The fields that it has."""
        return [AttrFieldInfo(f.name, f.annotation, "") for f in self._fields]

    def get_str(self, key: str) -> str:
        return str(self[key])

    def get_int(self, key: str) -> int:
        return int(self[key])

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """The integers of a field that holds several."""
        return tuple([int(item) for item in self[key]])


class DictAttrs(Attrs, key="DictAttrs"):
    """A dictionary as attributes."""

    values: Mapping[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def keys(self) -> list[str]:
        return list(self.values)

    def items(self) -> ItemsView[str, Any]:
        """(name, value) of each attribute."""
        return self.values.items()

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)


def make_node(type_key: str, **kwargs: Any) -> Node:
    """A node of the type with that key, from its fields by name; DictAttrs take any names.

    Raises ValueError for an unknown key, and TypeError for fields that the type does not have.
    """
    found = node_types().get(type_key)
    if found is None:
        raise ValueError(f"make_node: no type of node has the key {type_key!r}")
    return found(kwargs) if issubclass(found, DictAttrs) else found(**kwargs)
