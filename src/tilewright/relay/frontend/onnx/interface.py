"""Interface of a model: inputs and outputs as trees of tensors, for the conversion between users' values and compiled code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx import kinds
from tilewright.support.errors import TVMError


class Leaf:
    """A tensor of an interface: its index among the program's arguments or results, and its kind ("" for kernels' own types)."""

    __slots__ = ("kind", "place")

    def __init__(self, place: int, kind: str) -> None:
        self.place, self.kind = place, kind


class MapOf:
    """A map of an interface: its keys, and the trees of its values (one for each key, or one tree with all values along the first axis)."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        self.keys, self.values = list(keys), list(values)


class PackedOf:
    """A sequence of an interface with a length known only at run time: one leaf with all elements in order, and one with their shapes."""

    __slots__ = ("elements", "shapes")

    def __init__(self, elements: Leaf, shapes: Leaf) -> None:
        self.elements, self.shapes = elements, shapes


class DynamicOptionalOf:
    """An optional of an interface that may be empty at run time: the leaf of its flag (true: not empty), and the tree of its contents."""

    __slots__ = ("has", "held")

    def __init__(self, has: Leaf, held: Any) -> None:
        self.has, self.held = has, held


Tree = Any
"""A Leaf, a list of trees (a sequence), a PackedOf, a DynamicOptionalOf, a MapOf, or None (an empty optional)."""


class Interface:
    """Trees of inputs and outputs by name, in the model's order."""

    def __init__(self) -> None:
        self.inputs: dict[str, Tree] = {}
        self.outputs: dict[str, Tree] = {}

    def arguments(self, given: Sequence[Any]) -> list[np.ndarray]:
        """The program's arguments for the values of the model's inputs."""
        found: dict[int, np.ndarray] = {}
        for (name, tree), value in zip(self.inputs.items(), given, strict=True):
            _collect(tree, value, name, found)
        return [found[i] for i in sorted(found)]

    def results(self, found: Sequence[Any]) -> list[Any]:
        """The values of the model's outputs, from the program's results."""
        return [_restore(tree, found) for tree in self.outputs.values()]


def _collect(tree: Tree, value: Any, name: str, found: dict[int, np.ndarray]) -> None:
    if isinstance(tree, Leaf):
        array = np.asarray(value)
        found[tree.place] = kinds.encode(array, tree.kind) if tree.kind else array
    elif isinstance(tree, list):
        if len(tree) != len(value):
            raise TVMError(f"the sequence {name!r} was compiled for {len(tree)} elements, but has {len(value)}")
        for k, (t, v) in enumerate(zip(tree, value, strict=True)):
            _collect(t, v, f"{name}[{k}]", found)
    elif isinstance(tree, MapOf):
        for k, t in zip(tree.keys, tree.values, strict=True):
            _collect(t, value[k], f"{name}[{k!r}]", found)


def _restore(tree: Tree, found: Sequence[Any]) -> Any:
    if isinstance(tree, Leaf):
        array = np.asarray(found[tree.place])
        return kinds.decode(array, tree.kind) if tree.kind else array
    if isinstance(tree, list):
        return [_restore(t, found) for t in tree]
    if isinstance(tree, MapOf):
        return {k: _restore(t, found) for k, t in zip(tree.keys, tree.values, strict=True)}
    if isinstance(tree, DynamicOptionalOf):
        return _restore(tree.held, found) if _restore(tree.has, found) else None
    if isinstance(tree, PackedOf):
        elements, shapes = _restore(tree.elements, found), np.asarray(found[tree.shapes.place])
        ends = np.cumsum(shapes.prod(axis=1, dtype=np.int64))
        return [e.reshape(s) for e, s in zip(np.split(elements, ends[:-1]), shapes, strict=False)]
    return None


def structure(value: Any) -> Any:
    """The properties of an input on which compilation depends: dtypes and shapes, nested like the value."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return tuple([structure(v) for v in value])
    if isinstance(value, Mapping):
        return ("map", tuple([(k, structure(v)) for k, v in value.items()]))
    array = np.asarray(value)
    return (kinds.kind_of(array.dtype) or array.dtype.name, array.shape)
