"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import broadcast, math, tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.planner import planner
from tilewright.topi.utils import Dim, as_int, known_equal, normalize_axes, shape_of, sum_type, to
from tilewright.topi.utils import prod as number_of

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr, PrimExprLike
    from tilewright.tir.expr import Var


Axis = int | Sequence[int] | None


def reduced_shape(shape: Sequence[Any], axes: Sequence[int], keepdims: bool) -> list[Dim]:
    """`shape` without `axes`, or with extent 1 for them if `keepdims`."""
    return [1 if i in axes else d for i, d in enumerate(shape) if keepdims or i not in axes]


def reduce(
    x: te.Tensor,
    axes: Sequence[int],
    keepdims: bool,
    reducer: Callable[..., Any],
    f: Callable[..., Any],
    name: str,
    beyond: float | None = None,
) -> te.Tensor:
    """The reduction of f(element, indices) along `axes` by `reducer`.

    If the last axis is not a whole number of vectors, the reduction continues over neutral elements. Several last axes are merged
    into one if their elements are contiguous. beyond: a number that f may get along the last axis past its end, so that it reads
    valid data there.
    """
    first = _first_apart(shape_of(x), axes, x.dtype) if reducer in _NEUTRAL and beyond is None else []
    if first:
        x, f = reduce(x, first, True, reducer, f, name), lambda v, _: v
    shape = shape_of(x)
    extents = {a: shape[a] for a in axes}
    last = len(shape) - 1
    joined = _joined(shape, axes, x.dtype) if reducer in _NEUTRAL else []
    size = whole = number_of([shape[a] for a in joined]) if joined else shape[last]
    if last in extents and reducer in _NEUTRAL:
        extents[last] = whole = whole_vectors(size, x.dtype)
    by_axis = {a: te.reduce_axis((0, extents[a]), name=f"k{a}") for a in axes if a not in joined[:-1]}
    ks = [by_axis[a] for a in axes if a in by_axis]
    at: dict[int, Any] = {a: k.var for a, k in by_axis.items()}
    place = at.get(last)
    for a in reversed(joined):
        at[a] = place % shape[a] if a != joined[0] else place
        place = place // shape[a]

    def element(*out: Var) -> Any:
        rest = iter(out)
        index = []
        for i in range(len(shape)):
            if i in at:
                if keepdims:
                    next(rest)
                index.append(at[i])
            else:
                index.append(next(rest))
        if last not in extents or whole is size:
            return reducer(f(x(*index), index), axis=ks)
        within = tir.likely(by_axis[last].var < size)
        if beyond is None:
            value = f(x(*index), index)
            return reducer(tir.if_then_else(within, value, _NEUTRAL[reducer](value.dtype)), axis=ks)
        value = f(tir.if_then_else(within, x(*index), tir.const(beyond, x.dtype)), index)
        return reducer(tir.Select(within, value, _NEUTRAL[reducer](value.dtype)), axis=ks)

    return compute(reduced_shape(shape, axes, keepdims), element, name=name, tag=tag.COMM_REDUCE)


largest_number = te.comm_reducer(lambda a, b: tir.Select(tir.GT(b, a), b, a), tir.lowest, name="largest_number")
"""The largest value, which ignores NaN. It is one instruction on all processors."""
_NEUTRAL: dict[Any, Callable[[str], Any]] = {
    te.sum: lambda dtype: tir.const(0, dtype),
    te.max: tir.lowest,
    largest_number: tir.lowest,
    te.min: tir.highest,
}


def _first_apart(shape: Sequence[Dim], axes: Sequence[int], dtype: str) -> list[int]:
    """The first group of adjacent reduced axes, if further ones follow behind an axis that is kept, as is the last axis, and the planner
    decides to reduce it apart; else []. Axes of one element do not count."""
    if len(shape) - 1 in axes or {int} != {type(d) for d in shape}:
        return []
    reduced = [a for a in sorted(axes) if shape[a] != 1]
    kept = [a for a in range(len(shape)) if a not in axes and shape[a] != 1]
    end = next((a for a in kept if reduced and a > reduced[0]), len(shape))
    first = [a for a in reduced if a < end]
    if not first or len(first) == len(reduced):
        return []
    steps = number_of([shape[a] for a in first])
    row = number_of([d for a, d in enumerate(shape) if a not in first])
    return first if planner().first_apart(steps, row, dtype) else []


def _joined(shape: Sequence[Dim], axes: Sequence[int], dtype: str) -> list[int]:
    """The last axes, at least two, if all of them are reduced and the planner decides that they are one row; else []."""
    run = [a for a in range(len(shape)) if {*range(a, len(shape))} <= {*axes}]
    if len(run) < 2 or {int} != {type(shape[a]) for a in run}:
        return []
    return run if planner().one_row(shape[-1], number_of([shape[a] for a in run]), dtype) else []


def whole_vectors(extent: Any, dtype: str) -> Any:
    """The extent, rounded up to a multiple of the vector length if it is dynamic, or if the planner decides so."""
    lanes = planner().lanes(dtype)
    if not lanes:
        return extent
    if not isinstance(extent, int):
        return tir.floordiv(extent + (lanes - 1), lanes) * lanes
    found = extent if extent % lanes == 0 else planner().reduced(extent, dtype)
    return extent if found == extent else found


def _reduction(name: str, reducer: Callable[..., Any], doc: str) -> Callable[..., te.Tensor]:
    def compute(data: te.Tensor, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> te.Tensor:
        axes = normalize_axes(axis, len(data.shape), exclude)
        if not axes:
            return math.identity(data)
        return reduce(data, axes, keepdims, reducer, lambda v, _: v, f"T_{name}")

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = doc
    return compute


sum = _reduction("sum", te.sum, "Sum along `axis` (all axes when None).")
max = _reduction("max", te.max, "Largest along `axis`.")
min = _reduction("min", te.min, "Smallest along `axis`.")
_prod = te.comm_reducer(lambda a, b: a * b, lambda t: tir.const(1, t), name="prod")
_NEUTRAL[_prod] = lambda dtype: tir.const(1, dtype)
_all = te.comm_reducer(lambda a, b: tir.And(a, b), lambda t: tir.const(True, t), name="all")
_any = te.comm_reducer(lambda a, b: tir.Or(a, b), lambda t: tir.const(False, t), name="any")
all = _reduction("all", _all, "Whether all elements along `axis` hold (bool).")
any = _reduction("any", _any, "Whether any element along `axis` holds (bool).")
prod = _reduction("prod", _prod, "Product along `axis`.")


def count(data: te.Tensor, axis: Axis, exclude: bool = False) -> Any:
    """The number of elements that are reduced to one result along `axis`."""
    shape = shape_of(data)
    return number_of(shape[a] for a in normalize_axes(axis, len(shape), exclude))


def scale_by_count(total: te.Tensor, number: PrimExprLike) -> te.Tensor:
    """total / number."""
    if "float" not in total.dtype:
        # The sum of no elements is zero, so any divisor will do.
        number = number if isinstance(number, int) and number else tir.max(number, 1)
        return math.elementwise(total, lambda v: tir.truncdiv(v, to(number, v.dtype)), "T_divide")
    if isinstance(number, int):
        return math.elementwise(total, lambda v: v / tir.const(number, v.dtype), "T_divide")
    return math.elementwise(total, lambda v: v / to(number, v.dtype), "T_divide")


def mean(data: te.Tensor, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> te.Tensor:
    """Arithmetic mean along `axis`. That of integers is rounded towards zero."""
    number = count(data, axis, exclude)
    wide = sum_type(data.dtype, number)
    axes = normalize_axes(axis, len(data.shape), exclude)
    if wide == data.dtype or not axes:
        return scale_by_count(sum(data, axis, keepdims, exclude), number)
    total = reduce(data, axes, keepdims, te.sum, lambda v, _: to(v, wide), "T_sum")
    return math.cast(scale_by_count(total, number), data.dtype)


def variance(
    data: te.Tensor,
    mean_: te.Tensor,
    axis: Axis = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> te.Tensor:
    """The mean squared distance from `mean_` along `axis`. mean_: computed with keepdims. unbiased: divides by one less. That of integers
    is computed in floats, and rounded towards zero."""
    if not data.dtype.is_float:
        found = variance(math.reals(data), math.reals(mean_), axis, keepdims, exclude, unbiased)
        return math.cast(found, data.dtype)
    axes = normalize_axes(axis, len(data.shape), exclude)
    own = shape_of(mean_)
    full = shape_of(data)

    def square(v: PrimExpr, index: list[Var]) -> PrimExpr:
        d = v - mean_(*broadcast.broadcast_index(own, full, index))
        return d * d

    total = reduce(data, axes, keepdims, te.sum, square, "T_variance")
    return scale_by_count(total, count(data, axes) - (1 if unbiased else 0))


def _arg(
    data: te.Tensor, axis: Axis, keepdims: bool, last: bool, best: Callable[..., te.Tensor], exclude: bool, dtype: str
) -> te.Tensor:
    """The position of the best value, or of a NaN if there is one: the first such position, or the last.

    It takes two plain reductions, which can be vectorised, instead of one over pairs.
    """
    axes = normalize_axes(axis, len(data.shape), exclude)
    shape = shape_of(data)
    if not [a for a in axes if not known_equal(shape[a], 1)]:
        kept = [n for a, n in enumerate(shape) if keepdims or a not in axes]
        return compute(kept, lambda *_: tir.const(0, dtype), name="T_arg", tag=tag.COMM_REDUCE)
    top = best(data, axes, keepdims=True)
    own = shape_of(top)
    # The neutral value: it loses against every position.
    none = tir.const(-1, dtype) if last else tir.max_value(dtype)

    def place(v: PrimExpr, index: list[Var]) -> Any:
        position = 0
        for a in axes:
            position = position * shape[a] + index[a]
        hit: PrimExpr = tir.EQ(v, top(*broadcast.broadcast_index(own, shape, index)))
        if "float" in data.dtype:
            hit = tir.Or(hit, tir.NE(v, v))
        return tir.Select(hit, to(position, dtype), none)

    return reduce(data, axes, keepdims, te.max if last else te.min, place, "T_arg", beyond=0.0)


def argmax(
    data: te.Tensor,
    axis: Axis = None,
    keepdims: bool = False,
    select_last_index: bool = False,
    exclude: bool = False,
    dtype: str = "int32",
) -> te.Tensor:
    """The position of the maximum along `axis` (in the flattened axes, if several): of equal elements the first, or with
    `select_last_index` the last."""
    return _arg(data, axis, keepdims, select_last_index, max, exclude, dtype)


def argmin(
    data: te.Tensor,
    axis: Axis = None,
    keepdims: bool = False,
    select_last_index: bool = False,
    exclude: bool = False,
    dtype: str = "int32",
) -> te.Tensor:
    """The position of the minimum along `axis`: of equal elements the first, or with `select_last_index` the last."""
    return _arg(data, axis, keepdims, select_last_index, min, exclude, dtype)


def collapse_sum(data: te.Tensor, target_shape: Sequence[Any]) -> te.Tensor:
    """data summed to `target_shape`, which must broadcast to its shape: over leading axes, and over axes whose target extent is 1."""
    shape, target = shape_of(data), [as_int(d) for d in target_shape]
    lead = len(shape) - len(target)
    axes: dict[int, Any] = {i: te.reduce_axis((0, shape[i]), name=f"k{i}") for i in range(lead)}
    for i, (have, want) in enumerate(zip(shape[lead:], target, strict=True), lead):
        if isinstance(want, int):
            if want == 1 and not known_equal(have, 1):
                axes[i] = te.reduce_axis((0, have), name=f"k{i}")
        elif not known_equal(have, want):
            # A dynamic target may be 1, and the axis is summed; otherwise the sum has one term.
            extent = tir.Select(tir.EQ(want, tir.const(1, want.dtype)), to(have, want.dtype), tir.const(1, want.dtype))
            axes[i] = te.reduce_axis((0, extent), name=f"k{i}")
    if not axes:
        return data

    def element(*out: Var) -> Any:
        index = [axes[i].var for i in range(lead)]
        for i, at in enumerate(out, lead):
            known = isinstance(target[i - lead], int)
            index.append((axes[i].var if known else at + axes[i].var) if i in axes else at)
        return te.sum(data(*index), axis=list(axes.values()))

    return compute(target, element, name="T_collapse_sum", tag=tag.COMM_REDUCE)
