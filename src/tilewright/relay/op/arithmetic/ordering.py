"""Sorting, searching in sorted sequences, and running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.relay.cards.card import OPAQUE, OpCard, need
from tilewright.relay.cards.relations import (
    Dim,
    as_dim,
    assume,
    dims,
    is_any,
    may_equal,
    normal_axis,
    product,
    tensor,
    tensor_type,
)
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import field, op
from tilewright.tir.op import min as smaller


class argsort(OpCard, key="argsort"):
    """The positions of the elements in sorted order along `axis`. Equal elements keep their order; NaN counts as the largest."""

    flat = True
    axis: int = -1
    is_ascend: bool = True
    dtype: str = "int32"
    fuse = OPAQUE
    samples = [(((3, 6),), {}), (((5, 2),), {"axis": 0, "is_ascend": False, "dtype": "int64"})]

    def infer(self, data: TensorType) -> Type:
        normal_axis(self.axis, len(tensor(data, 0).shape))
        return tensor_type(data.shape, self.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.argsort(data, None, self.axis, self.is_ascend, self.dtype)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return _order(data, self.axis, self.is_ascend).astype(self.dtype)


def _order(data: np.ndarray, axis: int, is_ascend: bool) -> np.ndarray:
    if is_ascend:
        return np.argsort(data, axis, kind="stable")
    n = data.shape[axis]
    return np.flip(n - 1 - np.argsort(np.flip(data, axis), axis, kind="stable"), axis)


class sort(OpCard, key="sort"):
    """The elements in sorted order along `axis`."""

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

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        places = op("argsort")(data, axis=self.axis, is_ascend=self.is_ascend)
        return [op("scatter_elements")(op("zeros_like")(data), places, dy, axis=self.axis)]


class topk(OpCard, key="topk"):
    """The k largest (or smallest, if `is_ascend`) elements along `axis`, in order. ret_type: "values", "indices" or "both". k < 1
    means all."""

    k: int = 1
    axis: int = -1
    ret_type: str = "both"
    is_ascend: bool = False
    dtype: str = "int32"
    fuse = OPAQUE
    samples = [
        (((2, 150),), {"k": 70}),
        (((2, 30),), {"k": 0, "is_ascend": True}),
        (((3, 6),), {"k": 2}),
        (((5, 2),), {"k": 3, "axis": 0, "ret_type": "indices", "is_ascend": True}),
    ]

    @property
    def outputs(self) -> int:
        """The number of results: two if both values and indices are requested, else one."""
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
            not isinstance(shape[at], int) or not isinstance(self.k, int) or self.k <= shape[at],
            "k must not exceed the axis",
            f"it is {self.k} of {shape[at]}",
            0,
        )
        number: Dim = self.k if not isinstance(self.k, int) or self.k >= 1 else shape[at]
        if not is_any(number) and not is_any(shape[at]):
            assume(number, smaller(as_dim(number), as_dim(shape[at])), rule="k must not exceed the axis")
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

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        if self.ret_type == "indices":
            return [None]
        places = op("topk")(data, k=self.k, axis=self.axis, ret_type="indices", is_ascend=self.is_ascend)
        parts = field(dy, 0) if self.ret_type == "both" else dy
        return [op("scatter_elements")(op("zeros_like")(data), places, parts, axis=self.axis)]


class searchsorted(OpCard, key="searchsorted"):
    """The position of each value in the sorted last axis of the sequence: before equal elements, or with `right` after them. The
    other axes of both must be equal, or the sequence has one axis."""

    right: bool = False
    dtype: str = "int32"
    flat = True
    fuse = OPAQUE
    samples = [
        ((np.array([1, 2, 2, 5], np.float32), np.array([[0, 2], [5, 9]], np.float32)), {}),
        (
            (np.array([[1, 2, 2], [0, 4, 8]], np.int32), np.array([[2, 3], [8, -1]], np.int32)),
            {"right": True, "dtype": "int64"},
        ),
    ]

    def infer(self, sorted_sequence: TensorType, values: TensorType) -> Type:
        s, v = tensor(sorted_sequence, 0), tensor(values, 1)
        need(s.dtype == v.dtype, "both must have one dtype", f"they are {s.dtype} and {v.dtype}", 1)
        need(len(s.shape) > 0, "the sequence must have an axis", "it is a scalar", 0)
        alike = len(s.shape) == 1 or (len(s.shape) == len(v.shape) and all(map(may_equal, dims(s)[:-1], dims(v)[:-1])))
        need(
            alike,
            "all axes of both but the last must be the same, or the sequence have one axis",
            f"they are {list(s.shape)} and {list(v.shape)}",
            1,
        )
        return tensor_type(v.shape, self.dtype)

    def compute(self, sorted_sequence: te.Tensor, values: te.Tensor) -> te.Tensor:
        return topi.searchsorted(sorted_sequence, values, self.right, self.dtype)

    def ref(self, sorted_sequence: np.ndarray, values: np.ndarray) -> np.ndarray:
        side: Literal["left", "right"] = "right" if self.right else "left"
        if sorted_sequence.ndim == 1:
            return np.searchsorted(sorted_sequence, values, side).astype(self.dtype)
        out = np.zeros(values.shape, self.dtype)
        for i in np.ndindex(*values.shape[:-1]):
            out[i] = np.searchsorted(sorted_sequence[i], values[i], side)
        return out


class Running(OpCard):
    """Running operations along `axis` (of the flattened data if None), in `dtype`. exclusive: without the element itself."""

    axis: int | None = None
    dtype: str | None = None
    exclusive: bool | None = None
    fuse = OPAQUE
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

    def _ref(self, data: np.ndarray, f: Callable[..., np.ndarray], neutral: int) -> np.ndarray:
        if self.axis is None:
            data = data.reshape(-1)
        axis = self.axis or 0
        out = f(data, axis=axis, dtype=self.dtype or data.dtype)
        if self.exclusive:
            out = np.roll(out, 1, axis)
            out[tuple([slice(None)] * (axis % data.ndim) + [0])] = neutral
        return np.asarray(out)


class cumsum(Running, key="cumsum"):
    """Running sum along `axis` (of the flattened data if None), in `dtype`. exclusive: without the element itself."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.cumsum(data, self.axis, self.dtype, self.exclusive)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return self._ref(data, np.cumsum, 0)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        axis = self.axis or 0
        back = op("cumsum")(op("reverse")(dy, axis=axis), axis=axis, exclusive=self.exclusive)
        made = op("cast")(op("reverse")(back, axis=axis), str(tensor(data.checked_type).dtype))
        return [op("reshape_like")(made, data) if self.axis is None else made]


class cumprod(Running, key="cumprod"):
    """Running product along `axis` (of the flattened data if None), in `dtype`. exclusive: without the element itself."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.cumprod(data, self.axis, self.dtype, self.exclusive)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return self._ref(data, np.cumprod, 1)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        axis = self.axis or 0
        flat = op("reshape")(data, (-1,)) if self.axis is None else data
        later = op("cumsum")(op("reverse")(op("multiply")(dy, result), axis=axis), axis=axis, exclusive=self.exclusive)
        return [op("reshape_like")(op("divide")(op("reverse")(later, axis=axis), flat), data)]
