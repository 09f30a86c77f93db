"""Paths from a node to something inside of it, as mismatches and underlined printing name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.node.base import Node

ROOT, ATTR, INDEX, KEY, MISSING_INDEX, MISSING_KEY = "root", "attr", "index", "key", "missing index", "missing key"


class ObjectPath:
    """Steps from a root: fields, elements of sequences, values of mappings. `str` gives `<root>.body.seq[0]`."""

    __slots__ = ("step", "_kind", "_parent")

    def __init__(self, kind: str = ROOT, step: Any = None, parent: ObjectPath | None = None) -> None:
        self._kind, self.step, self._parent = kind, step, parent

    @staticmethod
    def root(root_name: str | None = None) -> ObjectPath:
        """The empty path; `name` is printed instead of `<root>`."""
        return ObjectPath(ROOT, root_name)

    def attr(self, attr_key: str) -> ObjectPath:
        """To a field of a node."""
        return ObjectPath(ATTR, attr_key, self)

    def array_index(self, index: int) -> ObjectPath:
        """To an element of a sequence."""
        return ObjectPath(INDEX, index, self)

    def missing_array_element(self, index: int) -> ObjectPath:
        """To where a sequence would have an element, had it as many as another one."""
        return ObjectPath(MISSING_INDEX, index, self)

    def map_value(self, key: Any) -> ObjectPath:
        """To the value of a key."""
        return ObjectPath(KEY, key, self)

    def missing_map_entry(self) -> ObjectPath:
        """To an entry that a mapping lacks and another one has."""
        return ObjectPath(MISSING_KEY, None, self)

    @property
    def parent(self) -> ObjectPath | None:
        return self._parent

    def __len__(self) -> int:
        return 1 if self._parent is None else len(self._parent) + 1

    def steps(self) -> list[ObjectPath]:
        """The paths on the way, the root first and this one last."""
        return [self] if self._parent is None else [*self._parent.steps(), self]

    def get_prefix(self, length: int) -> ObjectPath:
        """The first `length` steps, the root counted."""
        if not 1 <= length <= len(self):
            raise IndexError(f"the path {self} has prefixes of 1..{len(self)} steps, but {length} was asked for")
        return self.steps()[length - 1]

    def is_prefix_of(self, other: ObjectPath) -> bool:
        """Whether `other` goes through where this one ends."""
        return len(self) <= len(other) and other.get_prefix(len(self)) == self

    def resolve(self, node: Any) -> Any:
        """The value at the path from a node. Raises LookupError if there is no such step."""
        for path in self.steps()[1:]:
            try:
                node = getattr(node, path.step) if path._kind == ATTR else _item(node, path)
            except (AttributeError, KeyError, IndexError, TypeError):
                raise LookupError(f"the path {self} ends at {path.parent}, a {type(node).__name__}") from None
        return node

    def __str__(self) -> str:
        if self._parent is None:
            return str(self.step or "<root>")
        if self._kind == ATTR:
            return f"{self._parent}.{self.step}"
        if self._kind == INDEX:
            return f"{self._parent}[{self.step}]"
        if self._kind == KEY:
            return f"{self._parent}[{self.step!r}]"
        return f"{self._parent}[<{self._kind}{'' if self.step is None else f' {self.step}'}>]"

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectPath) or self._kind != other._kind:
            return False
        same = self.step is other.step or (not isinstance(self.step, Node) and self.step == other.step)
        return same and self._parent == other._parent

    def __hash__(self) -> int:
        return hash(str(self))


def _item(node: Any, path: ObjectPath) -> Any:
    if isinstance(node, Mapping) or path._kind == INDEX:
        return node[path.step]
    raise TypeError
