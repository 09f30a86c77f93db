"""Converter of SparseAttention: causal attention to those blocks of keys that a table lists for each block of queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.contrib.attention import attend, heads, into_buffer, joined
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN
from tilewright.relay.frontend.onnx.contrib.rotary import angles, rotated
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op


def seen_blocks(rows: np.ndarray, columns: np.ndarray, block: int) -> np.ndarray:
    """The mask (layouts, positions, positions) of keys for each query, from the blocks of keys of each block of queries."""
    layouts, count = rows.shape[0], rows.shape[1] - 1
    table = np.zeros((layouts, count, count), bool)
    for n in range(layouts):
        for k in range(count):
            table[n, k, columns[n, rows[n, k] : rows[n, k + 1]]] = True
    return np.tril(table.repeat(block, axis=1).repeat(block, axis=2))


@onnx_op("SparseAttention", domain=DOMAIN)
def _sparse(
    node: OnnxNode,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value,
    past_value: Value,
    rows: Value,
    columns: Value,
    total: Value,
    lengths: Value,
    cosines: Value | None = None,
    sines: Value | None = None,
) -> list[Value]:
    count, groups = int(node.get("num_heads")), int(node.get("kv_num_heads"))
    if key is None or value is None:
        size = query.known_extent(-1) // (count + 2 * groups)
        cuts = (count * size, (count + groups) * size)
        query, key, value = [Value(p) for p in node.calls("split", query, indices_or_sections=cuts, axis=-1)]
    q, k, v = heads(node, query, count), heads(node, key, groups), heads(node, value, groups)
    batch, length, whole = node.static(q)[0], node.static(q)[2], node.static(past_key)[2]
    table = seen_blocks(
        node.numbers(rows, "rows of blocks"),
        node.numbers(columns, "columns of blocks"),
        int(node.get("sparse_block_size")),
    )
    ends = node.call("reshape", node.cast(lengths, "int64"), newshape=(batch, 1))
    first: Any = node.call("subtract", ends, node.scalar(length, "int64"))
    # A prompt starts at position 0 and is padded at its end. Later steps have one token each.
    if length > 1:
        first = node.call("zeros_like", first)
    places = node.value("add", Value(array=np.arange(length, dtype=np.int64).reshape(1, -1)), first)
    if node.get("do_rotary", 0) and cosines is not None and sines is not None:
        c, s = angles(node, cosines, places), angles(node, sines, places)
        width, pairs = 2 * cosines.known_extent(-1), bool(node.get("rotary_interleaved", 0))
        q, k = [rotated(node, t, c, s, pairs, width) for t in (q, k)]
    k, v = into_buffer(node, past_key, k, first, whole), into_buffer(node, past_value, v, first, whole)
    seen = node.call("take", Value(array=table[:, :, :whole]), places, axis=1)
    seen = node.call("tile", node.call("transpose", seen, axes=(1, 0, 2, 3)), reps=(1, count // len(table), 1, 1))
    wide = [node.value("repeat", t, repeats=count // groups, axis=1) for t in (k, v)] if count != groups else [k, v]
    made, _, _ = attend(node, q, wide[0], wide[1], [], [seen])
    return [joined(node, made), k, v]
