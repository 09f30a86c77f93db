"""Converters of element-wise operators, reductions and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common import activations, near_zero
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.assignments import assignment_before
from tilewright.relay.frontend.tensorflow.value import Handle, NodeCall, Result, tensor, tf_op
from tilewright.support.errors import OpNotImplemented

UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil",
    "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor", "IsFinite": "isfinite", "IsInf": "isinf", "IsNan": "isnan",
    "Log": "log", "LogicalNot": "logical_not", "Neg": "negative", "Rint": "round", "Round": "round", "Rsqrt": "rsqrt", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh", "Relu": "nn.relu",
    "Invert": "bitwise_not", "InvertPermutation": "invert_permutation",
}  # fmt: skip
BINARY = {
    "Add": "add", "AddV2": "add", "Sub": "subtract", "Mul": "multiply", "Maximum": "maximum", "Minimum": "minimum", "Pow": "power",
    "FloorDiv": "floor_divide", "FloorMod": "floor_mod", "Equal": "equal", "NotEqual": "not_equal", "Less": "less",
    "LessEqual": "less_equal", "Greater": "greater", "GreaterEqual": "greater_equal", "LogicalAnd": "logical_and",
    "LogicalOr": "logical_or", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
    "LeftShift": "left_shift", "RightShift": "right_shift", "TruncateDiv": "trunc_divide", "TruncateMod": "trunc_mod", "Mod": "trunc_mod",
}  # fmt: skip
REDUCTIONS = {"Sum": "sum", "Mean": "mean", "Max": "max", "Min": "min", "Prod": "prod", "All": "all", "Any": "any"}


def _one(key: str) -> Callable[..., Value]:
    return lambda c, x: c.call(key, tensor(x))


def _two(key: str) -> Callable[..., Value]:
    return lambda c, a, b: c.call(key, tensor(a), tensor(b))


for _name, _key in UNARY.items():
    tf_op(_name)(_one(_key))
for _name, _key in BINARY.items():
    tf_op(_name)(_two(_key))


@tf_op(
    "Identity", "StopGradient", "Snapshot", "PreventGradient", "CheckNumerics", "PlaceholderWithDefault", "EnsureShape", "Print", "PrintV2",
    "RefIdentity", "_Retval", "OptionalGetValue",
)  # fmt: skip
def _identity(c: NodeCall, x: Result, *rest: object) -> Result:
    return x


@tf_op("IdentityN", "TupleIdentity")
def _identity_n(c: NodeCall, *xs: Result) -> list[Result]:
    return list(xs)


@tf_op("NoOp", "Assert")
def _nothing(c: NodeCall, *xs: Result) -> list[Value]:
    return []


@tf_op("RealDiv", "Div")
def _divide(c: NodeCall, a: Value, b: Value) -> Value:
    whole = numpy_dtype(a.dtype).kind in "iu"
    return c.call("trunc_divide" if whole else "divide", a, b)


def chosen(c: NodeCall, off: Value, value: float, other: Value) -> Value:
    """`value` if `off`, else `other`."""
    return c.call("where", off, c.number(value, other.dtype), other)


@tf_op("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py")
def _no_nan(c: NodeCall, a: Value, b: Value) -> Value:
    zero = c.call("equal", b if c.op in ("DivNoNan", "MulNoNan") else a, 0)
    if c.op == "MulNoNan":
        return chosen(c, zero, 0, c.call("multiply", a, b))
    safe = chosen(c, zero, 1, b) if c.op == "DivNoNan" else b
    if c.op in ("DivNoNan", "Xdivy"):
        return chosen(c, zero, 0, c.call("divide", a, safe))
    log = near_zero.log1p(c, b) if c.op == "Xlog1py" else c.call("log", b)
    return chosen(c, zero, 0, c.call("multiply", a, log))


@tf_op("Square")
def _square(c: NodeCall, x: Value) -> Value:
    return c.call("multiply", x, x)


@tf_op("SquaredDifference")
def _squared_difference(c: NodeCall, a: Value, b: Value) -> Value:
    d = c.call("subtract", a, b)
    return c.call("multiply", d, d)


@tf_op("Reciprocal", "Inv")
def _reciprocal(c: NodeCall, x: Value) -> Value:
    return c.call("divide", c.number(1, x.dtype), x)


@tf_op("Expm1", "Log1p", "Erfc")
def _near(c: NodeCall, x: Value) -> Value:
    if c.op == "Expm1":
        return near_zero.expm1(c, x)
    return near_zero.log1p(c, x) if c.op == "Log1p" else c.call("subtract", c.number(1, x.dtype), c.call("erf", x))


@tf_op("Atan2")
def _atan2(c: NodeCall, y: Value, x: Value) -> Value:
    length = c.call("sqrt", c.call("add", c.call("multiply", y, y), c.call("multiply", x, x)))
    base = c.call("multiply", c.call("atan", c.call("divide", y, c.call("add", length, x))), 2)
    level = c.call("equal", y, 0)
    inner = chosen(c, c.call("logical_and", level, c.call("equal", x, 0)), 0, base)
    return chosen(c, c.call("logical_and", level, c.call("less", x, 0)), float(np.pi), inner)


@tf_op("AddN")
def _add_n(c: NodeCall, *xs: Value) -> Value:
    total = xs[0]
    for x in xs[1:]:
        total = c.call("add", total, x)
    return total


@tf_op("Cast")
def _cast(c: NodeCall, x: Value) -> Value:
    return c.cast(tensor(x), c.attr("DstT", "float32"))


@tf_op("Bitcast")
def _bitcast(c: NodeCall, x: Value) -> Value:
    return c.call("reinterpret", x, dtype=c.attr("type"))


@tf_op("ClipByValue")
def _clip(c: NodeCall, x: Value, low: Value, high: Value) -> Value:
    return c.call("minimum", c.call("maximum", x, low), high)


@tf_op("Relu6")
def _relu6(c: NodeCall, x: Value) -> Value:
    return c.call("clip", x, a_min=0.0, a_max=6.0)


@tf_op("LeakyRelu")
def _leaky(c: NodeCall, x: Value) -> Value:
    return c.call("nn.leaky_relu", x, alpha=float(c.attr("alpha", 0.2)))


@tf_op("Elu", "Selu")
def _elu(c: NodeCall, x: Value) -> Value:
    return activations.elu(c, x) if c.op == "Elu" else activations.selu(c, x)


@tf_op("Softplus")
def _softplus(c: NodeCall, x: Value) -> Value:
    return activations.softplus(c, x)


@tf_op("Softsign")
def _softsign(c: NodeCall, x: Value) -> Value:
    return activations.softsign(c, x)


@tf_op("Softmax", "LogSoftmax")
def _softmax(c: NodeCall, x: Value) -> Value:
    return c.call("nn.softmax" if c.op == "Softmax" else "nn.log_softmax", x, axis=x.ndim - 1)


@tf_op("ApproximateEqual")
def _approximate(c: NodeCall, a: Value, b: Value) -> Value:
    return c.call("less", c.call("abs", c.call("subtract", a, b)), float(c.attr("tolerance", 1e-5)))


@tf_op("Select", "SelectV2", "Where3")
def _select(c: NodeCall, condition: Value, a: Value, b: Value) -> Value:
    if c.op == "Select" and condition.ndim == 1 and a.ndim > 1:
        condition = c.reshape(condition, [condition.shape[0], *[1] * (a.ndim - 1)])
    return c.call("where", condition, a, b)


def _reduction(key: str) -> Callable[..., Value]:
    def convert(c: NodeCall, x: Value, axis: Value) -> Value:
        axes = sorted({c.axis(a, x.ndim) for a in c.ints(axis, "axis")}) if x.ndim else []
        return c.reduce(key, x, axes, bool(c.attr("keep_dims", False)))

    return convert


for _name, _key in REDUCTIONS.items():
    tf_op(_name)(_reduction(_key))


@tf_op("EuclideanNorm")
def _norm(c: NodeCall, x: Value, axis: Value) -> Value:
    return c.call(
        "sqrt", c.reduce("sum", c.call("multiply", x, x), c.ints(axis, "axis"), bool(c.attr("keep_dims", False)))
    )


@tf_op("L2Loss")
def _l2(c: NodeCall, x: Value) -> Value:
    return c.call("multiply", c.reduce("sum", c.call("multiply", x, x), None), 0.5)


@tf_op("ArgMax", "ArgMin")
def _argmax(c: NodeCall, x: Value, axis: Value) -> Value:
    at = c.axis(int(c.number_of(axis, "axis")), x.ndim)
    return c.cast(c.call("argmax" if c.op == "ArgMax" else "argmin", x, axis=(at,)), c.attr("output_type", "int64"))


@tf_op("Cumsum", "Cumprod")
def _cumsum(c: NodeCall, x: Value, axis: Value) -> Value:
    at = c.axis(int(c.number_of(axis, "axis")), x.ndim)
    back = bool(c.attr("reverse", False))
    data = c.call("reverse", x, axis=at) if back else x
    total = c.call(
        "cumsum" if c.op == "Cumsum" else "cumprod", data, axis=at, exclusive=bool(c.attr("exclusive", False))
    )
    return c.call("reverse", total, axis=at) if back else total


# ---- products


@tf_op("MatMul")
def _matmul(c: NodeCall, a: Value, b: Value) -> Value:
    a = c.transpose(a, [1, 0]) if c.attr("transpose_a", False) else a
    if not c.home.use_dense:
        return c.call("nn.matmul", a, b, transpose_b=bool(c.attr("transpose_b", False)))
    return c.call("nn.dense", a, b if c.attr("transpose_b", False) else c.call("transpose", b, axes=(1, 0)))


@tf_op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(c: NodeCall, a: Value, b: Value) -> Value:
    def turned(x: Value) -> Value:
        return c.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])

    a = turned(a) if c.attr("adj_x", False) else a
    flip = bool(c.attr("adj_y", False))
    if b.ndim == 2:
        return c.call("nn.dense", a, b) if flip else c.call("nn.matmul", a, b)
    rank = max(a.ndim, b.ndim)
    sides = [c.reshape(v, [*[1] * (rank - v.ndim), *v.shape]) for v in (a, b)]
    return c.call("nn.batch_matmul", *sides, transpose_b=flip)


@tf_op("Einsum", "XlaEinsum")
def _einsum(c: NodeCall, *xs: Value) -> Value:
    equation = str(c.attr("equation")).replace(" ", "")
    if "..." in equation:
        inputs, _, result = equation.partition("->")
        free = [ch for ch in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if ch not in equation]
        terms = inputs.split(",")
        ranks = [x.ndim - len(t.replace("...", "")) if "..." in t else 0 for t, x in zip(terms, xs, strict=True)]
        most = max(ranks)
        terms = [t.replace("...", "".join(free[most - r : most])) for t, r in zip(terms, ranks, strict=True)]
        equation = ",".join(terms) + "->" + result.replace("...", "".join(free[:most]))
    return c.call("einsum", list(xs), equation=equation)


@tf_op("Cross")
def _cross(c: NodeCall, a: Value, b: Value) -> Value:
    def turned(x: Value, by: int) -> Value:
        return c.call("take", x, Value(array=np.array([(k + by) % 3 for k in range(3)])), axis=x.ndim - 1)

    return c.call(
        "subtract", c.call("multiply", turned(a, 1), turned(b, 2)), c.call("multiply", turned(a, 2), turned(b, 1))
    )


@tf_op("BiasAdd", "BiasAddV1")
def _bias_add(c: NodeCall, x: Value, bias: Value) -> Value:
    axis = 1 if c.channels_first() else x.ndim - 1
    return c.call("nn.bias_add", x, bias, axis=axis)


@tf_op("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(c: NodeCall, x: Value, labels: Value) -> list[Value]:
    logs = c.call("nn.log_softmax", x, axis=x.ndim - 1)
    loss = c.call("negative", c.reduce("sum", c.call("multiply", logs, labels), [x.ndim - 1]))
    return [loss, c.call("subtract", c.call("exp", logs), labels)]


@tf_op("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(c: NodeCall, x: Value, labels: Value) -> list[Value]:
    (classes,) = c.static([x.shape[-1]], "the number of classes")
    hot = c.call("one_hot", labels, c.number(1, x.dtype), c.number(0, x.dtype), depth=classes, axis=-1, dtype=x.dtype)
    return _cross_entropy(c, x, hot)


@tf_op("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _fake_quantised(c: NodeCall, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    """Numbers rounded to the grid between low and high, which is shifted to contain 0."""
    a, b = (
        (float(c.attr("min", -6)), float(c.attr("max", 6)))
        if low is None or high is None
        else (c.known(low, "min").astype(np.float32), c.known(high, "max").astype(np.float32))
    )
    first, last = float(bool(c.attr("narrow_range", False))), float(2 ** int(c.attr("num_bits", 8)) - 1)
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    scale = (b - a) / np.float32(last - first)
    zero = np.clip(np.floor(first - a / scale + np.float32(0.5)), first, last)
    bottom, top = ((first - zero) * scale).astype(np.float32), ((last - zero) * scale).astype(np.float32)
    inside = c.call("minimum", c.call("maximum", x, Value(array=bottom)), Value(array=top))
    steps = c.call(
        "multiply", c.call("subtract", inside, Value(array=bottom)), Value(array=(1 / scale).astype(np.float32))
    )
    whole = c.call("floor", c.call("add", steps, 0.5))
    return c.call("add", c.call("multiply", whole, Value(array=scale.astype(np.float32))), Value(array=bottom))


@tf_op("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3")
def _quantise_dequantise(c: NodeCall, x: Value, low: Value, high: Value, *rest: object) -> Result:
    raise OpNotImplemented("use fake_quant operators, whose grid is the one that integer kernels have")


# ---- variables


@tf_op("ReadVariableOp")
def _read_variable(c: NodeCall, handle: Result) -> Value:
    if not isinstance(handle, Handle) or handle.what != "variable":
        raise OpNotImplemented("it reads a resource that is not a variable of the model")
    return _saved(c, handle)


def _saved(c: NodeCall, handle: Any) -> Value:
    """The saved value of a variable. Raises an error if the program assigns to it before."""
    assigned = assignment_before(c.home, c.scope, c.node, handle)
    if assigned:
        raise OpNotImplemented(
            f"it reads variable {handle.name!r} after {assigned!r} assigned to it, but variables stay as they were saved;"
            " export the model with its state as inputs and outputs"
        )
    return c.home.variable(handle)


@tf_op("ResourceGather")
def _resource_gather(c: NodeCall, handle: Result, places: Value) -> Value:
    return c.call("take", _saved(c, handle), places, axis=0, mode="bounded")


@tf_op("VariableShape")
def _variable_shape(c: NodeCall, handle: Any) -> Value:
    return Value(array=np.array(c.home.variable(handle).shape, c.attr("out_type", "int32")))


@tf_op("VarIsInitializedOp")
def _is_initialized(c: NodeCall, handle: Result) -> Value:
    return Value(array=np.array(True))
