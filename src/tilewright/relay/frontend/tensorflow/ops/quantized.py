"""Converters of quantised numbers: rounding of floats to levels, and dequantisation."""

from __future__ import annotations

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, tf_op


@tf_op("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def _fake(c: NodeCall, x: Value, *given: Value) -> Value:
    """Numbers rounded to a grid that contains 0, by given bounds or the bounds of the data."""
    bits = int(c.number_of(given[2], "num_bits")) if c.op.endswith("V3") else int(c.attr("num_bits", 8))
    axis, signed, narrow = (
        int(c.attr("axis", -1)),
        bool(c.attr("signed_input", True)),
        bool(c.attr("narrow_range", False)),
    )
    if c.attr("range_given", False):
        low, high = (c.cast(v, x.dtype) for v in given[:2])
    else:
        over = [k for k in range(x.ndim) if k != axis % x.ndim] if axis >= 0 else list(range(x.ndim))
        low, high = c.reduce("min", x, over), c.reduce("max", x, over)
    if axis >= 0 and low.ndim:
        shape = [-1 if k == axis else 1 for k in range(x.ndim)]
        low, high = c.reshape(low, shape), c.reshape(high, shape)
    first = (-(2 ** (bits - 1)) + narrow) if signed else 0
    last = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    none = c.number(0, x.dtype)
    # Each bound asks for a grid. The finer one would cut off the other bound.
    up = c.call(
        "where",
        c.call("greater", high, none),
        c.call("divide", c.number(last, x.dtype), high),
        c.number(np.finfo(x.dtype).max, x.dtype),
    )
    if first:
        down = c.call("divide", c.number(first, x.dtype), low)
        down = c.call("where", c.call("less", low, none), down, c.number(np.finfo(x.dtype).max, x.dtype))
        scale = c.call("minimum", up, down)
    else:
        scale = up
    inside = c.call(
        "minimum",
        c.call("maximum", x, c.call("divide", c.number(first, x.dtype), scale)),
        c.call("divide", c.number(last, x.dtype), scale),
    )
    steps = c.call("multiply", inside, scale)
    half_up = str(c.attr("round_mode", "HALF_TO_EVEN")) == "HALF_UP"
    whole = c.call("floor", c.call("add", steps, 0.5)) if half_up else c.call("round", steps)
    return c.call("divide", whole, scale)


@tf_op("Dequantize")
def _dequantize(c: NodeCall, x: Value, low: Value, high: Value) -> Value:
    mode, info = str(c.attr("mode", "MIN_COMBINED")), np.iinfo(x.dtype)
    axis, narrow = int(c.attr("axis", -1)), bool(c.attr("narrow_range", False))
    a, b = (c.known(v, "range").astype(np.float32) for v in (low, high))
    if axis >= 0 and a.ndim:
        a, b = (v.reshape([-1 if k == axis else 1 for k in range(x.ndim)]) for v in (a, b))
    wide = c.cast(x, "float32")
    if mode == "SCALED":
        scale = np.maximum(a / (info.min + narrow) if info.min else np.float32(0), b / info.max)
        return c.cast(c.call("multiply", wide, Value(array=np.asarray(scale, np.float32))), c.attr("dtype", "float32"))
    if mode == "MIN_FIRST":
        step = (b - a) / np.float32(info.max - info.min)
        wide = c.call("subtract", wide, float(info.min))
        return c.call("add", c.call("multiply", wide, Value(array=step)), Value(array=np.round(a / step) * step))
    step = (b - a) / np.float32(info.max - info.min)
    wide = c.call("add", wide, (info.max - info.min + 1) / 2) if info.min else wide
    return c.call(
        "add",
        c.call("multiply", wide, Value(array=np.asarray(step, np.float32))),
        Value(array=np.asarray(a, np.float32)),
    )


@tf_op("QuantizeV2")
def _quantize(c: NodeCall, x: Value, low: Value, high: Value) -> list[Value]:
    mode, kind = str(c.attr("mode", "MIN_COMBINED")), c.attr("T")
    if mode == "MIN_FIRST" or int(c.attr("axis", -1)) >= 0:
        raise c.refuse("mode", f"{mode}, axis {c.attr('axis', -1)}", "MIN_COMBINED and SCALED of whole tensors")
    info, narrow = np.iinfo(kind), bool(c.attr("narrow_range", False))
    a, b = (float(np.float32(c.number_of(v, "range"))) for v in (low, high))
    b = max(b, a + max(1.0, abs(a), abs(b)) * float(c.attr("ensure_minimum_range", 0.01)))
    a = min(a, 0.0)
    if mode == "SCALED":
        first = info.min + narrow
        size = max(-a, b) if info.min else b
        scale = np.float32(info.max / size)
        steps = c.call("multiply", x, float(scale))
        rounded = c.call("round", steps)
        made = c.call("clip", rounded, a_min=float(first), a_max=float(info.max))
        a, b = (first / float(scale), info.max / float(scale)) if info.min else (0.0, b)
    else:
        inside = c.call("clip", x, a_min=a, a_max=b)
        steps = c.call("multiply", c.call("subtract", inside, a), float(np.float32((info.max - info.min) / (b - a))))
        steps = c.call("subtract", steps, (info.max - info.min + 1) / 2) if info.min else steps
        made = c.call("round", steps)
    return [c.cast(made, kind), c.number(a, "float32"), c.number(b, "float32")]


# ---- sequences of classes
