"""Arrays in layouts that follow the loops of a program: each dimension is a part of one of the program's axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np

from tilewright.support.errors import TVMError


class Part(NamedTuple):
    """A part of an axis: axis // stride % extent."""

    axis: int
    extent: int
    stride: int


class Packing(NamedTuple):
    """A parameter that a program takes in another layout. argument: its place; old, new: the dimensions of both layouts, outermost
    first."""

    argument: int
    old: tuple[Part, ...]
    new: tuple[Part, ...]


def covers(parts: Sequence[Part], extents: Sequence[int]) -> bool:
    """Whether each index of these axes has one place in the parts, and no place is left over. Axes without parts are not looked at."""
    for axis in {part.axis for part in parts if part.extent > 1}:
        stride = 1
        for part in sorted([p for p in parts if p.axis == axis and p.extent > 1], key=lambda p: p.stride):
            if part.stride != stride:
                return False
            stride *= part.extent
        if stride != extents[axis]:
            return False
    return True


def packed(values: np.ndarray[Any, Any], old: Sequence[Part], new: Sequence[Part]) -> np.ndarray[Any, Any]:
    """Values of one layout in another one of the same axes."""
    axes: dict[int, Any] = {}
    for dim, part in enumerate(new):
        along = np.arange(part.extent).reshape([-1 if d == dim else 1 for d in range(len(new))]) * part.stride
        axes[part.axis] = axes.get(part.axis, 0) + along
    places = [axes.get(part.axis, 0) // part.stride % part.extent for part in old]
    return np.ascontiguousarray(np.broadcast_to(values[tuple(places)], [part.extent for part in new]))


def parts_of_text(text: str, names: Sequence[str]) -> list[tuple[str, int]]:
    """The parts of axes that a text such as "2i8k4i" names, outermost first. Raises TVMError for another text."""
    pattern = re.compile(rf"(\d+)({'|'.join([re.escape(n) for n in sorted(names, key=len, reverse=True)])})")
    found, at = [], 0
    while at < len(text):
        part = pattern.match(text, at)
        if part is None:
            raise TVMError(
                f"a layout is a text of numbers and of the axes {', '.join(names)}, such as 2{names[0]}4{names[0]}, but this is {text!r}"
            )
        found.append((part[2], int(part[1])))
        at = part.end()
    return found


def with_strides(parts: Sequence[tuple[int, int]]) -> tuple[Part, ...]:
    """Parts of axes, given by axis and extent, outermost first."""
    found: list[Part] = []
    strides: dict[int, int] = {}
    for axis, extent in reversed(parts):
        stride = strides.setdefault(axis, 1)
        found.insert(0, Part(axis, extent, stride))
        strides[axis] = stride * extent
    return tuple(found)


def text_of(parts: Sequence[Part]) -> str | None:
    """Parts as a text whose axes are letters: "2a8c4a". None where there is no such text: the parts of an axis must be ordered by their
    strides, the outermost first, and axes are of the first 26."""
    if not all([part.axis < len(ascii_lowercase) for part in parts]):
        return None
    text = "".join([f"{part.extent}{ascii_lowercase[part.axis]}" for part in parts])
    same = [a == b or a.extent == 1 for a, b in zip(parts_of_letters(text), parts, strict=True)]
    return text if all(same) else None


def parts_of_letters(text: str) -> tuple[Part, ...]:
    """The parts of such a text. Raises TVMError for another text."""
    return with_strides(
        [(ascii_lowercase.index(name), extent) for name, extent in parts_of_text(text, ascii_lowercase)]
    )


def sizes_of(parts: Sequence[Part]) -> dict[int, int]:
    """The extents of the axes that parts are of; those of extent 1 are left out."""
    sizes = {axis: prod([p.extent for p in parts if p.axis == axis]) for axis in sorted({p.axis for p in parts})}
    return {axis: size for axis, size in sizes.items() if size > 1}
