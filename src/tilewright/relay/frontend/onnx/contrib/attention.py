"""Attention as ONNX Runtime has it: packed weights, separate heads, grouped heads with caches and rotary positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN, add
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.support.errors import OpNotImplemented


def heads(node: OnnxNode, x: Value, count: int) -> Value:
    """(batch, length, width) as (batch, heads, length, width / heads); the batch and length may be open."""
    if x.ndim == 4:
        return x
    size = int(x.shape[-1]) // count
    apart = node.call("reshape", x, newshape=(0, 0, count, size))
    return node.value("transpose", apart, axes=(0, 2, 1, 3))


def joined(node: OnnxNode, x: Value) -> Value:
    """(batch, heads, length, size) as (batch, length, heads * size)."""
    width = int(x.shape[1]) * int(x.shape[3])
    return node.value("reshape", node.call("transpose", x, axes=(0, 2, 1, 3)), newshape=(0, 0, width))


def attend(
    node: OnnxNode, q: Value, k: Value, v: Value, bias: list[Any], allowed: list[Any], scale: float, low: float
) -> Value:
    """softmax(q k^T * scale + bias) v, over the places that are allowed."""
    scaled = node.value("multiply", q, node.scalar(scale, q))
    scores: Any = node.call("nn.batch_matmul", scaled, k, transpose_b=True)
    cap = float(node.get("softcap", 0.0))
    if cap:
        bent = node.call("tanh", node.call("multiply", scores, node.scalar(1 / cap, q)))
        scores = node.call("multiply", bent, node.scalar(cap, q))
    for b in bias:
        scores = node.call("add", scores, b)
    for mask in allowed:
        scores = node.call("where", mask, scores, node.scalar(low, q))
    return node.value("nn.batch_matmul", node.call("nn.softmax", scores, axis=-1), v, transpose_b=False)


def causal(node: OnnxNode, q: Value, k: Value) -> Any:
    """Which places each query may see: those up to its own, counted from the end."""
    rows, columns = node.static(q)[2], node.static(k)[2]
    return Value(array=np.tri(rows, columns, columns - rows, bool))


def with_past(node: OnnxNode, past: Value | None, new: Value) -> Value:
    """Keys or values behind those of earlier steps."""
    if past is None or past.shape[2] == 0:
        return new
    return node.value("concatenate", [past, new], axis=2)


def key_mask(node: OnnxNode, mask: Value, length: Any) -> Any:
    """Which keys may be seen, from a mask (batch, keys), (batch, queries, keys), or the number of keys of each batch."""
    if mask.ndim == 1:
        places = Value(array=np.arange(int(length), dtype=np.int32).reshape(1, -1))
        seen = node.call("less", places, node.call("expand_dims", node.cast(mask, "int32"), axis=1))
        return node.call("expand_dims", seen, axis=1, num_newaxis=2)
    some = node.call("not_equal", mask, node.scalar(0, mask))
    return node.call("expand_dims", some, axis=1, num_newaxis=2 if mask.ndim == 2 else 1)


def _scale(node: OnnxNode, q: Value) -> float:
    return float(node.get("scale", 0.0)) or 1.0 / float(np.sqrt(int(q.shape[-1])))


def attention(node: OnnxNode, packed: Value, mask: Value | None, past: Value | None, extra: Value | None) -> list[Any]:
    """[output, present] of queries, keys and values side by side."""
    count = node.get("num_heads")
    sizes = node.get("qkv_hidden_sizes") or [int(packed.shape[-1]) // 3] * 3
    cuts = tuple(int(c) for c in np.cumsum(sizes)[:-1])
    q, k, v = [heads(node, Value(p), count) for p in node.call("split", packed, indices_or_sections=cuts, axis=-1)]
    if past is not None:
        old = [node.value("squeeze", p, axis=(0,)) for p in node.call("split", past, indices_or_sections=2, axis=0)]
        k, v = with_past(node, old[0], k), with_past(node, old[1], v)
    allowed = [] if mask is None else [key_mask(node, mask, k.shape[2])]
    if node.get("unidirectional", 0):
        allowed.append(causal(node, q, k))
    low = float(node.get("mask_filter_value", -10000.0))
    made = joined(node, attend(node, q, k, v, [] if extra is None else [extra], allowed, _scale(node, q), low))
    return [made, node.call("stack", [k, v], axis=0) if node.wants(1) else None]


@onnx_op("Attention", domain=DOMAIN)
def _attention(
    node: OnnxNode,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    past: Value | None = None,
    extra: Value | None = None,
    past_length: Value | None = None,
) -> Any:
    if node.get("do_rotary", 0) or past_length is not None:
        raise OpNotImplemented("its do_rotary or past_sequence_length is set; GroupQueryAttention has both")
    return attention(node, add(node, node.call("nn.matmul", x, weights), bias), mask, past, extra)


@onnx_op("MultiHeadAttention", domain=DOMAIN)
def _multi_head(
    node: OnnxNode,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    bias: Value | None = None,
    mask: Value | None = None,
    extra: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    *rest: Value,
) -> Any:
    count = node.get("num_heads")
    if key is None and query.ndim == 5:
        # (batch, length, heads, 3, size)
        parts = [node.value("squeeze", p, axis=(3,)) for p in node.call("split", query, indices_or_sections=3, axis=3)]
        q, k, v = [node.value("transpose", p, axes=(0, 2, 1, 3)) for p in parts]
    else:
        if key is not None and value is None and key.ndim == 5:
            both = [node.value("squeeze", p, axis=(3,)) for p in node.call("split", key, indices_or_sections=2, axis=3)]
            key, value = [node.value("transpose", p, axes=(0, 2, 1, 3)) for p in both]
        if key is None or value is None:
            raise OpNotImplemented("it has no key or value; packed ones of five axes are supported")
        if bias is not None:
            widths = [int(query.shape[-1]), int(query.shape[-1])]
            bq, bk, bv = node.call("split", bias, indices_or_sections=tuple(np.cumsum(widths).tolist()), axis=0)
            query = add(node, query, bq)
            key = add(node, key, bk) if key.ndim == 3 else key
            value = add(node, value, bv) if value.ndim == 3 else value
        q, k, v = [heads(node, t, count) for t in (query, key, value)]
    k, v = with_past(node, past_key, k), with_past(node, past_value, v)
    allowed = [] if mask is None else [key_mask(node, mask, k.shape[2])]
    if node.get("unidirectional", 0):
        allowed.append(causal(node, q, k))
    low = float(node.get("mask_filter_value", -10000.0))
    made = attend(node, q, k, v, [] if extra is None else [extra], allowed, _scale(node, q), low)
    return [joined(node, made), k, v]


def rotated(node: OnnxNode, x: Value, cosines: Any, sines: Any, interleaved: bool, width: int) -> Value:
    """x (batch, heads, length, size) with its first `width` elements turned by angles (batch or 1, 1, length, width / 2)."""
    size = int(x.shape[-1])
    head, tail = (x, None) if width == size else node.call("split", x, indices_or_sections=(width,), axis=-1)
    if interleaved:
        pairs = node.call("reshape", head, newshape=(0, 0, 0, width // 2, 2))
        a, b = [node.call("squeeze", p, axis=(-1,)) for p in node.call("split", pairs, indices_or_sections=2, axis=-1)]
    else:
        a, b = node.call("split", head, indices_or_sections=2, axis=-1)
    first = node.call("subtract", node.call("multiply", a, cosines), node.call("multiply", b, sines))
    second = node.call("add", node.call("multiply", a, sines), node.call("multiply", b, cosines))
    if interleaved:
        made = node.call("reshape", node.call("stack", [first, second], axis=-1), newshape=(0, 0, 0, width))
    else:
        made = node.call("concatenate", [first, second], axis=-1)
    return Value(made if tail is None else node.call("concatenate", [made, tail], axis=-1))


def angles(node: OnnxNode, table: Value, places: Value) -> Any:
    """Rows of a table of cosines or sines at places (batch, length), for all heads."""
    return node.call("expand_dims", node.call("take", table, places, axis=0), axis=1)


@onnx_op("RotaryEmbedding", domain=DOMAIN)
def _rotary(node: OnnxNode, x: Value, places: Value, cosines: Value, sines: Value) -> Any:
    width = node.get("rotary_embedding_dim", 0) or 2 * int(cosines.shape[-1])
    flat = x.ndim == 3
    count = node.get("num_heads", 0) or (int(x.shape[-1]) // width if flat else 0)
    data = heads(node, x, count) if flat else x
    if places.ndim == 1:
        length = node.static(data)[2]
        steps = Value(array=np.arange(length, dtype=np.int64).reshape(1, -1))
        places = node.value("add", steps, node.call("expand_dims", places, axis=1))
    turned = rotated(
        node, data, angles(node, cosines, places), angles(node, sines, places), bool(node.get("interleaved", 0)), width
    )
    return joined(node, turned) if flat else turned


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
    *rest: Value,
) -> Any:
    count, groups = node.get("num_heads"), node.get("kv_num_heads")
    assert lengths is not None
    if key is None:
        size = int(query.shape[-1]) // (count + 2 * groups)
        cuts = (count * size, (count + groups) * size)
        query, key, value = [Value(p) for p in node.call("split", query, indices_or_sections=cuts, axis=-1)]
    assert value is not None
    q, k, v = heads(node, query, count), heads(node, key, groups), heads(node, value, groups)
    length = node.static(q)[2]
    # seqlens_k is one less than the number of keys of each batch, these included.
    ends = node.call("add", node.cast(lengths, "int64"), node.scalar(1, "int64"))
    ends = Value(node.call("reshape", ends, newshape=(-1, 1)))
    steps = Value(array=np.arange(length, dtype=np.int64).reshape(1, -1))
    first: Any = node.call("subtract", ends, node.scalar(length, "int64"))
    if past_key is None or past_key.shape[2] == 0:
        # A prompt, filled up at its end.
        first = node.call("multiply", ends, node.scalar(0, "int64"))
    places = node.value("add", steps, first)
    if node.get("do_rotary", 0):
        assert cosines is not None and sines is not None
        at = positions if positions is not None else places
        at = node.value("clip", at, a_min=0.0, a_max=float(int(cosines.shape[0]) - 1))
        c, s = angles(node, cosines, at), angles(node, sines, at)
        width, pairs = 2 * int(cosines.shape[-1]), bool(node.get("rotary_interleaved", 0))
        q, k = [rotated(node, t, c, s, pairs, width) for t in (q, k)]
    k, v = with_past(node, past_key, k), with_past(node, past_value, v)
    keys = node.static(k)[2]
    columns = Value(array=np.arange(keys, dtype=np.int64).reshape(1, 1, 1, keys))
    rows = node.call("expand_dims", node.call("expand_dims", places, axis=1), axis=3)
    seen = [node.call("less_equal", columns, rows)]
    window = node.get("local_window_size", -1)
    if window > 0:
        edge = node.call("subtract", rows, node.scalar(window, "int64"))
        seen.append(node.call("greater", columns, edge))
    wide = [node.value("repeat", t, repeats=count // groups, axis=1) for t in (k, v)] if count != groups else [k, v]
    made = attend(node, q, wide[0], wide[1], [] if extra is None else [extra], seen, _scale(node, q), -np.inf)
    return [joined(node, made), k, v]
