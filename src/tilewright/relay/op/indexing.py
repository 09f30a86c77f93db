"""Operators whose indices are data: take, gather, scatter, one_hot, sorting, running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.relay.expr import Expr, const
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.card import COMM_REDUCE, INJECTIVE, OPAQUE, OpCard, need
from tilewright.relay.op.relations import Dim, dims, normal_axis, product, tensor, tensor_type


def _picks(high: int, *shape: int) -> Any:
    return lambda rng: rng.integers(0, high, shape).astype(np.int32)


def _integers(t: TensorType, arg: int) -> TensorType:
    need(
        t.dtype in ("int32", "int64", "int8", "int16", "uint8", "uint32", "uint64", "uint16"),
        "indices must be integers",
        f"they are {t.dtype}",
        arg,
    )
    return t


class take(OpCard, key="take"):
    """data[.., indices, ..] along `axis` (of the flattened data when None). mode: clip, wrap, or fast (negatives count from the end)."""

    axis: int | None = None
    batch_dims: int = 0
    mode: str = "clip"
    fuse = INJECTIVE
    samples = [
        (((4, 5), _picks(4, 2, 3)), {"axis": 0}),
        (((4, 5), _picks(9, 3)), {"axis": 1, "mode": "wrap"}),
        (((4, 5), _picks(20, 2)), {}),
        (((2, 4, 3), _picks(4, 2, 2)), {"axis": 1, "batch_dims": 1}),
        (((4, 5), np.array([-1, 2], np.int64)), {"axis": 1, "mode": "fast"}),
    ]

    def infer(self, data: TensorType, indices: TensorType) -> Type:
        d, i = tensor(data, 0), _integers(tensor(indices, 1), 1)
        need(self.mode in ("clip", "wrap", "fast"), 'mode must be "clip", "wrap" or "fast"', f"it is {self.mode!r}")
        if self.axis is None:
            return tensor_type(i.shape, d.dtype)
        at = normal_axis(self.axis, len(d.shape))
        batch = self.batch_dims % (len(i.shape) + 1) if self.batch_dims < 0 else self.batch_dims
        need(
            batch <= at and batch <= len(i.shape),
            "batch_dims must not go past axis",
            f"it is {self.batch_dims} with axis {self.axis}",
        )
        return tensor_type((*d.shape[:at], *i.shape[batch:], *d.shape[at + 1 :]), d.dtype)

    def compute(self, data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        return topi.take(data, indices, self.axis, self.batch_dims, self.mode)

    def ref(self, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
        axis = self.axis
        if axis is None:
            data, axis = data.reshape(-1), 0
        axis %= data.ndim
        extent = data.shape[axis]
        i = indices.astype(np.int64)
        i = np.clip(i, 0, extent - 1) if self.mode == "clip" else i % extent
        if not self.batch_dims:
            return np.take(data, i, axis)
        batch = self.batch_dims
        lead = data.shape[:batch]
        parts = [np.take(data[b], i[b], axis - batch) for b in np.ndindex(*lead)]
        return np.stack(parts).reshape(*lead, *parts[0].shape)


class gather(OpCard, key="gather"):
    """data[i0, .., indices[i0, .., in], .., in] along `axis`; negative indices count from the end."""

    axis: int
    fuse = INJECTIVE
    samples = [(((3, 4), _picks(3, 2, 4)), {"axis": 0}), (((3, 4), _picks(4, 3, 6)), {"axis": -1})]

    @classmethod
    def make(cls, data: Expr, axis: int, indices: Expr, span: Any = None) -> Any:
        return cls.call([data, indices], {"axis": axis}, span)

    def infer(self, data: TensorType, indices: TensorType) -> Type:
        d, i = tensor(data, 0), _integers(tensor(indices, 1), 1)
        normal_axis(self.axis, len(d.shape))
        need(
            len(d.shape) == len(i.shape),
            "indices must have as many axes as data",
            f"they have {len(i.shape)} and {len(d.shape)}",
            1,
        )
        return tensor_type(i.shape, d.dtype)

    def compute(self, data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        return topi.gather(data, self.axis, indices)

    def ref(self, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
        axis = self.axis % data.ndim
        trimmed = data[tuple([slice(None) if k == axis else slice(n) for k, n in enumerate(indices.shape)])]
        return np.take_along_axis(trimmed, indices.astype(np.int64) % data.shape[axis], axis)


class gather_nd(OpCard, key="gather_nd"):
    """data[b.., indices[0, b.., y..], .., indices[m-1, b.., y..], x..]: the first axis of `indices` counts coordinates."""

    batch_dims: int = 0
    index_rank: int | None = None
    fuse = INJECTIVE
    samples = [
        (((3, 4, 2), _picks(3, 2, 5)), {}),
        (((3, 4, 2), _picks(3, 1, 2, 2)), {}),
        (((2, 4, 3), _picks(4, 1, 2)), {"batch_dims": 1}),
    ]

    def infer(self, data: TensorType, indices: TensorType) -> Type:
        d, i = tensor(data, 0), _integers(tensor(indices, 1), 1)
        m = dims(i)[0]
        need(isinstance(m, int), "the number of coordinates (first axis of indices) must be known", f"it is {m}", 1)
        assert isinstance(m, int)
        need(
            m + self.batch_dims <= len(d.shape),
            "there must not be more coordinates than axes",
            f"{m} for {len(d.shape)} axes",
            1,
        )
        return tensor_type((*i.shape[1:], *d.shape[self.batch_dims + m :]), d.dtype)

    def compute(self, data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        return topi.gather_nd(data, indices, self.batch_dims)

    def ref(self, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
        b = self.batch_dims
        rest = indices.shape[1:]
        lead = [np.arange(rest[k]).reshape([-1 if j == k else 1 for j in range(len(rest))]) for k in range(b)]
        picks = [c.astype(np.int64) % data.shape[b + k] for k, c in enumerate(indices)]
        return np.asarray(data[(*lead, *picks)])


class scatter_elements(OpCard, key="scatter_elements"):
    """data with `updates` put at positions `indices` along `axis`; reduction: update, add, mul, min or max."""

    axis: int = 0
    reduction: str = "update"
    fuse = OPAQUE
    samples = [
        (((4, 3), np.array([[1, 0, 3], [2, 2, 0]], np.int32), (2, 3)), {}),
        (((3, 4), np.array([[1, 1], [0, -1]], np.int64), (2, 2)), {"axis": 1, "reduction": "add"}),
    ]

    def infer(self, data: TensorType, indices: TensorType, updates: TensorType) -> Type:
        d, i, u = tensor(data, 0), _integers(tensor(indices, 1), 1), tensor(updates, 2)
        normal_axis(self.axis, len(d.shape))
        need(
            len(i.shape) == len(u.shape) == len(d.shape),
            "data, indices and updates must have as many axes",
            f"{len(d.shape)}, {len(i.shape)}, {len(u.shape)}",
            1,
        )
        need(u.dtype == d.dtype, "updates must have data's dtype", f"they are {u.dtype} and {d.dtype}", 2)
        return d

    def compute(self, data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
        return topi.scatter_elements(data, indices, updates, self.axis, self.reduction)

    def ref(self, data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        out = data.copy()
        axis = self.axis % data.ndim
        where = list(np.indices(indices.shape))
        where[axis] = indices.astype(np.int64) % data.shape[axis]
        _put(out, tuple(where), updates, self.reduction)
        return out


def _put(out: np.ndarray, where: tuple[Any, ...], updates: np.ndarray, mode: str) -> None:
    if mode == "update":
        out[where] = updates
    else:
        {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[mode].at(out, where, updates)


class scatter_nd(OpCard, key="scatter_nd"):
    """data with updates[y.., x..] put at data[indices[0, y..], .., indices[m-1, y..], x..]; modes as scatter_elements."""

    mode: str = "update"
    fuse = OPAQUE
    samples = [
        (((4, 3), np.array([[1, 3, 0]], np.int32), (3, 3)), {}),
        (((4, 3), np.array([[1, 1], [0, 0]], np.int64), (2,)), {"mode": "add"}),
    ]

    def infer(self, data: TensorType, indices: TensorType, updates: TensorType) -> Type:
        d = tensor(data, 0)
        _integers(tensor(indices, 1), 1)
        need(
            tensor(updates, 2).dtype == d.dtype,
            "updates must have data's dtype",
            f"they are {updates.dtype} and {d.dtype}",
            2,
        )
        need(
            isinstance(dims(indices)[0], int),
            "the number of coordinates (first axis of indices) must be known",
            f"it is {indices.shape[0]}",
            1,
        )
        return d

    def compute(self, data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
        return topi.scatter_nd(data, indices, updates, self.mode)

    def ref(self, data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        out = data.copy()
        _put(out, tuple([c.astype(np.int64) % data.shape[k] for k, c in enumerate(indices)]), updates, self.mode)
        return out


class one_hot(OpCard, key="one_hot"):
    """on_value where the new axis' position equals the index, else off_value; both are scalars."""

    depth: int
    axis: int = -1
    dtype: str = "float32"
    fuse = INJECTIVE
    samples = [
        ((_picks(4, 2, 3), np.array(1, np.float32), np.array(0, np.float32)), {"depth": 4}),
        ((_picks(4, 3), np.array(5, np.int32), np.array(-1, np.int32)), {"depth": 4, "axis": 0, "dtype": "int32"}),
    ]

    def infer(self, indices: TensorType, on_value: TensorType, off_value: TensorType) -> Type:
        t = _integers(tensor(indices, 0), 0)
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
            t: Any = v.checked_type
            made.append(op("cast")(part, str(t.dtype)))
        return made


class argsort(OpCard, key="argsort"):
    """Positions in sorted order along `axis`; equal elements keep their order."""

    axis: int = -1
    is_ascend: bool = True
    dtype: str = "int32"
    fuse = OPAQUE
    samples = [(((3, 6),), {}), (((5, 2),), {"axis": 0, "is_ascend": False, "dtype": "int64"})]

    def infer(self, data: TensorType) -> Type:
        normal_axis(self.axis, len(tensor(data, 0).shape))
        return tensor_type(data.shape, self.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.argsort(data, self.axis, self.is_ascend, self.dtype)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return _order(data, self.axis, self.is_ascend).astype(self.dtype)


def _order(data: np.ndarray, axis: int, is_ascend: bool) -> np.ndarray:
    if is_ascend:
        return np.argsort(data, axis, kind="stable")
    n = data.shape[axis]
    return np.flip(n - 1 - np.argsort(np.flip(data, axis), axis, kind="stable"), axis)


class sort(OpCard, key="sort"):
    """Elements in order along `axis`."""

    axis: int = -1
    is_ascend: bool = True
    fuse = OPAQUE
    samples = [(((3, 6),), {}), (((5, 2),), {"axis": 0, "is_ascend": False})]

    def infer(self, data: TensorType) -> Type:
        normal_axis(self.axis, len(tensor(data, 0).shape))
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.sort(data, self.axis, self.is_ascend)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.take_along_axis(data, _order(data, self.axis, self.is_ascend), self.axis)


class topk(OpCard, key="topk"):
    """The k largest (smallest when `is_ascend`) along `axis`, in order: "values", "indices" or "both". k < 1 means all."""

    k: int = 1
    axis: int = -1
    ret_type: str = "both"
    is_ascend: bool = False
    dtype: str = "int32"
    fuse = OPAQUE
    samples = [(((3, 6),), {"k": 2}), (((5, 2),), {"k": 3, "axis": 0, "ret_type": "indices", "is_ascend": True})]

    @property
    def outputs(self) -> int:  # type: ignore[override]
        """Two when values and indices are asked for."""
        return 2 if self.ret_type == "both" else 1

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        need(
            self.ret_type in ("both", "values", "indices"),
            'ret_type must be "both", "values" or "indices"',
            f"it is {self.ret_type!r}",
        )
        shape = dims(t)
        at = normal_axis(self.axis, len(shape))
        need(
            not isinstance(shape[at], int) or self.k <= shape[at],
            "k must not exceed the axis",
            f"it is {self.k} of {shape[at]}",
            0,
        )
        number: Dim = self.k if self.k >= 1 else shape[at]
        out = (*shape[:at], number, *shape[at + 1 :])
        values, indices = tensor_type(out, t.dtype), tensor_type(out, self.dtype)
        return (
            TupleType((values, indices))
            if self.ret_type == "both"
            else values
            if self.ret_type == "values"
            else indices
        )

    def compute(self, data: te.Tensor) -> Any:
        found = topi.topk(data, self.k, self.axis, self.ret_type, self.is_ascend, self.dtype)
        return found if len(found) > 1 else found[0]

    def ref(self, data: np.ndarray) -> Any:
        number = self.k if self.k >= 1 else data.shape[self.axis]
        order = np.take(_order(data, self.axis, self.is_ascend), np.arange(number), self.axis)
        values = np.take_along_axis(data, order, self.axis)
        indices = order.astype(self.dtype)
        return (values, indices) if self.ret_type == "both" else values if self.ret_type == "values" else indices


class Running(OpCard):
    """Along `axis` (of the flattened data when None), in `dtype`; without the element itself when `exclusive`."""

    axis: int | None = None
    dtype: str | None = None
    exclusive: bool = False
    fuse = COMM_REDUCE
    samples = [
        (((3, 4),), {"axis": 1}),
        (((3, 4),), {}),
        (((3, 4),), {"axis": 0, "exclusive": True}),
        ((((5,), "int32"),), {"axis": 0, "dtype": "int64"}),
    ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        dtype = self.dtype or t.dtype
        if self.axis is None:
            return tensor_type((product(dims(t)),), dtype)
        normal_axis(self.axis, len(t.shape))
        return tensor_type(t.shape, dtype)

    def _ref(self, data: np.ndarray, f: Any, neutral: int) -> np.ndarray:
        if self.axis is None:
            data = data.reshape(-1)
        axis = self.axis or 0
        out = f(data, axis=axis, dtype=self.dtype or data.dtype)
        if self.exclusive:
            out = np.roll(out, 1, axis)
            out[tuple([slice(None)] * (axis % data.ndim) + [0])] = neutral
        return np.asarray(out)


class cumsum(Running, key="cumsum"):
    """Running sum."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.cumsum(data, self.axis, self.dtype, self.exclusive)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return self._ref(data, np.cumsum, 0)


class cumprod(Running, key="cumprod"):
    """Running product."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.cumprod(data, self.axis, self.dtype, self.exclusive)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return self._ref(data, np.cumprod, 1)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        axis = self.axis or 0
        flat = op("reshape")(data, (-1,)) if self.axis is None else data
        later = op("cumsum")(op("reverse")(op("multiply")(dy, result), axis=axis), axis=axis, exclusive=self.exclusive)
        return [op("reshape_like")(op("divide")(op("reverse")(later, axis=axis), flat), data)]
