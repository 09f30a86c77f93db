"""Converter of GroupQueryAttention: several heads of queries share keys and values, which are in buffers that decoding fills."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.contrib.attention import attend, heads, into_buffer, joined, widened
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN
from tilewright.relay.frontend.onnx.contrib.rotary import angles, rotated
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.support.errors import OpNotImplemented


@onnx_op("GroupQueryAttention", domain=DOMAIN)
def _grouped(
    node: OnnxNode,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    lengths: Value | None = None,
    total: Value | None = None,
    cosines: Value | None = None,
    sines: Value | None = None,
    positions: Value | None = None,
    extra: Value | None = None,
    sink: Value | None = None,
    k_scale: Value | None = None,
    v_scale: Value | None = None,
    q_norm: Value | None = None,
    k_norm: Value | None = None,
) -> list[Value]:
    count, groups = node.get("num_heads"), node.get("kv_num_heads")
    if k_scale is not None or v_scale is not None or node.get("sliding_window_cache", 0):
        raise OpNotImplemented(
            "its keys and values are quantised, or lie in a window; whole ones in floats are supported"
        )
    assert lengths is not None
    if key is None:
        size = query.known_extent(-1) // (count + 2 * groups)
        cuts = (count * size, (count + groups) * size)
        query, key, value = [Value(p) for p in node.calls("split", query, indices_or_sections=cuts, axis=-1)]
    assert value is not None
    q, k, v = heads(node, query, count), heads(node, key, groups), heads(node, value, groups)
    length = node.static(q)[2]
    # seqlens_k is one less than the number of keys of each batch, including the new ones.
    ends = node.call(
        "reshape", node.call("add", node.cast(lengths, "int64"), node.scalar(1, "int64")), newshape=(-1, 1)
    )
    first: Any = node.call("subtract", ends, node.scalar(length, "int64"))
    buffer = 0 if past_key is None else node.static(past_key)[2]
    whole = buffer + length
    if total is not None and total.is_number and total.array is not None:
        whole = max(buffer, int(total.array.reshape(-1)[0]))
        if int(total.array.reshape(-1)[0]) == length:
            first = node.call("zeros_like", ends)
    elif not buffer:
        # A prompt, padded at its end.
        first = node.call("zeros_like", ends)
    places = node.value("add", Value(array=np.arange(length, dtype=np.int64).reshape(1, -1)), first)
    if q_norm is not None and k_norm is not None:
        q, k = _normalised(node, q, q_norm), _normalised(node, k, k_norm)
    if node.get("do_rotary", 0):
        assert cosines is not None and sines is not None
        at = positions if positions is not None else places
        at = node.value("clip", at, a_min=0.0, a_max=float(cosines.known_extent(0) - 1))
        c, s = angles(node, cosines, at), angles(node, sines, at)
        width, pairs = 2 * cosines.known_extent(-1), bool(node.get("rotary_interleaved", 0))
        q, k = [rotated(node, t, c, s, pairs, width) for t in (q, k)]
    if buffer and past_key is not None and past_value is not None:
        k, v = into_buffer(node, past_key, k, first, whole), into_buffer(node, past_value, v, first, whole)
    seen = _window(node, places, ends, whole)
    wide = [node.value("repeat", t, repeats=count // groups, axis=1) for t in (k, v)] if count != groups else [k, v]
    if sink is None and node.get("smooth_softmax", -1) == 1:
        sink = Value(array=np.zeros(1, np.float32))
    bias = [] if extra is None else [widened(node, extra, whole)]
    made, scores, shares = attend(node, q, wide[0], wide[1], bias, seen, sink)
    if node.get("qk_output", 0) != 2:
        shares = scores
        for mask in seen:
            shares = node.value("where", mask, shares, node.scalar(0, q))
    return [joined(node, made), k, v, shares]


def _window(node: OnnxNode, places: Value, ends: Any, keys: int) -> list[Expr]:
    """The mask of keys that each query may attend to."""
    columns = Value(array=np.arange(keys, dtype=np.int64).reshape(1, 1, 1, keys))
    if not node.get("causal", 1):
        return [node.call("less", columns, node.call("reshape", ends, newshape=(-1, 1, 1, 1)))]
    rows = node.call("expand_dims", node.call("expand_dims", places, axis=1), axis=3)
    seen = [node.call("less_equal", columns, rows)]
    window = node.get("local_window_size", -1)
    if window > 0:
        edge = node.call("subtract", rows, node.scalar(window, "int64"))
        seen.append(node.call("greater", columns, edge))
    return seen


def _normalised(node: OnnxNode, x: Value, weight: Value) -> Value:
    """Each head divided by its root mean square."""
    power = node.call("mean", node.call("multiply", x, x), axis=(-1,), keepdims=True)
    root = node.call("rsqrt", node.call("add", power, node.scalar(float(node.get("qk_norm_epsilon", 1e-6)), x)))
    return node.value("multiply", node.call("multiply", x, root), weight)
