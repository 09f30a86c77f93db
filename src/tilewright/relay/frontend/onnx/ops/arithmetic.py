"""Converters of arithmetic, comparison, reduction and activation operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common import activations
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.ops.casting import decoded
from tilewright.relay.frontend.onnx.value import OnnxNode, Result, Tensor, Value, onnx_op
from tilewright.support.errors import DiagnosticError

SAME = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil",
    "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor", "IsNaN": "isnan", "Log": "log", "Neg": "negative",
    "Not": "logical_not", "BitwiseNot": "bitwise_not", "Relu": "nn.relu", "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign",
    "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Less": "less", "Greater": "greater",
    "LessOrEqual": "less_equal", "GreaterOrEqual": "greater_equal", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
}  # fmt: skip
"""Operators that become one relay operator with the same arguments."""

BINARY = {"Add", "Sub", "Mul", "Div", "Pow", "Equal", "Less", "Greater", "And", "Or", "Xor"}
"""Operators that broadcast before opset 7 only if their attribute `broadcast` is 1, from the attribute `axis` on."""


def binary(node: OnnxNode, key: str, x: Value, y: Value) -> Expr:
    """An element-wise operator of two values."""
    return node.call(key, x, aligned(node, x, y))


def aligned(node: OnnxNode, x: Value, y: Value) -> Value:
    """The right operand, reshaped so that it broadcasts from `axis` on (opsets before 7)."""
    axis = node.get("axis")
    if node.opset >= 7 or not node.get("broadcast", 0) or axis is None:
        return y
    compatibility.OLD_BROADCAST.seen(node.name)
    after = x.ndim - (node.place(axis, x.ndim) if x.ndim else 0) - y.ndim
    return Value(node.call("expand_dims", y, axis=y.ndim, num_newaxis=after)) if after > 0 else y


@onnx_op("Equal", typed=True)
def _equal(node: OnnxNode, x: Value, y: Value) -> Tensor:
    if "string" in (x.kind, y.kind):
        return Value(node.call("equal", x.plain(), y.plain()))
    return binary(node, "equal", decoded(node, x), decoded(node, y))


def _same(onnx: str, key: str) -> Callable[..., Any]:
    def convert(node: OnnxNode, *args: Value) -> Expr:
        return binary(node, key, *args) if onnx in BINARY else node.call(key, *args)

    return convert


for _onnx, _relay in SAME.items():
    onnx_op(_onnx)(_same(_onnx, _relay))


@onnx_op("Reciprocal")
def _reciprocal(node: OnnxNode, x: Value) -> Expr:
    return node.call("divide", node.scalar(1, x), x)


@onnx_op("IsInf")
def _isinf(node: OnnxNode, x: Value) -> Expr:
    low, high = node.get("detect_negative", 1), node.get("detect_positive", 1)
    if low and high:
        return node.call("isinf", x)
    if not low and not high:
        return node.call("logical_and", node.call("isinf", x), node.scalar(False, "bool"))
    return node.call("equal", x, node.scalar(np.inf if high else -np.inf, x))


@onnx_op("Pow")
def _pow(node: OnnxNode, x: Value, y: Value) -> Tensor:
    y = aligned(node, x, y)
    if y.array is not None and y.array.size == 1 and y.array.ndim <= x.ndim:
        exponent = float(y.array.reshape(-1)[0])
        if exponent == 2.0:
            return node.call("multiply", x, x)
        if exponent == 3.0:
            return node.call("multiply", node.call("multiply", x, x), x)
        if exponent == 0.5 and "float" in x.dtype:
            return node.call("sqrt", x)
        if exponent == 1.0:
            return x
    if "int" in x.dtype:
        power = node.call("power", node.call("cast", x, dtype="float32"), _as(node, y, "float32"))
        return node.call("cast", node.call("round", power), dtype=x.dtype)
    return node.call("power", x, _as(node, y, x.dtype))


def _as(node: OnnxNode, x: Value, dtype: str) -> Tensor:
    if x.dtype == dtype:
        return x
    if x.array is not None:
        return Value(array=x.array.astype(dtype))
    return node.call("cast", x, dtype=dtype)


@onnx_op("Mod")
def _mod(node: OnnxNode, x: Value, y: Value) -> Expr:
    return node.call("mod" if node.get("fmod", 0) else "floor_mod", x, y)


@onnx_op("BitShift")
def _shift(node: OnnxNode, x: Value, y: Value) -> Expr:
    left = node.get("direction") == "LEFT"
    key, width = "left_shift" if left else "right_shift", np.iinfo(x.dtype).bits
    if y.array is not None and ((y.array >= 0) & (y.array < width)).all():
        return node.call(key, x, y)
    # A shift by the number of bits or more leaves only the sign. Negative shifts count as such.
    fits = node.call("less", y, node.scalar(width, y))
    if y.dtype.startswith("int"):
        fits = node.call("logical_and", fits, node.call("greater_equal", y, node.scalar(0, y)))
    if not left and x.dtype.startswith("int"):
        return node.call(key, x, node.call("where", fits, y, node.scalar(width - 1, y)))
    shifted = node.call(key, x, node.call("where", fits, y, node.scalar(0, y)))
    return node.call("where", fits, shifted, node.scalar(0, x))


def _chain(key: str) -> Callable[..., Value]:
    def convert(node: OnnxNode, first: Value, *rest: Value) -> Any:
        total: Any = first
        for x in rest:
            total = node.call(key, total, x)
        return total

    return convert


for _onnx, _relay in {"Sum": "add", "Max": "maximum", "Min": "minimum"}.items():
    onnx_op(_onnx)(_chain(_relay))


@onnx_op("Mean")
def _mean(node: OnnxNode, *args: Value) -> Expr:
    return node.call("divide", _chain("add")(node, *args), node.scalar(len(args), args[0]))


@onnx_op("Where")
def _where(node: OnnxNode, condition: Value, x: Value, y: Value) -> Expr:
    return node.call("where", condition, x, y)


@onnx_op("Clip")
def _clip_attributes(node: OnnxNode, x: Value) -> Expr:
    return node.call("clip", x, a_min=node.get("min", -np.inf), a_max=node.get("max", np.inf))


@onnx_op("Clip", since=11)
def _clip(node: OnnxNode, x: Value, low: Value | None = None, high: Value | None = None) -> Result:
    bounds = [None if b is None else b.array for b in (low, high)]
    if all(b is None or a is not None for b, a in zip((low, high), bounds, strict=True)):
        a_min = -np.inf if bounds[0] is None else float(bounds[0].reshape(-1)[0])
        a_max = np.inf if bounds[1] is None else float(bounds[1].reshape(-1)[0])
        if a_min == 0.0 and a_max == np.inf:
            return node.call("nn.relu", x)
        return node.call("clip", x, a_min=a_min, a_max=a_max)
    result: Any = x
    if low is not None:
        result = node.call("maximum", result, low)
    return node.call("minimum", result, high) if high is not None else result


@onnx_op("LeakyRelu")
def _leaky_relu(node: OnnxNode, x: Value) -> Expr:
    return node.call("nn.leaky_relu", x, alpha=node.get("alpha", 0.01))


@onnx_op("PRelu")
def _prelu(node: OnnxNode, x: Value, slope: Value) -> Expr:
    # The slope broadcasts from the right, so a slope per channel has the shape (C, 1, 1), except in old opsets.
    if node.opset < 7 and slope.ndim == 1 and x.ndim > 2 and slope.shape[0] != 1:
        compatibility.OLD_BROADCAST.seen(node.name)
        slope = node.value("expand_dims", slope, axis=1, num_newaxis=x.ndim - 2)
    zero = node.scalar(0, x)
    return node.call("where", node.call("greater", x, zero), x, node.call("multiply", x, slope))


@onnx_op("Elu")
def _elu(node: OnnxNode, x: Value) -> Expr:
    return activations.elu(node.builder, x, node.get("alpha", 1.0)).expr


@onnx_op("Selu")
def _selu(node: OnnxNode, x: Value) -> Expr:
    # Before opset 6 the defaults have five digits.
    old = node.opset < 6
    gamma = node.get("gamma", 1.0507 if old else 1.05070102214813232421875)
    alpha = node.get("alpha", 1.6732 if old else 1.67326319217681884765625)
    return activations.selu(node.builder, x, alpha, gamma).expr


@onnx_op("Celu")
def _celu(node: OnnxNode, x: Value) -> Expr:
    slope = node.get("alpha", 1.0)
    if not slope or not np.isfinite(slope):
        raise DiagnosticError(f"its alpha is {slope:g}, by which it divides and multiplies")
    return activations.elu(node.builder, x, slope, steepness=1 / slope).expr


@onnx_op("ThresholdedRelu")
def _thresholded_relu(node: OnnxNode, x: Value) -> Expr:
    above = node.call("greater", x, node.scalar(node.get("alpha", 1.0), x))
    return node.call("where", above, x, node.scalar(0, x))


@onnx_op("Softplus")
def _softplus(node: OnnxNode, x: Value) -> Expr:
    return activations.softplus(node.builder, x).expr


@onnx_op("Mish")
def _mish(node: OnnxNode, x: Value) -> Expr:
    return activations.mish(node.builder, x).expr


@onnx_op("Softsign")
def _softsign(node: OnnxNode, x: Value) -> Expr:
    return activations.softsign(node.builder, x).expr


@onnx_op("Shrink")
def _shrink(node: OnnxNode, x: Value) -> Expr:
    limit, bias, zero = node.get("lambd", 0.5), node.scalar(node.get("bias", 0.0), x), node.scalar(0, x)
    above = node.call("where", node.call("greater", x, node.scalar(limit, x)), node.call("subtract", x, bias), zero)
    return node.call("where", node.call("less", x, node.scalar(-limit, x)), node.call("add", x, bias), above)


def _hard_sigmoid_of(node: OnnxNode, x: Value, alpha: float, beta: float) -> Expr:
    line = node.call("add", node.call("multiply", x, node.scalar(alpha, x)), node.scalar(beta, x))
    return node.call("clip", line, a_min=0.0, a_max=1.0)


@onnx_op("HardSigmoid")
def _hard_sigmoid(node: OnnxNode, x: Value) -> Expr:
    return _hard_sigmoid_of(node, x, node.get("alpha", 0.2), node.get("beta", 0.5))


@onnx_op("HardSwish")
def _hard_swish(node: OnnxNode, x: Value) -> Expr:
    return node.call("multiply", x, _hard_sigmoid_of(node, x, 1 / 6, 0.5))


@onnx_op("Swish")
def _swish(node: OnnxNode, x: Value) -> Expr:
    return node.call(
        "multiply", x, node.call("sigmoid", node.call("multiply", x, node.scalar(node.get("alpha", 1.0), x)))
    )


@onnx_op("Gelu")
def _gelu(node: OnnxNode, x: Value) -> Expr:
    return activations.gelu(node.builder, x, node.get("approximate", "none") == "tanh").expr


def axes_of(node: OnnxNode, axes: Value | None) -> list[int] | None:
    """The axes from the input or the attribute; None without either."""
    if axes is not None:
        return node.ints(axes, "axes")
    given = node.get("axes")
    return None if given is None else list(given)


def _of_nothing(node: OnnxNode, x: Value, places: Sequence[int], keepdims: bool) -> np.ndarray | None:
    """The result of a reduction over axes without elements: the neutral element; None if they have elements."""
    shape = x.shape
    if not any([isinstance(shape[a], int) and shape[a] == 0 for a in places]):
        return None
    static = node.static(x)
    kept = [1 if k in places else d for k, d in enumerate(static) if keepdims or k not in places]
    dtype = np.dtype(x.dtype)
    low, high = (-np.inf, np.inf) if dtype.kind == "f" else (0, 1) if dtype.kind == "b" else _limits(dtype)
    neutral: dict[str, Any] = {
        "ReduceProd": 1, "ReduceMax": low, "ReduceMin": high, "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf,
        "ReduceMean": np.nan,
    }  # fmt: skip
    return np.full(kept, neutral.get(node.op_type, 0), dtype)


def _limits(dtype: Any) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _reduction(build: Callable[[OnnxNode, Any, dict[str, Any]], Any]) -> Callable[..., Value]:
    def convert(node: OnnxNode, x: Value, axes: Value | None = None) -> Any:
        given = axes_of(node, axes)
        if not given and node.get("noop_with_empty_axes", 0):
            given = []
        elif not given:
            given = None
        if given == []:
            return build(node, x, {"axis": (), "keepdims": True})
        how = {"axis": None if given is None else tuple(given), "keepdims": bool(node.get("keepdims", 1))}
        places = range(x.ndim) if given is None else node.places(given, x.ndim)
        nothing = _of_nothing(node, x, places, bool(how["keepdims"]))
        return build(node, x, how) if nothing is None else nothing

    return convert


def _log_sum_exp(node: OnnxNode, x: Value, how: dict[str, Any]) -> Expr:
    top = node.call("max", x, **{**how, "keepdims": True})
    total = node.call("sum", node.call("exp", node.call("subtract", x, top)), **how)
    return node.call("add", node.call("log", total), node.call("max", x, **how))


def _mean_of(node: OnnxNode, x: Tensor, how: dict[str, Any]) -> Expr:
    axes = how["axis"]
    if isinstance(x, Value) and x.ndim == 4 and axes is not None and sorted(a % 4 for a in axes) == [2, 3]:
        # A pooling operator keeps channel blocks.
        pooled = node.call("nn.global_avg_pool2d", x)
        return pooled if how["keepdims"] else node.call("squeeze", pooled, axis=(2, 3))
    return node.call("mean", x, **how)


for _onnx, _f in {
    "ReduceSum": lambda n, x, how: n.call("sum", x, **how),
    "ReduceMean": _mean_of,
    "ReduceMax": lambda n, x, how: n.call("max", x, **how),
    "ReduceMin": lambda n, x, how: n.call("min", x, **how),
    "ReduceProd": lambda n, x, how: n.call("prod", x, **how),
    "ReduceL1": lambda n, x, how: n.call("sum", n.call("abs", x), **how),
    "ReduceL2": lambda n, x, how: n.call("sqrt", n.call("sum", n.call("multiply", x, x), **how)),
    "ReduceSumSquare": lambda n, x, how: n.call("sum", n.call("multiply", x, x), **how),
    "ReduceLogSum": lambda n, x, how: n.call("log", n.call("sum", x, **how)),
    "ReduceLogSumExp": _log_sum_exp,
}.items():
    onnx_op(_onnx)(_reduction(_f))


def _arg(key: str) -> Callable[..., Any]:
    def convert(node: OnnxNode, x: Value) -> Expr:
        found = node.call(
            key,
            x,
            axis=node.get("axis", 0),
            keepdims=bool(node.get("keepdims", 1)),
            select_last_index=bool(node.get("select_last_index", 0)),
        )
        return node.call("cast", found, dtype="int64")

    return convert


onnx_op("ArgMax")(_arg("argmax"))
onnx_op("ArgMin")(_arg("argmin"))


@onnx_op("CumSum")
def _cumsum(node: OnnxNode, x: Value, axis: Value) -> Expr:
    at = int(node.known(axis, "axis").reshape(-1)[0])
    backwards = bool(node.get("reverse", 0))
    data = node.call("reverse", x, axis=at) if backwards else x
    total = node.call("cumsum", data, axis=at, exclusive=bool(node.get("exclusive", 0)))
    return node.call("reverse", total, axis=at) if backwards else total


@onnx_op("MatMul")
def matmul(node: OnnxNode, a: Value, b: Value) -> Expr:
    """A product of matrices, vectors or batches of either, by NumPy's rules."""
    left, right = a.ndim, b.ndim
    if left == 1 or right == 1:
        x = node.call("expand_dims", a, axis=0) if left == 1 else a
        y = node.call("expand_dims", b, axis=1) if right == 1 else b
        product = _product(node, x, y, max(left, 2), max(right, 2))
        gone = ([-2] if left == 1 else []) + ([-1] if right == 1 else [])
        return node.call("squeeze", product, axis=tuple(gone))
    return _product(node, a, b, left, right)


def _product(node: OnnxNode, a: Tensor, b: Tensor, left: int, right: int) -> Expr:
    # A matrix on the right is a layer's weight: all leading axes of the left factor become rows of one product.
    if right == 2:
        return node.call("nn.matmul", a, b)
    if node.importer.transposed_products:
        turned = node.call("transpose", b, axes=(*range(right - 2), right - 1, right - 2))
        return node.call("nn.batch_matmul", a, turned, transpose_b=True)
    return node.call("nn.batch_matmul", a, b, transpose_b=False)


@onnx_op("Gemm")
def _gemm(node: OnnxNode, a: Value, b: Value, c: Value | None = None) -> Expr:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    transpose_a, transpose_b = bool(node.get("transA", 0)), bool(node.get("transB", 0))
    for name, operand in (("A", a), ("B", b)):
        if operand.ndim > 2:
            raise DiagnosticError(f"its input {name} must be a matrix, but has {operand.ndim} axes")
    if transpose_b and not transpose_a:
        out = node.call("nn.dense", a, b)
    else:
        out = node.call("nn.matmul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    if alpha != 1.0:
        out = node.call("multiply", out, node.scalar(alpha, a))
    if c is None or beta == 0.0:
        return out
    bias = node.call("multiply", c, node.scalar(beta, c)) if beta != 1.0 else c
    return node.call("add", out, bias)


@onnx_op("Einsum", since=12)
def _einsum(node: OnnxNode, *args: Value) -> Expr:
    return node.call("einsum", list(args), equation=node.get("equation").replace(" ", ""))
