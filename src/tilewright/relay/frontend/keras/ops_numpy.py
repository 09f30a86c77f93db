"""Converters of keras.ops.numpy: element-wise functions, statistics, joining and selection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import FAR, MOST_PARTS, need_few
from tilewright.relay.frontend.common.host_calls import special
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.keras.value import ArrayLike, LayerCall, keras_op, operations

SAME_AS = {
    "Fabs": "Absolute", "BitwiseLeftShift": "LeftShift", "BitwiseRightShift": "RightShift",
}  # fmt: skip
for _name, _like in SAME_AS.items():
    keras_op(_name)(operations[_like])


def _axis(c: LayerCall, x: Value, default: Any = None) -> list[int]:
    return c.axes(c.config.get("axis", default), x.ndim)


def _keep(c: LayerCall) -> bool:
    return bool(c.get("keepdims", False))


def _pair(c: LayerCall, a: ArrayLike, b: ArrayLike) -> list[Value]:
    return [c.floats(v) for v in c.promote(*[v if isinstance(v, (Value, int, float)) else c.tensor(v) for v in (a, b)])]


# ---- element by element


@keras_op("Fmod")
def _fmod(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    return c.call("trunc_mod", *c.promote(*[v if isinstance(v, (Value, int, float)) else c.tensor(v) for v in (a, b)]))


@keras_op("BitwiseInvert", "BitwiseNot")
def _invert(c: LayerCall, x: Value) -> Value:
    return c.call("bitwise_not", x)


@keras_op("Deg2rad", "Rad2deg")
def _degrees(c: LayerCall, x: Value) -> Value:
    return c.call("multiply", c.floats(x), math.pi / 180 if c.kind.endswith("Deg2rad") else 180 / math.pi)


@keras_op("Cbrt")
def _cbrt(c: LayerCall, x: Value) -> Value:
    x = c.floats(x)
    return c.call("multiply", c.call("sign", x), c.call("power", c.call("abs", x), 1 / 3))


@keras_op("Isposinf", "Isneginf")
def _infinite(c: LayerCall, x: Value) -> Value:
    x = c.floats(x)
    return c.call("equal", x, math.inf if c.kind.endswith("Isposinf") else -math.inf)


@keras_op("Signbit")
def _signbit(c: LayerCall, x: Value) -> Value:
    # 1 / x gives the sign of zeros: 1 / -0 is negative.
    x = c.floats(x)
    return c.call("less", c.call("where", c.call("equal", x, 0), c.call("divide", c.number(1, x.dtype), x), x), 0)


@keras_op("Sinc")
def _sinc(c: LayerCall, x: Value) -> Value:
    x = c.call("multiply", c.floats(x), math.pi)
    none = c.call("equal", x, 0)
    safe = c.call("where", none, c.number(1, x.dtype), x)
    return c.call("where", none, c.number(1, x.dtype), c.call("divide", c.call("sin", safe), safe))


@keras_op("Heaviside")
def _heaviside(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    x, y = _pair(c, a, b)
    flat = c.cast(c.call("greater", x, 0), x.dtype)
    return c.call("where", c.call("equal", x, 0), y, flat)


@keras_op("Hypot")
def _hypot(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    x, y = _pair(c, a, b)
    return c.call("sqrt", c.call("add", c.call("multiply", x, x), c.call("multiply", y, y)))


@keras_op("Logaddexp", "Logaddexp2")
def _logaddexp(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    x, y = _pair(c, a, b)
    two = c.kind.endswith("2")
    apart = c.call("negative", c.call("abs", c.call("subtract", x, y)))
    grown = c.call("exp", c.call("multiply", apart, math.log(2)) if two else apart)
    tail = c.call("log", c.call("add", grown, 1))
    return c.call("add", c.call("maximum", x, y), c.call("divide", tail, math.log(2)) if two else tail)


@keras_op("Fmax", "Fmin")
def _fmax(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    x, y = _pair(c, a, b)
    made = c.call("maximum" if c.kind.endswith("Fmax") else "minimum", x, y)
    return c.call("where", c.call("isnan", x), y, c.call("where", c.call("isnan", y), x, made))


@keras_op("NanToNum")
def _nan_to_num(c: LayerCall, x: Value) -> Value:
    info = np.finfo(x.dtype)
    for key, value, default in (("posinf", math.inf, info.max), ("neginf", -math.inf, info.min)):
        x = c.call("where", c.call("equal", x, value), c.number(float(c.get(key, default)), x.dtype), x)
    return c.call("where", c.call("isnan", x), c.number(float(c.get("nan", 0.0)), x.dtype), x)


@keras_op("Isclose")
def _isclose(c: LayerCall, a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8) -> Value:
    x, y = _pair(c, a, b)
    near = c.call("add", c.call("multiply", c.call("abs", y), float(rtol)), float(atol))
    close = c.call("less_equal", c.call("abs", c.call("subtract", x, y)), near)
    close = c.call("logical_or", close, c.call("equal", x, y))
    if c.get("equal_nan", False):
        close = c.call("logical_or", close, c.call("logical_and", c.call("isnan", x), c.call("isnan", y)))
    return close


@keras_op("Erfinv", "I0")
def _special(c: LayerCall, x: Value) -> Value:
    return special(c, "erfinv" if c.kind.endswith("Erfinv") else "bessel_i0", c.floats(x))


@keras_op("Select")
def _select(c: LayerCall, conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0) -> Value:
    *parts, made = c.promote(*choices, default)
    for flag, x in zip(reversed(list(conditions)), reversed(parts), strict=True):
        made = c.call("where", c.tensor(flag), x, made)
    return made


# ---- along axes


def _nan_reduction(key: str, fill: float) -> Callable[..., Value]:
    def convert(c: LayerCall, x: Value) -> Value:
        gone = c.call("isnan", x)
        filled = c.call("where", gone, c.number(fill, x.dtype), x)
        if key != "mean":
            return c.reduce(key, filled, _axis(c, x), _keep(c))
        held = c.reduce("sum", c.cast(c.call("logical_not", gone), x.dtype), _axis(c, x), _keep(c))
        return c.call("divide", c.reduce("sum", filled, _axis(c, x), _keep(c)), held)

    return convert


for _name, _key, _fill in (
    ("Nansum", "sum", 0.0), ("Nanprod", "prod", 1.0), ("Nanmax", "max", -math.inf), ("Nanmin", "min", math.inf), ("Nanmean", "mean", 0.0),
):  # fmt: skip
    keras_op(_name)(_nan_reduction(_key, _fill))


@keras_op("Diff")
def _diff(c: LayerCall, x: Value) -> Value:
    axis = c.axis(int(c.get("axis", -1)), x.ndim)
    need_few(int(c.get("n", 1)), MOST_PARTS, "differences")
    for _ in range(int(c.get("n", 1))):
        x = c.call("subtract", c.cut(x, axis, 1, FAR), c.cut(x, axis, 0, x.shape[axis] - 1))
    return x


@keras_op("Average")
def _average(c: LayerCall, x: Value, weights: Any = None) -> Value:
    x, axes = c.floats(x), _axis(c, x)
    if weights is None:
        return c.reduce("mean", x, axes)
    w = c.cast(c.tensor(weights), x.dtype)
    w = w if w.ndim == x.ndim else c.reshape(w, [-1 if k == axes[0] else 1 for k in range(x.ndim)])
    w = c.broadcast(w, x.shape)
    return c.call("divide", c.reduce("sum", c.call("multiply", x, w), axes), c.reduce("sum", w, axes))


@keras_op("CountNonzero")
def _count(c: LayerCall, x: Value) -> Value:
    return c.reduce("sum", c.cast(c.call("not_equal", x, 0), "int32"), _axis(c, x))


@keras_op("Ptp")
def _ptp(c: LayerCall, x: Value) -> Value:
    return c.call("subtract", c.reduce("max", x, _axis(c, x), _keep(c)), c.reduce("min", x, _axis(c, x), _keep(c)))


@keras_op("Median", "Quantile", "Percentile")
def _quantile(c: LayerCall, x: Value, q: Any = 0.5) -> Value:
    """Quantiles; `method`: the interpolation between two elements."""
    x, axes = c.floats(x), _axis(c, x)
    shares = np.asarray(c.known(q, "q"), np.float64) / (100 if c.kind.endswith("Percentile") else 1)
    kept = [k for k in range(x.ndim) if k not in axes]
    count = math.prod(c.static([x.shape[k] for k in axes], "the extents that it sorts"))
    rows = c.reshape(c.transpose(x, [*kept, *axes]), [*[x.shape[k] for k in kept], count])
    ordered = c.call("sort", rows, axis=rows.ndim - 1)
    method, found = str(c.get("method", "linear")), []
    for share in shares.reshape(-1).tolist():
        at = share * (count - 1)
        low, high = math.floor(at), math.ceil(at)
        part = {"lower": 0.0, "higher": 1.0, "midpoint": 0.5, "nearest": float(round(at) - low)}.get(method, at - low)
        a, b = c.at(ordered, -1, low), c.at(ordered, -1, high)
        made = c.call("add", a, c.call("multiply", c.call("subtract", b, a), part)) if low != high else a
        if _keep(c):
            made = c.reshape(made, [1 if k in axes else d for k, d in enumerate(x.shape)])
        found.append(made)
    return c.call("stack", found, axis=0) if shares.ndim else found[0]


@keras_op("Norm")
def _norm(c: LayerCall, x: Value) -> Value:
    x, order, axis = c.floats(x), c.config.get("ord"), c.config.get("axis")
    axes, keep = _axis(c, x), _keep(c)
    matrix = len(axes) == 2 and (axis is not None or x.ndim == 2)
    if order is None or order == 2 and not matrix or order == "fro":
        return c.call("sqrt", c.reduce("sum", c.call("multiply", x, x), axes, keep))
    if matrix:
        raise c.refuse("ord", order, 'None and "fro" for matrices')
    size = c.call("abs", x)
    if order in (math.inf, -math.inf, "inf", "-inf"):
        return c.reduce("max" if str(order) == "inf" else "min", size, axes, keep)
    if order == 0:
        return c.reduce("sum", c.cast(c.call("not_equal", x, 0), x.dtype), axes, keep)
    total = c.reduce("sum", c.call("power", size, float(order)), axes, keep)
    return c.call("power", total, 1 / float(order))


@keras_op("Trapezoid")
def _trapezoid(c: LayerCall, y: Value) -> Value:
    if c.config.get("x") is not None:
        raise c.refuse("x", "given", "None, with dx")
    y, axis = c.floats(y), c.axis(int(c.get("axis", -1)), y.ndim)
    both = c.call("add", c.cut(y, axis, 1, FAR), c.cut(y, axis, 0, y.shape[axis] - 1))
    return c.call("multiply", c.reduce("sum", both, [axis]), float(c.get("dx", 1.0)) / 2)


@keras_op("SegmentSum", "SegmentMax", "SegmentMin", "SegmentProd")
def _segments(c: LayerCall, x: Value, which: Any) -> Value:
    places = c.tensor(which)
    n = c.config.get("num_segments")
    n = int(n) if n is not None else int(c.known(places, "segment_ids").max()) + 1
    mode = {"Sum": "add", "Max": "max", "Min": "min", "Prod": "mul"}[c.kind.rpartition("Segment")[2]]
    start = {"add": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}[mode]
    if not x.dtype.startswith("float") and math.isinf(start):
        start = np.iinfo(x.dtype).min if mode == "max" else np.iinfo(x.dtype).max
    base = c.full([n, *x.shape[1:]], start, x.dtype)
    return c.call("scatter_nd", base, c.reshape(c.cast(places, "int32"), [1, -1]), x, mode=mode)


@keras_op("InTopK")
def _in_top_k(c: LayerCall, targets: Any, x: Value) -> Value:
    at = c.call("expand_dims", c.cast(c.tensor(targets), "int64"), axis=1)
    better = c.reduce("sum", c.cast(c.call("greater", x, c.call("gather", x, at, axis=1)), "int32"), [1])
    return c.call("less", better, int(c.config["k"]))


@keras_op("SearchSorted", "Digitize")
def _search(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    table, x = (a, b) if c.kind.endswith("SearchSorted") else (b, a)
    right = c.kind.endswith("Digitize") or c.get("side", "left") == "right"
    table, x = c.promote(c.tensor(table), c.tensor(x))
    return c.call("searchsorted", table, x, right=right, dtype="int32")


# ---- joining, slicing, rotating


@keras_op("Hstack", "Vstack", "Dstack", "Append")
def _stacks(c: LayerCall, *given: Any) -> Value:
    xs = c.promote(*[c.tensor(x) for x in (given[0] if len(given) == 1 else given)])
    if c.kind.endswith("Append"):
        axis = c.config.get("axis")
        return c.concatenate([c.reshape(x, [-1]) for x in xs] if axis is None else xs, 0 if axis is None else int(axis))
    if c.kind.endswith("Hstack"):
        return c.concatenate(xs, 0 if xs[0].ndim == 1 else 1)
    if c.kind.endswith("Vstack"):
        return c.concatenate([c.reshape(x, [1, *x.shape]) if x.ndim == 1 else x for x in xs], 0)
    wide = [c.reshape(x, [1, *x.shape]) if x.ndim == 1 else x for x in xs]
    return c.concatenate([c.reshape(x, [*x.shape, 1]) if x.ndim == 2 else x for x in wide], 2)


@keras_op("ArraySplit", "Hsplit", "Vsplit", "Dsplit")
def _splits(c: LayerCall, x: Value) -> list[Value]:
    kind = c.kind.rpartition(".")[2]
    axis = {"Hsplit": 1 if x.ndim > 1 else 0, "Vsplit": 0, "Dsplit": 2}.get(kind)
    axis = c.axis(int(c.get("axis", 0)), x.ndim) if axis is None else axis
    (extent,) = c.static([x.shape[axis]], "the extent that it splits")
    wanted = c.config["indices_or_sections"]
    parts = np.array_split(np.arange(extent), wanted if isinstance(wanted, int) else [int(v) for v in wanted])
    ends = np.cumsum([len(p) for p in parts]).tolist()
    return [c.cut(x, axis, a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


@keras_op("Fliplr", "Flipud")
def _flip(c: LayerCall, x: Value) -> Value:
    return c.call("reverse", x, axis=1 if c.kind.endswith("lr") else 0)


@keras_op("Rot90")
def _rot90(c: LayerCall, x: Value) -> Value:
    first, second = [c.axis(int(a), x.ndim) for a in c.get("axes", (0, 1))]
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    turns = int(c.get("k", 1)) % 4
    if turns == 2:
        return c.call("reverse", c.call("reverse", x, axis=first), axis=second)
    if turns == 1:
        return c.transpose(c.call("reverse", x, axis=second), order)
    return c.call("reverse", c.transpose(x, order), axis=second) if turns else x


def _diagonal_of(c: LayerCall, x: Value) -> Value:
    """The diagonal of two axes, as the last axis."""
    a, b, offset = (
        c.axis(int(c.get("axis1", 0)), x.ndim),
        c.axis(int(c.get("axis2", 1)), x.ndim),
        int(c.get("offset", 0)),
    )
    rest = [k for k in range(x.ndim) if k not in (a, b)]
    rows, columns = c.static([x.shape[a], x.shape[b]], "the size of its matrices")
    n = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    places = (np.arange(n) + max(-offset, 0)) * columns + np.arange(n) + max(offset, 0)
    flat = c.reshape(c.transpose(x, [*rest, a, b]), [*[x.shape[k] for k in rest], rows * columns])
    return c.call("take", flat, Value(array=places), axis=flat.ndim - 1)


@keras_op("Diagonal", "Trace")
def _diagonal(c: LayerCall, x: Value) -> Value:
    made = _diagonal_of(c, x)
    return c.reduce("sum", made, [made.ndim - 1]) if c.kind.endswith("Trace") else made


@keras_op("Diag", "Diagflat")
def _diag(c: LayerCall, x: Value) -> Value:
    k = int(c.get("k", 0))
    x = c.reshape(x, [-1]) if c.kind.endswith("flat") else x
    if x.ndim == 2:
        inner = LayerCall(c.kind, {"offset": k}, c.store, c.path, c.home, c.version)
        return _diagonal_of(inner, x)
    (n,) = c.static(x.shape, "the length of its diagonal")
    made = c.call("where", Value(array=np.eye(n, dtype=bool)), c.reshape(x, [-1, 1]), c.number(0, x.dtype))
    return c.pad(made, [(max(-k, 0), max(k, 0)), (max(k, 0), max(-k, 0))])


@keras_op("Meshgrid")
def _meshgrid(c: LayerCall, *xs: Any) -> list[Value]:
    given = [c.reshape(c.tensor(x), [-1]) for x in xs]
    places = list(range(len(given)))
    if str(c.get("indexing", "xy")) == "xy" and len(given) > 1:
        places[0], places[1] = 1, 0
    shape = [given[places.index(k)].shape[0] for k in range(len(given))]
    wide = [
        c.reshape(x, [-1 if k == at else 1 for k in range(len(given))]) for x, at in zip(given, places, strict=True)
    ]
    return [c.broadcast(x, shape) for x in wide]


# ---- products and matrices
