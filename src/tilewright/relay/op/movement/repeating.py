"""Operators that repeat elements and tensors."""

from __future__ import annotations

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import INJECTIVE, OpCard
from tilewright.relay.cards.relations import Dim, dims, is_any, normal_axis, tensor, tensor_type
from tilewright.tir import Any as AnyDim


def _repeated(d: Dim, r: Dim) -> Dim:
    return d if isinstance(r, int) and r == 1 else AnyDim() if is_any(d) or is_any(r) else d * r


class tile(OpCard, key="tile"):
    """data repeated `reps` times along each axis."""

    reps: tuple[int, ...]
    fuse = INJECTIVE
    samples = [(((2, 3),), {"reps": (2, 1, 3)}), (((2, 3),), {"reps": (2,)})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        ndim = max(len(t.shape), len(self.reps))
        shape: list[Dim] = [*[1] * (ndim - len(t.shape)), *dims(t)]
        times = [*[1] * (ndim - len(self.reps)), *self.reps]
        return tensor_type([_repeated(d, r) for d, r in zip(shape, times, strict=True)], t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.tile(data, self.reps)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.tile(data, self.reps)


class repeat(OpCard, key="repeat"):
    """Each element `repeats` times, one copy after the other, along `axis`."""

    repeats: int
    axis: int
    fuse = INJECTIVE
    samples = [(((2, 3),), {"repeats": 2, "axis": 1})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        shape = dims(t)
        at = normal_axis(self.axis, len(shape))
        shape[at] = AnyDim() if is_any(shape[at]) else shape[at] * self.repeats
        return tensor_type(tuple(shape), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.repeat(data, self.repeats, self.axis)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.repeat(data, self.repeats, self.axis)
