"""Objects that stand for others where values are converted (classic `runtime.object_generic`)."""

from __future__ import annotations

from typing import Any

from tilewright.node.base import Node
from tilewright.runtime import Module, NDArray, PackedFunc, convert

__all__ = ["ObjectGeneric", "ObjectTypes", "convert", "convert_to_object"]


class ObjectGeneric:
    """Base of classes whose objects stand for the value that `asobject` gives."""

    def asobject(self) -> Any:
        """The value. A subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} does not define asobject()")


ObjectTypes = (ObjectGeneric, Node, NDArray, Module, PackedFunc)
"""Types of values that need no conversion."""


def convert_to_object(value: Any) -> Any:
    """A Python value as nodes and functions hold it; what `asobject` gives for an ObjectGeneric."""
    return convert(value.asobject() if isinstance(value, ObjectGeneric) else value)
