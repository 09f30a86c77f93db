"""Operators that read elements at indices that are data: take, gather, one_hot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import INJECTIVE, Draw, Indexed, Made, OpCard, need
from tilewright.relay.cards.relations import (
    Dim,
    as_dim,
    assume,
    dims,
    is_any,
    known_extent,
    may_equal,
    normal_axis,
    product,
    tensor,
    tensor_type,
)
from tilewright.relay.expr import Expr, const
from tilewright.relay.op.adjoint import derived, op
from tilewright.tir.op import max as larger
from tilewright.tir.op import min as smaller


def picks(high: int, *shape: int) -> Draw:
    """A sample argument: random indices from 0 to `high` - 1."""
    return lambda rng: rng.integers(0, high, shape).astype(np.int32)


def integers(t: TensorType, arg: int) -> TensorType:
    """`t`, after a check that it holds integers."""
    need(
        t.dtype in ("int32", "int64", "int8", "int16", "uint8", "uint32", "uint64", "uint16"),
        "indices must be integers",
        f"they are {t.dtype}",
        arg,
    )
    return t


def need_elements(extents: Sequence[Dim], result: Sequence[Dim]) -> None:
    """Refuses to read elements from axes without elements."""
    count = product(result)
    for extent in extents:
        if is_any(extent) or is_any(count) or isinstance(count, int) and not count:
            continue
        if isinstance(extent, int) and isinstance(count, int):
            need(extent, "there must be an element to take", "the axis has none", 0)
        elif not isinstance(extent, int) or extent == 0:
            least = smaller(as_dim(count), as_dim(1))
            assume(extent, larger(as_dim(extent), least), rule="an axis of {0} elements must have those that are taken")


MODES = ("clip", "wrap", "fast", "signed", "bounded")


class take(OpCard, key="take"):
    """data[.., indices, ..] along `axis` (of the flattened data if None). mode: "clip", "wrap" (modulo the extent), "fast"
    (negative indices count from the end; the program guarantees that all are in bounds), "signed" (negative indices count from
    the end; out of bounds is an error of the program, and clipped), "bounded" (the same without negative indices)."""

    axis: int | None = None
    batch_dims: int = 0
    mode: str = "clip"
    fuse = INJECTIVE
    samples = [
        (((4, 5), picks(4, 2, 3)), {"axis": 0}),
        (((4, 5), picks(9, 3)), {"axis": 1, "mode": "wrap"}),
        (((4, 5), picks(20, 2)), {}),
        (((2, 4, 3), picks(4, 2, 2)), {"axis": 1, "batch_dims": 1}),
        (((4, 5), np.array([-1, 2], np.int64)), {"axis": 1, "mode": "fast"}),
        (((4, 5), np.array([-1, 2, -9, 7], np.int64)), {"axis": 1, "mode": "signed"}),
        (((4, 5), np.array([-1, 2, 9], np.int64)), {"axis": 0, "mode": "bounded"}),
    ]

    def infer(self, data: TensorType, indices: TensorType) -> Type:
        d, i = tensor(data, 0), integers(tensor(indices, 1), 1)
        need(self.mode in MODES, f"mode must be one of {', '.join(MODES)}", f"it is {self.mode!r}")
        if self.axis is None:
            need_elements([product(dims(d))], dims(i))
            return tensor_type(i.shape, d.dtype)
        at = normal_axis(self.axis, len(d.shape))
        batch = self.batch_dims % (len(i.shape) + 1) if self.batch_dims < 0 else self.batch_dims
        need(
            batch <= at and batch <= len(i.shape),
            "batch_dims must not go past axis",
            f"it is {self.batch_dims} with axis {self.axis}",
        )
        fits = all(map(may_equal, dims(i)[:batch], dims(d)[:batch]))
        need(fits, "indices must have the batch axes of data", f"they are {dims(i)} for {dims(d)}", 1)
        shape = [*dims(d)[:at], *dims(i)[batch:], *dims(d)[at + 1 :]]
        need_elements([dims(d)[at]], shape)
        return tensor_type(shape, d.dtype)

    def compute(self, data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        return topi.take(data, indices, self.axis, self.batch_dims, self.mode)

    def ref(self, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
        axis = self.axis
        if axis is None:
            data, axis = data.reshape(-1), 0
        axis %= data.ndim
        extent = data.shape[axis]
        i = indices.astype(np.int64)
        if self.mode == "wrap":
            i = i % extent
        else:
            i = np.clip(i, 0, extent - 1) if self.mode in ("clip", "bounded") else within(i, extent)
        if not self.batch_dims:
            return np.take(data, i, axis)
        batch = self.batch_dims
        lead = data.shape[:batch]
        parts = [np.take(data[b], i[b], axis - batch) for b in np.ndindex(*lead)]
        return np.stack(parts).reshape(*lead, *parts[0].shape)

    def indexed(self, types: Sequence[Type]) -> Sequence[Indexed]:
        if self.mode in ("clip", "wrap"):
            return ()
        axes = None if self.axis is None else (self.axis % len(tensor(types[0], 0).shape),)
        return [Indexed(1, 0, axes, below=self.mode != "bounded")]

    def grad(self, data: Expr, indices: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        """Adds up, at each position, the adjoints of the elements that were read from it."""
        rank, places = len(tensor(data.checked_type).shape), len(tensor(indices.checked_type).shape)
        if self.batch_dims:
            return [derived(self, [data, indices], dy)[0], None]
        flat = self.axis is None
        axis = 0 if self.axis is None else self.axis % rank
        source = op("reshape")(data, (-1,)) if flat else data
        extent = op("take")(op("shape_of")(source, dtype="int64"), const(axis, "int64"), axis=0)
        at = op("cast")(indices, "int64")
        if self.mode == "signed":
            at = op("where")(op("less")(at, const(0, "int64")), at + extent, at)
        if self.mode in ("clip", "bounded", "signed"):
            at = op("minimum")(op("maximum")(at, const(0, "int64")), extent - const(1, "int64"))
        elif self.mode == "wrap":
            at = op("floor_mod")(at, extent)
        # scatter_nd needs the indexed axes first.
        front = [axis, *[a for a in range(1 if flat else rank) if a != axis]]
        moved = op("transpose")(op("zeros_like")(source), front)
        around = [a for a in range(places + len(front) - 1) if not axis <= a < axis + places]
        parts = op("transpose")(dy, [*range(axis, axis + places), *around]) if axis and places else dy
        total = op("scatter_nd")(moved, op("expand_dims")(at, axis=0), parts, mode="add")
        total = op("transpose")(total, [front.index(a) for a in range(len(front))])
        return [op("reshape_like")(total, data) if flat else total, None]


def no_more_than_data(data: TensorType, indices: TensorType, axis: int) -> None:
    """Refuses indices that are longer than data along an axis other than `axis`."""
    for k, (d, i) in enumerate(zip(dims(data), dims(indices), strict=True)):
        need(
            k == axis % len(data.shape) or not isinstance(d, int) or not isinstance(i, int) or i <= d,
            f"indices must not be more than data along an axis other than {axis}",
            f"axis {k} has {i} and {d}",
            1,
        )


def from_start(indices: np.ndarray, extent: int) -> np.ndarray:
    """Indices, with the extent added to negative ones."""
    wide = indices.astype(np.int64)
    return np.where(wide < 0, wide + extent, wide)


def within(indices: np.ndarray, extent: int) -> np.ndarray:
    """`from_start`, then clipped."""
    return np.asarray(np.clip(from_start(indices, extent), 0, extent - 1))


class gather(OpCard, key="gather"):
    """data[i0, .., indices[i0, .., in], .., in] along `axis`. Negative indices count from the end. Indices out of bounds are
    clipped."""

    axis: int
    fuse = INJECTIVE
    samples = [(((3, 4), picks(3, 2, 4)), {"axis": 0}), (((3, 4), picks(4, 3, 6)), {"axis": -1})]

    @classmethod
    def make(cls, data: Expr, axis: int, indices: Expr, span: BaseSpan | None = None) -> Made:
        return cls.call([data, indices], {"axis": axis}, span)

    def infer(self, data: TensorType, indices: TensorType) -> Type:
        d, i = tensor(data, 0), integers(tensor(indices, 1), 1)
        normal_axis(self.axis, len(d.shape))
        need(
            len(d.shape) == len(i.shape),
            "indices must have as many axes as data",
            f"they have {len(i.shape)} and {len(d.shape)}",
            1,
        )
        no_more_than_data(d, i, self.axis)
        need_elements(dims(d), dims(i))
        return tensor_type(i.shape, d.dtype)

    def indexed(self, types: Sequence[Type]) -> Sequence[Indexed]:
        return [Indexed(1, 0, (self.axis % len(tensor(types[0], 0).shape),))]

    def compute(self, data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        return topi.gather(data, self.axis, indices)

    def ref(self, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
        places: list[np.ndarray] = [*np.indices(indices.shape)]
        places[self.axis] = indices
        return np.asarray(data[tuple([within(p, n) for p, n in zip(places, data.shape, strict=True)])])

    def grad(self, data: Expr, indices: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("scatter_elements")(op("zeros_like")(data), indices, dy, axis=self.axis, reduction="add"), None]


class gather_nd(OpCard, key="gather_nd"):
    """data[b.., indices[0, b.., y..], .., indices[m-1, b.., y..], x..]: the first axis of `indices` runs over the coordinates.
    Indices out of bounds are clipped."""

    batch_dims: int = 0
    index_rank: int | None = None
    fuse = INJECTIVE
    samples = [
        (((3, 4, 2), picks(3, 2, 5)), {}),
        (((3, 4, 2), picks(3, 1, 2, 2)), {}),
        (((2, 4, 3), picks(4, 1, 2)), {"batch_dims": 1}),
    ]

    def infer(self, data: TensorType, indices: TensorType) -> Type:
        d, i = tensor(data, 0), integers(tensor(indices, 1), 1)
        m = dims(i)[0]
        need(isinstance(m, int), "the number of coordinates (first axis of indices) must be known", f"it is {m}", 1)
        assert isinstance(m, int)
        need(
            m + self.batch_dims <= len(d.shape),
            "there must not be more coordinates than axes",
            f"{m} for {len(d.shape)} axes",
            1,
        )
        shape = [*dims(i)[1:], *dims(d)[self.batch_dims + m :]]
        need_elements(dims(d)[: self.batch_dims + m], shape)
        return tensor_type(shape, d.dtype)

    def indexed(self, types: Sequence[Type]) -> Sequence[Indexed]:
        first, count = self.batch_dims, known_extent(tensor(types[1], 1).shape[0])
        return [Indexed(1, 0, tuple(range(first, first + count)), rows=True)]

    def compute(self, data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        return topi.gather_nd(data, indices, self.batch_dims)

    def ref(self, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
        b = self.batch_dims
        rest = indices.shape[1:]
        lead = [np.arange(rest[k]).reshape([-1 if j == k else 1 for j in range(len(rest))]) for k in range(b)]
        lead = [within(p, n) for p, n in zip(lead, data.shape, strict=False)]
        picks = [within(c, data.shape[b + k]) for k, c in enumerate(indices)]
        return np.asarray(data[(*lead, *picks)])

    def grad(self, data: Expr, indices: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        if self.batch_dims:
            return [derived(self, [data, indices], dy)[0], None]
        return [op("scatter_nd")(op("zeros_like")(data), indices, dy, mode="add"), None]


class one_hot(OpCard, key="one_hot"):
    """on_value where the position along the new axis equals the index, else off_value. Both values are scalars."""

    depth: int
    axis: int = -1
    dtype: str = "float32"
    fuse = INJECTIVE
    samples = [
        ((picks(4, 2, 3), np.array(1, np.float32), np.array(0, np.float32)), {"depth": 4}),
        ((picks(4, 3), np.array(5, np.int32), np.array(-1, np.int32)), {"depth": 4, "axis": 0, "dtype": "int32"}),
    ]

    def infer(self, indices: TensorType, on_value: TensorType, off_value: TensorType) -> Type:
        t = integers(tensor(indices, 0), 0)
        tensor(on_value, 1, 0)
        tensor(off_value, 2, 0)
        at = normal_axis(self.axis, len(t.shape) + 1)
        return tensor_type((*t.shape[:at], self.depth, *t.shape[at:]), self.dtype)

    def compute(self, indices: te.Tensor, on_value: te.Tensor, off_value: te.Tensor) -> te.Tensor:
        return topi.one_hot(indices, on_value(), off_value(), self.depth, self.axis, self.dtype)

    def ref(self, indices: np.ndarray, on_value: np.ndarray, off_value: np.ndarray) -> np.ndarray:
        at = normal_axis(self.axis, indices.ndim + 1)
        shape = [1] * (indices.ndim + 1)
        shape[at] = self.depth
        hit = np.expand_dims(indices, at) == np.arange(self.depth).reshape(shape)
        return np.where(hit, on_value, off_value).astype(self.dtype)

    def grad(self, indices: Expr, on_value: Expr, off_value: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        on, off = const(1.0, self.dtype), const(0.0, self.dtype)
        on_part = op("sum")(
            op("multiply")(dy, op("one_hot")(indices, on, off, depth=self.depth, axis=self.axis, dtype=self.dtype))
        )
        off_part = op("subtract")(op("sum")(dy), on_part)
        made: list[Expr | None] = [None]
        for part, v in ((on_part, on_value), (off_part, off_value)):
            t = tensor(v.checked_type)
            made.append(op("cast")(part, str(t.dtype)))
        return made
