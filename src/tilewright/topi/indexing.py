"""Computes whose indices are data: take, gather, scatter, one_hot, sort, top-k, running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.utils import Dim, get_const_int, normalize_axis, shape_of, to


def _wrap(i: Any, extent: Dim, mode: str) -> Any:
    """A data index made safe: clipped, wrapped around, or (fast) taken as it is with negatives counted from the end."""
    top = to(extent, i.dtype)
    zero = tir.const(0, i.dtype)
    if mode == "clip":
        return tir.min(tir.max(i, zero), top - tir.const(1, i.dtype))
    if mode == "wrap":
        return tir.floormod(i, top)
    return tir.Select(i < zero, i + top, i)


def take(
    a: te.Tensor, indices: te.Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> te.Tensor:
    """a[..., indices, ...] along `axis` (of flattened a when None). Modes: clip, wrap, fast (negatives count from the end)."""
    shape, where = shape_of(a), shape_of(indices)
    if axis is None:
        from tilewright.topi.transform import reshape
        from tilewright.topi.utils import prod

        return take(reshape(a, [prod(shape)]), indices, 0, 0, mode)
    at = normalize_axis(axis, len(shape))
    batch = batch_dims if batch_dims >= 0 else batch_dims + len(where)
    inner = len(where) - batch

    def element(*i: Any) -> Any:
        k = indices(*i[:batch], *i[at : at + inner])
        return a(*i[:at], _wrap(k, shape[at], mode), *i[at + inner :])

    return compute(shape[:at] + where[batch:] + shape[at + 1 :], element, name="T_take", tag=tag.INJECTIVE)


def gather(data: te.Tensor, axis: int, indices: te.Tensor) -> te.Tensor:
    """data[i0, .., indices[i0, .., in], .., in] along `axis`; negative indices count from the end."""
    shape = shape_of(data)
    at = normalize_axis(axis, len(shape))
    return compute(
        indices.shape,
        lambda *i: data(*i[:at], _wrap(indices(*i), shape[at], "fast"), *i[at + 1 :]),
        name="T_gather",
        tag=tag.INJECTIVE,
    )


def gather_nd(data: te.Tensor, indices: te.Tensor, batch_dims: int = 0) -> te.Tensor:
    """data[b.., indices[0, b.., y..], .., indices[m-1, b.., y..], x..]: the first axis of `indices` counts the coordinates."""
    shape, where = shape_of(data), shape_of(indices)
    m = get_const_int(where[0])
    rest = where[1:]

    def element(*i: Any) -> Any:
        at = i[: len(rest)]
        picked = [_wrap(indices(k, *at), shape[batch_dims + k], "fast") for k in range(m)]
        return data(*i[:batch_dims], *picked, *i[len(rest) :])

    return compute(rest + shape[batch_dims + m :], element, name="T_gather_nd", tag=tag.INJECTIVE)


def _combine(mode: str, old: Any, new: Any) -> Any:
    if mode == "add":
        return old + new
    if mode == "mul":
        return old * new
    if mode == "min":
        return tir.min(old, new)
    if mode == "max":
        return tir.max(old, new)
    raise ValueError(f'scatter mode must be "update", "add", "mul", "min" or "max", but is {mode!r}')


def _scatter(
    data: te.Tensor, mode: str, number: Dim, hit: Callable[..., Any], value: Callable[..., Any], shape: Any
) -> te.Tensor:
    """Element by element of the result: what of `number` updates falls on it. `update` keeps the last."""
    k = te.reduce_axis((0, number), name="k")
    if mode == "update":
        last = compute(
            shape,
            lambda *i: te.max(tir.Select(hit(k.var, *i), k.var, tir.const(-1, k.var.dtype)), axis=[k]),
            name="T_scatter_last",
            tag=tag.COMM_REDUCE,
        )
        return compute(
            shape,
            lambda *i: tir.if_then_else(last(*i) >= 0, value(tir.max(last(*i), 0), *i), data(*i)),
            name="T_scatter",
            tag=tag.INJECTIVE,
        )
    reducers: dict[str, tuple[Any, Any]] = {
        "add": (te.sum, tir.const(0, data.dtype)),
        "min": (te.min, tir.max_value(data.dtype)),
        "max": (te.max, tir.min_value(data.dtype)),
        "mul": (te.comm_reducer(lambda a, b: a * b, lambda t: tir.const(1, t), name="prod"), tir.const(1, data.dtype)),
    }
    if mode not in reducers:
        _combine(mode, None, None)
    reducer, neutral = reducers[mode]
    part = compute(
        shape,
        lambda *i: reducer(tir.if_then_else(hit(k.var, *i), value(k.var, *i), neutral), axis=[k]),
        name="T_scatter_part",
        tag=tag.COMM_REDUCE,
    )
    return compute(shape, lambda *i: _combine(mode, data(*i), part(*i)), name="T_scatter", tag=tag.ELEMWISE)


def scatter_elements(
    data: te.Tensor, indices: te.Tensor, updates: te.Tensor, axis: int = 0, reduction: str = "update"
) -> te.Tensor:
    """data with updates[i] put (or added, ...) at position indices[i] along `axis`; of several updates the last wins."""
    shape, where = shape_of(data), shape_of(indices)
    at = normalize_axis(axis, len(shape))

    def place(k: Any, i: tuple[Any, ...]) -> list[Any]:
        return [*i[:at], k, *i[at + 1 :]]

    # Along other axes `indices` may be shorter than `data`: elements past its end have no update.
    short = [d for d in range(len(shape)) if d != at and not (isinstance(shape[d], int) and shape[d] == where[d])]

    def hit(k: Any, *i: Any) -> Any:
        inside = tir.all(*[i[d] < where[d] for d in short]) if short else None
        safe = [tir.min(p, where[d] - 1) if d in short else p for d, p in enumerate(place(k, i))]
        index = indices(*safe)
        same = tir.EQ(_wrap(index, shape[at], "fast"), to(i[at], index.dtype))
        return tir.And(inside, same) if inside is not None else same

    def value(k: Any, *i: Any) -> Any:
        return updates(*[tir.min(p, where[d] - 1) if d in short else p for d, p in enumerate(place(k, i))])

    return _scatter(data, reduction, where[at], hit, value, shape)


def scatter_nd(data: te.Tensor, indices: te.Tensor, updates: te.Tensor, mode: str = "update") -> te.Tensor:
    """data with updates[y.., x..] put at data[indices[0, y..], .., indices[m-1, y..], x..]; of several the last wins."""
    from tilewright.topi.transform import _unflatten_index
    from tilewright.topi.utils import prod

    shape, where = shape_of(data), shape_of(indices)
    m = get_const_int(where[0])
    rest = where[1:]

    def hit(k: Any, *i: Any) -> Any:
        at = _unflatten_index(rest, k)
        tests = []
        for c in range(m):
            index = indices(c, *at)
            tests.append(tir.EQ(_wrap(index, shape[c], "fast"), to(i[c], index.dtype)))
        return tir.all(*tests)

    def value(k: Any, *i: Any) -> Any:
        return updates(*_unflatten_index(rest, k), *i[m:])

    return _scatter(data, mode, prod(rest), hit, value, shape)


def one_hot(indices: te.Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str) -> te.Tensor:
    """on_value where the new axis' position equals the index, else off_value."""
    where = shape_of(indices)
    at = len(where) if axis == -1 else normalize_axis(axis, len(where) + 1)

    def value(v: Any) -> Any:
        return tir.const(v, dtype) if isinstance(v, (int, float)) else v

    return compute(
        [*where[:at], depth, *where[at:]],
        lambda *i: tir.Select(
            tir.EQ(indices(*i[:at], *i[at + 1 :]), to(i[at], indices.dtype)), value(on_value), value(off_value)
        ),
        name="T_one_hot",
        tag=tag.INJECTIVE,
    )


def _rank(data: te.Tensor, axis: int, is_ascend: bool) -> te.Tensor:
    """How many elements stand before each one in the stable order along `axis`."""
    shape = shape_of(data)
    k = te.reduce_axis((0, shape[axis]), name="k")

    def element(*i: Any) -> Any:
        mine, other = data(*i), data(*i[:axis], k.var, *i[axis + 1 :])
        ahead = other < mine if is_ascend else other > mine
        first = tir.Or(ahead, tir.And(tir.EQ(other, mine), k.var < i[axis]))
        return te.sum(tir.Select(first, tir.const(1, "int32"), tir.const(0, "int32")), axis=[k])

    return compute(shape, element, name="T_rank", tag=tag.COMM_REDUCE)


def _by_rank(rank: te.Tensor, axis: int, number: Dim, value: Callable[..., Any]) -> te.Tensor:
    """value(k, index) of that element k whose rank is the position along `axis`, for the first `number` positions."""
    shape = shape_of(rank)
    k = te.reduce_axis((0, shape[axis]), name="k")

    def element(*i: Any) -> Any:
        picked = value(k.var, i)
        return te.sum(
            tir.Select(
                tir.EQ(rank(*i[:axis], k.var, *i[axis + 1 :]), to(i[axis], rank.dtype)),
                picked,
                tir.const(0, picked.dtype),
            ),
            axis=[k],
        )

    return compute([*shape[:axis], number, *shape[axis + 1 :]], element, name="T_by_rank", tag=tag.COMM_REDUCE)


def argsort(data: te.Tensor, axis: int = -1, is_ascend: bool = True, dtype: str = "int32") -> te.Tensor:
    """Positions in sorted order along `axis`, equal elements in their old order. Quadratic in the extent, and parallel."""
    at = normalize_axis(axis, len(data.shape))
    return _by_rank(_rank(data, at, is_ascend), at, shape_of(data)[at], lambda k, i: to(k, dtype))


def sort(data: te.Tensor, axis: int = -1, is_ascend: bool = True) -> te.Tensor:
    """Elements in order along `axis`."""
    at = normalize_axis(axis, len(data.shape))
    return gather(data, at, argsort(data, at, is_ascend))


def topk(
    data: te.Tensor, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int32"
) -> list[te.Tensor]:
    """The k largest (smallest when `is_ascend`) along `axis` in order: values, indices, or both. k < 1 means all."""
    at = normalize_axis(axis, len(data.shape))
    number = k if k >= 1 else shape_of(data)[at]
    places = _by_rank(_rank(data, at, is_ascend), at, number, lambda p, i: to(p, dtype))
    if ret_type == "indices":
        return [places]
    values = gather(data, at, places)
    return [values] if ret_type == "values" else [values, places]


def _running(
    data: te.Tensor, axis: int | None, exclusive: bool, reducer: Any, neutral: int, dtype: str | None, name: str
) -> te.Tensor:
    from tilewright.topi.math import cast
    from tilewright.topi.transform import reshape
    from tilewright.topi.utils import prod

    if axis is None:
        data, axis = reshape(data, [prod(shape_of(data))]), 0
    if dtype:
        data = cast(data, dtype)
    shape = shape_of(data)
    at = normalize_axis(axis, len(shape))
    k = te.reduce_axis((0, shape[at]), name="k")

    def element(*i: Any) -> Any:
        seen = k.var < i[at] if exclusive else k.var <= i[at]
        return reducer(tir.Select(seen, data(*i[:at], k.var, *i[at + 1 :]), tir.const(neutral, data.dtype)), axis=[k])

    return compute(shape, element, name=name, tag=tag.COMM_REDUCE)


def cumsum(data: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False) -> te.Tensor:
    """Running sum along `axis` (of the flattened data when None), without the element itself when `exclusive`."""
    return _running(data, axis, exclusive, te.sum, 0, dtype, "T_cumsum")


def cumprod(data: te.Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool = False) -> te.Tensor:
    """Running product along `axis`."""
    product = te.comm_reducer(lambda a, b: a * b, lambda t: tir.const(1, t), name="prod")
    return _running(data, axis, exclusive, product, 1, dtype, "T_cumprod")
