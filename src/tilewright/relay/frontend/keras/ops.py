"""Converters of keras.ops in functional models. The configuration has the constructor's arguments; the converter gets the call's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common import near_zero
from tilewright.relay.frontend.common.builder import FAR
from tilewright.relay.frontend.common.ordering import best
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.keras.activations import ACTIVATIONS, sparsemax
from tilewright.relay.frontend.keras.layers_conv import convolve, moments, pool
from tilewright.relay.frontend.keras.layers_core import einsum, l2_normalized, one_hot
from tilewright.relay.frontend.keras.layers_image import resized
from tilewright.relay.frontend.keras.value import ArrayLike, LayerCall, extents, keras_op

UNARY = {
    "Absolute": "abs", "Abs": "abs", "Exp": "exp", "Log": "log", "Log2": "log2", "Log10": "log10", "Sqrt": "sqrt", "Sin": "sin",
    "Cos": "cos", "Tan": "tan", "Tanh": "tanh", "Sinh": "sinh", "Cosh": "cosh", "Arcsin": "asin", "Arccos": "acos",
    "Arctan": "atan", "Arcsinh": "asinh", "Arccosh": "acosh", "Arctanh": "atanh", "Sigmoid": "sigmoid", "Erf": "erf", "Rsqrt": "rsqrt",
}  # fmt: skip
"""Operators of floats; integers are converted to float32."""
WHOLE = {"Negative": "negative", "Sign": "sign", "Floor": "floor", "Ceil": "ceil", "Trunc": "trunc", "Round": "round"}
TESTS = {"Isnan": "isnan", "Isinf": "isinf", "Isfinite": "isfinite"}
BINARY = {
    "Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Maximum": "maximum", "Minimum": "minimum", "Power": "power",
    "FloorDivide": "floor_divide", "Mod": "floor_mod", "Equal": "equal", "NotEqual": "not_equal", "Less": "less", "LessEqual": "less_equal",
    "Greater": "greater", "GreaterEqual": "greater_equal", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "LeftShift": "left_shift", "RightShift": "right_shift",
}  # fmt: skip
LOGICAL = {"LogicalAnd": "logical_and", "LogicalOr": "logical_or", "LogicalXor": "logical_xor"}
REDUCTIONS = {"Sum": "sum", "Mean": "mean", "Max": "max", "Min": "min", "Amax": "max", "Amin": "min", "Prod": "prod"}


def _one(key: str, floating: bool) -> Callable[..., Value]:
    def convert(c: LayerCall, x: Any) -> Value:
        x = c.tensor(x)
        return c.call(key, c.floats(x) if floating else x)

    return convert


def _two(key: str) -> Callable[..., Value]:
    def convert(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
        return c.call(key, *c.promote(*_plain(c, a, b)))

    return convert


def _plain(c: LayerCall, *operands: ArrayLike) -> list[Value | int | float]:
    """Lists and arrays as tensors; numbers are returned unchanged."""
    return [x if isinstance(x, (Value, int, float)) else c.tensor(x) for x in operands]


def _logical(key: str) -> Callable[..., Value]:
    def convert(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
        return c.call(key, *[c.cast(c.tensor(x), "bool") for x in (a, b)])

    return convert


def _reduction(key: str) -> Callable[..., Value]:
    def convert(c: LayerCall, x: Value, *rest: object, **kwargs: object) -> Value:
        x = c.floats(x) if key == "mean" else c.cast(x, "int32") if x.dtype == "bool" else x
        return c.reduce(key, x, _axes(c, x), bool(c.get("keepdims", False)))

    return convert


def _axes(c: LayerCall, x: Value) -> list[int]:
    return c.axes(c.config.get("axis"), x.ndim)


def _activation(name: str) -> Callable[..., Value]:
    def convert(c: LayerCall, x: Value) -> Value:
        known = ("negative_slope", "alpha", "approximate", "axis", "threshold", "default_value", "b")
        given = {k: v for k, v in c.config.items() if k in known and v is not None}
        return ACTIVATIONS[name](c, c.floats(x), **given)

    return convert


for _name, _key in UNARY.items():
    keras_op(_name)(_one(_key, True))
for _name, _key in (WHOLE | TESTS).items():
    keras_op(_name)(_one(_key, False))
for _name, _key in BINARY.items():
    keras_op(_name)(_two(_key))
for _name, _key in LOGICAL.items():
    keras_op(_name)(_logical(_key))
for _name, _key in REDUCTIONS.items():
    keras_op(_name)(_reduction(_key))
for _name, _key in {
    "Relu": "relu", "Relu6": "relu6", "SparseSigmoid": "sparse_sigmoid", "Softplus": "softplus", "Softsign": "softsign",
    "SoftShrink": "soft_shrink", "SparsePlus": "sparse_plus", "Silu": "silu", "Squareplus": "squareplus", "LogSigmoid": "log_sigmoid",
    "LeakyRelu": "leaky_relu", "HardSigmoid": "hard_sigmoid", "HardSilu": "hard_silu", "Elu": "elu", "Selu": "selu", "Gelu": "gelu",
    "Celu": "celu", "Glu": "glu", "TanhShrink": "tanh_shrink", "HardTanh": "hard_tanh", "HardShrink": "hard_shrink",
    "Threshold": "threshold", "Softmax": "softmax", "LogSoftmax": "log_softmax",
}.items():  # fmt: skip
    keras_op(_name)(_activation(_key))


@keras_op("Sparsemax")
def _sparsemax(c: LayerCall, x: Value) -> Value:
    return sparsemax(c, x, c.get("axis", -1))


@keras_op("Divide", "TrueDivide")
def _divide(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    return c.call("divide", *[c.floats(x) for x in c.promote(*_plain(c, a, b))])


@keras_op("DivideNoNan")
def _divide_no_nan(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    x, y = (c.floats(v) for v in c.promote(*_plain(c, a, b)))
    off = c.call("equal", y, 0)
    return c.call(
        "where", off, c.number(0, x.dtype), c.call("divide", x, c.call("where", off, c.number(1, y.dtype), y))
    )


@keras_op("Square")
def _square(c: LayerCall, x: Value) -> Value:
    return c.call("multiply", x, x)


@keras_op("Reciprocal")
def _reciprocal(c: LayerCall, x: Value) -> Value:
    return c.call("divide", c.number(1, c.floats(x).dtype), c.floats(x))


@keras_op("Expm1", "Log1p", "Exp2")
def _near(c: LayerCall, x: Value) -> Value:
    x = c.floats(x)
    if c.kind.endswith("Expm1"):
        return near_zero.expm1(c, x)
    return near_zero.log1p(c, x) if c.kind.endswith("Log1p") else c.call("power", c.number(2, x.dtype), x)


@keras_op("Erfc")
def _erfc(c: LayerCall, x: Value) -> Value:
    return c.call("subtract", c.number(1, x.dtype), c.call("erf", x))


@keras_op("Arctan2")
def _arctan2(c: LayerCall, y: Any, x: Any) -> Value:
    a, b = (c.floats(v) for v in c.promote(*_plain(c, y, x)))
    # atan2(y, x) = 2 atan(y / (sqrt(x^2 + y^2) + x)), and pi on the negative half axis.
    length = c.call("sqrt", c.call("add", c.call("multiply", a, a), c.call("multiply", b, b)))
    base = c.call("multiply", c.call("atan", c.call("divide", a, c.call("add", length, b))), 2.0)
    straight = c.call("logical_and", c.call("equal", a, 0.0), c.call("less", b, 0.0))
    both = c.call("logical_and", c.call("equal", a, 0.0), c.call("equal", b, 0.0))
    inner = c.call("where", both, c.number(0, a.dtype), base)
    return c.call("where", straight, c.number(np.pi, a.dtype), inner)


@keras_op("LogicalNot")
def _not(c: LayerCall, x: Value) -> Value:
    return c.call("logical_not", c.cast(x, "bool"))


@keras_op("All", "Any")
def _all(c: LayerCall, x: Value) -> Value:
    key = "all" if c.kind.endswith("All") else "any"
    return c.reduce(key, c.cast(x, "bool"), _axes(c, x), bool(c.get("keepdims", False)))


@keras_op("Var", "Std")
def _variance(c: LayerCall, x: Value) -> Value:
    axes, keep = _axes(c, x), bool(c.get("keepdims", False))
    power = moments(c, c.floats(x), axes)[1]
    power = c.call("sqrt", power) if c.kind.endswith("Std") else power
    return power if keep or not axes else c.call("squeeze", power, axis=tuple(axes))


@keras_op("Moments")
def _moments(c: LayerCall, x: Value) -> list[Value]:
    axes = c.axes(c.config.get("axes"), x.ndim)
    found = [c.reduce("mean", x, axes, True), moments(c, x, axes)[1]]
    return found if c.get("keepdims", False) else [c.call("squeeze", v, axis=tuple(axes)) for v in found]


@keras_op("Logsumexp")
def _logsumexp(c: LayerCall, x: Value) -> Value:
    return c.reduce("logsumexp", x, _axes(c, x), bool(c.get("keepdims", False)))


@keras_op("Argmax", "Argmin")
def _argmax(c: LayerCall, x: Value) -> Value:
    key = "argmax" if c.kind.endswith("Argmax") else "argmin"
    axis = c.config.get("axis")
    if axis is None:
        x, axis = c.reshape(x, [-1]), 0
    found = c.call(key, x, axis=(c.axis(int(axis), x.ndim),), keepdims=bool(c.get("keepdims", False)))
    return c.cast(found, "int32")


@keras_op("Clip")
def _clip(c: LayerCall, x: Value) -> Value:
    return c.call("clip", x, a_min=float(c.config["x_min"]), a_max=float(c.config["x_max"]))


@keras_op("Where")
def _where(c: LayerCall, condition: Any, a: ArrayLike | None = None, b: ArrayLike | None = None) -> Value:
    if a is None or b is None:
        raise c.refuse("x1 and x2", None, "both given: places that hold are of an unknown number")
    return c.call("where", c.cast(c.tensor(condition), "bool"), *c.promote(*_plain(c, a, b)))


@keras_op("Cast", "SaturateCast")
def _cast(c: LayerCall, x: Value) -> Value:
    return c.cast(x, str(c.config["dtype"]))


@keras_op("StopGradient", "Copy", "ConvertToTensor")
def _same(c: LayerCall, x: Any, *rest: object) -> Value:
    return c.tensor(x)


@keras_op("OnesLike", "ZerosLike", "FullLike")
def _like(c: LayerCall, x: Value, value: Any = None, **kwargs: object) -> Value:
    fill = 1 if c.kind.endswith("OnesLike") else 0 if value is None else value
    dtype = str(c.config.get("dtype") or x.dtype)
    return c.call("add", c.call("multiply", c.cast(x, dtype), 0), fill)


# ---- shapes


@keras_op("Reshape")
def _reshape(c: LayerCall, x: Value) -> Value:
    new = c.config.get("newshape", c.config.get("new_shape"))
    return c.reshape(x, [-1 if d is None else int(d) for d in (new if isinstance(new, (list, tuple)) else [new])])


@keras_op("Ravel")
def _ravel(c: LayerCall, x: Value) -> Value:
    return c.reshape(x, [-1])


@keras_op("Transpose")
def _transpose(c: LayerCall, x: Value) -> Value:
    axes = c.config.get("axes")
    return c.transpose(x, range(x.ndim)[::-1] if axes is None else [c.axis(a, x.ndim) for a in axes])


@keras_op("Swapaxes")
def _swapaxes(c: LayerCall, x: Value) -> Value:
    order = list(range(x.ndim))
    i, j = c.axis(int(c.config["axis1"]), x.ndim), c.axis(int(c.config["axis2"]), x.ndim)
    order[i], order[j] = order[j], order[i]
    return c.transpose(x, order)


@keras_op("Moveaxis")
def _moveaxis(c: LayerCall, x: Value) -> Value:
    sources, targets = c.axes(c.config["source"], x.ndim), c.axes(c.config["destination"], x.ndim)
    rest = iter([d for d in range(x.ndim) if d not in sources])
    return c.transpose(x, [sources[targets.index(k)] if k in targets else next(rest) for k in range(x.ndim)])


@keras_op("ExpandDims")
def _expand_dims(c: LayerCall, x: Value) -> Value:
    for axis in sorted(c.axes(c.config["axis"], x.ndim + np.size(c.config["axis"]))):
        x = c.call("expand_dims", x, axis=axis)
    return x


@keras_op("Squeeze")
def _squeeze(c: LayerCall, x: Value) -> Value:
    axis = c.config.get("axis")
    axes = (
        c.axes(axis, x.ndim)
        if axis is not None
        else [k for k, d in enumerate(x.shape) if isinstance(d, int) and d == 1]
    )
    return c.call("squeeze", x, axis=tuple(axes)) if axes else x


@keras_op("BroadcastTo")
def _broadcast_to(c: LayerCall, x: Value) -> Value:
    shape = c.config["shape"]
    old = [1] * (len(shape) - x.ndim) + x.shape
    return c.broadcast(x, [o if d is None or d == -1 else int(d) for d, o in zip(shape, old, strict=True)])


@keras_op("Concatenate")
def _concatenate(c: LayerCall, xs: Sequence[Any]) -> Value:
    return c.concatenate(c.promote(*_plain(c, *xs)), int(c.get("axis", 0)))


@keras_op("Stack")
def _stack(c: LayerCall, xs: Sequence[Any]) -> Value:
    parts = c.promote(*_plain(c, *xs))
    return c.call("stack", parts, axis=c.axis(int(c.get("axis", 0)), parts[0].ndim + 1))


@keras_op("Unstack")
def _unstack(c: LayerCall, x: Value) -> list[Value]:
    return c.steps(x, int(c.get("axis", 0)))


@keras_op("Split")
def _split(c: LayerCall, x: Value) -> list[Value]:
    axis, where = c.axis(int(c.get("axis", 0)), x.ndim), c.config["indices_or_sections"]
    if isinstance(where, int):
        return c.split(x, where, axis)
    return list(c.calls("split", x, indices_or_sections=tuple([int(p) for p in where]), axis=axis))


@keras_op("Take")
def _take(c: LayerCall, x: Any, indices: Any) -> Value:
    x, places = c.tensor(x), c.tensor(indices)
    axis = c.config.get("axis")
    if axis is None:
        x, axis = c.reshape(x, [-1]), 0
    places = places if places.dtype in ("int32", "int64") else c.cast(places, "int32")
    return c.call("take", x, places, axis=c.axis(int(axis), x.ndim), mode="signed")


@keras_op("TakeAlongAxis")
def _take_along(c: LayerCall, x: Value, indices: Any) -> Value:
    axis = c.config.get("axis")
    if axis is None:
        x, axis = c.reshape(x, [-1]), 0
    return c.call("gather", x, c.cast(c.tensor(indices), "int64"), axis=c.axis(int(axis), x.ndim))


@keras_op("GetItem")
def _get_item(c: LayerCall, x: Value, key: Any) -> Value:
    parts = list(key) if isinstance(key, (list, tuple)) else [key]
    taken = len([p for p in parts if p is not None and p is not Ellipsis])
    if Ellipsis not in [p if p is Ellipsis else 0 for p in parts]:
        parts.append(Ellipsis)
    at = next(k for k, p in enumerate(parts) if p is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (x.ndim - taken)
    begin: list[int] = []
    end: list[int] = []
    step: list[int] = []
    axes: list[int] = []
    gone: list[int] = []
    new: list[int] = []
    axis = 0
    places: list[tuple[int, Value]] = []
    for p in parts:
        if p is None:
            new.append(axis - len(gone) + len(new))
            continue
        if isinstance(p, slice):
            if p != slice(None):
                s = 1 if p.step is None else int(p.step)
                begin.append((0 if s > 0 else FAR) if p.start is None else int(p.start))
                end.append((FAR if s > 0 else -FAR) if p.stop is None else int(p.stop))
                step.append(s)
                axes.append(axis)
        elif isinstance(p, int):
            begin.append(p)
            end.append(p + 1 if p != -1 else FAR)
            step.append(1)
            axes.append(axis)
            gone.append(axis)
        else:
            places.append((axis, c.tensor(p)))
        axis += 1
    for k, index in places:
        x = c.call("take", x, index, axis=k, mode="signed")
    if axes:
        x = c.call("strided_slice", x, begin=tuple(begin), end=tuple(end), strides=tuple(step), axes=tuple(axes))
    x = c.call("squeeze", x, axis=tuple(gone)) if gone else x
    for k in new:
        x = c.call("expand_dims", x, axis=k)
    return x


@keras_op("Slice")
def _slice(c: LayerCall, x: Value, start: Any) -> Value:
    begin = [int(v) for v in c.known(c.tensor(start), "start").reshape(-1)]
    shape = [int(d) for d in c.config["shape"]]
    end = [b + d if d != -1 else FAR for b, d in zip(begin, shape, strict=True)]
    return c.call("strided_slice", x, begin=tuple(begin), end=tuple(end), strides=(1,) * x.ndim)


@keras_op("SliceUpdate")
def _slice_update(c: LayerCall, x: Value, start: Any, updates: Value) -> Value:
    begin = [int(v) for v in c.known(c.tensor(start), "start").reshape(-1)]
    end = [b + d for b, d in zip(begin, c.static(updates.shape, "the shape of updates"), strict=True)]
    return c.call("strided_set", x, updates, *[Value(array=np.array(v, np.int64)) for v in (begin, end)])


@keras_op("ScatterUpdate")
def _scatter_update(c: LayerCall, x: Value, indices: Any, updates: Any) -> Value:
    places = c.cast(c.tensor(indices), "int64")
    order = [places.ndim - 1, *range(places.ndim - 1)]
    mode = {None: "update", "add": "add", "max": "max", "min": "min", "mul": "mul"}[c.config.get("reduction")]
    return c.call("scatter_nd", x, c.transpose(places, order), c.cast(c.tensor(updates), x.dtype), mode=mode)


@keras_op("Pad")
def _pad(c: LayerCall, x: Value, constant_values: Any = None) -> Value:
    given = c.config["pad_width"]
    if isinstance(given, int):
        given = [[given, given]] * x.ndim
    given = [list(g) if isinstance(g, (list, tuple)) else [g, g] for g in given]
    given = given * x.ndim if len(given) == 1 else given
    mode = str(c.get("mode", "constant"))
    if mode == "symmetric":
        width = tuple([tuple([int(v) for v in g]) for g in given])
        return c.call("nn.mirror_pad", x, pad_width=width, mode="SYMMETRIC")
    return c.pad(x, given, 0 if constant_values is None else constant_values, {"edge": "edge"}.get(mode, mode))


@keras_op("Repeat")
def _repeat(c: LayerCall, x: Value) -> Value:
    axis, times = c.config.get("axis"), c.config["repeats"]
    if not isinstance(times, int):
        raise c.refuse("repeats", times, "one number")
    if axis is None:
        x, axis = c.reshape(x, [-1]), 0
    return c.call("repeat", x, repeats=times, axis=c.axis(int(axis), x.ndim))


@keras_op("Tile")
def _tile(c: LayerCall, x: Value) -> Value:
    times = c.config["repeats"]
    return c.call("tile", x, reps=tuple([int(t) for t in (times if isinstance(times, (list, tuple)) else [times])]))


@keras_op("Flip")
def _flip(c: LayerCall, x: Value) -> Value:
    for axis in _axes(c, x):
        x = c.call("reverse", x, axis=axis)
    return x


@keras_op("Roll")
def _roll(c: LayerCall, x: Value) -> Value:
    shift, axis = c.config["shift"], c.config.get("axis")
    if axis is None:
        raise c.refuse("axis", None, "an axis")
    pairs = zip([shift], [axis], strict=True) if isinstance(axis, int) else zip(shift, axis, strict=True)
    for by, a in pairs:
        at = c.axis(int(a), x.ndim)
        (extent,) = c.static([x.shape[at]], "the extent that it rolls")
        places = (np.arange(extent) - int(by)) % extent
        x = c.call("take", x, Value(array=places), axis=at)
    return x


@keras_op("Tril", "Triu")
def _tril(c: LayerCall, x: Value) -> Value:
    return c.call("trilu", x, c.number(int(c.get("k", 0)), "int64"), upper=c.kind.endswith("Triu"))


@keras_op("Sort", "Argsort")
def _sort(c: LayerCall, x: Value) -> Value:
    axis = c.config.get("axis", -1)
    if axis is None:
        x, axis = c.reshape(x, [-1]), 0
    at = c.axis(int(axis), x.ndim)
    return c.call("sort", x, axis=at) if c.kind.endswith(".Sort") else c.call("argsort", x, axis=at, dtype="int32")


@keras_op("TopK")
def _topk(c: LayerCall, x: Value) -> list[Value]:
    return [Value(e) for e in best(c.span, x, int(c.config["k"]))]


@keras_op("Cumsum", "Cumprod")
def _cumsum(c: LayerCall, x: Value) -> Value:
    axis = c.config.get("axis")
    if axis is None:
        x, axis = c.reshape(x, [-1]), 0
    return c.call("cumsum" if c.kind.endswith("Cumsum") else "cumprod", x, axis=c.axis(int(axis), x.ndim))


# ---- products, layers


@keras_op("Matmul", "Dot")
def _matmul(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    x, y = c.promote(*_plain(c, a, b))
    if x.ndim == 1 and y.ndim == 1:
        return c.reduce("sum", c.call("multiply", x, y), [0])
    left = c.call("expand_dims", x, axis=0) if x.ndim == 1 else x
    right = c.call("expand_dims", y, axis=1) if y.ndim == 1 else y
    if right.ndim == 2:
        out = c.call("nn.matmul", left, right)
    else:
        rank = max(left.ndim, right.ndim)
        sides = [c.reshape(v, [*[1] * (rank - v.ndim), *v.shape]) for v in (left, right)]
        out = c.call("nn.batch_matmul", *sides, transpose_b=False)
    gone = ([out.ndim - 2] if x.ndim == 1 else []) + ([out.ndim - 1] if y.ndim == 1 else [])
    return c.call("squeeze", out, axis=tuple(gone)) if gone else out


@keras_op("Einsum")
def _einsum(c: LayerCall, *operands: ArrayLike) -> Value:
    return einsum(c, str(c.config["subscripts"]), *c.promote(*_plain(c, *operands)))


@keras_op("Tensordot")
def _tensordot(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    x, y = c.promote(*_plain(c, a, b))
    axes = c.get("axes", 2)
    pairs = (
        [list(range(x.ndim - axes, x.ndim)), list(range(axes))]
        if isinstance(axes, int)
        else [[v] if isinstance(v, int) else list(v) for v in axes]
    )
    left, right = [c.axis(v, x.ndim) for v in pairs[0]], [c.axis(v, y.ndim) for v in pairs[1]]
    one, two = "abcdefghijkl"[: x.ndim], list("mnopqrstuvwx"[: y.ndim])
    for i, j in zip(left, right, strict=True):
        two[j] = one[i]
    kept = [ch for k, ch in enumerate(one) if k not in left] + [ch for k, ch in enumerate(two) if k not in right]
    return c.call("einsum", [x, y], equation=f"{one},{''.join(two)}->{''.join(kept)}")


@keras_op("OneHot")
def _one_hot(c: LayerCall, x: Value) -> Value:
    dtype = str(c.config.get("dtype") or "float32")
    return one_hot(c, c.cast(x, "int32"), int(c.config["num_classes"]), dtype, int(c.get("axis", -1)))


@keras_op("Normalize")
def _normalize(c: LayerCall, x: Value) -> Value:
    if c.get("order", 2) != 2:
        raise c.refuse("order", c.config["order"], "2")
    return l2_normalized(c, x, _axes(c, x), float(c.get("epsilon", 1e-12)))


@keras_op("LayerNorm")
def _layer_norm(c: LayerCall, x: Value, gamma: Value | None = None, beta: Value | None = None) -> Value:
    axes = _axes(c, x)
    moved, power = moments(c, x, axes)
    moved = x if c.get("rms_scaling", False) else moved
    x = c.call("multiply", moved, c.call("rsqrt", c.call("add", power, float(c.get("epsilon", 1e-7)))))
    x = x if gamma is None else c.call("multiply", x, _along(c, gamma, x, axes))
    return x if beta is None else c.call("add", x, _along(c, beta, x, axes))


@keras_op("RMSNorm")
def _rms_norm(c: LayerCall, x: Value, scale: Value | None = None) -> Value:
    axes = _axes(c, x)
    power = c.reduce("mean", c.call("multiply", x, x), axes, True)
    x = c.call("multiply", x, c.call("rsqrt", c.call("add", power, float(c.get("epsilon", 1e-7)))))
    return x if scale is None else c.call("multiply", x, _along(c, scale, x, axes))


def _along(c: LayerCall, weight: Any, x: Value, axes: Sequence[int]) -> Value:
    """A weight reshaped to the normalised axes."""
    return c.reshape(c.tensor(weight), [d if k in axes else 1 for k, d in enumerate(x.shape)])


def _is_first(c: LayerCall) -> bool:
    return bool(c.get("data_format", "channels_last") == "channels_first")


@keras_op("Conv")
def _conv(c: LayerCall, x: Value, kernel: Any) -> Value:
    n = x.ndim - 2
    w = c.tensor(kernel)
    groups = x.known_extent(1 if _is_first(c) else -1) // w.known_extent(-2)
    strides, dilation = extents(c.get("strides", 1), n), extents(c.get("dilation_rate", 1), n)
    return convolve(c, x, w, strides, str(c.get("padding", "valid")), dilation, groups, _is_first(c))


@keras_op("MaxPool", "AveragePool")
def _pool(c: LayerCall, x: Value) -> Value:
    n = x.ndim - 2
    size = extents(c.config["pool_size"], n)
    strides = extents(c.get("strides", c.config["pool_size"]), n)
    key = "max" if c.kind.endswith("MaxPool") else "avg"
    return pool(c, x, key, size, strides, str(c.get("padding", "valid")), _is_first(c))


@keras_op("Resize")
def _resize(c: LayerCall, x: Value) -> Value:
    if c.get("crop_to_aspect_ratio", False) or c.get("pad_to_aspect_ratio", False):
        raise c.refuse("crop_to_aspect_ratio or pad_to_aspect_ratio", True, "False")
    single = x.ndim == 3
    batch = c.call("expand_dims", x, axis=0) if single else x
    size = [int(s) for s in c.config["size"]]
    out = resized(
        c, batch, size, str(c.get("interpolation", "bilinear")), _is_first(c), bool(c.get("antialias", False))
    )
    return c.call("squeeze", out, axis=(0,)) if single else out
