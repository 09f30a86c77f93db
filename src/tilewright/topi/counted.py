"""Computes whose number of results depends on the data. They fill the front of a tensor of the largest possible size, and return the
number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilewright import te
from tilewright.topi.lang import tir
from tilewright.topi.loops import local, program, unflatten
from tilewright.topi.sort import first
from tilewright.topi.utils import Dim, as_int, prod, shape_of, to

if TYPE_CHECKING:
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


def nonzero(condition: te.Tensor, rows: Dim = None) -> list[te.Tensor]:
    """[indices (rows, axes) of int32, the number of nonzero elements (1,)]: the index of each nonzero element, in order. The remaining rows
    are zeros, and what is beyond the rows is left out. rows: as many as there are elements by default."""
    shape = shape_of(condition)
    rank, total = len(shape), prod(shape)
    held = total if rows is None else rows

    def body(ib: IRBuilder, x: BufferVar, out: BufferVar, count: BufferVar) -> None:
        found = local(ib, "int32", 0, "found")
        with ib.for_range(0, total, "i") as i:
            index = unflatten(i, shape)
            with ib.if_scope(tir.NE(x[tuple(index)], tir.const(0, x.dtype))):
                with ib.if_scope(found[0] < to(held, "int32")):
                    for axis in range(rank):
                        out[found[0], axis] = to(index[axis], "int32")
                found[0] = found[0] + 1
        with ib.for_range(tir.min(to(found[0], "int64"), to(held, "int64")), to(held, "int64"), "j") as j:
            for axis in range(rank):
                out[j, axis] = tir.const(0, "int32")
        count[0] = found[0]

    return program([[held, rank], [1]], ["int32", "int32"], [condition], body, "argwhere")


def argwhere(output_shape: Sequence[Dim], condition: te.Tensor) -> te.Tensor:
    """The index of each nonzero element, in order: (rows, axes) of int32. output_shape: that shape, whose rows are the number of nonzero
    elements, which only the data know. With more rows the rest are zeros; with fewer the last elements are left out."""
    rows, axes = [as_int(d) for d in output_shape]
    if axes != len(condition.shape):
        raise ValueError(
            f"argwhere: the result has a column for each of {len(condition.shape)} axes, but output_shape has {axes}"
        )
    return nonzero(condition, rows)[0]


def unique(data: te.Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[te.Tensor]:
    """[distinct elements, index of the first occurrence of each, index of each input element among them, their number (1,), and
    with `return_counts` the count of each].

    Elements are in ascending order with `is_sorted`, else in the order of their first occurrences. The remaining elements are zeros.
    `data` has one axis.
    """
    shape = shape_of(data)
    (n,) = shape
    values, places = first(data, 0, True, n, "int32")
    outs = ["int32", "int32", "int32", "int32"]

    def body(
        ib: IRBuilder,
        v: BufferVar,
        p: BufferVar,
        kinds: BufferVar,
        first: BufferVar,
        which: BufferVar,
        number: BufferVar,
        counts: BufferVar,
        group: BufferVar,
        at: BufferVar,
    ) -> None:
        # Group g of the sorted elements begins at the first place of its element; at[i] is its group, or -1.
        total = local(ib, "int32", 0, "total")
        with ib.for_range(0, n, "i") as i:
            at[i] = tir.const(-1, "int32")
            kinds[i] = tir.const(0, data.dtype)
            first[i] = tir.const(0, "int32")
            counts[i] = tir.const(0, "int32")
        with ib.for_range(0, n, "i") as i:
            # The first element has no predecessor.
            fresh = tir.Or(i <= 0, tir.NE(v[i], v[tir.max(i - 1, 0)]))
            with ib.if_scope(fresh):
                at[p[i]] = total[0]
                total[0] = total[0] + 1
            group[i] = total[0] - 1
        rank = local(ib, "int32", 0, "rank")
        with ib.for_range(0, n, "i") as i, ib.if_scope(at[i] >= 0):
            # From here on first[g] is the place of group g in the result.
            first[at[i]] = at[i] if is_sorted else rank[0]
            rank[0] = rank[0] + 1
        with ib.for_range(0, n, "i") as i:
            place = ib.let("place", first[group[i]])
            which[p[i]] = place
            kinds[place] = v[i]
            counts[place] = counts[place] + 1
        # The first occurrences are written last, over values that are no longer needed.
        with ib.for_range(0, n, "i") as i:
            first[i] = tir.const(0, "int32")
        with ib.for_range(0, n, "i") as i, ib.if_scope(at[i] >= 0):
            first[which[i]] = to(i, "int32")
        number[0] = total[0]

    made = program(
        [[n], [n], [n], [1], [n]],
        [data.dtype, *outs],
        [values, places],
        body,
        "unique",
        [([n], "int32"), ([n], "int32")],
    )
    return made if return_counts else made[:4]


def _of_rank(rank: int) -> Callable[[Sequence[Dim], te.Tensor], te.Tensor]:
    def of_rank(output_shape: Sequence[Dim], condition: te.Tensor) -> te.Tensor:
        if len(condition.shape) != rank:
            raise ValueError(
                f"hybrid_argwhere_{rank}d: the condition must have {rank} axes, but has {len(condition.shape)}"
            )
        return argwhere(output_shape, condition)

    of_rank.__name__ = of_rank.__qualname__ = f"hybrid_argwhere_{rank}d"
    of_rank.__doc__ = f"`argwhere` of a condition that has {rank} axes."
    return of_rank


hybrid_argwhere_1d, hybrid_argwhere_2d, hybrid_argwhere_3d, hybrid_argwhere_4d, hybrid_argwhere_5d = map(
    _of_rank, range(1, 6)
)

__all__ = [
    "argwhere",
    "hybrid_argwhere_1d",
    "hybrid_argwhere_2d",
    "hybrid_argwhere_3d",
    "hybrid_argwhere_4d",
    "hybrid_argwhere_5d",
    "nonzero",
    "unique",
]
