"""Converters of operators that carry a state between calls: causal convolutions, linear attention, LSTMs with 8-bit weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN, add
from tilewright.relay.frontend.onnx.contrib.quantized import dynamic_product
from tilewright.relay.frontend.onnx.control_flow import at, looped
from tilewright.relay.frontend.onnx.ops.recurrent import Cell, recurrent
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, as_value, onnx_op
from tilewright.support.errors import OpNotImplemented


@onnx_op("CausalConvWithState", domain=DOMAIN)
def _causal_convolution(
    node: OnnxNode, x: Value, w: Value, bias: Value | None = None, past: Value | None = None
) -> list[Value]:
    if node.get("ndim", 1) != 1 or x.ndim != 3:
        raise node.refuse("ndim", node.get("ndim", 1), "1: three axes")
    if node.get("state_window", 0):
        raise node.refuse("state_window", node.get("state_window"), "0: the state after the last position")
    last = bool(node.get("channels_last", 0))
    if last:
        x = node.value("transpose", x, axes=(0, 2, 1))
        past = None if past is None else node.value("transpose", past, axes=(0, 2, 1))
    batch, channels, _ = node.static(x)
    step, (*_, width) = node.get("dilation", 1), node.static(w)
    reach = (width - 1) * step
    if past is None:
        past = Value(array=np.zeros((batch, channels, reach), x.dtype))
    whole = node.value("concatenate", [past, x], axis=2) if reach else x
    out = node.value(
        "nn.conv1d", whole, w, strides=(1,), padding=(0, 0), dilation=(step,), groups=channels, channels=channels, kernel_size=(width,)
    )  # fmt: skip
    if bias is not None:
        out = node.value("nn.bias_add", out, bias)
    kind = node.get("activation", "none")
    if kind in ("silu", "swish"):
        out = node.value("multiply", out, node.call("sigmoid", out))
    elif kind != "none":
        raise node.refuse("activation", kind, "none, silu, swish")
    extent = node.static(whole)[2]
    state = node.value("strided_slice", whole, begin=(extent - reach,), end=(extent,), strides=(1,), axes=(2,))
    return [node.value("transpose", v, axes=(0, 2, 1)) if last else v for v in (out, state)]


@onnx_op("LinearAttention", domain=DOMAIN)
def _linear_attention(
    node: OnnxNode,
    q: Value,
    k: Value,
    v: Value,
    past: Value | None = None,
    decay: Value | None = None,
    rate: Value | None = None,
) -> list[Value]:
    rule = node.get("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise node.refuse("update_rule", rule, "linear, gated, delta, gated_delta")
    if node.get("state_window", 0):
        raise node.refuse("state_window", node.get("state_window"), "0: the state after the last token")
    many, few = node.get("q_num_heads"), node.get("kv_num_heads")
    batch, length, _ = node.static(q)
    dtype = q.dtype
    q, k, v = [
        node.value("reshape", node.cast(x, "float32"), newshape=(batch, length, n, -1))
        for x, n in ((q, many), (k, few), (v, few))
    ]
    size, width = k.known_extent(-1), v.known_extent(-1)
    scale = float(node.get("scale", 0.0)) or 1.0 / float(np.sqrt(size))
    heads = max(many, few)
    if decay is not None:
        decay = node.value("reshape", node.cast(decay, "float32"), newshape=(batch, length, few, -1, 1))
        decay = node.value("exp", decay)
    if rate is not None:
        rate = node.value("reshape", node.cast(rate, "float32"), newshape=(batch, length, -1, 1))
    held = np.zeros((batch, few, size, width), np.float32)
    first = Value(array=held) if past is None else node.cast(past, "float32")

    def spread(x: Value, count: int) -> Value:
        """Heads repeated for the queries that share them."""
        return x if count == heads else node.value("repeat", x, repeats=heads // count, axis=1)

    def step(n: Value, going: Value, state: list[Any]) -> tuple[None, list[Value], list[Value]]:
        now = state[0]
        query, key, value = [at(node, x, n, 1) for x in (q, k, v)]
        if rule.startswith("gated") and decay is not None:
            now = node.value("multiply", now, at(node, decay, n, 1))
        column = node.value("expand_dims", key, axis=3)
        if rule.endswith("delta") and rate is not None:
            held = node.call("sum", node.call("multiply", now, column), axis=(2,))
            value = node.value("multiply", node.call("subtract", value, held), at(node, rate, n, 1))
        now = node.value("add", now, node.call("multiply", column, node.call("expand_dims", value, axis=2)))
        asked = node.call("expand_dims", spread(query, many), axis=3)
        row = node.call("sum", node.call("multiply", spread(now, few), asked), axis=(2,))
        return None, [now], [node.value("multiply", row, node.scalar(scale, "float32"))]

    last, rows = looped(node, Value(array=np.array(length, np.int64)), None, [first], 1, step)
    out = node.call(
        "reshape", node.call("transpose", rows[0], axes=(1, 0, 2, 3)), newshape=(batch, length, heads * width)
    )
    return [node.cast(as_value(out), dtype), node.cast(last[0], dtype if past is None else past.dtype)]


class QuantizedCell(Cell):
    """An LSTM with 8-bit weights (directions, inputs, 4 * hidden). It quantises the other factors at run time."""

    def __init__(self, node: OnnxNode, direction: int, inputs: Sequence[Value | None]) -> None:
        self.scales = [self.numbers(x, direction) for x in inputs[8:12]]
        turned = [None if x is None else node.value("transpose", x, axes=(0, 2, 1)) for x in inputs[1:3]]
        self.bytes = [self.numbers(x, direction) for x in inputs[1:3]]
        super().__init__(node, direction, [inputs[0], *turned, *inputs[3:8]], "LSTM")

    @staticmethod
    def numbers(x: Value | None, direction: int) -> Value:
        """The part of a known input for one direction."""
        assert x is not None and x.array is not None
        return Value(array=np.ascontiguousarray(x.array[direction]))

    def product(self, x: Value, which: int, each_row: bool = False) -> Value:
        scale, zero = self.scales[2 * which : 2 * which + 2]
        return dynamic_product(self.node, x, self.bytes[which], scale, zero, each_row)

    def input_products(self, x: Value) -> Value:
        return add(self.node, self.product(x, 0), self.wb)

    def back(self, h: Value, weights: Value, bias: Value | None) -> Value:
        # Each row is quantised by its own range, so a sequence's result does not depend on the others of the batch.
        return add(self.node, self.product(h, 1, True), bias)


@onnx_op("DynamicQuantizeLSTM", domain=DOMAIN)
def _byte_lstm(node: OnnxNode, *inputs: Value | None) -> list[Value]:
    for place, what in (
        (1, "weights"),
        (2, "recurrent weights"),
        (8, "scales"),
        (9, "zero points"),
        (10, "scales"),
        (11, "zero points"),
    ):
        node.numbers(inputs[place], what)
    return recurrent(node, inputs, QuantizedCell)


class AttentionCell(Cell):
    """An LSTM with attention to a memory (Bahdanau's): the attention's result is part of the next step's input."""

    def __init__(self, node: OnnxNode, direction: int, inputs: Sequence[Value | None]) -> None:
        super().__init__(node, direction, inputs, "LSTM")
        parts = [None if x is None else self.part(x, direction) for x in (*inputs[8:11], inputs[13])]
        query, memory, vector, self.layer = parts
        values, lengths = inputs[11], inputs[12]
        if query is None or memory is None or vector is None or values is None:
            raise OpNotImplemented("it has no memory to look at: its inputs QW, MW, V and M are needed")
        self.query, self.vector, self.values, self.seen = query, vector, values, lengths
        if lengths is not None:
            places = Value(array=np.arange(node.static(values)[1], dtype=np.int64).reshape(1, -1))
            there = self.call("less", places, self.call("expand_dims", node.cast(lengths, "int64"), axis=1))
            self.seen = self.call("expand_dims", there, axis=2)
            self.values = self.call("where", self.seen, values, node.scalar(0, values))
        self.keys = self.call("nn.matmul", self.values, memory)
        self.width = (self.layer if self.layer is not None else values).known_extent(-1)
        size = self.w.known_extent(-1)
        self.w, self.own = self.cut(self.w, 0, size - self.width), self.cut(self.w, size - self.width, size)

    def widths(self) -> list[int]:
        return [*super().widths(), self.width]

    def step(self, x: Value, state: list[Value]) -> list[Value]:
        h, c, looked = state
        h, c = self.lstm(self.call("add", x, self.back(looked, self.own, None)), [h, c])
        asked = self.call("expand_dims", self.call("nn.matmul", h, self.query), axis=1)
        near = self.call("multiply", self.call("tanh", self.call("add", self.keys, asked)), self.vector)
        scores = self.call("sum", near, axis=(2,), keepdims=True)
        if self.seen is not None:
            scores = self.call("where", self.seen, scores, self.node.scalar(-np.inf, scores))
        shares = self.call("nn.softmax", scores, axis=1)
        context = self.call("sum", self.call("multiply", shares, self.values), axis=(1,))
        if self.layer is not None:
            context = self.call("nn.matmul", self.call("concatenate", [h, context], axis=1), self.layer)
        return [h, c, context]


@onnx_op("AttnLSTM", domain=DOMAIN)
def _seeing_lstm(node: OnnxNode, *inputs: Value | None) -> list[Value]:
    return recurrent(node, [*inputs, *[None] * (14 - len(inputs))], AttentionCell)
