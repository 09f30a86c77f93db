"""Converters of reductions, cumulative operators and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.host_calls import linear_algebra
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import DType, dtype_name, is_float, kind
from tilewright.relay.frontend.pytorch.value import Axes, Result, Results, TorchCall, aten
from tilewright.runtime.host_functions import linalg
from tilewright.support.errors import OpNotImplemented


def total(c: TorchCall, key: str, x: Value, dim: Axes, keepdim: bool = False) -> Value:
    """A relay reduction along axes (None or empty: all)."""
    if not x.ndim:
        return x
    return c.call(key, x, axis=tuple(c.axes(dim, x.ndim)), keepdims=bool(keepdim))


@aten("sum", "nansum")
def sum_(c: TorchCall, x: Value, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Value:
    x = c.cast(x, dtype_name(dtype) if dtype is not None else "int64" if kind(x.dtype) < 2 else x.dtype)
    if "nansum" in c.target and is_float(x.dtype):
        x = c.call("where", c.call("isnan", x), c.number(0, x.dtype), x)
    return total(c, "sum", x, dim, keepdim)


@aten("mean")
def mean(c: TorchCall, x: Value, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Value:
    x = c.cast(x, dtype_name(dtype)) if dtype is not None else x
    if x.ndim == 4 and dim is not None and sorted(c.axes(dim, 4)) == [2, 3] and len(dim) == 2:
        # A pooling operator keeps channel blocks.
        pooled = c.call("nn.global_avg_pool2d", x)
        return pooled if keepdim else c.call("squeeze", pooled, axis=(2, 3))
    return total(c, "mean", x, dim, keepdim)


@aten("prod")
def _prod(c: TorchCall, x: Value, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Value:
    x = c.cast(x, dtype_name(dtype) if dtype is not None else "int64" if kind(x.dtype) < 2 else x.dtype)
    return total(c, "prod", x, dim, keepdim)


@aten("amax", "amin")
def _extreme(c: TorchCall, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    high = "amax" in c.target
    if x.dtype == "bool":
        return total(c, "any" if high else "all", x, dim, keepdim)
    return total(c, "max" if high else "min", x, dim, keepdim)


@aten("aminmax")
def _aminmax(c: TorchCall, x: Value, dim: int | None = None, keepdim: bool = False) -> list[Value]:
    return [total(c, "min", x, dim, keepdim), total(c, "max", x, dim, keepdim)]


@aten("max", "min")
def _extreme_all(c: TorchCall, x: Value) -> Value:
    if x.dtype == "bool":
        return total(c, "any" if "max" in c.target else "all", x, None)
    return total(c, "max" if "max" in c.target else "min", x, None)


@aten("max.dim", "min.dim")
def _extreme_along(c: TorchCall, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    key = "max" if "max" in c.target else "min"
    data = c.cast(x, "uint8") if x.dtype == "bool" else x
    if not x.ndim:
        return [x, Value(array=np.zeros((), np.int64))]
    return [c.cast(total(c, key, data, dim, keepdim), x.dtype), _place(c, f"arg{key}", data, dim, keepdim)]


@aten("argmax", "argmin")
def _arg(c: TorchCall, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    key = "argmax" if "argmax" in c.target else "argmin"
    if not x.ndim:
        return Value(array=np.zeros((), np.int64))
    if dim is None:
        found = _place(c, key, c.reshape(x, [-1]), 0, False)
        return c.reshape(found, [1] * x.ndim) if keepdim else found
    return _place(c, key, x, dim, keepdim)


def _place(c: TorchCall, key: str, x: Value, dim: int, keepdim: bool) -> Value:
    x = c.cast(x, "uint8") if x.dtype == "bool" else x
    return c.cast(c.call(key, x, axis=(c.axis(dim, x.ndim),), keepdims=bool(keepdim)), "int64")


@aten("any", "all")
def _truth(c: TorchCall, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    result = total(c, "all" if "all" in c.target else "any", c.cast(x, "bool"), dim, keepdim)
    return c.cast(result, "uint8") if x.dtype == "uint8" else result


@aten("count_nonzero")
def _count_nonzero(c: TorchCall, x: Value, dim: Axes = None) -> Value:
    return total(c, "sum", c.cast(c.cast(x, "bool"), "int64"), dim)


@aten("logsumexp", "special_logsumexp")
def _logsumexp(c: TorchCall, x: Value, dim: Axes, keepdim: bool = False) -> Value:
    x = c.floats(x)
    top = total(c, "max", x, dim, True)
    top = c.call("where", c.call("isinf", top), c.number(0, x.dtype), top)
    log = c.call("log", total(c, "sum", c.call("exp", c.call("subtract", x, top)), dim, True))
    result = c.call("add", log, top)
    return result if keepdim or not x.ndim else c.call("squeeze", result, axis=tuple(c.axes(dim, x.ndim)))


def variance(c: TorchCall, x: Value, dim: Axes, correction: Any, keepdim: bool) -> tuple[Value, Value]:
    """(variance, mean) along axes, over n - correction."""
    axes = c.axes(dim, x.ndim)
    middle = total(c, "mean", x, axes, True)
    away = c.call("subtract", x, middle)
    squares = total(c, "sum", c.call("multiply", away, away), axes, True)
    count: Any = 1
    for a in axes:
        count = count * x.shape[a]
    rest = count - (1 if correction is None else correction)
    if isinstance(rest, (int, float)):
        spread = c.call("multiply", squares, 1.0 / rest if rest > 0 else np.nan if rest else np.inf)
    else:
        spread = c.call("divide", squares, c.cast(c.size(rest), x.dtype))
    if keepdim or not axes:
        return spread, middle
    return c.call("squeeze", spread, axis=tuple(axes)), c.call("squeeze", middle, axis=tuple(axes))


@aten("var", "std", "var_mean", "std_mean")
def _var(c: TorchCall, x: Value, unbiased: Any = True) -> Value | Results:
    return _variances(c, x, None, 1 if unbiased else 0, False)


@aten("var.dim", "std.dim", "var_mean.dim", "std_mean.dim")
def _var_dim(c: TorchCall, x: Value, dim: Axes, unbiased: bool = True, keepdim: bool = False) -> Value | Results:
    return _variances(c, x, dim, 1 if unbiased else 0, keepdim)


@aten("var.correction", "std.correction", "var_mean.correction", "std_mean.correction")
def _var_correction(
    c: TorchCall, x: Value, dim: Axes = None, correction: Any = None, keepdim: bool = False
) -> Value | Results:
    return _variances(c, x, dim, 1 if correction is None else correction, keepdim)


def _variances(c: TorchCall, x: Value, dim: Axes, correction: Any, keepdim: bool) -> Value | Results:
    spread, middle = variance(c, x, dim, correction, keepdim)
    spread = c.call("sqrt", spread) if "std" in c.target else spread
    return [spread, middle] if "_mean" in c.target else spread


@aten("linalg_norm", "linalg_matrix_norm")
def _matrix_norm(
    c: TorchCall, x: Value, p: Any = None, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None
) -> Result:
    """A matrix norm for two axes, else a vector norm."""
    x = c.cast(x, dtype_name(dtype)) if dtype is not None else x
    matrices = "matrix" in c.target
    axes = c.axes((-2, -1) if dim is None and matrices else dim, x.ndim)
    if not matrices and (p is None or len(axes) == 1):
        return norm(c, x, p, dim, keepdim)
    row, column = axes
    if p is None or p == "fro":
        return norm(c, x, 2, axes, keepdim)
    if any([isinstance(x.shape[k], int) and not x.shape[k] for k in axes]):
        kept = [1 if k in axes else d for k, d in enumerate(x.shape) if keepdim or k not in axes]
        return c.full(kept, 0, x.dtype)
    if p in ("nuc", 2, -2):
        rest = [k for k in range(x.ndim) if k not in axes]
        m, n = c.static([x.shape[row], x.shape[column]], "the extents of its matrix")
        k = min(m, n)
        values = linear_algebra(
            c, linalg.svd, [c.transpose(x, [*rest, row, column])], [[m, k], [k], [k, n]], full=False
        )[1]
        found = total(c, "sum" if p == "nuc" else "max" if p > 0 else "min", values, [-1])
        return c.reshape(found, [1 if k in axes else d for k, d in enumerate(x.shape)]) if keepdim else found
    if abs(p) not in (1, np.inf):
        raise c.refuse("ord", p, "'fro', 'nuc', 1, 2, inf and their negatives")
    inner, outer = (row, column) if abs(p) == 1 else (column, row)
    sums = total(c, "sum", c.call("abs", x), [inner], True)
    found = total(c, "max" if p > 0 else "min", sums, [outer], True)
    return found if keepdim else c.call("squeeze", found, axis=tuple(sorted(axes)))


@aten("norm", "linalg_vector_norm", "frobenius_norm")
def norm(
    c: TorchCall, x: Value, p: Any = 2, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None
) -> Result:
    if "frobenius" in c.target:
        p, dim, keepdim = 2, p, bool(dim)
    x = c.cast(x, dtype_name(dtype)) if dtype is not None else x
    p = 2 if p is None else p
    if isinstance(p, str):
        return _matrix_norm(c, x, p, dim, keepdim)
    if p == 2:
        return c.call("sqrt", total(c, "sum", c.call("multiply", x, x), dim, keepdim))
    size = c.call("abs", x)
    if p == 1:
        return total(c, "sum", size, dim, keepdim)
    if p in (np.inf, -np.inf):
        return total(c, "max" if p > 0 else "min", size, dim, keepdim)
    if p == 0:
        return total(c, "sum", c.cast(c.call("not_equal", x, 0), x.dtype), dim, keepdim)
    powers = total(c, "sum", c.call("power", size, float(p)), dim, keepdim)
    return c.call("power", powers, 1.0 / p)


@aten("dist")
def _dist(c: TorchCall, a: Value, b: Value, p: Any = 2) -> Result:
    return norm(c, c.call("subtract", a, b), p)


@aten("cumsum", "cumprod")
def _running(c: TorchCall, x: Value, dim: int, dtype: DType | None = None) -> Value:
    x = c.cast(x, dtype_name(dtype) if dtype is not None else "int64" if kind(x.dtype) < 2 else x.dtype)
    return c.call("cumprod" if "cumprod" in c.target else "cumsum", x, axis=c.axis(dim, x.ndim)) if x.ndim else x


@aten("logcumsumexp")
def _logcumsumexp(c: TorchCall, x: Value, dim: int) -> Value:
    if not x.ndim:
        return x
    top = total(c, "max", x, dim, True)
    running = c.call("cumsum", c.call("exp", c.call("subtract", x, top)), axis=c.axis(dim, x.ndim))
    return c.call("add", c.call("log", running), top)


@aten("cummax", "cummin")
def _running_extreme(c: TorchCall, x: Value, dim: int) -> list[Value]:
    """Extremes up to each index, from a table of all pairs of indices. The last of equal elements counts."""
    if not x.ndim:
        return [x, c.number(0, "int64")]
    axis = c.axis(dim, x.ndim)
    (n,) = c.static([x.shape[axis]], "the extent of its axis")
    key = "cummax" in c.target
    order = [k for k in range(x.ndim) if k != axis] + [axis]
    rows = c.call("expand_dims", c.transpose(x, order), axis=x.ndim - 1)
    worst: Any = (
        (-np.inf if key else np.inf) if is_float(x.dtype) else getattr(np.iinfo(x.dtype), "min" if key else "max")
    )
    seen = Value(array=np.tril(np.ones((n, n), bool)))
    table = c.call("where", seen, rows, c.number(worst, x.dtype))
    back = [order.index(k) for k in range(x.ndim)]
    best = c.call("max" if key else "min", table, axis=(x.ndim,))
    place = c.call("argmax" if key else "argmin", table, axis=(x.ndim,), select_last_index=True)
    return [c.transpose(best, back), c.cast(c.transpose(place, back), "int64")]


@aten("sort")
def _sort(c: TorchCall, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    return _sorted(c, x, dim, descending)


@aten("sort.stable")
def _sort_stable(c: TorchCall, x: Value, stable: Any = None, dim: int = -1, descending: bool = False) -> list[Value]:
    return _sorted(c, x, dim, descending)


def _sorted(c: TorchCall, x: Value, dim: int, descending: bool) -> list[Value]:
    if not x.ndim:
        return [x, Value(array=np.zeros((), np.int64))]
    places = _argsorted(c, x, dim, descending)
    return [c.call("gather", x, places, axis=c.axis(dim, x.ndim)), places]


def _argsorted(c: TorchCall, x: Value, dim: int, descending: bool) -> Value:
    x = c.cast(x, "uint8") if x.dtype == "bool" else x
    return c.call("argsort", x, axis=c.axis(dim, x.ndim), is_ascend=not descending, dtype="int64")


@aten("argsort")
def _argsort(c: TorchCall, x: Value, dim: int = -1, descending: bool = False) -> Value:
    return _argsorted(c, x, dim, descending)


@aten("argsort.stable")
def _argsort_stable(c: TorchCall, x: Value, stable: bool = True, dim: int = -1, descending: bool = False) -> Value:
    return _argsorted(c, x, dim, descending)


@aten("msort")
def _msort(c: TorchCall, x: Value) -> Value:
    return _sorted(c, x, 0, False)[0]


@aten("topk")
def _topk(c: TorchCall, x: Value, k: Any, dim: int = -1, largest: bool = True, sorted_: bool = True) -> list[Value]:
    if not isinstance(k, int):
        raise OpNotImplemented("its k depends on a dimension that is dynamic; a number is supported")
    if not x.ndim and k == 1:
        return [x, Value(array=np.zeros((), np.int64))]
    if k == 0:
        shape = [0 if a == c.axis(dim, x.ndim) else d for a, d in enumerate(x.shape)]
        return [c.full(shape, 0, x.dtype), c.full(shape, 0, "int64")]
    return c.calls("topk", x, k=k, axis=c.axis(dim, x.ndim), ret_type="both", is_ascend=not largest, dtype="int64")


@aten("kthvalue")
def _kthvalue(c: TorchCall, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> list[Value]:
    return _picked(c, _sorted(c, x, dim, False), k - 1, dim, keepdim)


@aten("nanmedian")
def _nanmedian(c: TorchCall, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN, which come first in a sorted row."""
    if dim is None:
        return _nanmedian(c, c.reshape(x, [-1]), 0)[0]
    if not x.ndim:
        return [x, c.number(0, "int64")]
    axis = c.axis(dim, x.ndim)
    values, places = _sorted(c, x, axis, False)
    numbers = c.call("sum", c.cast(c.call("logical_not", c.call("isnan", x)), "int64"), axis=(axis,), keepdims=True)
    at = c.call("maximum", c.call("floor_divide", c.call("subtract", numbers, 1), 2), 0)
    found = [c.call("gather", v, at, axis=axis) for v in (values, places)]
    return found if keepdim else [c.call("squeeze", v, axis=(axis,)) for v in found]


@aten("mode")
def _mode(c: TorchCall, x: Value, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """The smallest of the most frequent elements, and its last index. All pairs of elements are compared."""
    if not x.ndim:
        return [x, c.number(0, "int64")]
    axis = c.axis(dim, x.ndim)
    given = c.cast(x, "uint8") if x.dtype == "bool" else x
    pairs = c.call("equal", c.call("expand_dims", given, axis=axis), c.call("expand_dims", given, axis=axis + 1))
    times = c.call("sum", c.cast(pairs, "int64"), axis=(axis,))
    most = c.call("equal", times, c.call("max", times, axis=(axis,), keepdims=True))
    last = np.inf if is_float(x.dtype) else np.iinfo(given.dtype).max
    value = c.call("min", c.call("where", most, given, c.number(last, given.dtype)), axis=(axis,), keepdims=True)
    here = c.cast(c.call("equal", given, value), "int32")
    place = c.call("argmax", here, axis=(axis,), keepdims=True, select_last_index=True)
    found = [c.cast(value, x.dtype), c.cast(place, "int64")]
    return found if keepdim else [c.call("squeeze", v, axis=(axis,)) for v in found]


@aten("median")
def _median(c: TorchCall, x: Value) -> Value:
    flat = c.reshape(x, [-1])
    (n,) = c.static(flat.shape, "the number of elements")
    return _picked(c, _sorted(c, flat, 0, False), (n - 1) // 2, 0, False)[0]


@aten("median.dim")
def _median_dim(c: TorchCall, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    (n,) = c.static(x.shape[dim : dim + 1 or None] or [1], "the extent of its axis")
    return _picked(c, _sorted(c, x, dim, False), (n - 1) // 2, dim, keepdim)


def _picked(c: TorchCall, parts: list[Value], at: int, dim: int, keepdim: bool) -> list[Value]:
    if not parts[0].ndim:
        return parts
    axis = c.axis(dim, parts[0].ndim)
    cut = [c.call("strided_slice", p, begin=(at,), end=(at + 1,), axes=(axis,)) for p in parts]
    return cut if keepdim else [c.call("squeeze", p, axis=(axis,)) for p in cut]


@aten("searchsorted")
def _searchsorted(
    c: TorchCall,
    rows: Value,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    if sorter is not None:
        rows = c.call("gather", rows, c.cast(sorter, "int64"), axis=rows.ndim - 1)
    x = c.tensor(values, rows.dtype)
    whole = c.call("reshape", x, newshape=(1,)) if not x.ndim else x
    found = c.call(
        "searchsorted", rows, whole, right=bool(right or side == "right"), dtype="int32" if out_int32 else "int64"
    )
    return found if x.ndim else c.call("reshape", found, newshape=())


@aten("bucketize")
def _bucketize(c: TorchCall, x: Any, boundaries: Value, out_int32: bool = False, right: bool = False) -> Value:
    return _searchsorted(c, boundaries, x, out_int32, right)


@aten("cosine_similarity")
def _cosine_similarity(c: TorchCall, a: Value, b: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    product = total(c, "sum", c.call("multiply", a, b), dim)
    lengths = [c.call("maximum", c.call("sqrt", total(c, "sum", c.call("multiply", v, v), dim)), eps) for v in (a, b)]
    return c.call("divide", product, c.call("multiply", *lengths))


@aten("cdist", "_cdist_forward", "_euclidean_dist")
def _cdist(c: TorchCall, a: Value, b: Value, p: float = 2.0, mode: Any = None) -> Result:
    away = c.call("subtract", c.call("expand_dims", a, axis=a.ndim - 1), c.call("expand_dims", b, axis=b.ndim - 2))
    return norm(c, away, p, [-1])


@aten("pdist", "_pdist_forward")
def _pdist(c: TorchCall, x: Value, p: float = 2.0) -> Result:
    (n,) = c.static(x.shape[:1], "the number of rows")
    i, j = np.triu_indices(n, 1)
    rows = [c.call("take", x, Value(array=v.astype(np.int64)), axis=0) for v in (i, j)]
    return norm(c, c.call("subtract", *rows), p, [-1])
