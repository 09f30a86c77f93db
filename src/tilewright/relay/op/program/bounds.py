"""Operators that `relay.transform.CheckBounds` inserts before calls. They return their argument, and stop the program at an index
out of bounds or a division of an integer by zero."""

from __future__ import annotations

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import OPAQUE, OpCard, need
from tilewright.relay.cards.relations import dims, known_equal, tensor
from tilewright.relay.op.movement.indexing import integers
from tilewright.support.errors import BoundsError, DivisionByZeroError
from tilewright.topi.bounds import INDEX, ZERO, low_of


class checked_indices(OpCard, key="annotation.checked_indices"):
    """`indices`, after a check that all are valid along `axes` of data of shape `extents`: one axis for all indices, or (`rows`)
    one axis for each row of indices. below: negative indices count from the end. name: the operator that uses them."""

    axes: tuple[int, ...]
    rows: bool = False
    below: bool = True
    name: str = "the operator"
    fuse = OPAQUE
    pure = False
    flat = True
    samples = [
        ((np.array([0, -4, 3], np.int32), np.array([2, 4], np.int64)), {"axes": (1,)}),
        ((np.array([[0, 1], [-4, 3]], np.int64), np.array([2, 4], np.int64)), {"axes": (0, 1), "rows": True}),
    ]

    def infer(self, indices: TensorType, extents: TensorType) -> Type:
        t = integers(tensor(indices, 0), 0)
        integers(tensor(extents, 1, 1), 1)
        need(
            not self.rows or len(t.shape) > 0 and known_equal(dims(t)[0], len(self.axes)),
            "the number of rows of indices must be known, and be that of the axes",
            f"there are {len(self.axes)} for {list(t.shape)}",
            0,
        )
        return t

    def compute(self, indices: te.Tensor, extents: te.Tensor) -> te.Tensor:
        return topi.bounds.checked_indices(indices, extents, self.axes, self.rows, self.below, self.name)

    def ref(self, indices: np.ndarray, extents: np.ndarray) -> np.ndarray:
        for row, axis in zip(indices if self.rows else [indices], self.axes, strict=True):
            extent = int(extents[axis])
            wide = row.astype(np.int64)
            wrong = wide[(wide < (-extent if self.below else 0)) | (wide >= extent)]
            if wrong.size:
                text = INDEX.format(name=self.name, axis=axis, low=low_of(self.below))
                raise BoundsError(text.replace(topi.bounds.HERE, str(extent)) + str(wrong.flat[0]))
        return indices


class checked_divisor(OpCard, key="annotation.checked_divisor"):
    """`divisor`, after a check that no element is zero. name: the operator that divides by it."""

    name: str = "the operator"
    fuse = OPAQUE
    pure = False
    flat = True
    samples = [((np.array([3, -1], np.int32),), {})]

    def infer(self, divisor: TensorType) -> Type:
        return integers(tensor(divisor, 0), 0)

    def compute(self, divisor: te.Tensor) -> te.Tensor:
        return topi.bounds.checked_divisor(divisor, self.name)

    def ref(self, divisor: np.ndarray) -> np.ndarray:
        if not divisor.all():
            raise DivisionByZeroError(ZERO.format(name=self.name))
        return divisor


__all__ = ["checked_divisor", "checked_indices"]
