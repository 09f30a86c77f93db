"""Converters of activations, element-wise layers and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.formats.coreml_messages import weights_of
from tilewright.relay.frontend.common import activations
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.coreml.node import CoreMLLayer, converters
from tilewright.support.errors import OpNotImplemented

UNARY = {
    "ceil": "ceil", "floor": "floor", "sign": "sign", "round": "round", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin",
    "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf",
}  # fmt: skip
BINARY = {
    "equal": "equal", "notEqual": "not_equal", "lessThan": "less", "lessEqual": "less_equal", "greaterThan": "greater",
    "greaterEqual": "greater_equal", "modBroadcastable": "floor_mod", "minBroadcastable": "minimum", "maxBroadcastable": "maximum",
    "addBroadcastable": "add", "powBroadcastable": "power", "divideBroadcastable": "divide", "multiplyBroadcastable": "multiply",
    "subtractBroadcastable": "subtract",
}  # fmt: skip
LOGICAL = {"logicalOr": "logical_or", "logicalXor": "logical_xor", "logicalAnd": "logical_and"}


@converters.of(*UNARY)
def _unary(c: CoreMLLayer, x: Value) -> Value:
    return c.call(UNARY[c.kind], x)


@converters.of("exp2")
def _exp2(c: CoreMLLayer, x: Value) -> Value:
    return c.call("power", c.number(2, x.dtype), x)


@converters.of("copy")
def _copy(c: CoreMLLayer, x: Value) -> Value:
    return x


@converters.of(*BINARY)
def _binary(c: CoreMLLayer, a: Value, b: Value | None = None) -> Value:
    return c.cast(c.call(BINARY[c.kind], a, float(c.options.alpha) if b is None else b), a.dtype)


@converters.of("floorDivBroadcastable")
def _floor_divide(c: CoreMLLayer, a: Value, b: Value) -> Value:
    return c.call("floor", c.call("divide", a, b))


@converters.of(*LOGICAL)
def _logical(c: CoreMLLayer, a: Value, b: Value) -> Value:
    return c.cast(c.call(LOGICAL[c.kind], c.cast(a, "bool"), c.cast(b, "bool")), a.dtype)


@converters.of("logicalNot")
def _not(c: CoreMLLayer, x: Value) -> Value:
    return c.cast(c.call("equal", x, 0.0), x.dtype)


FOLDS = {"add": "add", "multiply": "multiply", "average": "add", "max": "maximum", "min": "minimum"}


@converters.of(*FOLDS)
def _fold(c: CoreMLLayer, *xs: Value) -> Value:
    if len(xs) == 1 and c.kind in ("add", "multiply"):
        return c.call(FOLDS[c.kind], xs[0], float(c.options.alpha))
    total = xs[0]
    for x in xs[1:]:
        total = c.call(FOLDS[c.kind], total, x)
    return c.call("divide", total, float(len(xs))) if c.kind == "average" else total


@converters.of("unary")
def _function(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    scale, epsilon = float(p.scale) or 1.0, float(p.epsilon) or 1e-6
    x = x if scale == 1 else c.call("multiply", x, scale)
    x = c.call("add", x, float(p.shift)) if p.shift else x
    kind = int(p.type)
    if kind == 1:
        return c.call("rsqrt", c.call("add", x, epsilon))
    if kind == 2:
        return c.call("divide", c.number(1, x.dtype), c.call("add", x, epsilon))
    if kind == 3:
        return c.call("power", x, float(p.alpha))
    if kind == 7:
        return c.call("maximum", x, float(p.alpha))
    return c.call({0: "sqrt", 4: "exp", 5: "log", 6: "abs"}[kind], x)


@converters.of("clip")
def _clip(c: CoreMLLayer, x: Value) -> Value:
    return c.call("clip", x, a_min=float(c.options.minVal), a_max=float(c.options.maxVal))


@converters.of("gelu")
def _gelu(c: CoreMLLayer, x: Value) -> Value:
    mode = int(c.options.mode)
    if mode in (0, 1):
        return activations.gelu(c, x, mode == 1)
    return c.call("multiply", x, c.call("sigmoid", c.call("multiply", x, 1.702)))


def _by_channel(c: CoreMLLayer, x: Value, field: str, weights: Any) -> Value:
    count = len(weights.floatValue) or len(weights.float16Value) // 2
    array = weights_of(weights, [count])
    return c.number(array[0], x.dtype) if count == 1 else c.per_channel(x, c.weight(field, array))


@converters.of("activation")
def _activation(c: CoreMLLayer, x: Value) -> Value:
    ((field, p),) = c.options.ListFields()
    kind = field.name
    if kind in ("ReLU", "tanh", "sigmoid"):
        return c.call({"ReLU": "nn.relu", "tanh": "tanh", "sigmoid": "sigmoid"}[kind], x)
    if kind == "linear":
        return c.call("add", c.call("multiply", x, float(p.alpha)), float(p.beta))
    if kind == "leakyReLU":
        return c.call("nn.leaky_relu", x, alpha=float(p.alpha))
    if kind == "thresholdedReLU":
        return c.call("where", c.call("greater_equal", x, float(p.alpha)), x, 0.0)
    if kind == "PReLU":
        below = c.call("multiply", x, _by_channel(c, x, "alpha", p.alpha))
        return c.call("where", c.call("greater_equal", x, 0.0), x, below)
    if kind == "scaledTanh":
        return c.call("multiply", c.call("tanh", c.call("multiply", x, float(p.beta))), float(p.alpha))
    if kind == "sigmoidHard":
        return c.call("clip", c.call("add", c.call("multiply", x, float(p.alpha)), float(p.beta)), a_min=0.0, a_max=1.0)
    if kind == "ELU":
        return activations.elu(c, x, float(p.alpha))
    if kind == "softsign":
        return activations.softsign(c, x)
    if kind == "softplus":
        return activations.softplus(c, x)
    if kind == "parametricSoftplus":
        alpha, beta = (_by_channel(c, x, name, getattr(p, name)) for name in ("alpha", "beta"))
        return c.call("multiply", activations.softplus(c, c.call("multiply", x, beta)), alpha)
    raise OpNotImplemented(f"its function is {kind}")


# ---- reductions


def _reduced(c: CoreMLLayer, kind: str, x: Value, axes: Sequence[int], keep: bool, epsilon: float = 0.0) -> Value:
    if kind in ("sum", "avg", "prod", "max", "min"):
        return c.reduce({"avg": "mean"}.get(kind, kind), x, axes, keep)
    if kind == "logsum":
        return c.reduce("sum", c.call("log", c.call("add", x, epsilon) if epsilon else x), axes, keep)
    if kind == "l1":
        return c.reduce("sum", c.call("abs", x), axes, keep)
    if kind in ("sumsquare", "l2"):
        total = c.reduce("sum", c.call("multiply", x, x), axes, keep)
        return c.call("sqrt", total) if kind == "l2" else total
    largest = c.reduce("max", x, axes, True)
    # Infinities stay: their difference would be no number.
    shift = c.call("where", c.call("isfinite", largest), largest, 0.0)
    total = c.call("log", c.reduce("sum", c.call("exp", c.call("subtract", x, shift)), axes, True))
    whole = c.call("add", total, shift)
    return whole if keep else c.call("squeeze", whole, axis=tuple(axes))


@converters.of("reduce")
def _reduce(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    axes = [x.ndim + k for k in ((-3, -2, -1), (-2, -1), (-3,), (-2,), (-1,))[int(p.axis)]]
    if p.mode == 9:
        return c.cast(c.call("argmax", x, axis=(axes[0],), keepdims=True), x.dtype)
    kind = ("sum", "avg", "prod", "logsum", "sumsquare", "l1", "l2", "max", "min")[int(p.mode)]
    return _reduced(c, kind, x, axes, True, float(p.epsilon) or 1e-6)


REDUCTIONS = {
    "reduceL1": "l1", "reduceL2": "l2", "reduceMax": "max", "reduceMin": "min", "reduceSum": "sum", "reduceProd": "prod",
    "reduceMean": "avg", "reduceLogSum": "sumlog", "reduceSumSquare": "sumsquare", "reduceLogSumExp": "logsumexp",
}  # fmt: skip


@converters.of(*REDUCTIONS)
def _reduce_axes(c: CoreMLLayer, x: Value) -> Value:
    p = c.options
    axes = [c.axis(int(a), x.ndim) for a in p.axes]
    axes = list(range(x.ndim)) if p.reduceAll or not axes else axes
    if c.kind == "reduceLogSum":
        return c.call("log", c.reduce("sum", x, axes, bool(p.keepDims)))
    return _reduced(c, REDUCTIONS[c.kind], x, axes, bool(p.keepDims))


@converters.of("argMax", "argMin")
def _arg(c: CoreMLLayer, x: Value) -> Value:
    axis = c.axis(int(c.options.axis), x.ndim)
    keep = not c.options.removeDim or x.ndim == 1
    return c.cast(c.call(c.kind.lower(), x, axis=(axis,), keepdims=keep), "float32")


@converters.of("topK")
def _topk(c: CoreMLLayer, x: Value, k: Value | None = None) -> list[Value]:
    p = c.options
    count = int(p.K) if k is None else int(c.known(k, "K").reshape(-1)[0])
    values, places = c.calls(
        "topk",
        x,
        k=count,
        axis=c.axis(int(p.axis), x.ndim),
        ret_type="both",
        is_ascend=bool(p.useBottomK),
        dtype="int32",
    )
    return [values, c.cast(places, "float32")]


@converters.of("dot")
def _dot(c: CoreMLLayer, a: Value, b: Value) -> Value:
    axis = [c.channel(a)]
    total = c.reduce("sum", c.call("multiply", a, b), axis, True)
    if not c.options.cosineSimilarity:
        return total
    sizes = [c.call("sqrt", c.reduce("sum", c.call("multiply", v, v), axis, True)) for v in (a, b)]
    return c.call("divide", total, c.call("multiply", *sizes))


@converters.of("whereBroadcastable")
def _where(c: CoreMLLayer, condition: Value, a: Value, b: Value) -> Value:
    return c.call("where", c.cast(condition, "bool"), a, b)
