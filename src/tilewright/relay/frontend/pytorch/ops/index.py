"""Converters of operators that read and write elements at indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim, broadcast_shapes
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import is_float
from tilewright.relay.frontend.pytorch.ops.data import columns
from tilewright.relay.frontend.pytorch.ops.movement import FAR, broadcast_all, cut, strided
from tilewright.relay.frontend.pytorch.ops.reduce import norm
from tilewright.relay.frontend.pytorch.value import TorchCall, aten


def places(c: TorchCall, indices: Value, extent: Dim) -> Value:
    """Indices with negative ones counted from the end; known ones are converted at import."""
    indices = c.cast(indices, "int64") if indices.dtype not in ("int32", "int64") else indices
    if indices.array is not None and indices.is_number and isinstance(extent, int):
        return Value(array=np.where(indices.array < 0, indices.array + extent, indices.array))
    return indices


def picked(c: TorchCall, x: Value, axis: int, indices: Value) -> Value:
    """x[.., indices, ..] along an axis."""
    found, extent = places(c, indices, x.shape[axis]), x.shape[axis]
    inside = False
    if found.array is not None and found.is_number and isinstance(extent, int):
        inside = bool(((found.array >= 0) & (found.array < extent)).all())
    return c.call("take", x, found, axis=axis, mode="clip" if inside else "signed")


@aten("embedding")
def _embedding(c: TorchCall, weight: Value, indices: Value, *rest: object) -> Value:
    return c.call(
        "take", weight, c.cast(indices, "int64") if indices.dtype != "int32" else indices, axis=0, mode="bounded"
    )


@aten("index_select")
def _index_select(c: TorchCall, x: Value, dim: int, indices: Value) -> Value:
    if not x.ndim:
        return x
    indices = c.reshape(indices, [1]) if not indices.ndim else indices
    return picked(c, x, c.axis(dim, x.ndim), indices)


@aten("take")
def _take(c: TorchCall, x: Value, indices: Value) -> Value:
    return picked(c, c.reshape(x, [-1]), 0, indices)


@aten("gather")
def _gather(c: TorchCall, x: Value, dim: int, indices: Value, sparse_grad: bool = False) -> Value:
    if not x.ndim:
        return c.broadcast(x, indices.shape) if indices.ndim else x
    if indices.ndim != x.ndim:
        # Only empty indices may have a different rank.
        return c.full(indices.shape, 0, x.dtype)
    return c.call("gather", x, c.cast(indices, "int64"), axis=c.axis(dim, x.ndim))


@aten("take_along_dim")
def _take_along_dim(c: TorchCall, x: Value, indices: Value, dim: int | None = None) -> Value:
    if dim is None:
        return _gather(c, c.reshape(x, [-1]), 0, c.reshape(indices, [-1]))
    axis = c.axis(dim, x.ndim)
    a, b = list(x.shape), list(indices.shape)
    a[axis] = b[axis] = 1
    shape = list(broadcast_shapes(a, b))
    x = c.broadcast(x, [*shape[:axis], x.shape[axis], *shape[axis + 1 :]])
    return _gather(c, x, axis, c.broadcast(indices, [*shape[:axis], indices.shape[axis], *shape[axis + 1 :]]))


def _as_places(c: TorchCall, indices: Sequence[Value | None], rank: int) -> list[Value | None]:
    """Index tensors, one for each axis; masks become the indices of their true elements."""
    result: list[Value | None] = []
    for i in indices:
        if i is not None and i.dtype in ("bool", "uint8"):
            result += columns(c, i)
        else:
            result.append(i)
    return result + [None] * (rank - len(result))


@aten("index", "_unsafe_index")
def index(c: TorchCall, x: Value, indices: Sequence[Value | None]) -> Value:
    found = _as_places(c, indices, x.ndim)
    axes = [k for k, i in enumerate(found) if i is not None]
    if not axes:
        return x
    if len(axes) == 1:
        picks = found[axes[0]]
        assert picks is not None
        return picked(c, x, axes[0], picks)
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    spread = _common(c, x, found, axes)
    rank = spread[0].ndim
    rest = [k for k in range(x.ndim) if k not in axes]
    front = c.transpose(x, [*axes, *rest])
    result = c.call("gather_nd", front, c.call("stack", spread, axis=0))
    if adjacent and axes[0]:
        # The axes of the indices replace adjacent indexed axes; otherwise they come first.
        before = axes[0]
        order = [*range(rank, rank + before), *range(rank), *range(rank + before, rank + len(rest))]
        return c.transpose(result, order)
    return result


def _common(c: TorchCall, x: Value, found: Sequence[Value | None], axes: Sequence[int]) -> list[Value]:
    """The index tensors in one shape and type, without negative ones."""
    spread = broadcast_all(c, [c.cast(i, "int64") for i in found if i is not None])
    return [_not_negative(c, i, x.shape[a]) for i, a in zip(spread, axes, strict=True)]


def _not_negative(c: TorchCall, i: Value, extent: Dim) -> Value:
    known = places(c, i, extent)
    if known.array is not None and known.is_number:
        return known
    return c.call("where", c.call("less", i, 0), c.call("add", i, extent), i)


@aten("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    c: TorchCall, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False, *rest: object
) -> Value:
    if (
        len(indices) == 1
        and indices[0] is not None
        and indices[0].dtype == "bool"
        and not values.ndim
        and not accumulate
    ):
        mask = c.reshape(indices[0], [*indices[0].shape, *[1] * (x.ndim - indices[0].ndim)])
        return c.call("where", mask, c.cast(values, x.dtype), x)
    found = _as_places(c, indices, x.ndim)
    axes = [k for k, i in enumerate(found) if i is not None]
    order = [*axes, *[k for k in range(x.ndim) if k not in axes]]
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    spread = _common(c, x, found, axes)
    rank = spread[0].ndim
    front = c.transpose(x, order)
    tail = front.shape[len(axes) :]
    if adjacent and axes[0]:
        before = axes[0]
        whole = c.broadcast(values, [*tail[:before], *spread[0].shape, *tail[before:]])
        updates = c.transpose(
            whole, [*range(before, before + rank), *range(before), *range(before + rank, rank + len(tail))]
        )
    else:
        updates = c.broadcast(values, [*spread[0].shape, *tail])
    mode = "add" if accumulate else "update"
    if not rank:
        spread, updates = [c.reshape(i, [1]) for i in spread], c.reshape(updates, [1, *tail])
    result = c.call("scatter_nd", front, c.call("stack", spread, axis=0), c.cast(updates, x.dtype), mode=mode)
    return c.transpose(result, [order.index(k) for k in range(x.ndim)])


@aten("index_copy", "index_add")
def _index_write(c: TorchCall, x: Value, dim: int, indices: Value, source: Value, alpha: Operand = 1) -> Value:
    source = c.call("multiply", source, alpha) if alpha != 1 else source
    if not x.ndim:
        rows = c.reshape(x, [1]), c.reshape(indices, [-1]), c.reshape(source, [-1])
        return c.reshape(index_put(c, rows[0], [rows[1]], rows[2], "index_add" in c.target), [])
    return index_put(c, x, [*[None] * c.axis(dim, x.ndim), indices], source, "index_add" in c.target)


@aten("index_fill")
def _index_fill(c: TorchCall, x: Value, dim: int, indices: Value, value: Operand) -> Value:
    if not x.ndim:
        return c.reshape(_index_fill(c, c.reshape(x, [1]), 0, c.reshape(indices, [-1]), value), [])
    return index_put(c, x, [*[None] * c.axis(dim, x.ndim), indices], c.tensor(value, x.dtype))


@aten("index_reduce")
def _index_reduce(
    c: TorchCall, x: Value, dim: int, indices: Value, source: Value, reduce: str, include_self: bool = True
) -> Value:
    if not x.ndim:
        rows = [c.reshape(v, [-1]) for v in (x, indices, source)]
        return c.reshape(_index_reduce(c, rows[0], 0, rows[1], rows[2], reduce, include_self), [])
    axis = c.axis(dim, x.ndim)
    places = c.broadcast(c.reshape(indices, [-1 if k == axis else 1 for k in range(x.ndim)]), source.shape)
    return _scatter_reduce(c, x, axis, places, source, reduce, include_self)


@aten("scatter", "scatter_add", "scatter.reduce", "scatter.value_reduce")
def scatter(c: TorchCall, x: Value, dim: int, indices: Value, source: Any, reduce: str | None = None) -> Value:
    source = c.tensor(source, x.dtype)
    if not source.ndim and indices.ndim:
        source = c.broadcast(source, indices.shape)
    reduction = "add" if "scatter_add" in c.target else {None: "update", "add": "add", "multiply": "mul"}[reduce]
    return _scattered(c, x, dim, indices, source, reduction)


def _scattered(c: TorchCall, x: Value, dim: int, indices: Value, source: Value, reduction: str) -> Value:
    axis = c.axis(dim, x.ndim)
    for a, (n, m) in enumerate(zip(source.shape, indices.shape, strict=True)):
        # The source is cropped to the extents of the indices.
        if isinstance(n, int) and isinstance(m, int) and m < n:
            source = cut(c, source, a, 0, m)
    if not x.ndim:
        parts = [c.reshape(v, [1]) for v in (x, indices, source)]
        return c.reshape(c.call("scatter_elements", *parts, axis=0, reduction=reduction), [])
    return c.call("scatter_elements", x, c.cast(indices, "int64"), source, axis=axis, reduction=reduction)


@aten("scatter_reduce")
def _scatter_reduce(
    c: TorchCall, x: Value, dim: int, indices: Value, source: Value, reduce: str, include_self: bool = True
) -> Value:
    if x.dtype == "bool":
        # For bools, sum and max are the logical or; product and min are the logical and.
        either = {"sum": "amax", "prod": "amin"}.get(reduce, reduce)
        whole = [c.cast(v, "uint8") for v in (x, source)]
        return c.cast(_scatter_reduce(c, whole[0], dim, indices, whole[1], either, include_self), "bool")
    reductions = {"sum": "add", "prod": "mul", "mean": "mean", "amax": "max", "amin": "min"}
    if not include_self:
        if reduce == "mean":
            return _mean_of_written(c, x, dim, indices, source)
        limits = (-np.inf, np.inf) if is_float(x.dtype) else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        neutral = {"sum": 0, "prod": 1, "amax": limits[0], "amin": limits[1]}[reduce]
        start = c.broadcast(c.number(neutral, x.dtype), indices.shape)
        x = _scattered(c, x, dim, indices, start, "update")
    return _scattered(c, x, dim, indices, source, reductions[reduce])


def _mean_of_written(c: TorchCall, x: Value, dim: int, indices: Value, source: Value) -> Value:
    zeros, ones = c.full(x.shape, 0, x.dtype), c.full(indices.shape, 1, x.dtype)
    count = _scattered(c, zeros, dim, indices, ones, "add")
    totals = _scattered(c, zeros, dim, indices, source, "add")
    mean = c.call("divide" if is_float(x.dtype) else "floor_divide", totals, c.call("maximum", count, 1))
    return c.call("where", c.call("greater", count, 0), mean, x)


@aten("slice_scatter")
def slice_scatter(
    c: TorchCall, x: Value, source: Value, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Value:
    axis = c.axis(dim, x.ndim)
    extent = x.shape[axis]
    source = c.cast(source, x.dtype)
    if step == 1 and isinstance(extent, int) and all([b is None or isinstance(b, int) for b in (start, end)]):
        begin, stop, _ = slice(start, end).indices(extent)
        stop = max(begin, stop)
        parts = [source]
        parts += [cut(c, x, axis, stop, extent)] if stop < extent else []
        parts = [cut(c, x, axis, 0, begin), *parts] if begin else parts
        return c.call("concatenate", parts, axis=axis) if len(parts) > 1 else c.broadcast(source, x.shape)
    if step == 1:
        return _between(c, x, source, axis, start, end)
    (extent,) = c.static([extent], "the extent of its axis")
    rows = np.arange(extent)[slice(start, None if end is not None and end >= FAR else end, step)]
    return index_put(c, x, [*[None] * axis, Value(array=rows)], source)


def _between(c: TorchCall, x: Value, source: Value, axis: int, start: Operand, end: Operand) -> Value:
    """x with the part between two bounds overwritten. The bounds are sizes."""
    parts = [source]
    if start is not None and not (isinstance(start, int) and start == 0):
        parts = [cut(c, x, axis, 0, start), *parts]
    if end is not None and not (isinstance(end, int) and end >= FAR):
        parts.append(cut(c, x, axis, end, FAR))
    return c.call("concatenate", parts, axis=axis) if len(parts) > 1 else source


@aten("select_scatter")
def select_scatter(c: TorchCall, x: Value, source: Value, dim: int, at: Any) -> Value:
    axis = c.axis(dim, x.ndim)
    at = at + x.shape[axis] if isinstance(at, int) and at < 0 else at
    return slice_scatter(c, x, c.call("expand_dims", source, axis=axis), axis, at, at + 1)


@aten("diagonal_scatter")
def _diagonal_scatter(c: TorchCall, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    first, second = c.axis(dim1, x.ndim), c.axis(dim2, x.ndim)
    rows, columns = c.static([x.shape[first], x.shape[second]], "the extents of its matrices")
    i, j = np.nonzero(np.eye(rows, columns, offset))
    # The last axis of the source runs along the diagonal.
    order = [k for k in range(x.ndim) if k not in (first, second)]
    moved = c.transpose(x, [first, second, *order])
    rows_first = c.transpose(source, [source.ndim - 1, *range(source.ndim - 1)])
    written = index_put(c, moved, [Value(array=i), Value(array=j)], rows_first)
    back = [first, second, *order]
    return c.transpose(written, [back.index(k) for k in range(x.ndim)])


@aten("fill_diagonal")
def _fill_diagonal(c: TorchCall, x: Value, value: Operand, wrap: bool = False) -> Value:
    rows, columns = c.static(x.shape, "the extents of its matrix")
    return c.call("where", Value(array=np.eye(rows, columns, dtype=bool)), c.number(value, x.dtype), x)


@aten("masked_select")
def _masked_select(c: TorchCall, x: Value, mask: Value) -> Value:
    x, mask = broadcast_all(c, [x, mask])
    x, mask = (c.reshape(v, [1]) if not x.ndim else v for v in (x, mask))
    return index(c, x, [mask])


@aten("masked_scatter")
def _masked_scatter(c: TorchCall, x: Value, mask: Value, source: Value) -> Value:
    x, mask = broadcast_all(c, [x, mask])
    # The n-th true position takes the n-th element of the source.
    number = c.call("cumsum", c.cast(c.reshape(mask, [-1]), "int64"), axis=0)
    values = c.call("take", c.reshape(source, [-1]), c.call("maximum", c.call("subtract", number, 1), 0), axis=0)
    return c.call("where", mask, c.cast(c.reshape(values, x.shape), x.dtype), x)


@aten("isin")
def _isin(c: TorchCall, x: Operand, tests: Operand, assume_unique: bool = False, invert: bool = False) -> Value:
    a, b = c.promote(x, tests)
    hit = c.call("equal", c.call("expand_dims", a, axis=a.ndim), c.reshape(b, [-1]))
    found = c.call("any", hit, axis=(a.ndim,))
    return c.call("logical_not", found) if invert else found


@aten("put")
def _put(c: TorchCall, x: Value, indices: Value, source: Value, accumulate: bool = False) -> Value:
    rows = [c.reshape(v, [-1]) for v in (x, indices, source)]
    return c.reshape(index_put(c, rows[0], [rows[1]], rows[2], accumulate), x.shape)


@aten("as_strided_scatter")
def _as_strided_scatter(
    c: TorchCall, x: Value, source: Value, size: Sequence[Dim], stride: Sequence[Any], offset: Any = None
) -> Value:
    places = strided(c, x, size, stride, offset).reshape(-1)
    return c.reshape(index_put(c, c.reshape(x, [-1]), [Value(array=places)], c.reshape(source, [-1])), x.shape)


@aten("embedding_renorm")
def _embedding_renorm(c: TorchCall, weight: Value, indices: Value, most: float, p: float) -> Value:
    """The table, with the rows that are looked up scaled down to the norm `most` if theirs is larger."""
    length = norm(c, weight, p, [1], True)
    rows, _ = weight.shape
    where = places(c, c.reshape(indices, [-1]), rows)
    ones = c.broadcast(c.number(1, "int32"), where.shape)
    used = c.call("scatter_elements", c.full([rows], 0, "int32"), where, ones, axis=0, reduction="update")
    used = c.call("expand_dims", c.cast(used, "bool"), axis=1)
    shorter = c.call("divide", c.number(most, weight.dtype), c.call("add", length, 1e-7))
    long = c.call("logical_and", used, c.call("greater", length, most))
    return c.call("where", long, c.call("multiply", weight, shorter), weight)
