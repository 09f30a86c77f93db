"""Operators that give one tensor the shape of another. Only the shape of the other is used."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import BROADCAST, COMM_REDUCE, INJECTIVE, OpCard, constructor, need
from tilewright.relay.cards.relations import (
    Dim,
    broadcast_shapes,
    dims,
    is_static,
    known_equal,
    normal_axis,
    product,
    shape_text,
    tensor,
    tensor_type,
)
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import derived, op, summed_like
from tilewright.relay.op.movement.reshaping import static


class broadcast_to_like(OpCard, key="broadcast_to_like"):
    """data repeated to the shape of `broadcast_type`."""

    fuse = BROADCAST
    samples = [(((3, 1), (2, 3, 4)), {}), (((), (2, 3)), {})]

    def infer(self, data: TensorType, broadcast_type: TensorType) -> Type:
        t, like = tensor(data, 0), tensor(broadcast_type, 1)
        found = broadcast_shapes(t.shape, like.shape)
        need(
            len(found) == len(like.shape),
            "data must broadcast to exactly the other's shape",
            f"{shape_text(t.shape)} has more dimensions than {shape_text(like.shape)}",
            0,
        )
        return tensor_type(like.shape, t.dtype)

    def compute(self, data: te.Tensor, broadcast_type: te.Tensor) -> te.Tensor:
        return topi.broadcast_to(data, broadcast_type.shape)

    def ref(self, data: np.ndarray, broadcast_type: np.ndarray) -> np.ndarray:
        return np.broadcast_to(data, broadcast_type.shape).copy()

    def grad(self, data: Expr, broadcast_type: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [summed_like(dy, data), None]

    def simplify(self, data: Expr, broadcast_type: Expr) -> Expr | None:
        t = tensor(broadcast_type.checked_type)
        return constructor("broadcast_to")(data, t.concrete_shape) if is_static(t) else None


class collapse_sum_like(OpCard, key="collapse_sum_like"):
    """data summed to the shape of `collapse_type`, which must broadcast to the shape of data."""

    fuse = COMM_REDUCE
    samples = [(((2, 3, 4), (3, 1)), {}), (((2, 3), ()), {}), (((2, 3), (2, 3)), {})]

    def infer(self, data: TensorType, collapse_type: TensorType) -> Type:
        t, like = tensor(data, 0), tensor(collapse_type, 1)
        need(
            len(broadcast_shapes(t.shape, like.shape)) == len(t.shape),
            "the other's shape must broadcast to data's",
            f"{shape_text(like.shape)} has more dimensions than {shape_text(t.shape)}",
            1,
        )
        return tensor_type(like.shape, t.dtype)

    def compute(self, data: te.Tensor, collapse_type: te.Tensor) -> te.Tensor:
        return topi.collapse_sum(data, collapse_type.shape)

    def ref(self, data: np.ndarray, collapse_type: np.ndarray) -> np.ndarray:
        return collapsed(data, collapse_type.shape)

    def grad(self, data: Expr, collapse_type: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("broadcast_to_like")(dy, data), None]

    def simplify(self, data: Expr, collapse_type: Expr) -> Expr | None:
        t = tensor(data.checked_type)
        like = tensor(collapse_type.checked_type)
        if len(t.shape) == len(like.shape) and all(
            [known_equal(a, b) for a, b in zip(t.shape, like.shape, strict=True)]
        ):
            return data
        return constructor("collapse_sum_to")(data, like.concrete_shape) if is_static(like) else None


def collapsed(data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """data summed to a shape that broadcasts to its own."""
    data = data.sum(tuple(range(data.ndim - len(shape))), dtype=data.dtype)
    axes = tuple([i for i, (a, b) in enumerate(zip(data.shape, shape, strict=True)) if b == 1 and a != 1])
    return np.asarray(data.sum(axes, dtype=data.dtype, keepdims=True))


class collapse_sum_to(OpCard, key="collapse_sum_to"):
    """data summed to `shape`, which must broadcast to the shape of data."""

    shape: tuple[int, ...]
    fuse = COMM_REDUCE
    samples = [(((2, 3, 4),), {"shape": (3, 1)}), (((2, 3),), {"shape": ()})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        need(
            len(broadcast_shapes(t.shape, self.shape)) == len(t.shape),
            "`shape` must broadcast to data's",
            f"{self.shape} has more dimensions than {shape_text(t.shape)}",
            0,
        )
        return tensor_type(self.shape, t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.collapse_sum(data, self.shape)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return collapsed(data, self.shape)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("broadcast_to_like")(dy, data)]


class reshape_like(OpCard, key="reshape_like"):
    """data reshaped: its axes lhs_begin..lhs_end are replaced by the axes rhs_begin..rhs_end of `shape_like` (None: to the last)."""

    lhs_begin: int = 0
    lhs_end: int | None = None
    rhs_begin: int = 0
    rhs_end: int | None = None
    fuse = INJECTIVE
    samples = [(((2, 6), (3, 4)), {}), (((2, 6, 5), (3, 2)), {"lhs_begin": 1, "lhs_end": 2})]

    def shape(self, own: list[Dim], like: list[Dim]) -> list[Dim]:
        """The result's dimensions."""
        parts = []
        for shape, begin, end in ((own, self.lhs_begin, self.lhs_end), (like, self.rhs_begin, self.rhs_end)):
            n = len(shape)
            first = begin + n if begin < 0 else begin
            last = n if end is None else end + n if end < 0 else end
            need(0 <= first <= last <= n, "the axes must lie in the tensor", f"{begin}..{end} of {n} axes", 0)
            parts.append((first, last))
        (a, b), (c, d) = parts
        return [*own[:a], *like[c:d], *own[b:]]

    def infer(self, data: TensorType, shape_like: TensorType) -> Type:
        t, like = tensor(data, 0), tensor(shape_like, 1)
        shape = self.shape(dims(t), dims(like))
        have, want = product(dims(t)), product(shape)
        static = isinstance(have, int) and isinstance(want, int)
        need(not static or have == want, "reshape must keep the number of elements", f"{have} become {want}", 0)
        return tensor_type(tuple(shape), t.dtype)

    def compute(self, data: te.Tensor, shape_like: te.Tensor) -> te.Tensor:
        own, like = topi.utils.shape_of(data), topi.utils.shape_of(shape_like)
        return topi.reshape(data, self.shape(list(own), list(like)))

    def ref(self, data: np.ndarray, shape_like: np.ndarray) -> np.ndarray:
        return data.reshape(static(self.shape(list(data.shape), list(shape_like.shape))))

    def grad(self, data: Expr, shape_like: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reshape_like")(dy, data), None]


class slice_like(OpCard, key="slice_like"):
    """The leading part of data, as long as `shape_like` along `axes` (all axes if none are given)."""

    axes: tuple[int, ...] | None = None
    fuse = INJECTIVE
    samples = [(((4, 5), (2, 3)), {}), (((4, 5, 6), (2, 3, 4)), {"axes": (0, -1)})]

    def _axes(self, ndim: int) -> list[int]:
        return [normal_axis(a, ndim, "axes") for a in self.axes] if self.axes else list(range(ndim))

    def infer(self, data: TensorType, shape_like: TensorType) -> Type:
        t, like = tensor(data, 0), tensor(shape_like, 1)
        shape, wanted = dims(t), dims(like)
        for a in self._axes(len(shape)):
            need(
                a < len(wanted),
                "the other tensor must have the sliced axes",
                f"it has {len(wanted)} axes, not axis {a}",
                1,
            )
            have, want = shape[a], wanted[a]
            fits = not isinstance(have, int) or not isinstance(want, int) or want <= have
            need(fits, "the part cannot be longer than data", f"axis {a} has {have}, and {want} are wanted", 1)
            shape[a] = want
        return tensor_type(tuple(shape), t.dtype)

    def compute(self, data: te.Tensor, shape_like: te.Tensor) -> te.Tensor:
        out = list(topi.utils.shape_of(data))
        for a in self._axes(len(out)):
            out[a] = topi.utils.shape_of(shape_like)[a]
        return te.compute(out, lambda *i: data(*i), name="T_slice_like", tag=topi.tag.INJECTIVE)

    def ref(self, data: np.ndarray, shape_like: np.ndarray) -> np.ndarray:
        index = [slice(None)] * data.ndim
        for a in self._axes(data.ndim):
            index[a] = slice(shape_like.shape[a])
        return data[tuple(index)]

    def grad(self, data: Expr, shape_like: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [derived(self, [data, shape_like], dy)[0], None]
