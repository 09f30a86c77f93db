"""Converters of ONNX Runtime's attention operators: packed weights, separate heads, caches of keys and values that decoding steps
extend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import known_equal
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.value import known_extents
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN, add
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, as_value, onnx_op
from tilewright.support.errors import OpNotImplemented


def heads(node: OnnxNode, x: Value, count: int) -> Value:
    """(batch, length, width) reshaped to (batch, heads, length, width / heads); the batch and length may be dynamic."""
    if x.ndim == 4:
        return x
    size = x.known_extent(-1) // count
    apart = node.call("reshape", x, newshape=(0, 0, count, size))
    return node.value("transpose", apart, axes=(0, 2, 1, 3))


def joined(node: OnnxNode, x: Value) -> Value:
    """(batch, heads, length, size) reshaped to (batch, length, heads * size)."""
    width = x.known_extent(1) * x.known_extent(3)
    return node.value("reshape", node.call("transpose", x, axes=(0, 2, 1, 3)), newshape=(0, 0, width))


def split_heads(node: OnnxNode, x: Value, count: int, axis: int) -> list[Value]:
    """Queries, keys and values split from an axis of (batch, length, heads, `count`, size), each with heads before
    lengths."""
    parts = node.calls("split", x, indices_or_sections=count, axis=axis)
    return [node.value("transpose", node.call("squeeze", p, axis=(axis,)), axes=(0, 2, 1, 3)) for p in parts]


def scale_of(node: OnnxNode, q: Value) -> float:
    """The scale of the scores."""
    return float(node.get("scale", 0.0)) or 1.0 / float(np.sqrt(q.known_extent(-1)))


def attend(
    node: OnnxNode,
    q: Value,
    k: Value,
    v: Value,
    bias: Sequence[Tensor] = (),
    allowed: Sequence[Tensor] = (),
    sink: Value | None = None,
) -> tuple[Value, Value, Value]:
    """softmax(q k^T * scale + bias) v over the unmasked keys; also the scores, and their softmax.

    sink: (heads) or one number; the score of an additional key without a value. It enters only the softmax's sum."""
    scaled = node.value("multiply", q, node.scalar(scale_of(node, q), q))
    scores = node.call("nn.batch_matmul", scaled, k, transpose_b=True)
    cap = float(node.get("softcap", 0.0))
    if cap:
        bent = node.call("tanh", node.call("multiply", scores, node.scalar(1 / cap, q)))
        scores = node.call("multiply", bent, node.scalar(cap, q))
    for b in bias:
        scores = node.call("add", scores, b)
    for mask in allowed:
        scores = node.call("where", mask, scores, node.scalar(-np.inf, q))
    shares = as_value(_shares(node, as_value(scores), sink))
    return node.value("nn.batch_matmul", shares, v, transpose_b=False), as_value(scores), shares


def _shares(node: OnnxNode, scores: Value, sink: Value | None) -> Expr:
    """The softmax of scores (batch, heads, queries, keys)."""
    if sink is None:
        return node.call("nn.softmax", scores, axis=-1)
    column = node.call("strided_slice", scores, begin=(0,), end=(1,), strides=(1,), axes=(3,))
    known = node.call("reshape", node.cast(sink, scores.dtype), newshape=(1, -1, 1, 1))
    column = node.call("add", node.call("zeros_like", column), known)
    shares = node.call("nn.softmax", node.call("concatenate", [column, scores], axis=3), axis=-1)
    return node.call("strided_slice", shares, begin=(1,), end=(2**31 - 1,), strides=(1,), axes=(3,))


def causal(node: OnnxNode, q: Value, k: Value) -> Value:
    """The causal mask: each query attends to keys up to its own position, counted from the end."""
    rows, columns = node.static(q)[2], node.static(k)[2]
    return Value(array=np.tri(rows, columns, columns - rows, bool))


def with_past(node: OnnxNode, past: Value | None, new: Value) -> Value:
    """Keys or values appended to those of earlier steps."""
    if past is None or past.shape[2] == 0:
        return new
    return node.value("concatenate", [past, new], axis=2)


def into_buffer(node: OnnxNode, buffer: Value, new: Value, first: Any, total: int) -> Value:
    """The buffer (batch, heads, total, size) of keys or values, with new ones written from position `first` on (one number for all, or one
    for each of the batch)."""
    extent, length = node.static(buffer)[2], node.static(new)[2]
    if total > extent:
        more = ((0, 0), (0, 0), (0, total - extent), (0, 0))
        buffer = node.value("nn.pad", buffer, node.scalar(0, buffer), pad_width=more)
    places = Value(array=np.arange(total, dtype=np.int64).reshape(1, total))
    offset = node.call("subtract", places, node.call("reshape", node.cast(first, "int64"), newshape=(-1, 1)))
    inside = node.call(
        "logical_and",
        node.call("greater_equal", offset, node.scalar(0, "int64")),
        node.call("less", offset, node.scalar(length, "int64")),
    )
    moved: Any = new
    if length > 1:
        each = node.call("broadcast_to", offset, shape=(node.static(new)[0], total))
        moved = node.call(
            "take", node.call("transpose", new, axes=(0, 2, 1, 3)), each, axis=1, batch_dims=1, mode="clip"
        )
        moved = node.call("transpose", moved, axes=(0, 2, 1, 3))
    return node.value("where", node.call("reshape", inside, newshape=(-1, 1, total, 1)), moved, buffer)


def seen_keys(node: OnnxNode, mask: Value, q: Value, k: Value) -> Expr:
    """The term added to the scores of masked keys. The mask is (batch, keys), (batch, queries, keys), (batch, 1, most, most), or the
    number of keys for each of the batch, optionally followed by the first key of each."""
    low = node.scalar(float(node.get("mask_filter_value", -10000.0)), q)
    if mask.ndim == 1:
        seen = _between(node, mask, q, k)
    else:
        if mask.ndim == 4:
            rows, columns = node.static(q)[2], node.static(k)[2]
            begin, end = (columns - rows, 0), (columns, columns)
            mask = node.value("strided_slice", mask, begin=begin, end=end, strides=(1, 1), axes=(2, 3))
        seen = node.call("not_equal", mask, node.scalar(0, mask))
        if mask.ndim < 4:
            seen = node.call("expand_dims", seen, axis=1, num_newaxis=4 - mask.ndim)
    return node.call("where", seen, node.scalar(0, q), low)


def _between(node: OnnxNode, mask: Value, q: Value, k: Value) -> Expr:
    """The mask (batch, 1, 1, keys) of keys before the ends in a mask, and from the beginnings on, if it has them."""
    batch, count = q.shape[0], mask.shape[0]
    places = Value(array=np.arange(node.static(k)[2], dtype=np.int32).reshape(1, 1, 1, -1))

    def part(which: int) -> Expr:
        own = mask if known_equal(batch, count) else node.value(
            "strided_slice", mask, begin=(which * batch,), end=((which + 1) * batch,), strides=(1,), axes=(0,)
        )  # fmt: skip
        return node.call("expand_dims", node.cast(own, "int32"), axis=1, num_newaxis=3)

    seen = node.call("less", places, part(0))
    if isinstance(batch, int) and count == 2 * batch:
        seen = node.call("logical_and", seen, node.call("greater_equal", places, part(1)))
    return seen


def projected(
    node: OnnxNode,
    packed: Value,
    mask: Value | None,
    past: Value | None,
    extra: Value | None,
    length: Value | None = None,
) -> list[Tensor | None]:
    """[output, present] for packed queries, keys and values. length: the number of valid keys in the past's buffer."""
    if node.get("do_rotary", 0):
        raise node.refuse("do_rotary", 1, "0; RotaryEmbedding and GroupQueryAttention turn queries and keys")
    count = node.get("num_heads")
    sizes = node.get("qkv_hidden_sizes") or [packed.known_extent(-1) // 3] * 3
    cuts = tuple(int(c) for c in np.cumsum(sizes)[:-1])
    q, k, v = [heads(node, Value(p), count) for p in node.calls("split", packed, indices_or_sections=cuts, axis=-1)]
    old: list[Value | None] = [None, None]
    if past is not None:
        old = [node.value("squeeze", p, axis=(0,)) for p in node.calls("split", past, indices_or_sections=2, axis=0)]
    made, k, v, _ = with_cache(node, q, k, v, old, length, mask, extra)
    return [joined(node, made), node.call("stack", [k, v], axis=0) if node.wants(1) else None]


def with_cache(
    node: OnnxNode,
    q: Value,
    k: Value,
    v: Value,
    past: Sequence[Value | None],
    length: Value | None,
    mask: Value | None,
    extra: Value | None,
) -> tuple[Value, Value, Value, Value]:
    """(output, keys, values, scores) of attention with past keys and values: appended to them, or written into their buffer."""
    allowed: list[Tensor] = []
    old_k, old_v = past
    if length is not None and old_k is not None and old_v is not None:
        rows, total = node.static(q)[2], node.static(old_k)[2]
        k, v = into_buffer(node, old_k, k, length, total), into_buffer(node, old_v, v, length, total)
        columns = Value(array=np.arange(total, dtype=np.int64) - np.arange(rows, dtype=np.int64)[:, None])
        last = node.call("reshape", node.cast(length, "int64"), newshape=(1, 1))
        if not node.get("unidirectional", 0):
            columns = Value(array=np.arange(total, dtype=np.int64)[None, :] - (rows - 1))
        allowed.append(node.call("less_equal", columns, last))
        if extra is not None:
            extra = widened(node, extra, total)
        if mask is not None and mask.ndim > 1:
            mask = widened(node, mask, total)
    else:
        k, v = with_past(node, old_k, k), with_past(node, old_v, v)
        if node.get("unidirectional", 0):
            allowed.append(causal(node, q, k))
    bias: list[Tensor] = [] if extra is None else [extra]
    if mask is not None:
        bias.append(seen_keys(node, mask, q, k))
    made, scores, _ = attend(node, q, k, v, bias, allowed)
    return made, k, v, scores


def widened(node: OnnxNode, x: Value, total: int) -> Value:
    """A mask of the first keys, extended to a whole buffer."""
    missing = total - node.static(x)[-1]
    if missing <= 0:
        return x
    return node.value("nn.pad", x, node.scalar(0, x), pad_width=(*[(0, 0)] * (x.ndim - 1), (0, missing)))


@onnx_op("Attention", "DecoderMaskedSelfAttention", domain=DOMAIN)
def _attention(
    node: OnnxNode,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    past: Value | None = None,
    extra: Value | None = None,
    length: Value | None = None,
    *beams: Value | None,
) -> list[Tensor | None]:
    _no_beams(beams)
    buffer = length if node.get("past_present_share_buffer", 0) else None
    return projected(node, add(node, node.call("nn.matmul", x, weights), bias), mask, past, extra, buffer)


def _no_beams(beams: Sequence[Value | None]) -> None:
    if any([b is not None for b in beams]):
        raise OpNotImplemented(
            "its cache_indirection is given: beams that share a cache; export the model without beam search"
        )


def separate(
    node: OnnxNode, query: Value, key: Value | None, value: Value | None, bias: Value | None, count: int
) -> tuple[Value, Value, Value]:
    """Queries, keys and values (batch, heads, length, size), unpacked from their packed form."""
    if key is None and query.ndim == 5:
        q, k, v = split_heads(node, query, 3, 3)
        return q, k, v
    if key is not None and value is None and key.ndim == 5:
        k, v = split_heads(node, key, 2, 3)
        if bias is not None:
            (size,) = known_extents(bias.shape)
            own = query.known_extent(-1)
            query = add(node, query, _cut(node, bias, 0, own))
            rest = [_cut(node, bias, own, 2 * own), _cut(node, bias, 2 * own, size)]
            k, v = [
                add(node, t, node.call("reshape", b, newshape=(1, count, 1, -1)))
                for t, b in zip((k, v), rest, strict=True)
            ]
        return heads(node, query, count), k, v
    if key is None or value is None:
        raise OpNotImplemented("it has no key or value; packed ones of five axes are supported")
    if bias is not None:
        own, width = query.known_extent(-1), bias.known_extent(0)
        query = add(node, query, _cut(node, bias, 0, own))
        key = add(node, key, _cut(node, bias, own, 2 * own)) if key.ndim == 3 else key
        value = add(node, value, _cut(node, bias, 2 * own, width)) if value.ndim == 3 else value
    return heads(node, query, count), heads(node, key, count), heads(node, value, count)


def _cut(node: OnnxNode, x: Value, begin: int, end: int) -> Value:
    return node.value("strided_slice", x, begin=(begin,), end=(end,), strides=(1,), axes=(0,))


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
    length: Value | None = None,
    *beams: Value | None,
) -> list[Value]:
    _no_beams(beams)
    q, k, v = separate(node, query, key, value, bias, node.get("num_heads"))
    made, k, v, scores = with_cache(node, q, k, v, [past_key, past_value], length, mask, extra)
    return [joined(node, made), k, v, scores]


@onnx_op("DecoderMaskedMultiHeadAttention", domain=DOMAIN)
def _one_step(
    node: OnnxNode,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    mask: Value | None = None,
    extra: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    length: Value | None = None,
    width: Value | None = None,
    beams: Value | None = None,
    bias: Value | None = None,
) -> list[Value]:
    _no_beams([beams])
    if key is None:
        third = query.known_extent(-1) // 3
        query, key, value = [
            Value(p) for p in node.calls("split", query, indices_or_sections=(third, 2 * third), axis=-1)
        ]
    q, k, v = separate(node, query, key, value, bias, node.get("num_heads"))
    buffer = length if node.get("past_present_share_buffer", 0) else None
    made, k, v, scores = with_cache(node, q, k, v, [past_key, past_value], buffer, mask, extra)
    return [joined(node, made), k, v, scores]
