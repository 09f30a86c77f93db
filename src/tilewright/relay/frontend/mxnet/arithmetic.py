"""Converters of element-wise operators, reductions and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common import near_zero
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.mxnet.node import SymbolNode, converters
from tilewright.support.errors import OpNotImplemented

UNARY = {
    "relu": "nn.relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log", "log2": "log2", "log10": "log10",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "abs": "abs", "negative": "negative", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "sign": "sign", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "erf": "erf",
    "_copy": "copy", "zeros_like": "zeros_like", "ones_like": "ones_like", "fix": "trunc",
}  # fmt: skip
BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "mod": "mod", "power": "power", "maximum": "maximum",
    "minimum": "minimum", "equal": "equal", "not_equal": "not_equal", "greater": "greater", "greater_equal": "greater_equal",
    "lesser": "less", "lesser_equal": "less_equal", "logical_and": "logical_and", "logical_or": "logical_or",
    "logical_xor": "logical_xor",
}  # fmt: skip
FORMS = {
    **{f"broadcast_{k}": k for k in BINARY}, **{f"elemwise_{k}": k for k in ("add", "sub", "mul", "div")},
    **{f"_{k}": k for k in BINARY}, "_plus": "add", "_minus": "sub", "_Plus": "add", "_Minus": "sub", "_Mul": "mul", "_Div": "div",
    "_Maximum": "maximum", "_Minimum": "minimum", "_Power": "power", "_grad_add": "add", "broadcast_plus": "add", "broadcast_minus": "sub",
}  # fmt: skip
SCALARS = {
    "_plus_scalar": ("add", False), "_minus_scalar": ("sub", False), "_rminus_scalar": ("sub", True), "_mul_scalar": ("mul", False),
    "_div_scalar": ("div", False), "_rdiv_scalar": ("div", True), "_mod_scalar": ("mod", False), "_rmod_scalar": ("mod", True),
    "_power_scalar": ("power", False), "_rpower_scalar": ("power", True), "_PlusScalar": ("add", False), "_MinusScalar": ("sub", False),
    "_RMinusScalar": ("sub", True), "_MulScalar": ("mul", False), "_DivScalar": ("div", False), "_RDivScalar": ("div", True),
    "_PowerScalar": ("power", False), "_RPowerScalar": ("power", True),
    **{f"_{k}_scalar": (k, False) for k in list(BINARY)[6:]},
}  # fmt: skip


@converters.of(*UNARY)
def _unary(c: SymbolNode, x: Value) -> Value:
    return c.call(UNARY[c.kind], x)


def _computed(c: SymbolNode, name: str, a: Value, b: Value) -> Value:
    kind = a.dtype
    if name.startswith("logical"):
        a, b = c.cast(a, "bool"), c.cast(b, "bool")
    if name == "mod":
        # The remainder has the sign of the divisor.
        return c.call("floor_mod", a, b)
    out = c.call(BINARY[name], a, b)
    return c.cast(out, kind)  # comparisons give numbers of the operands' type


@converters.of(*FORMS)
def _binary(c: SymbolNode, a: Value, b: Value) -> Value:
    return _computed(c, FORMS[c.kind], a, b)


@converters.of(*SCALARS)
def _scalar(c: SymbolNode, x: Value) -> Value:
    name, swapped = SCALARS[c.kind]
    value = c.real("scalar", 1.0)
    number = c.number(value if numpy_dtype(x.dtype).kind == "f" else int(value), x.dtype)
    return _computed(c, name, number, x) if swapped else _computed(c, name, x, number)


@converters.of("logical_not")
def _not(c: SymbolNode, x: Value) -> Value:
    return c.cast(c.call("equal", x, 0.0), x.dtype)


@converters.of("square")
def _square(c: SymbolNode, x: Value) -> Value:
    return c.call("multiply", x, x)


@converters.of("reciprocal")
def _reciprocal(c: SymbolNode, x: Value) -> Value:
    return c.call("divide", c.number(1, x.dtype), x)


@converters.of("cbrt")
def _cbrt(c: SymbolNode, x: Value) -> Value:
    return c.call("multiply", c.call("sign", x), c.call("power", c.call("abs", x), 1 / 3))


@converters.of("expm1")
def _expm1(c: SymbolNode, x: Value) -> Value:
    return near_zero.expm1(c, x)


@converters.of("log1p")
def _log1p(c: SymbolNode, x: Value) -> Value:
    return near_zero.log1p(c, x)


@converters.of("round")
def _round(c: SymbolNode, x: Value) -> Value:
    """Halves go away from zero. x - trunc(x) is exact; x + 0.5 is not."""
    if numpy_dtype(x.dtype).kind in "iub":
        return x
    whole = c.call("trunc", x)
    rest = c.call("abs", c.call("subtract", x, whole))
    return c.call("where", c.call("less", rest, 0.5), whole, c.call("add", whole, c.call("sign", x)))


@converters.of("degrees", "radians")
def _angles(c: SymbolNode, x: Value) -> Value:
    return c.call("multiply", x, 180 / np.pi if c.kind == "degrees" else np.pi / 180)


@converters.of("softsign")
def _softsign(c: SymbolNode, x: Value) -> Value:
    return c.call("divide", x, c.call("add", c.call("abs", x), 1.0))


@converters.of("hard_sigmoid")
def _hard_sigmoid(c: SymbolNode, x: Value) -> Value:
    line = c.call("add", c.call("multiply", x, c.real("alpha", 0.2)), c.real("beta", 0.5))
    return c.call("clip", line, a_min=0.0, a_max=1.0)


@converters.of("smooth_l1")
def _smooth(c: SymbolNode, x: Value) -> Value:
    power = c.real("scalar", 1.0) ** 2
    size = c.call("abs", x)
    inner = c.call("multiply", c.call("multiply", x, x), 0.5 * power)
    return c.call("where", c.call("less", size, 1 / power), inner, c.call("subtract", size, 0.5 / power))


@converters.of("clip")
def _clip(c: SymbolNode, x: Value) -> Value:
    c.need("a_min", "a_max")
    return c.call("clip", x, a_min=c.real("a_min"), a_max=c.real("a_max"))


@converters.of("Cast", "cast", "amp_cast")
def _cast(c: SymbolNode, x: Value) -> Value:
    return c.cast(x, c.text("dtype"))


@converters.of("add_n", "ElementWiseSum")
def _sum(c: SymbolNode, *xs: Value) -> Value:
    total = xs[0]
    for x in xs[1:]:
        total = c.call("add", total, x)
    return total


@converters.of("where")
def _where(c: SymbolNode, condition: Value, a: Value, b: Value) -> Value:
    if condition.ndim == 1 and a.ndim > 1:
        condition = c.reshape(condition, [*condition.shape, *[1] * (a.ndim - 1)])
    return c.call("where", c.cast(condition, "bool"), a, b)


@converters.of(
    "BlockGrad", "stop_gradient", "MakeLoss", "make_loss", "identity", "_identity_with_attr_like_rhs", "amp_multicast"
)
def _same(c: SymbolNode, *xs: Value) -> Value | Sequence[Value]:
    return list(xs) if c.kind == "amp_multicast" else xs[0]


# ---- reductions


REDUCTIONS = {
    "sum": "sum",
    "mean": "mean",
    "max": "max",
    "min": "min",
    "prod": "prod",
    "sum_axis": "sum",
    "max_axis": "max",
    "min_axis": "min",
}


def _axes(c: SymbolNode, x: Value) -> list[int]:
    axes = [c.axis(a, x.ndim) for a in c.ints("axis", list(range(x.ndim)))] or list(range(x.ndim))
    return [k for k in range(x.ndim) if k not in axes] if c.flag("exclude") else axes


@converters.of(*REDUCTIONS)
def _reduce(c: SymbolNode, x: Value) -> Value:
    out = c.reduce(REDUCTIONS[c.kind], c.converted(x), _axes(c, x), keepdims=c.flag("keepdims"))
    return c.reshape(out, [1]) if not out.ndim else out


@converters.of("norm")
def _norm(c: SymbolNode, x: Value) -> Value:
    order, axes, keep = c.whole("ord", 2), _axes(c, x), c.flag("keepdims")
    kind = c.text("out_dtype", x.dtype)
    x = c.wider(x, kind)
    if order == 1:
        out = c.reduce("sum", c.call("abs", x), axes, keepdims=keep)
    elif order == 2:
        out = c.call("sqrt", c.reduce("sum", c.call("multiply", x, x), axes, keepdims=keep))
    else:
        raise c.refuse("ord", order, "1 and 2")
    out = c.cast(out, kind)
    return c.reshape(out, [1]) if not out.ndim else out


@converters.of("argmax", "argmin", "argmax_channel")
def _arg(c: SymbolNode, x: Value) -> Value:
    if c.kind == "argmax_channel":
        return c.cast(c.call("argmax", x, axis=(x.ndim - 1,)), x.dtype)
    if not c.has("axis"):
        return c.cast(c.call(c.kind, c.reshape(x, [-1]), axis=(0,), keepdims=True), x.dtype)
    return c.cast(c.call(c.kind, x, axis=(c.axis(c.whole("axis"), x.ndim),), keepdims=c.flag("keepdims")), x.dtype)


def _sorted_axis(c: SymbolNode, x: Value) -> tuple[Value, int]:
    """The tensor and the axis to sort along: without one all elements."""
    if c.text("axis", "-1") == "None" or "axis" in c.attrs and not c.has("axis"):
        return c.reshape(x, [-1]), 0
    return x, c.axis(c.whole("axis", -1), x.ndim)


@converters.of("sort")
def _sort(c: SymbolNode, x: Value) -> Value:
    x, axis = _sorted_axis(c, x)
    return c.call("sort", x, axis=axis, is_ascend=c.flag("is_ascend", True))


@converters.of("argsort")
def _argsort(c: SymbolNode, x: Value) -> Value:
    x, axis = _sorted_axis(c, x)
    return c.call("argsort", x, axis=axis, is_ascend=c.flag("is_ascend", True), dtype=c.text("dtype", "float32"))


@converters.of("topk")
def _topk(c: SymbolNode, x: Value) -> Any:
    x, axis = _sorted_axis(c, x)
    kind, dtype = c.text("ret_typ", "indices"), c.text("dtype", "float32")
    attrs = {"k": c.whole("k", 1), "axis": axis, "is_ascend": c.flag("is_ascend"), "dtype": dtype}
    if kind == "both":
        return c.calls("topk", x, ret_type="both", **attrs)
    if kind not in ("indices", "value"):
        raise c.refuse("ret_typ", kind, "indices, value, both")
    return c.call("topk", x, ret_type="values" if kind == "value" else "indices", **attrs)


@converters.of("cumsum", "_np_cumsum")
def _cumsum(c: SymbolNode, x: Value) -> Value:
    x = c.converted(x)
    if not c.has("axis"):
        return c.call("cumsum", c.reshape(x, [-1]), axis=0)
    return c.call("cumsum", x, axis=c.axis(c.whole("axis"), x.ndim))


# ---- products


@converters.of("dot")
def _dot(c: SymbolNode, a: Value, b: Value) -> Value:
    if c.flag("transpose_a"):
        a = c.transpose(a, [*range(1, a.ndim), 0])
    if c.flag("transpose_b"):
        b = c.transpose(b, [b.ndim - 1, *range(b.ndim - 1)])
    # The last axis of the first by the first axis of the second.
    (inner,) = c.static([b.shape[0]], "the extent that it sums over")
    left, right = c.reshape(a, [-1, inner]), c.reshape(b, [inner, -1])
    out = c.call("nn.matmul", left, right)
    shape = [*a.shape[:-1], *b.shape[1:]]
    return c.reshape(out, shape or [1])


@converters.of("batch_dot", "linalg_gemm2", "_linalg_gemm2")
def _batch_dot(c: SymbolNode, a: Value, b: Value) -> Value:
    if c.whole("axis", -2) != -2:
        raise c.refuse("axis", c.whole("axis"), "-2")
    front = a.shape[:-2]
    left, right = (c.reshape(x, [-1, *x.shape[-2:]]) for x in (a, b))
    out = c.call("nn.batch_matmul", left, right, transpose_a=c.flag("transpose_a"), transpose_b=c.flag("transpose_b"))
    out = c.reshape(out, [*front, *out.shape[-2:]])
    scale = c.real("alpha", 1.0)
    return out if scale == 1 else c.call("multiply", out, scale)


def attention_parts(c: SymbolNode, x: Value, parts: int) -> list[Value]:
    """(steps, batch, heads x parts x depth) as `parts` tensors (batch x heads, steps, depth)."""
    heads = c.whole("heads")
    steps, batch, width = c.static(x.shape, "the extents of its input")
    if width % (heads * parts):
        raise OpNotImplemented(f"its {width} columns are not {heads} heads of {parts} parts")
    apart = c.reshape(x, [steps, batch * heads, parts, width // heads // parts])
    turned = c.transpose(apart, [2, 1, 0, 3])
    return [c.at(turned, 0, k) for k in range(parts)]


@converters.of("_contrib_interleaved_matmul_selfatt_qk")
def _scores(c: SymbolNode, x: Value) -> Value:
    q, k, _ = attention_parts(c, x, 3)
    depth = float(q.known_extent(2))
    return c.call("nn.batch_matmul", c.call("divide", q, float(np.sqrt(depth))), k)


@converters.of("_contrib_interleaved_matmul_selfatt_valatt")
def _weighted(c: SymbolNode, x: Value, scores: Value) -> Value:
    v = attention_parts(c, x, 3)[2]
    out = c.call("nn.batch_matmul", scores, v, transpose_b=False)
    heads = c.whole("heads")
    rows, steps, depth = c.static(out.shape, "the extents of its result")
    return c.reshape(c.transpose(out, [1, 0, 2]), [steps, rows // heads, heads * depth])


@converters.of("_contrib_div_sqrt_dim")
def _div_sqrt(c: SymbolNode, x: Value) -> Value:
    return c.call("divide", x, float(np.sqrt(c.static([x.shape[-1]], "the extent of its last axis")[0])))
