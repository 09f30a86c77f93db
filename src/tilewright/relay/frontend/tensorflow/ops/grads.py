"""Converters of adjoint operators, for models with gradients as outputs (sensitivities, energies and forces)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import known_equal
from tilewright.relay.frontend.common.activations import SELU_ALPHA, SELU_SCALE
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.slice_masks import SliceMasks
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.ops.layers import _padding, _spatial
from tilewright.relay.frontend.tensorflow.value import NodeCall, sizes_value, tf_op


def _times(c: NodeCall, *factors: Any) -> Value:
    made: Value = factors[0]
    for f in factors[1:]:
        made = c.call("multiply", made, f)
    return made


def _where(c: NodeCall, flag: Value, a: Operand, b: Operand) -> Value:
    return c.call("where", flag, a, b)


def _zero(c: NodeCall, x: Value) -> Value:
    return c.number(0, x.dtype)


# Operands: the adjoint of the result, and the operator's operand.
OF_INPUTS: dict[str, Callable[[NodeCall, Value, Value], Value]] = {
    "ReluGrad": lambda c, g, x: _where(c, c.call("greater", x, 0.0), g, _zero(c, g)),
    "Relu6Grad": lambda c, g, x: _where(
        c, c.call("logical_and", c.call("greater", x, 0.0), c.call("less", x, 6.0)), g, _zero(c, g)
    ),
    "LeakyReluGrad": lambda c, g, x: _where(c, c.call("greater", x, 0.0), g, _times(c, g, float(c.attr("alpha", 0.2)))),
    "SoftplusGrad": lambda c, g, x: _times(c, g, c.call("sigmoid", x)),
    "SoftsignGrad": lambda c, g, x: c.call("divide", g, _square(c, c.call("add", c.call("abs", x), 1.0))),
    # Operands: the adjoint of the result, and the operator's result.
    "EluGrad": lambda c, g, y: _where(c, c.call("less", y, 0.0), _times(c, g, c.call("add", y, 1.0)), g),
    "SeluGrad": lambda c, g, y: _where(
        c,
        c.call("less", y, 0.0),
        _times(c, g, c.call("add", y, SELU_SCALE * SELU_ALPHA)),
        _times(c, g, SELU_SCALE),
    ),
}
# Operands: the operator's result, and its adjoint.
OF_RESULTS: dict[str, Callable[[NodeCall, Value, Value], Value]] = {
    "SigmoidGrad": lambda c, y, g: _times(c, g, y, c.call("subtract", c.number(1, y.dtype), y)),
    "TanhGrad": lambda c, y, g: _times(c, g, c.call("subtract", c.number(1, y.dtype), _square(c, y))),
    "SqrtGrad": lambda c, y, g: c.call("divide", _times(c, g, 0.5), y),
    "RsqrtGrad": lambda c, y, g: _times(c, g, -0.5, y, y, y),
    "ReciprocalGrad": lambda c, y, g: _times(c, g, -1.0, y, y),
    "InvGrad": lambda c, y, g: _times(c, g, -1.0, y, y),
}
for _name, _rule in {**OF_INPUTS, **OF_RESULTS}.items():
    tf_op(_name)(_rule)


def _square(c: NodeCall, x: Value) -> Value:
    return c.call("multiply", x, x)


@tf_op("BiasAddGrad")
def _bias(c: NodeCall, g: Value) -> Value:
    axis = 1 if c.channels_first() and g.ndim > 2 else g.ndim - 1
    return c.reduce("sum", g, [k for k in range(g.ndim) if k != axis])


@tf_op("BroadcastGradientArgs")
def _broadcast_axes(c: NodeCall, a: Value, b: Value) -> list[Value]:
    """The axes over which adjoints of two broadcast operands are summed."""
    sides = [c.ints(v, "shape") for v in (a, b)]
    rank = max(map(len, sides))
    sides = [[1] * (rank - len(s)) + s for s in sides]
    found: list[list[int]] = [[], []]
    for axis, pair in enumerate(zip(*sides, strict=True)):
        for mine, given, other in zip(found, pair, pair[::-1], strict=True):
            # For two extents of 1, TensorFlow lists the axis on both sides.
            if known_equal(given, 1) and (not known_equal(other, 1) or known_equal(given, other)):
                mine.append(axis)
    return [sizes_value(c, np.array(axes, object), a.dtype) for axes in found]


@tf_op("StridedSliceGrad")
def _slice(c: NodeCall, shape: Value, begin: Value, end: Value, step: Value, g: Value) -> Value:
    """Zeros, with the adjoint at the slice."""
    extents = c.static(c.ints(shape, "shape"), "the shape that was cut")
    return _placed(c, c.full([int(np.prod(extents))], 0, g.dtype), extents, (begin, end, step), g)


@tf_op("TensorStridedSliceUpdate")
def _slice_update(c: NodeCall, x: Value, begin: Value, end: Value, step: Value, part: Value) -> Value:
    extents = c.static(x.shape, "the shape of its input")
    return _placed(c, c.reshape(x, [-1]), extents, (begin, end, step), part)


def _placed(c: NodeCall, base: Value, extents: Sequence[int], cuts: Sequence[Value], part: Value) -> Value:
    """A flat tensor with the elements of a slice replaced."""
    marks = np.arange(int(np.prod(extents))).reshape(extents)
    masks = SliceMasks.read(lambda name: c.attr(name, 0))
    where = marks[masks.key(*[c.static(c.ints(v, "slice"), "where it cuts") for v in cuts])]
    places, elements = Value(array=where.reshape(1, -1)), c.reshape(c.broadcast(part, list(where.shape)), [-1])
    return c.reshape(c.call("scatter_nd", base, places, elements, mode="update"), extents)


@tf_op("MaxPoolGrad", "AvgPoolGrad")
def _pool(c: NodeCall, x: Value, *rest: Value) -> Value:
    g = rest[-1]
    most = c.op.startswith("Max")
    shape = x.shape if most else c.ints(x, "shape")
    front = c.channels_first()
    start = 2 if front else 1
    spatial = c.static(shape[start : start + 2], "the size of its images")
    size, strides = (_spatial(c, c.attr(k), 2) for k in ("ksize", "strides"))
    pads = _padding(c, spatial, size, strides, [1, 1])
    data = x if most else c.full(c.static(shape, "its shape"), 0, g.dtype)
    if not front:
        data, g = (c.transpose(v, [0, 3, 1, 2]) for v in (data, g))
    key = "nn.max_pool2d_grad" if most else "nn.avg_pool2d_grad"
    made = c.call(key, g, data, pool_size=tuple(size), strides=tuple(strides), padding=tuple(pads))
    return made if front else c.transpose(made, [0, 2, 3, 1])


@tf_op("Conv2DBackpropFilter")
def _filter(c: NodeCall, x: Value, shape: Value, g: Value) -> Value:
    height, width, inner, outer = c.static(c.ints(shape, "filter_sizes"), "the shape of its filter")
    front = c.channels_first()
    start = 2 if front else 1
    spatial = c.static(x.shape[start : start + 2], "the size of its images")
    strides, dilation = _spatial(c, c.attr("strides"), 2), _spatial(c, c.attr("dilations"), 2)
    pads = _padding(c, spatial, [height, width], strides, dilation)
    if not front:
        x, g = (c.transpose(v, [0, 3, 1, 2]) for v in (x, g))
    made = c.call(
        "nn.conv2d_backward_weight", g, x, strides=tuple(strides), padding=tuple(pads), dilation=tuple(dilation),
        kernel_size=(height, width), channels=outer, groups=x.known_extent(1) // inner,
    )  # fmt: skip
    return c.transpose(made, [2, 3, 1, 0])


@tf_op("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _batch_norm(
    c: NodeCall, g: Value, x: Value, gamma: Value, mean: Value, variance: Value, *rest: Value
) -> list[Value]:
    axis = 1 if c.channels_first() else x.ndim - 1
    axes = [k for k in range(x.ndim) if k != axis]
    shape = [-1 if k == axis else 1 for k in range(x.ndim)]
    training = bool(c.attr("is_training", True))
    if training:
        middle = c.reduce("mean", x, axes, True)
        moved = c.call("subtract", x, middle)
        power = c.reduce("mean", _square(c, moved), axes, True)
    else:
        moved, power = c.call("subtract", x, c.reshape(mean, shape)), c.reshape(variance, shape)
    scale = c.call("rsqrt", c.call("add", power, float(c.attr("epsilon", 1e-4))))
    normal = c.call("multiply", moved, scale)
    of_gamma, of_beta = c.reduce("sum", c.call("multiply", g, normal), axes), c.reduce("sum", g, axes)
    inner = g
    if training:
        pulled = c.call("multiply", normal, c.reduce("mean", c.call("multiply", g, normal), axes, True))
        inner = c.call("subtract", c.call("subtract", g, c.reduce("mean", g, axes, True)), pulled)
    of_x = _times(c, inner, scale, c.reshape(gamma, shape))
    nothing = c.full([], 0, "float32")
    return [of_x, of_gamma, of_beta, nothing, nothing]
