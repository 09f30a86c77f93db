"""Converters of the attention layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value, known_extents
from tilewright.relay.frontend.keras.value import LayerCall, keras_layer


def _projected(c: LayerCall, x: Value, attribute: str, name: str, spread: int) -> Value:
    """x through the projection (EinsumDense) of this name: its last axis becomes `spread` axes."""
    config = {"use_bias": c.get("use_bias", True), "dtype": c.config.get("dtype")}
    inner = LayerCall("EinsumDense", config, c.store.child(attribute, name), f"{c.path}/{name}", c.home, c.version)
    kernel, *bias = inner.weights("kernel", *(["bias"] if c.get("use_bias", True) else []))
    width = known_extents(kernel.shape)
    taken = len(width) - spread
    rows, columns = int(np.prod(width[:taken])), int(np.prod(width[taken:]))
    flat = c.reshape(x, [*x.shape[: x.ndim - taken], rows])
    turned = c.call("transpose", c.reshape(kernel, [rows, columns]), axes=(1, 0))
    out = c.call("nn.dense", flat, turned, units=columns)
    out = c.reshape(out, [*x.shape[: x.ndim - taken], *width[taken:]])
    return c.call("add", out, bias[0]) if bias else out


def _triangle(c: LayerCall, rows: Any, columns: Any) -> Value:
    """The causal mask (1, rows, columns) of bool: true if a query may attend to a key."""
    m, n = c.static([rows, columns], "the number of its steps")
    return Value(array=np.tri(m, n, dtype=bool)[None])


def joined_mask(c: LayerCall, *masks: Value | None) -> Value | None:
    """The conjunction of masks."""
    given = [m for m in masks if m is not None]
    out = given[0] if given else None
    for m in given[1:]:
        out = c.call("logical_and", c.cast(out, "bool") if out is not None else out, c.cast(m, "bool"))
    return out


def masked_softmax(c: LayerCall, scores: Value, mask: Value | None, lowest: float = -1e9) -> Value:
    """softmax over the last axis, only of elements that the mask admits."""
    if mask is not None:
        if scores.dtype == "float16":
            lowest = -3e4
        off = c.cast(c.call("logical_not", c.cast(mask, "bool")), scores.dtype)
        scores = c.call("add", scores, c.call("multiply", off, lowest))
    return c.call("nn.softmax", scores, axis=scores.ndim - 1)


@keras_layer("MultiHeadAttention")
def _multi_head(
    c: LayerCall, query: Value, value: Value, key: Value | None = None, query_mask: Value | None = None, value_mask: Value | None = None,
    key_mask: Value | None = None, attention_mask: Value | None = None, return_attention_scores: bool = False, training: Any = None,
    use_causal_mask: bool = False,
) -> Value | list[Value]:  # fmt: skip
    key = value if key is None else key
    if c.get("use_gate", False) or c.config.get("sliding_window"):
        raise c.refuse("use_gate or sliding_window", True, "attention without a gate, over all steps")
    q = _projected(c, query, "_query_dense" if c.version < 3 else "query_dense", "query", 2)
    k = _projected(c, key, "_key_dense" if c.version < 3 else "key_dense", "key", 2)
    v = _projected(c, value, "_value_dense" if c.version < 3 else "value_dense", "value", 2)
    rank = query.ndim
    given = c.config.get("attention_axes")
    axes = list(range(1, rank - 1)) if given is None else c.axes(given, rank)
    if not axes:
        raise ValueError("its attention is along no axis")
    mask = joined_mask(c, *_step_masks(c, (query, query_mask), (value, value_mask), (key, key_mask)), attention_mask)
    if use_causal_mask:
        mask = joined_mask(c, mask, _triangle(c, query.shape[axes[-1]], key.shape[axes[-1]]))
    scale = 1 / math.sqrt(int(c.config["key_dim"]))
    q = c.call("multiply", q, scale)
    rest = [a for a in range(1, rank - 1) if a not in axes]
    # (batch, other axes, heads, steps, depth)
    order = [0, *rest, rank - 1, *axes, rank]
    sides = [c.transpose(x, order) for x in (q, k, v)]
    lead = len(rest) + 2
    flat = [c.reshape(x, [*x.shape[:lead], -1, x.shape[-1]]) for x in sides]
    scores = c.call("nn.batch_matmul", flat[0], flat[1], transpose_b=True)
    if mask is not None:
        steps = [*sides[0].shape[lead:-1], *sides[1].shape[lead:-1]]
        while mask.ndim < lead + len(steps):
            mask = c.call("expand_dims", mask, axis=max(mask.ndim - len(steps), 0))
        mask = (
            c.reshape(mask, [*mask.shape[: mask.ndim - len(steps)], scores.shape[-2], scores.shape[-1]])
            if len(axes) > 1
            else mask
        )
    share = masked_softmax(c, scores, mask)
    out = c.call("nn.batch_matmul", share, flat[2], transpose_b=False)
    out = c.reshape(out, [*sides[0].shape[:-1], flat[2].shape[-1]])
    out = c.transpose(out, [order.index(a) for a in range(rank + 1)])
    shape = c.config.get("output_shape")
    spread = 1 if shape is None or isinstance(shape, int) else len(shape)
    result = _projected(c, out, "_output_dense" if c.version < 3 else "output_dense", "attention_output", spread)
    if not return_attention_scores:
        return result
    return [result, c.reshape(share, [*share.shape[:-2], *sides[0].shape[lead:-1], *sides[1].shape[lead:-1]])]


def _step_masks(c: LayerCall, *pairs: tuple[Value, Any]) -> list[Value]:
    """The masks of query, value and key, combined into masks (query, key)."""
    found = []
    for place, (x, given) in enumerate(pairs):
        mask = given if isinstance(given, Value) else c.mask(x)
        if mask is not None and (place < 2 or x is not pairs[1][0]):
            found.append(c.call("expand_dims", c.cast(mask, "bool"), axis=1 if place else 2))
    return found


@keras_layer("GroupQueryAttention", "GroupedQueryAttention")
def _grouped(
    c: LayerCall, query: Value, value: Value, key: Value | None = None, query_mask: Value | None = None, value_mask: Value | None = None,
    key_mask: Value | None = None, attention_mask: Value | None = None, return_attention_scores: bool = False, training: Any = None,
    use_causal_mask: bool = False,
) -> Value | list[Value]:  # fmt: skip
    key = value if key is None else key
    if c.get("use_gate", False):
        raise c.refuse("use_gate", True, "False")
    attributes = ("_query_dense", "_key_dense", "_value_dense")
    q, k, v = (
        _projected(c, x, a, n, 2)
        for x, a, n in zip((query, key, value), attributes, ("query", "key", "value"), strict=True)
    )
    times = int(c.config["num_query_heads"]) // int(c.config["num_key_value_heads"])
    k, v = (c.call("repeat", x, repeats=times, axis=2) if times > 1 else x for x in (k, v))
    mask = joined_mask(c, *_step_masks(c, (query, query_mask), (value, value_mask), (key, key_mask)), attention_mask)
    if use_causal_mask:
        mask = joined_mask(c, mask, _triangle(c, query.shape[1], key.shape[1]))
    mask = c.call("expand_dims", mask, axis=mask.ndim - 2) if mask is not None and mask.ndim == 3 else mask
    q = c.call("multiply", q, 1 / math.sqrt(int(c.config["head_dim"])))
    heads = [c.transpose(x, [0, 2, 1, 3]) for x in (q, k, v)]
    share = masked_softmax(c, c.call("nn.batch_matmul", heads[0], heads[1], transpose_b=True), mask)
    out = c.transpose(c.call("nn.batch_matmul", share, heads[2], transpose_b=False), [0, 2, 1, 3])
    result = _projected(c, out, "_output_dense", "attention_output", 1)
    return [result, share] if return_attention_scores else result


@keras_layer("Attention", "AdditiveAttention")
def _attention(
    c: LayerCall, xs: Sequence[Value], mask: Sequence[Value | None] | None = None, training: Any = None,
    return_attention_scores: bool = False, use_causal_mask: bool = False,
) -> Value | list[Value]:  # fmt: skip
    query, value, *rest = xs
    key = rest[0] if rest else value
    scores = _scores(c, query, key)
    given = list(mask) if isinstance(mask, (list, tuple)) else [None, None]
    q_mask = given[0] if isinstance(given[0], Value) else c.mask(query)
    v_mask = given[1] if len(given) > 1 and isinstance(given[1], Value) else c.mask(value)
    seen = c.call("expand_dims", c.cast(v_mask, "bool"), axis=1) if v_mask is not None else None
    if use_causal_mask:
        seen = joined_mask(c, seen, _triangle(c, scores.shape[-2], scores.shape[-1]))
    share = masked_softmax(c, scores, seen)
    out = c.call("nn.batch_matmul", share, value, transpose_b=False)
    if q_mask is not None:
        out = c.call("multiply", out, c.cast(c.call("expand_dims", q_mask, axis=2), out.dtype))
    return [out, share] if return_attention_scores else out


def _scores(c: LayerCall, query: Value, key: Value) -> Value:
    if c.kind == "Attention" and c.get("score_mode", "dot") == "dot":
        scores = c.call("nn.batch_matmul", query, key, transpose_b=True)
        return c.call("multiply", scores, c.weights("scale")[0]) if c.get("use_scale", False) else scores
    wide = c.call("add", c.call("expand_dims", query, axis=2), c.call("expand_dims", key, axis=1))
    if c.kind == "AdditiveAttention":
        bent = c.call("tanh", wide)
        bent = c.call("multiply", bent, c.weights("scale")[0]) if c.get("use_scale", True) else bent
        return c.reduce("sum", bent, [3])
    if c.get("use_scale", False):
        scale, weight = c.weights("scale", "concat_score_weight")
        bent = c.call("tanh", c.call("multiply", wide, scale))
    else:
        (weight,) = c.weights("concat_score_weight")
        bent = c.call("tanh", wide)
    return c.call("multiply", c.reduce("sum", bent, [3]), weight)
