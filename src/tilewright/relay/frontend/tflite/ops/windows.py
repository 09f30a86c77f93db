"""Converters of dilation, and of window reductions by a subgraph."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from tilewright.formats.tflite_schema import WINDOW_FUNCTIONS
from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.tflite.node import Node, Value, tflite_op
from tilewright.support.errors import DiagnosticError, OpNotImplemented

LARGEST_WINDOW = 4096
"""The largest number of elements of a window without an equivalent pooling operator."""


@tflite_op("DILATE")
def _dilate(node: Node, x: Value, steps: Value, fill: Value) -> Value:
    value = node.numbers(fill, "padding value").reshape(-1)[0].item()
    strides = tuple([int(n) for n in node.whole(steps, "dilations").reshape(-1)])
    if x.dtype.startswith("float"):
        return node.call("nn.dilate", x, strides=strides, dilation_value=float(value))
    return dilated(node, x, strides, node.number(value, x.dtype))


def dilated(node: Node, x: Value, strides: Sequence[int], fill: Value) -> Value:
    """x with `fill` between its elements."""
    for axis, s in enumerate(strides):
        n = node.static(x)[axis]
        if s < 1:
            raise DiagnosticError(f"its dilations {strides} must be positive")
        if s == 1 or n == 0:
            continue
        small([n, s], "an axis that it dilates")
        places = np.arange((n - 1) * s + 1)
        kept = Value(array=(places % s == 0).reshape([-1, *[1] * (x.ndim - 1 - axis)]))
        x = node.call("where", kept, node.call("take", x, (places // s).astype(np.int32), axis=axis), fill)
    return x


REDUCERS = {
    "ADD": "add", "MUL": "multiply", "MULTIPLY": "multiply", "MINIMUM": "minimum", "MAXIMUM": "maximum", "ALL": "logical_and",
    "ANY": "logical_or", "AND": "logical_and", "OR": "logical_or", "LOGICAL_AND": "logical_and", "LOGICAL_OR": "logical_or",
}  # fmt: skip


@tflite_op("REDUCE_WINDOW")
def _reduce_window(node: Node, x: Value, start: Value, window: Value, strides: Value, dilations: Value) -> Value:
    name = WINDOW_FUNCTIONS[int(node.get("reduce_function"))]
    if name not in REDUCERS:
        raise OpNotImplemented(f"its function is {name}; supported: {', '.join(WINDOW_FUNCTIONS[1:])}")
    sizes = [[int(n) for n in node.whole(v, "window").reshape(-1)] for v in (window, strides, dilations)]
    return windows(node, x, start, REDUCERS[name], *sizes)


def windows(
    node: Node,
    x: Value,
    start: Value,
    key: str,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """A reduction over the elements of each window."""
    shape = node.static(x)
    if min([*window, *strides, *dilations], default=1) < 1:
        raise DiagnosticError(
            f"its windows {window}, steps {strides} and dilations {dilations} must be of positive numbers"
        )
    if math.prod(window) > LARGEST_WINDOW:
        raise OpNotImplemented(f"its windows have {math.prod(window)} elements; up to {LARGEST_WINDOW} are supported")
    extents = [
        max((n - (k - 1) * d - 1) // s + 1, 0) for n, k, s, d in zip(shape, window, strides, dilations, strict=True)
    ]
    total: Value | None = None
    for place in itertools.product(*[range(k) for k in window]):
        begin = [p * d for p, d in zip(place, dilations, strict=True)]
        end = [b + (n - 1) * s + 1 if n else b for b, n, s in zip(begin, extents, strides, strict=True)]
        part = node.call("strided_slice", x, begin=tuple(begin), end=tuple(end), strides=tuple(strides))
        total = part if total is None else node.call(key, total, part)
    assert total is not None
    return node.call(key, total, node.reshape(start, ()))


def body_function(node: Node, subgraph: int) -> str:
    """The relay operator of a subgraph that consists of one operator on two numbers. Raises OpNotImplemented for others."""
    model = node.importer.model
    graph = model.item(model.root.subgraphs, subgraph, "subgraph")
    names = [model.operator_name(op)[0].removeprefix("STABLEHLO_") for op in graph.operators]
    if len(names) != 1 or names[0] not in REDUCERS:
        raise OpNotImplemented(
            f"its function is {', '.join(names) or 'empty'}; supported: one of {', '.join(sorted(REDUCERS))}"
        )
    return REDUCERS[names[0]]
