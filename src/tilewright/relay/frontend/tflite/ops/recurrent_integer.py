"""LSTM in integers: data and output state of 8 bits, a cell state of 16 bits, gates in fixed point, in the steps of TFLite's kernel.

Gates are sums with three integer bits, in 16 bits: the products of the input and of the last output are each scaled, rounded, and added
with saturation. The scale of the cell state is a power of two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.relay.frontend.tflite.node import Node, Quant, Value
from tilewright.relay.frontend.tflite.ops.fixed import halved
from tilewright.relay.frontend.tflite.ops.fixed16 import ONE, clipped, logistic, tanh
from tilewright.relay.frontend.tflite.ops.quantized import limits, need_single, scaled, stored, zero_of
from tilewright.support.errors import OpNotImplemented

HIDDEN = 4
"""The place of the hidden state's scale among the operator's intermediate tensors."""


def is_integer(inputs: Sequence[Value | None], state: Value, cell: Value) -> bool:
    """Whether a layer is computed in integers throughout. Not with layer normalisation, nor with peepholes where the output is narrower or
    wider than the cell state: there TFLite's kernel multiplies weights by states of other cells."""
    x, weights = inputs[0], inputs[2]
    assert x is not None
    other = any([v is not None for v in inputs[20:24]])
    other |= inputs[11] is not None and state.shape[1] != cell.shape[1]
    kinds = (x.dtype, state.dtype, cell.dtype, "" if weights is None else weights.dtype)
    return kinds == ("int8", "int8", "int16", "int8") and not other


class IntegerCell:
    """One direction of an LSTM in integers, with its inputs in the schema's order. h, c: the states, int8 and int16."""

    def __init__(self, node: Node, inputs: Sequence[Value | None], state: Value, cell: Value) -> None:
        self.node, self.inputs = node, [*inputs, *[None] * (24 - len(inputs))]
        self.x, self.out, kept = need_single(node, inputs[0], state, cell)
        self.h, self.c = state, cell
        significand, exponent = math.frexp(kept.step)
        if significand != 0.5 or exponent - 1 > -9 or kept.offset:
            raise OpNotImplemented(
                f"its cell state has the scale {kept.step} and the zero point {kept.offset}; supported: powers of two up to 2**-9, and 0"
            )
        self.exponent = exponent - 1
        hidden = node.intermediates[HIDDEN].quant if len(node.intermediates) > HIDDEN else None
        if hidden is None:
            raise OpNotImplemented("its intermediate tensors, which have the scale of the hidden state, are left out")
        self.hidden: Quant = hidden
        clip = float(node.get("cell_clip", 0.0)) / kept.step
        self.clip = int(min(max(clip, -32768.0), 32767.0))
        clip = float(node.get("proj_clip", 0.0)) / self.out.step
        self.output_clip = int(min(max(clip, -128.0), 127.0))

    def sums(self, data: Value, zero: Quant, weights: Value, bias: Value | None = None) -> Value:
        """The sums of products of bytes, in int32."""
        node, units = self.node, weights.shape[0]
        one = Value(array=np.array(1, np.float32))
        none = Value(array=np.array(0, np.int32))
        made = node.call(
            "qnn.dense", data, weights, Value(array=zero_of(zero)), none, one, one, units=units, out_dtype="int32"
        )
        return made if bias is None else node.call("add", made, bias)

    def part(self, sums: Value, *scales: float) -> Value:
        """Sums as numbers with three integer bits. scales: those of both factors."""
        factor = np.float32(np.float32(scales[0]) * np.float32(scales[1])) / np.float32(2.0**-12)
        return self.node.cast(scaled(self.node, sums, float(factor)), "int32")

    def gate(self, k: int, data: Value, cell: Value | None, peephole: int | None) -> Value:
        """The sum before the activation of gate k: input, forget, cell, output."""
        node = self.node
        to, back, bias = self.inputs[1 + k], self.inputs[5 + k], self.inputs[12 + k]
        assert to is not None and back is not None
        first, second = need_single(node, to, back)
        total = clipped(node, self.part(self.sums(data, self.x, to, bias), first.step, self.x.step))
        more = self.part(self.sums(self.h, self.out, back), second.step, self.out.step)
        total = clipped(node, node.call("add", more, total))
        seen = None if peephole is None else self.inputs[9 + peephole]
        if seen is not None and cell is not None:
            (quant,) = need_single(node, seen)
            product = node.call("multiply", node.cast(cell, "int32"), node.cast(seen, "int32"))
            total = clipped(node, node.call("add", self.part(product, 2.0**self.exponent, quant.step), total))
        return total

    def step(self, data: Value) -> Value:
        """The output of one step."""
        node = self.node
        forget = logistic(node, self.gate(1, data, self.c, 1))
        if self.inputs[1] is None:
            keep = node.call("subtract", node.number(ONE, "int32"), forget)
        else:
            keep = logistic(node, self.gate(0, data, self.c, 0))
        new = tanh(node, self.gate(2, data, None, None), 3)
        kept = halved(node, node.call("multiply", forget, node.cast(self.c, "int32")), 15)
        added = halved(node, node.call("multiply", keep, new), 30 + self.exponent)
        cell = clipped(node, node.call("add", kept, added))
        if self.clip > 0:
            cell = clipped(node, cell, -self.clip, self.clip)
        out = logistic(node, self.gate(3, data, cell, 2))
        product = node.call("multiply", out, tanh(node, cell, 15 + self.exponent))
        factor = np.float32(2.0**-15 / float(self.hidden.scale[0]) * 2.0**-15)
        whole = node.cast(scaled(node, product, float(factor)), "int32")
        hidden = stored(node, whole, self.hidden.offset, *limits("int8"), "int8")
        self.h, self.c = self.projected(hidden), node.cast(cell, "int16")
        return self.h

    def projected(self, hidden: Value) -> Value:
        """The output state: the hidden state, or its projection."""
        node, weights, bias = self.node, self.inputs[16], self.inputs[17]
        if weights is None:
            return hidden
        (quant,) = need_single(node, weights)
        scale = np.float32(np.float32(quant.step) * self.hidden.scale[0]) / self.out.scale[0]
        sums = node.cast(scaled(node, self.sums(hidden, self.hidden, weights, bias), float(np.float32(scale))), "int32")
        made = stored(node, sums, self.out.offset, *limits("int8"), "int8")
        if self.output_clip > 0:
            made = node.call("clip", made, a_min=float(-self.output_clip), a_max=float(self.output_clip))
        return made


__all__ = ["IntegerCell", "is_integer"]
