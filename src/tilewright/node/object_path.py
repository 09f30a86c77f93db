"""Paths from a node to something inside of it, as mismatches and underlined printing name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tilewright.node.base import Node


class ObjectPath:
    """Steps from a root: fields, elements of sequences, values of mappings. `str` gives `<root>.body.seq[0]`. The class of a path says
    of which kind its last step is."""

    __slots__ = ("_parent", "step")

    def __init__(self, step: Any = None, parent: ObjectPath | None = None) -> None:
        self.step, self._parent = step, parent

    @staticmethod
    def root(root_name: str | None = None) -> ObjectPath:
        """The empty path; `name` is printed instead of `<root>`."""
        return RootPath(root_name)

    def attr(self, attr_key: str) -> ObjectPath:
        """To a field of a node."""
        return AttributeAccessPath(attr_key, self)

    def array_index(self, index: int) -> ObjectPath:
        """To an element of a sequence."""
        return ArrayIndexPath(index, self)

    def missing_array_element(self, index: int) -> ObjectPath:
        """To where a sequence would have an element, had it as many as another one."""
        return MissingArrayElementPath(index, self)

    def map_value(self, key: Any) -> ObjectPath:
        """To the value of a key."""
        return MapValuePath(key, self)

    def missing_map_entry(self) -> ObjectPath:
        """To an entry that a mapping lacks and another one has."""
        return MissingMapEntryPath(None, self)

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
                node = path._of(node)
            except (AttributeError, KeyError, IndexError, TypeError):
                raise LookupError(f"the path {self} ends at {path.parent}, a {type(node).__name__}") from None
        return node

    def _of(self, node: Any) -> Any:
        """The value that the last step leads to from a node."""
        raise KeyError(self.step)

    def __str__(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectPath) or type(self) is not type(other):
            return False
        same = self.step is other.step or (not isinstance(self.step, Node) and self.step == other.step)
        return same and self._parent == other._parent

    def __hash__(self) -> int:
        return hash(str(self))


class RootPath(ObjectPath):
    """No step."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(self.step or "<root>")


class AttributeAccessPath(ObjectPath):
    """A field of a node."""

    __slots__ = ()

    def _of(self, node: Any) -> Any:
        return getattr(node, self.step)

    def __str__(self) -> str:
        return f"{self._parent}.{self.step}"


class ArrayIndexPath(ObjectPath):
    """An element of a sequence."""

    __slots__ = ()

    def _of(self, node: Any) -> Any:
        return node[self.step]

    def __str__(self) -> str:
        return f"{self._parent}[{self.step}]"


class MapValuePath(ObjectPath):
    """The value of a key."""

    __slots__ = ()

    def _of(self, node: Any) -> Any:
        if not isinstance(node, Mapping):
            raise TypeError
        return node[self.step]

    def __str__(self) -> str:
        return f"{self._parent}[{self.step!r}]"


class MissingArrayElementPath(ObjectPath):
    """Where a sequence would have an element."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self._parent}[<missing index {self.step}>]"


class MissingMapEntryPath(ObjectPath):
    """An entry that a mapping lacks."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self._parent}[<missing key>]"


class ObjectPathPair(NamedTuple):
    """The paths to two values that are compared."""

    lhs_path: ObjectPath
    rhs_path: ObjectPath
