"""Scattering: the data is copied, then each update is written, in order."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import tir
from tilewright.topi.loops import copy, loop_kind, program, unflatten
from tilewright.topi.planner import planner
from tilewright.topi.utils import Dim, get_const_int, holds, inside, normalize_axis, prod, shape_of, to, whole

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr, PrimExprLike
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


MODES = ("update", "add", "mul", "min", "max", "mean")


def combine(mode: str, old: Any, new: PrimExprLike) -> Any:
    """The value at a position that held `old`, after the update `new`."""
    if mode == "update":
        return new
    if mode in ("add", "mean"):
        return old + new
    if mode == "mul":
        return old * new
    if mode == "min":
        return tir.min(old, new)
    if mode == "max":
        return tir.max(old, new)
    raise ValueError(f"the reduction of a scatter must be one of {', '.join(MODES)}, but is {mode!r}")


def wrapped(index: Any, extent: Dim) -> PrimExpr:
    """An index, with `extent` added if it is negative."""
    index = whole(index)
    return tir.Select(index < 0, index + to(extent, index.dtype), index)


def scatter_elements(
    data: te.Tensor, indices: te.Tensor, updates: te.Tensor, axis: int = 0, reduction: str = "update"
) -> te.Tensor:
    """data with updates[i] written (or added, ...) at position indices[i] along `axis`, in order. Updates out of bounds are
    skipped. "mean": the sum of the element and its updates, divided by the number of updates plus one."""
    shape, where = shape_of(data), shape_of(indices)
    at = normalize_axis(axis, len(shape))
    combine(reduction, tir.const(0, data.dtype), tir.const(0, data.dtype))
    # Updates with equal indices before the axis write to one part of the data, and one thread does all of them; on GPUs, which have more
    # threads, those with equal indices at all other axes.
    outer, rest = where[:at], where[at:]
    if planner().threads():
        outer, rest = [*where[:at], *where[at + 1 :]], where[at : at + 1]

    def body(
        ib: IRBuilder, x: BufferVar, idx: BufferVar, upd: BufferVar, out: BufferVar, count: BufferVar | None = None
    ) -> None:
        copy(ib, x, out, shape)
        if count is not None:
            _fill(ib, count, shape, 1)
        kind = loop_kind(*where) if outer else "serial"
        with ib.for_range(0, prod(outer), "o", kind=kind) as o, ib.for_range(0, prod(rest), "u") as u:
            before, along = unflatten(o, outer), unflatten(u, rest)
            place = [*before[:at], along[0], *before[at:], *along[1:]]
            index = ib.let("index", wrapped(idx[tuple(place)], shape[at]))
            target = (*place[:at], index, *place[at + 1 :])
            beside = [k for k, d in enumerate(shape) if k != at and not holds(d, where[k])]
            with ib.if_scope(tir.all(inside(index, shape[at]), *[inside(place[k], shape[k]) for k in beside])):
                out[target] = combine(reduction, out[target], upd[tuple(place)])
                if count is not None:
                    count[target] = count[target] + tir.const(1, "int32")
        if count is not None:
            _divide(ib, out, count, shape)

    scratch = [(shape, "int32")] if reduction == "mean" else []
    return program([shape], [data.dtype], [data, indices, updates], body, "scatter_elements", scratch)[0]


def _of_threads() -> str:
    """The kind of loops over elements that are a thread's each, where there are many threads."""
    return "parallel" if planner().threads() else "serial"


def _fill(ib: IRBuilder, target: BufferVar, shape: list[Dim], value: int) -> None:
    with ib.for_range(0, prod(shape), "i", kind=_of_threads()) as i:
        target[tuple(unflatten(i, shape))] = tir.const(value, target.dtype)


def _divide(ib: IRBuilder, target: BufferVar, count: BufferVar, shape: list[Dim]) -> None:
    with ib.for_range(0, prod(shape), "i", kind=_of_threads()) as i:
        index = tuple(unflatten(i, shape))
        number = to(count[index], target.dtype)
        whole = target[index]
        target[index] = whole / number if "float" in target.dtype else tir.floordiv(whole, number)


def scatter_nd(data: te.Tensor, indices: te.Tensor, updates: te.Tensor, mode: str = "update") -> te.Tensor:
    """data with updates[y.., x..] written (or added, ...) at data[indices[0, y..], .., indices[m-1, y..], x..], in order. Updates
    out of bounds are skipped."""
    shape, where = shape_of(data), shape_of(indices)
    m = get_const_int(where[0])
    rest, tail = where[1:], shape[m:]
    combine(mode, tir.const(0, data.dtype), tir.const(0, data.dtype))

    def body(ib: IRBuilder, x: BufferVar, idx: BufferVar, upd: BufferVar, out: BufferVar, count: Any = None) -> None:
        copy(ib, x, out, shape)
        if count is not None:
            _fill(ib, count, shape, 1)

        def update(u: Any, elements: AbstractContextManager[Any]) -> None:
            place = unflatten(u, rest)
            index = [ib.let(f"index{c}", wrapped(idx[(c, *place)], shape[c])) for c in range(m)]
            within = [inside(i, d) for i, d in zip(index, shape[:m], strict=True)]
            with ib.if_scope(tir.all(*within) if within else tir.const(True, "bool")), elements as t:
                k = unflatten(t, tail)
                target = (*index, *k)
                out[target] = combine(mode, out[target], upd[(*place, *k)])
                if count is not None:
                    count[target] = count[target] + tir.const(1, "int32")

        if planner().threads():
            # A thread writes all updates of an element of the tail.
            with ib.for_range(0, prod(tail), "t", kind="parallel") as t, ib.for_range(0, prod(rest), "u") as u:
                update(u, nullcontext(t))
        else:
            with ib.for_range(0, prod(rest), "u") as u:
                update(u, ib.for_range(0, prod(tail), "t"))
        if count is not None:
            _divide(ib, out, count, shape)

    scratch = [(shape, "int32")] if mode == "mean" else []
    return program([shape], [data.dtype], [data, indices, updates], body, "scatter_nd", scratch)[0]
