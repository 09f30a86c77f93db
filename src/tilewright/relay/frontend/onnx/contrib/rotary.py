"""Converters of ONNX Runtime's rotary embeddings: one position for each token, or three (time, height, width)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.contrib.attention import heads, joined
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op


def rotated(node: OnnxNode, x: Value, cosines: Any, sines: Any, interleaved: bool, width: int) -> Value:
    """x (batch, heads, length, size) with its first `width` elements rotated by angles (batch or 1, 1, length, width / 2)."""
    size = x.known_extent(-1)
    head, tail = (x, None) if width == size else node.calls("split", x, indices_or_sections=(width,), axis=-1)
    if interleaved:
        pairs = node.call("reshape", head, newshape=(0, 0, 0, width // 2, 2))
        a, b = [node.call("squeeze", p, axis=(-1,)) for p in node.calls("split", pairs, indices_or_sections=2, axis=-1)]
    else:
        a, b = node.calls("split", head, indices_or_sections=2, axis=-1)
    first = node.call("subtract", node.call("multiply", a, cosines), node.call("multiply", b, sines))
    second = node.call("add", node.call("multiply", a, sines), node.call("multiply", b, cosines))
    if interleaved:
        made = node.call("reshape", node.call("stack", [first, second], axis=-1), newshape=(0, 0, 0, width))
    else:
        made = node.call("concatenate", [first, second], axis=-1)
    return Value(made if tail is None else node.call("concatenate", [made, tail], axis=-1))


def angles(node: OnnxNode, table: Value, places: Value) -> Expr:
    """Rows of a table of cosines or sines at positions (batch, length), for all heads."""
    return node.call("expand_dims", node.call("take", table, places, axis=0, mode="bounded"), axis=1)


def turned(node: OnnxNode, x: Value, cosines: Any, sines: Any, width: int) -> Value:
    """x of three or four axes with its heads rotated."""
    flat = x.ndim == 3
    count = node.get("num_heads", 0) or (x.known_extent(-1) // width if flat else 0)
    data = heads(node, x, count) if flat else x
    scale = float(node.get("scale", 1.0))
    if scale != 1.0:
        cosines, sines = [node.call("multiply", t, node.scalar(scale, x)) for t in (cosines, sines)]
    made = rotated(node, data, cosines, sines, bool(node.get("interleaved", 0)), width)
    return joined(node, made) if flat else made


@onnx_op("RotaryEmbedding", domain=DOMAIN)
def _rotary(node: OnnxNode, x: Value, places: Value, cosines: Value, sines: Value) -> Value:
    width = node.get("rotary_embedding_dim", 0) or 2 * cosines.known_extent(-1)
    if places.ndim == 1:
        length = node.static(x)[-2 if x.ndim == 4 else 1]
        steps = Value(array=np.arange(length, dtype=np.int64).reshape(1, -1))
        places = node.value("add", steps, node.call("expand_dims", places, axis=1))
    return turned(node, x, angles(node, cosines, places), angles(node, sines, places), width)


@onnx_op("MRotaryEmbedding", domain=DOMAIN)
def _three_positions(node: OnnxNode, x: Value, places: Value, cosines: Value, sines: Value) -> Value:
    width = node.get("rotary_embedding_dim", 0) or 2 * cosines.known_extent(-1)
    sections = [int(n) for n in node.get("mrope_section")]
    half = cosines.known_extent(-1)
    stream = np.repeat(np.arange(3), sections)
    if node.get("mrope_layout", 0):
        # Every third element is for the height or the width, until their sections are full; the others are for the time.
        stream = np.zeros(half, np.int64)
        for k in (1, 2):
            stream[k : 3 * sections[k] : 3] = k
    masks = [Value(array=(stream == k).reshape(1, 1, 1, half)) for k in range(3)]
    each = [node.value("squeeze", p, axis=(0,)) for p in node.calls("split", places, indices_or_sections=3, axis=0)]
    made = []
    for table in (cosines, sines):
        rows = [angles(node, table, p) for p in each]
        made.append(node.call("where", masks[0], rows[0], node.call("where", masks[1], rows[1], rows[2])))
    return turned(node, x, made[0], made[1], width)


@onnx_op("GemmaRotaryEmbedding", domain=DOMAIN)
def _gemma_rotary(node: OnnxNode, angle: Value, q: Value, q_turned: Value, k: Value, k_turned: Value) -> list[Expr]:
    sine, cosine = [node.call("expand_dims", node.cast(node.call(f, angle), q.dtype), axis=1) for f in ("sin", "cos")]
    return [
        node.call("add", node.call("multiply", x, cosine), node.call("multiply", y, sine))
        for x, y in ((q, q_turned), (k, k_turned))
    ]
