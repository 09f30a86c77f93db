"""Converters of reductions, normalisations, cumulative sums and segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import small
from tilewright.relay.frontend.tflite.node import Node, Value, tflite_op
from tilewright.relay.frontend.tflite.ops import softmax
from tilewright.relay.frontend.tflite.ops.arithmetic import centred, quantized, through_real
from tilewright.relay.frontend.tflite.ops.quantized import limits, need_single, out_quant, requantized, scaled, stored
from tilewright.support.errors import OpNotImplemented

REDUCED = {
    "SUM": "sum", "MEAN": "mean", "REDUCE_MAX": "max", "REDUCE_MIN": "min", "REDUCE_PROD": "prod", "REDUCE_ANY": "any", "REDUCE_ALL": "all",
}  # fmt: skip


@tflite_op(*REDUCED)
def _reduce(node: Node, x: Value, axes: Value) -> Value:
    places = node.axes(axes, x.ndim)
    attrs: dict[str, Any] = {"axis": tuple(places), "keepdims": bool(node.get("keep_dims"))}
    key = REDUCED[node.name]
    if not places and not quantized(node, x):
        return x
    if quantized(node, x):
        if node.out.dtype != x.dtype:
            raise OpNotImplemented(f"its input is {x.dtype}, but its result {node.out.dtype}; both have one type")
        if node.name in ("REDUCE_MAX", "REDUCE_MIN"):
            made = node.call(key, x, **attrs)
            (source,) = need_single(node, x)
            return requantized(node, made, source, out_quant(node), node.out.dtype)
        if node.name in ("SUM", "MEAN"):
            return _whole_sum(node, x, places, attrs)
        return through_real(node, lambda v: node.call(key, v, **attrs), x)
    if key == "mean" and x.dtype.startswith("int"):
        count = counted(node, x, places)
        return node.cast(node.call("trunc_divide", node.call("sum", node.cast(x, "int64"), **attrs), count), x.dtype)
    return node.call(key, x, **attrs)


def counted(node: Node, x: Value, axes: list[int]) -> int:
    """The number of elements along the axes."""
    return int(np.prod(node.extents(x, axes, "the extents that it reduces")))


def _whole_sum(node: Node, x: Value, places: list[int], attrs: dict[str, Any]) -> Value:
    """Sums or means of integers."""
    (source,), target = need_single(node, x), out_quant(node)
    count = counted(node, x, places)
    low, high = limits(node.out.dtype)
    sums = node.call("sum", centred(node, x, source), **attrs)
    factor = float(source.scale[0] / target.scale[0])
    if node.name == "SUM":
        return stored(node, scaled(node, sums, factor), target.offset, low, high, node.out.dtype)
    from tilewright.relay.frontend.tflite.ops.quantized import multiplier

    # The multiplier includes the division by the number of elements. Its shift is reduced to keep precision.
    q, shift = multiplier(float(factor))
    spare = min(63 - (64 - count.bit_length()), 32, 31 + shift)
    made_q = int((q << spare) // count)
    return stored(node, _by(node, sums, made_q, shift - spare), target.offset, low, high, node.out.dtype)


def _by(node: Node, x: Value, q: int, shift: int) -> Value:
    """`scaled` with a given multiplier and shift."""
    from tilewright.relay.frontend.tflite.ops.quantized import shifted

    wide = node.call("multiply", node.cast(x, "int64"), q << max(shift, 0))
    high = node.call("right_shift", node.call("add", wide, 1 << 30), 31)
    return high if shift >= 0 else shifted(node, high, [-shift], lambda v: node.number(v[0], "int64"))


@tflite_op("ARG_MAX", "ARG_MIN")
def _arg(node: Node, x: Value, axis: Value) -> Value:
    (place,) = node.axes(axis, x.ndim, "axis")
    return node.cast(node.call(node.name.lower().replace("_", ""), x, axis=(place,)), node.out.dtype)


# ---- normalisations


@tflite_op("SOFTMAX")
def _softmax(node: Node, x: Value) -> Value:
    beta = float(node.get("beta"))
    if quantized(node, x):
        return softmax.softmax16(node, x, beta) if x.dtype == "int16" else softmax.softmax8(node, x, beta)
    return node.call("nn.softmax", x if beta == 1.0 else node.call("multiply", x, beta), axis=-1)


@tflite_op("LOG_SOFTMAX")
def _log_softmax(node: Node, x: Value) -> Value:
    if quantized(node, x):
        return through_real(node, lambda v: node.call("nn.log_softmax", v, axis=-1), x)
    return node.call("nn.log_softmax", x, axis=-1)


@tflite_op("L2_NORMALIZATION")
def _l2_normalization(node: Node, x: Value) -> Value:
    def normal(v: Value) -> Value:
        size = node.call("sqrt", node.call("sum", node.call("multiply", v, v), axis=(-1,), keepdims=True))
        return node.call("divide", v, node.call("maximum", size, 1e-6))

    if quantized(node, x):
        return softmax.l2_normal(node, x)
    return node.activated(normal(x))


@tflite_op("LOCAL_RESPONSE_NORMALIZATION")
def _lrn(node: Node, x: Value) -> Value:
    radius = int(node.get("radius"))
    size = 2 * radius + 1
    return node.call(
        "nn.lrn",
        x,
        size=size,
        axis=x.ndim - 1,
        bias=float(node.get("bias")),
        alpha=float(node.get("alpha")) * size,
        beta=float(node.get("beta")),
    )


@tflite_op("CUMSUM")
def _cumsum(node: Node, x: Value, axis: Value) -> Value:
    (place,) = node.axes(axis, x.ndim, "axis")
    back = bool(node.get("reverse"))
    y = node.call("reverse", x, axis=place) if back else x
    y = node.call("cumsum", y, axis=place, exclusive=bool(node.get("exclusive")))
    return node.call("reverse", y, axis=place) if back else y


# ---- segments

SEGMENTS: dict[str, tuple[str, Any]] = {
    "SEGMENT_SUM": ("add", lambda d: 0), "UNSORTED_SEGMENT_SUM": ("add", lambda d: 0), "UNSORTED_SEGMENT_PROD": ("mul", lambda d: 1),
    "UNSORTED_SEGMENT_MAX": ("max", lambda d: _ends(d)[0]), "UNSORTED_SEGMENT_MIN": ("min", lambda d: _ends(d)[1]),
}  # fmt: skip


def _ends(dtype: str) -> tuple[Any, Any]:
    info: Any = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    return info.min, info.max


@tflite_op(*SEGMENTS)
def _segments(node: Node, x: Value, ids: Value, count: Value | None = None) -> Value:
    mode, start = SEGMENTS[node.name]
    if count is not None:
        number = int(node.whole(count, "number of segments").reshape(-1)[0])
    elif ids.is_number and ids.array is not None:
        number = int(ids.array.max(initial=-1)) + 1
    else:
        raise OpNotImplemented(
            "its segment ids must be known at import, since the last of them says how many segments there are"
        )
    # An additional row takes the elements with negative ids.
    flat = node.reshape(x, [-1, *x.shape[ids.ndim :]])
    places = node.reshape(node.cast(ids, "int32"), [1, -1])
    places = node.call("where", node.call("less", places, 0), node.number(number, "int32"), places)
    small([number + 1, *node.static(flat)[1:]], "its result")
    base = Value(array=np.full([number + 1, *node.static(flat)[1:]], start(x.dtype), x.dtype))
    made = node.call("scatter_nd", base, places, flat, mode=mode)
    return node.call("strided_slice", made, begin=(0,), end=(number,), axes=(0,))
