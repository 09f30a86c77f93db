"""Computes that rearrange elements: windows, grids, diagonals, triangles, sequences, indices of several axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.loops import unflatten
from tilewright.topi.utils import Dim, as_int, get_const_int, normalize_axis, prod, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


def _injective(shape: Sequence[Dim], f: Any, name: str) -> te.Tensor:
    return compute(shape, f, name=name, tag=tag.INJECTIVE)


def sliding_window(data: te.Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> te.Tensor:
    """The windows of data over the axes from `axis` on. The result has the axes over windows, then the axes inside a window."""
    shape = shape_of(data)
    at = normalize_axis(axis, len(shape))
    windows = [as_int((d - w) // s + 1) for d, w, s in zip(shape[at:], window_shape, strides, strict=True)]

    def element(*i: Var) -> Any:
        place, inner = i[at : len(shape)], i[len(shape) :]
        return data(*i[:at], *[p * s + k for p, s, k in zip(place, strides, inner, strict=True)])

    return _injective([*shape[:at], *windows, *window_shape], element, "T_sliding_window")


def meshgrid(a_tuple: Sequence[te.Tensor], indexing: str = "ij") -> list[te.Tensor]:
    """A grid for each vector, whose elements vary along the axis of that vector. indexing: "xy" swaps the first two axes."""
    extents = [shape_of(t)[0] if t.shape else 1 for t in a_tuple]
    swap = indexing == "xy" and len(a_tuple) >= 2
    shape = [extents[1], extents[0], *extents[2:]] if swap else extents

    def grid(k: int) -> te.Tensor:
        axis = 1 - k if swap and k < 2 else k
        vector = a_tuple[k]
        return _injective(shape, lambda *i: vector(i[axis]) if vector.shape else vector(), "T_meshgrid")

    return [grid(k) for k in range(len(a_tuple))]


def reverse_sequence(a: te.Tensor, seq_lengths: te.Tensor, seq_axis: int = 1, batch_axis: int = 0) -> te.Tensor:
    """Reverses the first seq_lengths[b] elements along `seq_axis` in each batch b. Other elements keep their positions."""
    shape = shape_of(a)
    seq, batch = normalize_axis(seq_axis, len(shape)), normalize_axis(batch_axis, len(shape))

    def element(*i: Var) -> Any:
        length = seq_lengths(i[batch])
        last = to(length, i[seq].dtype) - 1
        # A length of 0 acts like 1; lengths past the end are clipped.
        last = tir.min(last, shape[seq] - 1)
        place = tir.if_then_else(i[seq] <= last, last - i[seq], i[seq])
        return a(*i[:seq], place, *i[seq + 1 :])

    return _injective(shape, element, "T_reverse_sequence")


def strided_set(
    a: te.Tensor, v: te.Tensor, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None = None
) -> te.Tensor:
    """A copy of `a` in which a[begin:end:strides], over the leading axes, is replaced by `v`."""
    from tilewright.topi.transform import slice_bounds

    shape = shape_of(a)
    steps = list(strides or []) + [1] * (len(begin) - len(strides or []))
    bounds = [
        (*slice_bounds(get_const_int(d), b, e, s), s) for d, b, e, s in zip(shape, begin, end, steps, strict=False)
    ]

    def element(*i: PrimExpr) -> Any:
        inside, place = [], list(i)
        for k, (start, count, step) in enumerate(bounds):
            ahead = i[k] - start if step > 0 else start - i[k]
            size = abs(step)
            place[k] = ahead if size == 1 else tir.floordiv(ahead, size)
            inside += [ahead >= 0, place[k] < count]
            if size != 1:
                inside.append(tir.EQ(tir.floormod(ahead, size), 0))
        return tir.if_then_else(tir.all(*inside), v(*place), a(*i))

    return _injective(shape, element, "T_strided_set")


def unravel_index(indices: te.Tensor, shape: te.Tensor) -> te.Tensor:
    """Converts flat indices into indices along each axis of `shape`: (number of axes, ...)."""
    rank = get_const_int(shape.shape[0])

    def element(axis: Var, *i: Var) -> Any:
        rest: PrimExpr = indices(*i)
        found = rest
        for k in range(rank - 1, -1, -1):
            # The extents are data. A division by an extent of zero, which has no elements, must not trap.
            extent = tir.max(to(shape(k), indices.dtype), tir.const(1, indices.dtype))
            part = tir.indexmod(rest, extent) if k else rest
            found = part if k == rank - 1 else tir.Select(tir.EQ(axis, k), part, found)
            rest = tir.indexdiv(rest, extent)
        return found

    return _injective([rank, *shape_of(indices)], element, "T_unravel_index")


def matrix_set_diag(
    data: te.Tensor, diagonal: te.Tensor, k: int | Sequence[int] = 0, align: str = "RIGHT_LEFT"
) -> te.Tensor:
    """Replaces the diagonals k[0] to k[1] of the last two axes. Several diagonals are the rows of `diagonal`, the highest first.
    `align` states whether shorter ones are aligned to the left or right, separately for those above and below the main diagonal."""
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    shape = shape_of(data)
    rows, columns = shape[-2], shape[-1]
    several = low != high
    super_right, sub_right = align in ("RIGHT_LEFT", "RIGHT_RIGHT"), align in ("LEFT_RIGHT", "RIGHT_RIGHT")
    longest = shape_of(diagonal)[-1]

    def element(*i: Var) -> Any:
        *batch, r, c = i
        d = c - r
        place: PrimExpr = tir.Select(d >= 0, r, c)
        if several:
            extent = tir.min(rows + tir.min(d, 0), columns - tir.max(d, 0))
            gap = longest - extent
            if super_right and sub_right:
                place = place + gap
            elif super_right:
                place = place + tir.Select(d >= 0, gap, 0)
            elif sub_right:
                place = place + tir.Select(d >= 0, 0, gap)
            # Clamped, so that elements outside of the band read a valid element of `diagonal`.
            row = tir.max(tir.min(high - d, high - low), 0)
            value = diagonal(*batch, row, tir.max(tir.min(place, longest - 1), 0))
        else:
            value = diagonal(*batch, tir.min(place, longest - 1))
        inside = tir.all(d >= low, d <= high) if several else tir.EQ(d, low)
        return tir.if_then_else(inside, value, data(*i))

    return _injective(shape, element, "T_matrix_set_diag")


def adv_index(data: te.Tensor, indices: Sequence[te.Tensor]) -> te.Tensor:
    """data[indices[0], indices[1], ...] with indices broadcast against each other, as in NumPy. Negative indices count from the
    end. Indices out of bounds are clipped."""
    from tilewright.topi.broadcast import broadcast_index, broadcast_shape
    from tilewright.topi.indexing import data_index

    shape = shape_of(data)
    where: list[Dim] = broadcast_shape(*[shape_of(t) for t in indices])

    def element(*i: Var) -> Any:
        place = []
        for t, extent in zip(indices, shape, strict=False):
            index = t(*broadcast_index(shape_of(t), where, i[: len(where)]))
            place.append(data_index(index, extent, "signed"))
        return data(*place, *i[len(where) :])

    return _injective([*where, *shape[len(indices) :]], element, "T_adv_index")


def trilu(data: te.Tensor, k: te.Tensor, upper: bool) -> te.Tensor:
    """The upper (or lower) triangle of the last two axes from diagonal k on, and zeros elsewhere."""
    offset = k() if isinstance(k, te.Tensor) and not k.shape else k(0) if isinstance(k, te.Tensor) else k

    def element(*i: Var) -> Any:
        first = to(i[-2], "int64") + to(offset, "int64")
        kept = first <= to(i[-1], "int64") if upper else first >= to(i[-1], "int64")
        return tir.Select(kept, data(*i), tir.const(0, data.dtype))

    return _injective(shape_of(data), element, "T_trilu")


def invert_permutation(data: te.Tensor) -> te.Tensor:
    """result[data[i]] = i; 0 at positions that are not among the elements. Elements that are out of bounds are ignored."""
    from tilewright.topi.loops import program

    def body(ib: IRBuilder, x: BufferVar, out: BufferVar) -> None:
        (extent,) = shape_of(data)
        with ib.for_range(0, extent, "i") as i:
            out[i] = tir.const(0, data.dtype)
        with ib.for_range(0, extent, "i") as i:
            place = ib.let("place", to(x[i], "int64"))
            with ib.if_scope(tir.And(place >= 0, place < to(extent, "int64"))):
                out[place] = to(i, data.dtype)

    return program([shape_of(data)], [data.dtype], [data], body, "invert_permutation")[0]


def batch_to_space_nd(
    data: te.Tensor, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> te.Tensor:
    """Moves blocks from the batch axis into the spatial axes after it, then crops these."""
    shape = shape_of(data)
    m, total = len(block_shape), prod(block_shape)
    batch = as_int(shape[0] // total)
    out = [batch]
    for k in range(m):
        out.append(as_int(shape[1 + k] * block_shape[k] - (crop_begin_list[k] + crop_end_list[k])))

    def element(b: Var, *i: Var) -> Any:
        places: list[PrimExpr] = []
        block: PrimExpr | int = 0
        for k in range(m):
            p = i[k] + crop_begin_list[k]
            places.append(tir.floordiv(p, block_shape[k]))
            block = block * block_shape[k] + tir.floormod(p, block_shape[k])
        return data(block * batch + b, *places, *i[m:])

    return _injective([*out, *shape[1 + m :]], element, "T_batch_to_space_nd")


def space_to_batch_nd(
    data: te.Tensor,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> te.Tensor:
    """Pads the spatial axes after the batch, and moves the blocks of these axes into the batch."""
    from tilewright.topi.nn.pad import pad

    rest = len(data.shape) - 1 - len(block_shape)
    padded = pad(data, [0, *pad_before, *[0] * rest], [0, *pad_after, *[0] * rest], pad_value)
    shape = shape_of(padded)
    m, batch = len(block_shape), shape[0]
    out = [
        as_int(batch * prod(block_shape)),
        *[as_int(shape[1 + k] // block_shape[k]) for k in range(m)],
        *shape[1 + m :],
    ]

    def element(b: Var, *i: Var) -> Any:
        blocks = unflatten(tir.floordiv(b, batch), block_shape)
        return padded(tir.floormod(b, batch), *[i[k] * block_shape[k] + blocks[k] for k in range(m)], *i[m:])

    return _injective(out, element, "T_space_to_batch_nd")
