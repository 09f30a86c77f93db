"""Converters of arithmetic, layers and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.caffe2.node import OperatorNode, converters
from tilewright.relay.frontend.common import activations
from tilewright.relay.frontend.common.products import product
from tilewright.relay.frontend.common.value import Value, known_extents
from tilewright.support.errors import OpNotImplemented

UNARY = {
    "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Rsqrt": "rsqrt", "Abs": "abs",
    "Negative": "negative", "Floor": "floor", "Ceil": "ceil", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Sign": "sign",
    "Not": "logical_not", "Relu": "nn.relu", "Erf": "erf", "Sinh": "sinh", "Cosh": "cosh", "Atan": "atan",
}  # fmt: skip
BINARY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "EQ": "equal", "NE": "not_equal", "LT": "less",
    "LE": "less_equal", "GT": "greater", "GE": "greater_equal", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
}  # fmt: skip


@converters.of(*UNARY)
def _unary(c: OperatorNode, x: Value) -> Value:
    return c.call(UNARY[c.kind], x)


@converters.of(*BINARY)
def _binary(c: OperatorNode, a: Value, b: Value) -> Value:
    return c.call(BINARY[c.kind], a, aligned(c, a, b))


def aligned(c: OperatorNode, a: Value, b: Value) -> Value:
    """b so that it broadcasts over a: with `axis` its axes begin at that axis of a."""
    axis = c.given.get("axis", -1)
    if not c.whole("broadcast") or isinstance(axis, list) or int(axis) == -1:
        return b
    after = a.ndim - c.axis(int(axis), a.ndim) - b.ndim
    return c.reshape(b, [*b.shape, *[1] * after]) if after > 0 else b


def _folded(key: str) -> Callable[..., Value]:
    def convert(c: OperatorNode, *xs: Value) -> Value:
        total = xs[0]
        for x in xs[1:]:
            total = c.call(key, total, x)
        return c.call("divide", total, float(len(xs))) if c.kind == "Mean" else total

    return convert


for _name, _key in {"Sum": "add", "Max": "maximum", "Min": "minimum", "Mean": "add"}.items():
    converters[_name] = _folded(_key)


@converters.of("Sqr")
def _square(c: OperatorNode, x: Value) -> Value:
    return c.call("multiply", x, x)


@converters.of("Cube")
def _cube(c: OperatorNode, x: Value) -> Value:
    return c.call("multiply", c.call("multiply", x, x), x)


@converters.of("Pow")
def _power(c: OperatorNode, x: Value, exponent: Value | None = None) -> Value:
    return c.call("power", x, c.real("exponent") if exponent is None else aligned(c, x, exponent))


@converters.of("Scale")
def _scale(c: OperatorNode, x: Value) -> Value:
    return c.call("multiply", x, c.real("scale", 1.0))


@converters.of("Clip")
def _clip(c: OperatorNode, x: Value) -> Value:
    for name, key in (("min", "maximum"), ("max", "minimum")):
        x = c.call(key, x, c.real(name)) if name in c.given else x
    return x


@converters.of("Cast")
def _cast(c: OperatorNode, x: Value) -> Value:
    from tilewright.formats.caffe2_messages import TYPES

    to = c.given.get("to")
    names = {"float": "float32", "double": "float64", "int": "int32", "float16": "float16"}
    kind = (
        names.get(c.text("to").lower(), c.text("to").lower()) if isinstance(to, bytes) else TYPES.get(c.whole("to"), "")
    )
    if not kind:
        raise c.refuse("to", to, "types of numbers")
    return c.cast(x, kind)


@converters.of("LeakyRelu")
def _leaky(c: OperatorNode, x: Value) -> Value:
    return c.call("nn.leaky_relu", x, alpha=c.real("alpha", 0.01))


@converters.of("PRelu")
def _prelu(c: OperatorNode, x: Value, slope: Value) -> Value:
    (count,) = known_extents(slope.shape)
    if count == 1:
        below = c.call("multiply", x, slope)
        return c.call("where", c.call("greater", x, 0.0), x, below)
    return c.call("nn.prelu", x, slope, axis=c.channel_axis(x))


@converters.of("Elu")
def _elu(c: OperatorNode, x: Value) -> Value:
    return activations.elu(c, x, c.real("alpha", 1.0))


@converters.of("Selu")
def _selu(c: OperatorNode, x: Value) -> Value:
    alpha, scale = c.real("alpha", activations.SELU_ALPHA), c.real("scale", activations.SELU_SCALE)
    return activations.selu(c, x, alpha, scale)


@converters.of("Swish")
def _swish(c: OperatorNode, x: Value) -> Value:
    return activations.silu(c, x)


@converters.of("HardSigmoid")
def _hard_sigmoid(c: OperatorNode, x: Value) -> Value:
    line = c.call("add", c.call("multiply", x, c.real("alpha", 0.2)), c.real("beta", 0.5))
    return c.call("clip", line, a_min=0.0, a_max=1.0)


@converters.of("Softplus")
def _softplus(c: OperatorNode, x: Value) -> Value:
    return activations.softplus(c, x)


@converters.of("Softsign")
def _softsign(c: OperatorNode, x: Value) -> Value:
    return activations.softsign(c, x)


@converters.of("Softmax", "LogSoftmax")
def _softmax(c: OperatorNode, x: Value) -> Value:
    axis = c.axis(c.whole("axis", 1), x.ndim)
    key = "nn.softmax" if c.kind == "Softmax" else "nn.log_softmax"
    if axis == x.ndim - 1:
        return c.call(key, x, axis=axis)
    # All axes from `axis` on are one.
    flat = c.reshape(x, [*x.shape[:axis], -1])
    return c.reshape(c.call(key, flat, axis=axis), x.shape)


# ---- products


def flat(c: OperatorNode, x: Value, axis: int) -> Value:
    """x with the axes before and from `axis` on joined: two axes."""
    if x.ndim == 2 and axis == 1:
        return x
    rest = c.static(x.shape[axis:], "the extents of joined axes")
    return c.reshape(x, [-1, int(np.prod(rest))])


@converters.of("FC", "FCTransposed")
def _dense(c: OperatorNode, x: Value, weight: Value, bias: Value) -> Value:
    axis = c.axis(c.whole("axis", 1), x.ndim)
    kernel = flat(c, weight, c.axis(c.whole("axis_w", 1), weight.ndim))
    kernel = c.transpose(kernel, [1, 0]) if c.kind == "FCTransposed" else kernel
    (units,) = c.static([kernel.shape[0]], "the number of its units")
    out = c.call("nn.bias_add", c.call("nn.dense", flat(c, x, axis), kernel, units=units), bias)
    return out if axis == 1 else c.reshape(out, [*x.shape[:axis], units])


@converters.of("MatMul")
def _matmul(c: OperatorNode, a: Value, b: Value) -> Value:
    left, right = flat(c, a, c.whole("axis_a", 1)), flat(c, b, c.whole("axis_b", 1))
    return c.call("nn.matmul", left, right, transpose_a=bool(c.whole("trans_a")), transpose_b=bool(c.whole("trans_b")))


@converters.of("BatchMatMul")
def _batch_matmul(c: OperatorNode, a: Value, b: Value) -> Value:
    if min(a.ndim, b.ndim) < 2:
        raise OpNotImplemented("one of its inputs is a vector")
    if not c.whole("broadcast") and a.shape[:-2] != b.shape[:-2]:
        raise OpNotImplemented("its inputs have other axes before the last two, which broadcast only with broadcast=1")
    return product(c, a, b, bool(c.whole("trans_a")), bool(c.whole("trans_b")))


# ---- layers


@converters.of("Conv", "Conv1D", "Conv2D", "Conv3D")
def _conv(c: OperatorNode, x: Value, weight: Value, bias: Value | None = None) -> Value:
    axes = x.ndim - 2
    space = ("", "W", "HW", "DHW")[axes]
    kernel, strides = c.windows(x, "kernel", "kernels", None), c.windows(x, "stride", "strides", 1)
    dilation = c.windows(x, "dilation", "dilations", 1)
    (filters,) = c.static([weight.shape[0]], "the number of its filters")
    out = c.call(
        f"nn.conv{axes}d", x, weight, strides=tuple(strides), padding=tuple(c.padding(x, kernel, strides, dilation)),
        dilation=tuple(dilation), groups=c.whole("group", 1), channels=filters, kernel_size=tuple(kernel), data_layout=c.layout(axes),
        kernel_layout=f"OI{space}" if c.first else f"O{space}I",
    )  # fmt: skip
    return out if bias is None else c.call("nn.bias_add", out, bias, axis=c.channel_axis(out))


@converters.of("ConvTranspose")
def _transposed(c: OperatorNode, x: Value, weight: Value, bias: Value | None = None) -> Value:
    if not c.first:
        raise c.refuse("order", "NHWC", "NCHW")
    axes = x.ndim - 2
    kernel, strides = c.windows(x, "kernel", "kernels", None), c.windows(x, "stride", "strides", 1)
    groups = c.whole("group", 1)
    (depth,) = c.static([weight.shape[1]], "the number of its filters")
    out = c.call(
        f"nn.conv{axes}d_transpose", x, weight, strides=tuple(strides), padding=tuple(c.padding(x, kernel, strides, [1] * axes)),
        groups=groups, channels=depth * groups, kernel_size=tuple(kernel), output_padding=tuple(c.windows(x, "adj", "adjs", 0)),
    )  # fmt: skip
    return out if bias is None else c.call("nn.bias_add", out, bias, axis=1)


@converters.of(
    "MaxPool", "AveragePool", "MaxPool1D", "MaxPool2D", "MaxPool3D", "AveragePool1D", "AveragePool2D", "AveragePool3D"
)
def _pool(c: OperatorNode, x: Value) -> Value:
    kind = "max" if c.kind.startswith("Max") else "avg"
    axes = x.ndim - 2
    if c.whole("global_pooling"):
        start = 2 if c.first else 1
        return c.reduce("max" if kind == "max" else "mean", x, list(range(start, start + axes)), keepdims=True)
    kernel, strides = c.windows(x, "kernel", "kernels", None), c.windows(x, "stride", "strides", 1)
    dilation = c.windows(x, "dilation", "dilations", 1)
    attrs: dict[str, Any] = {} if kind == "max" else {"count_include_pad": bool(c.whole("count_include_pad"))}
    return c.call(
        f"nn.{kind}_pool{axes}d", x, pool_size=tuple(kernel), strides=tuple(strides), dilation=tuple(dilation),
        padding=tuple(c.padding(x, kernel, strides, dilation)), layout=c.layout(axes), ceil_mode=c.whole("legacy_pad") == 3, **attrs,
    )  # fmt: skip


@converters.of("SpatialBN")
def _batch_norm(c: OperatorNode, x: Value, scale: Value, bias: Value, mean: Value, variance: Value) -> Value:
    if not c.whole("is_test"):
        raise OpNotImplemented("it normalises by the data's own mean (is_test=0), which belongs to training")
    return c.calls(
        "nn.batch_norm", x, scale, bias, mean, variance, axis=c.channel_axis(x), epsilon=c.real("epsilon", 1e-5)
    )[0]


@converters.of("InstanceNorm")
def _instance_norm(c: OperatorNode, x: Value, scale: Value, bias: Value) -> Value:
    return c.call("nn.instance_norm", x, scale, bias, axis=c.channel_axis(x), epsilon=c.real("epsilon", 1e-5))


@converters.of("AffineChannel")
def _affine(c: OperatorNode, x: Value, scale: Value, bias: Value) -> Value:
    after = x.ndim - 1 - c.channel_axis(x)
    wide = [c.reshape(v, [*v.shape, *[1] * after]) for v in (scale, bias)]
    return c.call("add", c.call("multiply", x, wide[0]), wide[1])


@converters.of("LRN")
def _lrn(c: OperatorNode, x: Value) -> list[Value]:
    out = c.call(
        "nn.lrn", x, size=c.whole("size"), axis=c.channel_axis(x), bias=c.real("bias", 1.0), alpha=c.real("alpha"), beta=c.real("beta"),
    )  # fmt: skip
    return [out]


@converters.of("Normalize", "NormalizeL1")
def _normalise(c: OperatorNode, x: Value) -> Value:
    axis = [c.axis(c.whole("axis", -1), x.ndim)]
    if c.kind == "NormalizeL1":
        return c.call("divide", x, c.reduce("sum", c.call("abs", x), axis, keepdims=True))
    root = c.call("sqrt", c.reduce("sum", c.call("multiply", x, x), axis, keepdims=True))
    return c.call("divide", x, c.call("maximum", root, 1e-12))


@converters.of("Dropout")
def _dropout(c: OperatorNode, x: Value) -> Value:
    return x


@converters.of(
    "StopGradient", "Copy", "Alias", "EnsureCPUOutput", "CopyFromCPUInput", "CopyToCPU", "CopyGPUToCPU", "CopyCPUToGPU"
)
def _same(c: OperatorNode, x: Value) -> Value:
    return x


# ---- reductions


REDUCTIONS = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min", "ReduceFrontSum": "sum", "ReduceFrontMean": "mean",
    "ReduceBackSum": "sum", "ReduceBackMean": "mean", "ReduceFrontMax": "max", "ReduceBackMax": "max",
}  # fmt: skip


@converters.of(*REDUCTIONS)
def _reduce(c: OperatorNode, x: Value, lengths: Value | None = None) -> Value:
    if lengths is not None:
        raise OpNotImplemented("it takes lengths")
    count = c.whole("num_reduce_dim", 1)
    if c.kind.startswith("ReduceFront"):
        return c.reduce(REDUCTIONS[c.kind], x, list(range(count)))
    if c.kind.startswith("ReduceBack"):
        return c.reduce(REDUCTIONS[c.kind], x, list(range(x.ndim - count, x.ndim)))
    axes: Sequence[int] | None = c.ints("axes", []) or None
    return c.reduce(REDUCTIONS[c.kind], x, axes, keepdims=bool(c.whole("keepdims", 1)))


@converters.of("ReduceL2")
def _norm(c: OperatorNode, x: Value) -> Value:
    axes: Sequence[int] | None = c.ints("axes", []) or None
    return c.call("sqrt", c.reduce("sum", c.call("multiply", x, x), axes, keepdims=bool(c.whole("keepdims", 1))))


@converters.of("ArgMax", "ArgMin")
def _arg(c: OperatorNode, x: Value) -> Value:
    key = "argmax" if c.kind == "ArgMax" else "argmin"
    found = c.call(key, x, axis=(c.axis(c.whole("axis", -1), x.ndim),), keepdims=bool(c.whole("keepdims", 1)))
    return c.cast(found, "int64")
