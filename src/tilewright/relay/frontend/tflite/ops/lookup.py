"""Converters of look-ups in tables of keys and values."""

from __future__ import annotations

import numpy as np

from tilewright.relay.frontend.tflite.node import Node, Value, tflite_op
from tilewright.support.errors import DiagnosticError


@tflite_op("HASHTABLE_LOOKUP")
def _lookup(node: Node, wanted: Value, keys: Value, values: Value) -> list[Value]:
    known = node.numbers(keys, "keys") if keys.is_number else np.zeros(0)
    if (known[1:] <= known[:-1]).any():
        raise DiagnosticError(f"its keys {known.tolist()} must be in ascending order")
    places = node.call("searchsorted", keys, wanted, right=False, dtype="int32")
    places = node.call("minimum", places, node.static(keys)[0] - 1)
    hit = node.call("equal", node.call("take", keys, places, axis=0), wanted)
    rows = node.call("take", values, places, axis=0)
    shaped = node.reshape(hit, [*hit.shape, *[1] * (rows.ndim - hit.ndim)])
    return [node.call("where", shaped, rows, node.number(0, rows.dtype)), node.cast(hit, "uint8")]
