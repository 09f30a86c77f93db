"""Computes whose indices are data: take, gather, one_hot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.planner import planner
from tilewright.topi.stages import MATERIALIZE
from tilewright.topi.utils import Dim, get_const_int, holds, normalize_axis, shape_of, to, whole

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr, PrimExprLike
    from tilewright.tir.expr import ProducerLoad, Var


def data_index(i: Any, extent: Dim, mode: str) -> PrimExpr:
    """An index from data, made valid for an axis. mode: clip, bounded: clipped; wrap: modulo the extent; signed: negative indices
    count from the end, then clipped; fast: negative indices count from the end, not checked."""
    i = whole(i)
    top = to(extent, i.dtype)
    zero = tir.const(0, i.dtype)
    if mode in ("clip", "bounded"):
        return tir.min(tir.max(i, zero), top - tir.const(1, i.dtype))
    if mode == "wrap":
        return tir.floormod(i, top if isinstance(extent, int) and extent else tir.max(top, tir.const(1, i.dtype)))
    from_start = tir.Select(i < zero, i + top, i)
    return data_index(from_start, extent, "clip") if mode == "signed" else from_start


def take(
    a: te.Tensor, indices: te.Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> te.Tensor:
    """a[..., indices, ...] along `axis` (of the flattened a if None). mode: as in `data_index`."""
    shape, where = shape_of(a), shape_of(indices)
    if axis is None:
        from tilewright.topi.transform import reshape
        from tilewright.topi.utils import prod

        return take(reshape(a, [prod(shape)]), indices, 0, 0, mode)
    at = normalize_axis(axis, len(shape))
    batch = batch_dims if batch_dims >= 0 else batch_dims + len(where)
    inner = len(where) - batch

    places = compute(where, lambda *i: data_index(indices(*i), shape[at], mode), name="T_places", tag=tag.INJECTIVE)

    def element(*i: Var) -> Any:
        return a(*i[:at], places(*i[:batch], *i[at : at + inner]), *i[at + inner :])

    return compute(shape[:at] + where[batch:] + shape[at + 1 :], element, name="T_take", tag=tag.INJECTIVE)


def gather(data: te.Tensor, axis: int, indices: te.Tensor) -> te.Tensor:
    """data[i0, .., indices[i0, .., in], .., in] along `axis`. Negative indices count from the end. Indices out of bounds are
    clipped."""
    shape = shape_of(data)
    at = normalize_axis(axis, len(shape))

    def element(*i: Var) -> ProducerLoad:
        place = _within(i, shape_of(indices), shape)
        place[at] = data_index(indices(*i), shape[at], "signed")
        return data(*place)

    return compute(indices.shape, element, name="T_gather", tag=tag.INJECTIVE)


def _within(place: Sequence[Var], extents: Sequence[Dim], shape: Sequence[Dim]) -> list[PrimExpr]:
    """An index below `extents`, clipped to `shape` along axes that are not known to be as large."""
    return [i if holds(d, n) else data_index(i, d, "clip") for i, n, d in zip(place, extents, shape, strict=True)]


def gather_nd(a: te.Tensor, indices: te.Tensor, batch_dims: int = 0) -> te.Tensor:
    """a[b.., indices[0, b.., y..], .., indices[m-1, b.., y..], x..]: the first axis of `indices` runs over the coordinates.
    Indices out of bounds are clipped."""
    shape, where = shape_of(a), shape_of(indices)
    m = get_const_int(where[0])
    rest = where[1:]

    def element(*i: Var) -> ProducerLoad:
        at = i[: len(rest)]
        picked = [data_index(indices(k, *at), shape[batch_dims + k], "signed") for k in range(m)]
        batch = _within(i[:batch_dims], rest[:batch_dims], shape[:batch_dims])
        return a(*batch, *picked, *i[len(rest) :])

    return compute(rest + shape[batch_dims + m :], element, name="T_gather_nd", tag=tag.INJECTIVE)


def one_hot(
    indices: te.Tensor, on_value: PrimExprLike, off_value: PrimExprLike, depth: int, axis: int, dtype: str
) -> te.Tensor:
    """on_value where the position along the new axis equals the index, else off_value."""
    where = shape_of(indices)
    at = len(where) if axis == -1 else normalize_axis(axis, len(where) + 1)

    def value(v: Any) -> Any:
        return tir.const(v, dtype) if isinstance(v, (int, float)) else v

    def short(*i: Var) -> Any:
        """The index in 32 bits, -1 where it is none of the positions. Each is compared `depth` times."""
        index = whole(indices(*i))
        inside = tir.all(index >= to(0, index.dtype), index < to(depth, index.dtype))
        return tir.Select(inside, to(index, "int32"), tir.const(-1, "int32"))

    places, long = indices, str(indices.dtype) in ("int64", "uint64")
    if long and isinstance(depth, int) and depth < 1 << 31 and not planner().threads():
        places = compute(where, short, name="T_short", tag=tag.INJECTIVE, attrs={MATERIALIZE: 1})

    def element(*i: Var) -> Any:
        index = whole(places(*i[:at], *i[at + 1 :]))
        return tir.Select(tir.EQ(index, to(i[at], index.dtype)), value(on_value), value(off_value))

    return compute(
        [*where[:at], depth, *where[at:]],
        element,
        name="T_one_hot",
        tag=tag.INJECTIVE,
    )
