"""Removal of axes of extent 1, if dynamic extents are known only at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.cards.relations import is_any, shape_text
from tilewright.relay.frontend.onnx.choices import either
from tilewright.relay.frontend.onnx.value import OnnxNode, Question, Value

MOST_EXTENTS = 3
"""The largest number of dynamic extents for which operators are made: each doubles the number of following operators."""


def without_unit_axes(node: OnnxNode, x: Value) -> Any:
    """x without the axes of extent 1. Results of different ranks stay a choice until they have a common type."""
    shape = x.shape
    known = [k for k, extent in enumerate(shape) if isinstance(extent, int) and extent == 1]
    # Axes of the same symbol are removed together.
    dynamic: dict[str, list[int]] = {}
    for k, extent in enumerate(shape):
        if not isinstance(extent, int):
            dynamic.setdefault(f"axis {k}" if is_any(extent) else str(extent), []).append(k)
    if len(dynamic) > MOST_EXTENTS:
        node.static(x)
    asked = [(axes, *_condition(node, x, name, axes)) for name, axes in dynamic.items()]
    return _squeezed(node, x, known, asked)


def _squeezed(node: OnnxNode, x: Value, axes: Sequence[int], asked: Sequence[tuple[list[int], Value, Question]]) -> Any:
    """x without the given axes, and without those whose extent is 1 at run time."""
    if not asked:
        return node.value("squeeze", x, axis=tuple(sorted(axes)))
    (more, condition, question), *rest = asked
    yes = _squeezed(node, x, [*axes, *more], rest)
    no = _squeezed(node, x, axes, rest)
    return either(node, condition, [yes], [no], question)[0]


def _condition(node: OnnxNode, x: Value, name: str, axes: Sequence[int]) -> tuple[Value, Question]:
    """Whether the extent of axes is 1. Nodes share one value for the same dimension, so their choices are decided together."""
    importer, extent = node.importer, x.shape[axes[0]]
    c = importer.builder(node.name)
    found = importer.unit_extents.get(name) if not is_any(extent) else None
    if found is None:
        found = Value(c.call("equal", c.extent(x, axes[0]), 1).expr)
        if not is_any(extent):
            importer.unit_extents[name] = found
    which = f"{'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))}"
    title = f"Squeeze {node.name!r}"
    return found, Question(
        f"whether {which} of the input of {title} has extent 1",
        f"its result without {which}",
        f"its result with {which}",
        f"{title}: {which} of its input {shape_text(x.shape)} must be known at import, since the number of its result's axes depends on"
        " whether it is 1. Name the axes that go, or declare how many axes the output has",
    )
