"""Products of floats with weights of bytes (dynamic range): TFLite's kernels quantise the floats to bytes at run time.

The kernels read the weights' bits as signed (old converters declared them uint8), with a zero point of 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.tflite.node import Node, Quant, Value
from tilewright.relay.frontend.tflite.ops.quantized import real, rounded_float
from tilewright.support.errors import OpNotImplemented


def hybrid(x: Value, weights: Value) -> bool:
    """Whether an operator multiplies floats by quantised weights."""
    return x.dtype.startswith("float") and weights.dtype in ("int8", "uint8") and weights.quant is not None


def symmetric(node: Node, weights: Value, int8: Sequence[Dim], uint8: Sequence[Dim] = ()) -> Value:
    """Weights as int8 with the zero point 0. `int8`, `uint8`: the allowed numbers of scales for each type. Raises OpNotImplemented."""
    quant = weights.quant
    assert quant is not None
    if quant.scale.size not in (int8 if weights.dtype == "int8" else uint8):
        taken = []
        for name, counts in (("int8", int8), ("uint8", uint8)):
            if counts:
                known = sorted({n for n in counts if isinstance(n, int)})
                taken.append(f"{name} with {' or '.join(map(str, known))}")
        raise OpNotImplemented(
            f"its weights {weights.name!r} are {weights.dtype} with {quant.scale.size} scales; times floats are supported: "
            + ", ".join(taken)
        )
    around_zero = Quant(quant.scale, np.zeros_like(quant.zero), quant.axis)
    if weights.array is None:
        return Value(node.cast(weights, "int8").expr, quant=around_zero)
    return Value(array=weights.array.view(np.int8), name=weights.name, quant=around_zero, home=weights.home)


class Rounded:
    """Floats quantised to int8 at run time: x = scale * (whole - offset), for each element of the first axis."""

    __slots__ = ("offset", "scale", "whole")

    def __init__(self, whole: Value, scale: Value, offset: Value | None) -> None:
        self.whole, self.scale, self.offset = whole, scale, offset

    def times(self, node: Node, sums: Value, weights: Value) -> Value:
        """The real values of sums of products with symmetric weights, without the zero points' part. Results lie along the last axis."""
        assert weights.quant is not None
        scale = node.call("multiply", self.scale, Value(array=weights.quant.scale))
        return node.call("multiply", node.cast(sums, "float32"), scale)


def rounded(node: Node, x: Value, asymmetric: bool) -> Rounded:
    """Floats quantised to int8, with a scale for each element of the first axis (scales keep all axes, with extent 1)."""
    axes = tuple(range(1, x.ndim))
    if not asymmetric:
        reach = node.call("max", node.call("abs", x), axis=axes, keepdims=True)
        empty = node.call("equal", reach, 0.0)
        inverse = node.call(
            "where", empty, node.number(0.0, "float32"), node.call("divide", node.number(127.0, "float32"), reach)
        )
        whole = node.call("clip", rounded_float(node, node.call("multiply", x, inverse)), a_min=-127.0, a_max=127.0)
        scale = node.call("where", empty, node.number(1.0, "float32"), node.call("divide", reach, 127.0))
        return Rounded(node.cast(whole, "int8"), scale, None)
    least = node.call("minimum", node.call("min", x, axis=axes, keepdims=True), 0.0)
    most = node.call("maximum", node.call("max", x, axis=axes, keepdims=True), 0.0)
    flat = node.call("equal", least, most)
    span = node.call("where", flat, node.number(255.0, "float32"), node.call("subtract", most, least))
    # The kernel's types and order of operations, which decide the rounding: step and zero point in float64, then x times the
    # reciprocal of the float32 step, rounded before the zero point is added.
    step = node.call("divide", node.cast(span, "float64"), 255.0)
    below, above = (node.call("divide", node.cast(end, "float64"), step) for end in (least, most))
    # The zero point from the bound at which its error is smaller.
    errors = node.call("subtract", 128.0, below), node.call("add", 127.0, above)
    from_ends = node.call("subtract", -128.0, below), node.call("subtract", 127.0, above)
    chosen = rounded_float(node, node.call("where", node.call("less", *errors), *from_ends))
    offset = node.call("where", flat, node.number(0.0, "float64"), node.call("clip", chosen, a_min=-128.0, a_max=127.0))
    scale = node.cast(step, "float32")
    units = rounded_float(node, node.call("multiply", x, node.call("divide", 1.0, scale)))
    whole = node.call("clip", node.call("add", units, node.cast(offset, "float32")), a_min=-128.0, a_max=127.0)
    return Rounded(node.cast(whole, "int8"), scale, node.cast(offset, "int32"))


class Rows:
    """Floats (rows, features) as a factor for weights (units, features). They are quantised once for all weights of bytes.

    `scales`: the allowed numbers of scales of the weights. If it is empty, nothing is quantised.
    """

    def __init__(self, node: Node, x: Value, scales: Sequence[Dim]) -> None:
        self.node, self.x, self.scales = node, x, scales
        self._rounded: Rounded | None = None

    def times(self, weights: Value) -> Value:
        """The product (rows, units)."""
        node, units = self.node, weights.shape[0]
        if not self.scales or not hybrid(self.x, weights):
            return node.call("nn.dense", self.x, real(node, weights), units=units)
        if self._rounded is None:
            self._rounded = rounded(node, self.x, bool(node.get("asymmetric_quantize_inputs", False)))
        rough, whole = self._rounded, symmetric(node, weights, self.scales, self.scales)
        sums = node.call("nn.dense", rough.whole, whole, units=units, out_dtype="int32")
        if rough.offset is not None:
            columns = node.call("sum", node.cast(whole, "int32"), axis=(1,))
            sums = node.call("subtract", sums, node.call("multiply", rough.offset, columns))
        return rough.times(node, sums, whole)
