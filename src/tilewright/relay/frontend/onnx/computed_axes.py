"""Axes that are known only at run time: one operator for each possible choice of axes. A run takes one of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.unsupported import DAMAGE
from tilewright.relay.frontend.onnx.choices import joined
from tilewright.relay.frontend.onnx.value import OnnxNode, Value
from tilewright.support.errors import DiagnosticError

PLACES = {
    "Squeeze": 1, "Unsqueeze": 1, "CumSum": 1, "Slice": 3, "Pad": 3, "DFT": 2, "ReduceSum": 1, "ReduceMax": 1, "ReduceMin": 1,
    "ReduceMean": 1, "ReduceProd": 1, "ReduceL1": 1, "ReduceL2": 1, "ReduceLogSum": 1, "ReduceLogSumExp": 1, "ReduceSumSquare": 1,
}  # fmt: skip
"""The index of the input with the axes, by operator."""
FIT = "the number of choices of axes that fit"
MOST_CHOICES = 64
"""The largest number of choices of axes for which operators are made."""


def with_computed_axes(node: OnnxNode, inputs: list[Any], make: Callable[[list[Any]], list[Any]]) -> list[Any] | None:
    """The results of a node with axes that are known only at run time, by `make`; None if there are none, or too many choices."""
    place = PLACES.get(node.op_type)
    if place is None or place >= len(inputs) or inputs[place] is None or inputs[place].array is not None:
        return None
    axes: Value = inputs[place]
    count = axes.shape[0] if axes.ndim else 1
    if not isinstance(count, int):
        return None
    rank = inputs[0].ndim + (count if node.op_type == "Unsqueeze" else 0)
    if count > rank or math.perm(rank, count) > MOST_CHOICES:
        return None
    if not count:
        return make([*inputs[:place], Value(array=np.zeros(0, np.int64)), *inputs[place + 1 :]])
    given = node.cast(node.value("reshape", axes, newshape=(count,)), "int64")
    given = node.value(
        "where",
        node.call("less", given, node.scalar(0, given)),
        node.call("add", given, node.scalar(rank, given)),
        given,
    )
    for key, most in (("min", rank), ("max", rank)):
        given = node.value("dyn.within", given, node.call(key, given), low=0, high=most - 1, name="an axis")

    def made(choice: tuple[int, ...]) -> list[Any] | None:
        """The results for one choice of axes; None if the extents rule it out."""
        known = Value(array=np.array(choice, axes.dtype).reshape([count] if axes.ndim else []))
        try:
            found = make([*inputs[:place], known, *inputs[place + 1 :]])
            _ = [v.type for v in found if isinstance(v, Value)]
        except (DiagnosticError, *DAMAGE):
            return None
        return found

    choices = [(c, found) for c in permutations(range(rank), count) if (found := made(c)) is not None]
    if not choices:
        return None
    table = Value(array=np.array([c for c, _ in choices], np.int64).reshape(len(choices), count))
    same = node.value("all", node.call("equal", table, given), axis=(1,))
    hits = node.value("sum", node.call("cast", same, dtype="int64"))
    *others, (_, found) = choices
    if not others:
        return [Value(node.call("dyn.within", v, hits, low=1, name=FIT), kind=v.kind) for v in found]
    same = node.value("dyn.within", same, hits, low=1, name=FIT)
    for k, (_, answer) in enumerate(others):
        found = joined(node, node.value("take", same, node.scalar(k, "int32"), axis=0), answer, found)
    return found
