"""Operators on the representation of numbers: fixed point, reinterpretation of bits, types of other tensors, truncating division."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import DataType, TensorType, Type
from tilewright.ir.span import BaseSpan
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.card import BROADCAST, ELEMWISE, Made, OpCard, Operand, constructor, need
from tilewright.relay.cards.relations import dims, may_equal, normal_axis, tensor, tensor_type
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.arithmetic.binary import DIVISION, Binary, whole_quotient
from tilewright.topi.broadcast import apply
from tilewright.topi.lang import tir


def np_multiply_shift(
    x: np.ndarray, y: np.ndarray, q: int, left: np.ndarray | int, right: np.ndarray | int
) -> np.ndarray:
    """round((x << left) * y * 2 ** -(q + right)), ties upwards, in 64 bits."""
    wide = (x.astype(np.int64) << np.asarray(left, np.int64)) * np.asarray(y, np.int64)
    total = np.asarray(q + np.asarray(right, np.int64))
    return ((wide + (np.int64(1) << (total - 1))) >> total).astype(np.int32)


def _fractions(rng: np.random.Generator) -> np.ndarray:
    bounds = np.iinfo(np.int32)
    return np.asarray([[bounds.min, bounds.max, -1, *rng.integers(bounds.min, bounds.max, 5)]], np.int32)


def _factors(rng: np.random.Generator) -> np.ndarray:
    return np.asarray([[(1 << 31) - 1], [1], [1 << 30], *rng.integers(1 << 30, 1 << 31, (2, 1))], np.int32)


class high_product(Binary, key="high_product"):
    """round(lhs * rhs / 2 ** places) of int32; halves round upwards. The operands are fractions of 31 bits, and must not both be the
    lowest integer. places: 31, or 32, which some processors have as one instruction."""

    places: int = 31
    samples = [
        ((_fractions, _factors), {}),
        ((_fractions, np.array(1395864320, np.int32)), {}),
        ((_fractions, _factors), {"places": 32}),
    ]
    flat = True

    def infer(self, lhs: TensorType, rhs: TensorType) -> Type:
        need(self.places in (31, 32), "places must be 31 or 32", f"it is {self.places}")
        for k, t in enumerate((lhs, rhs)):
            need(tensor(t, k).dtype == "int32", "both sides must be int32", f"it is {t.dtype}", k)
        return super().infer(lhs, rhs)

    def compute(self, lhs: te.Tensor, rhs: te.Tensor) -> te.Tensor:
        places = tir.const(self.places, "int32"), tir.const(0, "int32")
        return apply(lambda a, b: tir.q_multiply_shift(a, b, *places), (lhs, rhs), "high_product")

    def ref(self, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        return np_multiply_shift(lhs, rhs, self.places, 0, 0)


class fixed_point_multiply(OpCard, key="fixed_point_multiply"):
    """round(data * multiplier * 2 ** (shift - 31)) of int32; halves round upwards. multiplier: a fraction of 31 bits."""

    multiplier: int
    shift: int
    flat = True
    fuse = ELEMWISE
    samples = [
        ((np.array([[5, -7], [1000, -123456]], np.int32),), {"multiplier": 1 << 30, "shift": 1}),
        ((np.array([5, -7, 1000, -123456], np.int32),), {"multiplier": 1395864320, "shift": -3}),
        ((np.array([23], np.int32),), {"multiplier": 1 << 30, "shift": -3}),
    ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        need(t.dtype == "int32", "data must be int32", f"it is {t.dtype}", 0)
        return t

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.fixed_point_multiply(data, self.multiplier, self.shift)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np_multiply_shift(data, np.asarray(self.multiplier), 31, max(self.shift, 0), max(-self.shift, 0))


class fixed_point_multiply_per_axis(OpCard, key="fixed_point_multiply_per_axis"):
    """fixed_point_multiply with a multiplier, a left shift and a right shift for each index along `axes`."""

    is_lshift_required: bool = False
    is_rshift_required: bool = False
    axes: tuple[int, ...] = (-1,)
    flat = True
    fuse = BROADCAST
    samples = [
        (
            (
                np.array([[5, -7], [1000, -1234]], np.int32), np.array([1 << 30, 1395864320], np.int32),
                np.array([1, 0], np.int32), np.array([0, 3], np.int32),
            ),
            {"is_lshift_required": True, "is_rshift_required": True, "axes": (1,)},
        ),
    ]  # fmt: skip

    @classmethod
    def make(
        cls,
        x: Operand,
        y: Operand,
        lshift: Operand,
        rshift: Operand,
        is_lshift_required: bool,
        is_rshift_required: bool,
        axes: Operand,
        span: BaseSpan | None = None,
    ) -> Made:
        """Makes the call. All attributes must be given."""
        attrs = {"is_lshift_required": is_lshift_required, "is_rshift_required": is_rshift_required, "axes": axes}
        return cls.call([x, y, lshift, rshift], attrs, span)

    def infer(self, data: TensorType, multiplier: TensorType, lshift: TensorType, rshift: TensorType) -> Type:
        t = tensor(data, 0)
        axes = [normal_axis(a, len(t.shape), "axes") for a in self.axes]
        for k, v in enumerate((multiplier, lshift, rshift), 1):
            shape = dims(tensor(v, k))
            fits = len(shape) == len(axes) and all(map(may_equal, shape, [dims(t)[a] for a in axes]))
            need(fits, "this must have an element for each place along `axes`", f"it is {v} for {t}", k)
        need(t.dtype == "int32", "data must be int32", f"it is {t.dtype}", 0)
        return t

    def compute(self, data: te.Tensor, multiplier: te.Tensor, lshift: te.Tensor, rshift: te.Tensor) -> te.Tensor:
        return topi.fixed_point_multiply_per_axis(
            data, multiplier, lshift, rshift, self.is_lshift_required, self.is_rshift_required, self.axes
        )

    def ref(self, data: np.ndarray, multiplier: np.ndarray, lshift: np.ndarray, rshift: np.ndarray) -> np.ndarray:
        shape = [1] * data.ndim
        for a, d in zip(self.axes, multiplier.shape, strict=True):
            shape[a] = d
        left = lshift.reshape(shape) if self.is_lshift_required else 0
        right = rshift.reshape(shape) if self.is_rshift_required else 0
        return np_multiply_shift(data, multiplier.reshape(shape), 31, left, right)


class cast_like(OpCard, key="cast_like"):
    """data converted to the dtype of `dtype_like`."""

    fuse = ELEMWISE
    samples = [(((2, 3), ((4,), "int32")), {}), ((((2, 3), "int32"), (1,)), {})]

    def infer(self, data: TensorType, dtype_like: TensorType) -> Type:
        return tensor_type(tensor(data, 0).shape, tensor(dtype_like, 1).dtype)

    def compute(self, data: te.Tensor, dtype_like: te.Tensor) -> te.Tensor:
        return topi.cast(data, dtype_like.dtype)

    def ref(self, data: np.ndarray, dtype_like: np.ndarray) -> np.ndarray:
        return data.astype(dtype_like.dtype)

    def simplify(self, data: Expr, dtype_like: Expr) -> Expr | None:
        t = tensor(dtype_like.checked_type)
        return constructor("cast")(data, str(t.dtype))

    def grad(self, data: Expr, dtype_like: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        floats = tensor(data.checked_type).dtype.is_float
        return [op("cast_like")(dy, data) if floats else None, None]


class reinterpret(OpCard, key="reinterpret"):
    """The bits of data as another dtype with the same number of bits."""

    dtype: str
    flat = True
    fuse = ELEMWISE
    samples = [((((2, 3), "int32"),), {"dtype": "uint32"}), ((((4,), "int32"),), {"dtype": "float32"})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        bits = DataType(self.dtype).bits
        need(bits == t.dtype.bits, "both types must have as many bits", f"they are {t.dtype} and {self.dtype}", 0)
        return tensor_type(t.shape, self.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.reinterpret(data, self.dtype)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(data).view(numpy_dtype(self.dtype)).reshape(data.shape)


def _whole(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return whole_quotient(a, b) if a.dtype.kind in "iu" else np.asarray(np.trunc(a / b))


class trunc_divide(Binary, key="trunc_divide"):
    """lhs / rhs, rounded towards zero. Integers divided by 0 give 0."""

    samples = DIVISION
    divisors = (1,)
    flat = True

    def compute(self, lhs: te.Tensor, rhs: te.Tensor) -> te.Tensor:
        found = topi.divide(lhs, rhs)
        return topi.trunc(found) if "float" in lhs.dtype else found

    def ref(self, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return _whole(lhs, rhs).astype(lhs.dtype)


class trunc_mod(Binary, key="trunc_mod"):
    """The remainder of trunc_divide, with the sign of lhs. Integers divided by 0 give 0."""

    samples = DIVISION
    divisors = (1,)

    def compute(self, lhs: te.Tensor, rhs: te.Tensor) -> te.Tensor:
        return topi.mod(lhs, rhs)

    def ref(self, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(np.fmod(lhs, rhs))

    def grad(self, lhs: Expr, rhs: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        back = op("negative")(op("multiply")(dy, op("trunc_divide")(lhs, rhs)))
        return [op("collapse_sum_like")(dy, lhs), op("collapse_sum_like")(back, rhs)]
