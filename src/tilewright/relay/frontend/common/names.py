"""Names of a model's inputs as users write them: "x:0" for "x", a signature's name, "input_1" for the only input."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.card import TypeRuleError
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import Var
from tilewright.support.errors import ModelError

NUMBERED = re.compile(r"(keras_tensor|input_layer|input)(?:_(\d+))?$")
"""Names that Keras gives inputs, numbered in the order of their creation in a process."""


def plain_name(name: str) -> str:
    """A tensor's name without the number of the output."""
    return name.removesuffix(":0")


def unused_name(name: str, *taken: Container[str]) -> str:
    """The name, with a number added if it is already used."""
    free, k = name, 0
    while any([free in names for names in taken]):
        k += 1
        free = f"{name}_{k}"
    return free


def by_input(
    title: str, given: Iterable[str], inputs: Sequence[tuple[str, Sequence[str]]], numbered: bool = False
) -> dict[str, str]:
    """The input for each given name: {given name: the input's name}, without names that match no input.

    inputs: (name, other names of the tensor). numbered: names with Keras's numbers stand for the inputs in order, if each input has
    one. Raises ModelError if two names match one input.
    """
    names = [n for n, _ in inputs]
    found: dict[str, str] = {}
    for key in given:
        also = {key, plain_name(key)}
        matching = [n for n, others in inputs if also & {plain_name(n), *map(plain_name, others)} - {""}]
        if key in names or len(matching) == 1:
            found[key] = key if key in names else matching[0]
    left = [key for key in given if key not in found]
    free = [n for n in names if n not in found.values()]
    matches = {key: NUMBERED.match(plain_name(key)) for key in left}
    if numbered and left and len(left) == len(free) and all(matches.values()):
        left.sort(key=lambda key: int((matches[key] or [0, 0, 0])[2] or 0))
        found.update(zip(left, free, strict=True))
    for name in names:
        keys = [k for k, n in found.items() if n == name]
        if len(keys) > 1:
            raise ModelError(f"{title}: {' and '.join(map(repr, keys))} name one input, {name!r}. Give its shape once")
    return found


def renamed(given: Mapping[str, Any], found: Mapping[str, str]) -> dict[str, Any]:
    """Entries by the inputs' own names. Names that match no input are kept."""
    return {found.get(key, key): value for key, value in given.items()}


def checked_shapes(title: str, argument: str, given: Any, names: bool = False) -> dict[str, tuple[Any, ...]]:
    """A user's extents by input name. names: an extent may be the name of a dynamic dimension. Raises ModelError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ModelError(
            f"{title}: {argument} is a {type(given).__name__}; give a dictionary of extents by input name, {{'x': (1, 224, 224, 3)}}"
        )
    found: dict[str, tuple[Any, ...]] = {}
    for name, extents in given.items():
        if not isinstance(name, str):
            raise ModelError(f"{title}: {argument} has the key {name!r}; its keys are names of inputs")
        if isinstance(extents, (str, bytes)) or not isinstance(extents, (Sequence, np.ndarray)):
            raise ModelError(
                f"{title}: {argument} gives the input {name!r} {extents!r}; give a tuple of extents, (1, 224, 224, 3)"
            )
        for k, d in enumerate(extents):
            if not (d is None or isinstance(d, (int, np.integer, PrimExpr)) or (names and isinstance(d, str))):
                raise ModelError(
                    f"{title}: {argument} gives axis {k} of the input {name!r} the extent {d!r}; extents are integers, -1 or None"
                )
        found[name] = tuple(extents)
    return found


def input_variable(title: str, name: str, shape: Iterable[Any], dtype: str) -> Var:
    """A parameter for an input of the model `title`. Raises ModelError for an invalid shape or element type."""
    try:
        numpy_dtype(dtype)
    except TypeError:
        raise ModelError(
            f"{title}: the input {name!r} has elements of the type {dtype!r}, which no array has"
        ) from None
    try:
        return Var(name, tensor_type(shape, dtype))
    except TypeRuleError as error:
        raise ModelError(f"{title}: the input {name!r}: {error}") from None
