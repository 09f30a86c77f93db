"""Operators that create tensors, and those that return shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import ELEMWISE, INJECTIVE, OPAQUE, Made, OpCard, Operand, TypeRuleError, need
from tilewright.relay.cards.relations import tensor, tensor_type
from tilewright.relay.expr import Constant, Expr, const
from tilewright.relay.op.adjoint import op


class full(OpCard, key="full"):
    """A tensor of `shape`, filled with the scalar `fill_value`."""

    shape: tuple[int, ...] = ()
    dtype: str = ""
    fuse = ELEMWISE
    samples = [((np.array(2.5, np.float32),), {"shape": (2, 3), "dtype": "float32"})]

    def infer(self, fill_value: TensorType) -> Type:
        t = tensor(fill_value, 0, 0)
        return tensor_type(self.shape, self.dtype or t.dtype)

    def compute(self, fill_value: te.Tensor) -> te.Tensor:
        return topi.broadcast_to(topi.cast(fill_value, self.dtype or fill_value.dtype), self.shape)

    def ref(self, fill_value: np.ndarray) -> np.ndarray:
        return np.full(self.shape, fill_value, self.dtype or fill_value.dtype)

    def grad(self, fill_value: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("cast")(op("sum")(dy), str(tensor(fill_value.checked_type).dtype))]


class Filled(OpCard):
    """Base of tensors of `shape` and `dtype` that are filled with one number."""

    flat = True
    shape: tuple[int, ...]
    dtype: str = "float32"
    fuse = ELEMWISE
    samples = [((), {"shape": (2, 3), "dtype": "int32"})]

    def infer(self) -> Type:
        return tensor_type(self.shape, self.dtype)


class zeros(Filled, key="zeros"):
    """A tensor of `shape` and `dtype`, filled with zeros."""

    def compute(self) -> te.Tensor:
        return topi.full(self.shape, self.dtype, 0)

    def ref(self) -> np.ndarray:
        return np.zeros(self.shape, self.dtype)


class ones(Filled, key="ones"):
    """A tensor of `shape` and `dtype`, filled with ones."""

    def compute(self) -> te.Tensor:
        return topi.full(self.shape, self.dtype, 1)

    def ref(self) -> np.ndarray:
        return np.ones(self.shape, self.dtype)


class zeros_like(OpCard, key="zeros_like"):
    """Zeros, with the shape and dtype of data."""

    flat = True
    fuse = ELEMWISE
    samples = [(((2, 3),), {})]

    def infer(self, data: TensorType) -> Type:
        return tensor(data, 0)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.full_like(data, 0)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.zeros_like(data)


class ones_like(zeros_like, key="ones_like"):
    """Ones, with the shape and dtype of data."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.full_like(data, 1)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.ones_like(data)


class full_like(OpCard, key="full_like"):
    """A tensor with the shape and dtype of data, filled with the scalar `fill_value`."""

    fuse = ELEMWISE
    samples = [(((2, 3), np.array(2.5, np.float32)), {})]

    def infer(self, data: TensorType, fill_value: TensorType) -> Type:
        tensor(fill_value, 1, 0)
        return tensor(data, 0)

    def compute(self, data: te.Tensor, fill_value: te.Tensor) -> te.Tensor:
        return topi.broadcast_to(topi.cast(fill_value, data.dtype), data.shape)

    def ref(self, data: np.ndarray, fill_value: np.ndarray) -> np.ndarray:
        return np.full_like(data, fill_value)

    def grad(self, data: Expr, fill_value: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [None, op("cast")(op("sum")(dy), str(tensor(fill_value.checked_type).dtype))]


def _number(value: Operand, name: str) -> float:
    if isinstance(value, Constant):
        return float(value.value.item()) if value.value.dtype.kind == "f" else int(value.value.item())
    if not isinstance(value, (int, float)):
        raise TypeRuleError(f"{name} must be a number or a constant", f"it is {type(value).__name__}")
    return float(value) if isinstance(value, float) else int(value)


class arange(OpCard, key="arange"):
    """start, start + step, ... below stop: 1-D. With bounds that are expressions it is the operator dyn.arange."""

    flat = True
    start: float
    stop: float
    step: float = 1
    dtype: str = "float32"
    fuse = INJECTIVE
    samples = [
        ((), {"start": 1.0, "stop": 5.0, "step": 1.5}),
        ((), {"start": 7, "stop": 1, "step": -2, "dtype": "int32"}),
    ]

    @classmethod
    def make(
        cls,
        start: Operand,
        stop: Operand | None = None,
        step: Operand | None = None,
        dtype: str = "float32",
        span: BaseSpan | None = None,
    ) -> Made:
        if stop is None:
            start, stop = 0, start
        step = 1 if step is None else step
        if not all([isinstance(v, (int, float, Constant)) for v in (start, stop, step)]):
            return op("dyn.arange")(start, stop, step, dtype=dtype)
        numbers = {k: _number(v, k) for k, v in (("start", start), ("stop", stop), ("step", step))}
        return cls.call([], {**numbers, "dtype": dtype}, span)

    def infer(self) -> Type:
        need(not isinstance(self.step, (int, float)) or self.step != 0, "step must not be 0", "it is")
        return tensor_type((topi.transform.arange_extent(self.start, self.stop, self.step),), self.dtype)

    def compute(self) -> te.Tensor:
        return topi.arange(self.start, self.stop, self.step, self.dtype)

    def ref(self) -> np.ndarray:
        return np.arange(self.start, self.stop, self.step).astype(self.dtype)


class shape_of(OpCard, key="shape_of"):
    """The extents of data, 1-D."""

    flat = True
    dtype: str = "int32"
    fuse = OPAQUE
    samples = [(((2, 3),), {"dtype": "int64"})]

    def infer(self, data: TensorType) -> Type:
        return tensor_type((len(tensor(data, 0).shape),), self.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.shape(data, self.dtype)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.array(data.shape, self.dtype)

    def simplify(self, data: Expr) -> Expr | None:
        """A known shape is a constant."""
        try:
            return const(np.array(tensor(data.checked_type).concrete_shape, self.dtype))
        except TypeError:
            return None


class ndarray_size(OpCard, key="ndarray_size"):
    """The number of elements of data, a scalar."""

    flat = True
    dtype: str = "int32"
    fuse = OPAQUE
    samples = [(((2, 3),), {})]

    def infer(self, data: TensorType) -> Type:
        tensor(data, 0)
        return tensor_type((), self.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.ndarray_size(data, self.dtype)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.array(data.size, self.dtype)
