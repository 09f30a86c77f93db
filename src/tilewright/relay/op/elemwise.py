"""Element-wise and broadcasting operators."""

from __future__ import annotations

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.op.card import BROADCAST, ELEMWISE, OpCard
from tilewright.relay.op.relations import broadcast, tensor


class add(OpCard, key="add"):
    """lhs + rhs with NumPy broadcasting."""

    fuse = BROADCAST
    samples = [(((2, 3), (2, 3)), {}), (((4, 1, 3), (2, 1)), {}), ((((3,), "int32"), ((), "int32")), {})]

    def infer(self, lhs: TensorType, rhs: TensorType) -> Type:
        return broadcast(lhs, rhs)

    def compute(self, lhs: te.Tensor, rhs: te.Tensor) -> te.Tensor:
        return topi.add(lhs, rhs)

    def ref(self, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        return lhs + rhs


class relu(OpCard, key="nn.relu"):
    """max(data, 0)."""

    fuse = ELEMWISE
    samples = [(((2, 3, 4),), {})]

    def infer(self, data: TensorType) -> Type:
        return tensor(data, 0)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.relu(data)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.maximum(data, 0)
