"""Functions of quantised tensors, computed in float32, and concatenation of quantised tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from tilewright.ir import TensorType, TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import BROADCAST, INJECTIVE, OUT_ELEMWISE, Made, Operand, Sample, any_bytes, need
from tilewright.relay.cards.relations import broadcast, dims, normal_axis, tensor, tensor_type
from tilewright.relay.expr import Constant, Expr, Tuple, const
from tilewright.relay.op.adjoint import field, op
from tilewright.relay.op.arithmetic.elemwise import np_erf
from tilewright.relay.op.layers import normalisation
from tilewright.relay.op.movement.reshaping import concatenate as plain_concatenate
from tilewright.relay.op.movement.reshaping import tuple_fields
from tilewright.relay.op.quantization.quantized import (
    Quantized,
    along,
    cast,
    dequantized,
    f32,
    fixed_point_product,
    i32,
    in_units,
    is_zero,
    limits,
    need_in_and_out,
    need_parameter,
    need_quantized,
    np_dequantize,
    np_fixed_point,
    np_quantize,
    np_rounded,
    quantized,
    rank,
    read,
    requantize,
    rounded,
    spread,
)
from tilewright.relay.op.quantization.requantize_config import requantize_config


class QuantizedUnary(Quantized):
    """A function of quantised numbers, with a result of the same dtype."""

    fuse = BROADCAST
    name: ClassVar[str]
    np_form: ClassVar[Callable[[np.ndarray], np.ndarray]]
    samples: ClassVar[Sequence[Sample]] = [
        ((any_bytes((2, 9)), f32(0.02), i32(-3), f32(0.01), i32(5)), {}),
    ]

    def infer(
        self,
        x: TensorType,
        scale: TensorType,
        zero_point: TensorType,
        output_scale: TensorType,
        output_zero_point: TensorType,
    ) -> Type:
        return need_in_and_out(x, scale, zero_point, output_scale, output_zero_point)

    def plain(self, x: Expr) -> Expr:
        """The function of float32 numbers."""
        return op(type(self).name)(x)

    def expand(self, x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Expr:
        """Dequantise, apply the function, quantise."""
        t = tensor(x.checked_type)
        ndim = len(t.shape)
        y = self.plain(dequantized(x, along(scale, ndim, 0), along(zero_point, ndim, 0)))
        return quantized(y, along(output_scale, ndim, 0), along(output_zero_point, ndim, 0), str(t.dtype))

    def ref(
        self,
        x: np.ndarray,
        scale: np.ndarray,
        zero_point: np.ndarray,
        output_scale: np.ndarray,
        output_zero_point: np.ndarray,
    ) -> np.ndarray:
        y = self.np_plain(np_dequantize(x, scale.reshape(()), zero_point.reshape(())))
        return np_quantize(y, output_scale.reshape(()), output_zero_point.reshape(()), x.dtype.name)

    def np_plain(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(type(self).np_form(x.astype(np.float64)).astype(np.float32))


def _unary(key: str, form: Callable[[np.ndarray], np.ndarray], about: str, bias: int = -3) -> type[QuantizedUnary]:
    class card(QuantizedUnary, key=f"qnn.{key}"):
        name = key
        samples = [((any_bytes((2, 9)), f32(0.0173), i32(bias), f32(0.0101), i32(5)), {})]

    card.np_form, card.__doc__ = form, about
    card.__name__ = card.__qualname__ = key
    return card


tanh = _unary("tanh", np.tanh, "tanh of quantised numbers.")
exp = _unary("exp", np.exp, "exp of quantised numbers.")
sqrt = _unary("sqrt", np.sqrt, "Square root of quantised numbers that stand for no negative ones.", -128)
rsqrt = _unary("rsqrt", lambda x: 1 / np.sqrt(x), "1 / sqrt of quantised numbers that stand for positive ones.", -129)
erf = _unary("erf", np_erf, "Error function of quantised numbers.")
sigmoid = _unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)), "1 / (1 + exp(-x)) of quantised numbers.")
log = _unary("log", np.log, "Natural logarithm of quantised numbers that stand for positive ones.", -129)
abs_ = _unary("abs", np.abs, "Absolute value of quantised numbers.")


class hardswish(QuantizedUnary, key="qnn.hardswish"):
    """x * min(max(x + 3, 0), 6) / 6 of quantised numbers."""

    samples = [((any_bytes((2, 9)), f32(0.0473), i32(-3), f32(0.0301), i32(5)), {})]

    def plain(self, x: Expr) -> Expr:
        gate = op("clip")(op("add")(x, const(3.0)), 0.0, 6.0)
        return op("multiply")(x, op("divide")(gate, const(6.0)))

    def np_plain(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x * (np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6)))


class softmax(QuantizedUnary, key="qnn.softmax"):
    """softmax along `axis` of quantised numbers, in the same dtype."""

    axis: int = -1
    fuse = OUT_ELEMWISE
    samples = [((any_bytes((2, 9)), f32(0.0473), i32(-3), f32(1 / 256), i32(-128)), {})]

    def plain(self, x: Expr) -> Expr:
        return op("nn.softmax")(x, axis=self.axis)

    def np_plain(self, x: np.ndarray) -> np.ndarray:
        return normalisation.softmax.from_fields(self.axis).ref(x)


class leaky_relu(Quantized, key="qnn.leaky_relu"):
    """leaky_relu of quantised numbers: x if it stands for a positive number, else alpha times as much."""

    alpha: float
    fuse = BROADCAST
    samples = [((any_bytes((2, 9)), f32(0.0173), i32(-3), f32(0.0101), i32(5)), {"alpha": 0.1})]

    @classmethod
    def make(
        cls,
        x: Expr,
        alpha: float,
        input_scale: Expr,
        input_zero_point: Expr,
        output_scale: Expr,
        output_zero_point: Expr,
        span: BaseSpan | None = None,
    ) -> Made:
        inputs = [x, input_scale, input_zero_point, output_scale, output_zero_point]
        return cls.call(inputs, {"alpha": alpha}, span)

    def infer(
        self,
        x: TensorType,
        input_scale: TensorType,
        input_zero_point: TensorType,
        output_scale: TensorType,
        output_zero_point: TensorType,
    ) -> Type:
        return need_in_and_out(x, input_scale, input_zero_point, output_scale, output_zero_point)

    def expand(
        self, x: Expr, input_scale: Expr, input_zero_point: Expr, output_scale: Expr, output_zero_point: Expr
    ) -> Expr:
        """Dequantise, leaky_relu, quantise."""
        t = tensor(x.checked_type)
        ndim = len(t.shape)
        y = op("nn.leaky_relu")(
            dequantized(x, along(input_scale, ndim, 0), along(input_zero_point, ndim, 0)), self.alpha
        )
        return quantized(y, along(output_scale, ndim, 0), along(output_zero_point, ndim, 0), str(t.dtype))

    def ref(
        self,
        x: np.ndarray,
        input_scale: np.ndarray,
        input_zero_point: np.ndarray,
        output_scale: np.ndarray,
        output_zero_point: np.ndarray,
    ) -> np.ndarray:
        y = np_dequantize(x, input_scale.reshape(()), input_zero_point.reshape(()))
        y = np.where(y > 0, y, y * np.float32(self.alpha))
        return np_quantize(y, output_scale.reshape(()), output_zero_point.reshape(()), x.dtype.name)


class QuantizedBinary(Quantized):
    """A function of two quantised tensors (broadcast), with a result of the left one's dtype. It is computed in float32; where the current
    `requantize_config` says int64 and scales are constants, operands are requantised to the output's scale as integers, and a product after
    the multiplication."""

    lhs_axis: int = -1
    rhs_axis: int = -1
    fuse = BROADCAST
    name: ClassVar[str]
    np_form: ClassVar[Callable[[np.ndarray, np.ndarray], np.ndarray]]

    def infer(
        self,
        lhs: TensorType,
        rhs: TensorType,
        lhs_scale: TensorType,
        lhs_zero_point: TensorType,
        rhs_scale: TensorType,
        rhs_zero_point: TensorType,
        output_scale: TensorType,
        output_zero_point: TensorType,
    ) -> Type:
        a, b = need_quantized(lhs, 0), need_quantized(rhs, 1)
        sides = (
            (2, a, self.lhs_axis, lhs_scale, lhs_zero_point),
            (4, b, self.rhs_axis, rhs_scale, rhs_zero_point),
        )
        for at, t, axis, scale, zero in sides:
            count = dims(t)[normal_axis(axis, len(t.shape))] if t.shape else 1
            need_parameter(scale, at, "lhs scale" if at == 2 else "rhs scale", count)
            need_parameter(zero, at + 1, "lhs zero point" if at == 2 else "rhs zero point", count)
        need_parameter(output_scale, 6, "output scale")
        need_parameter(output_zero_point, 7, "output zero point")
        return broadcast(tensor_type(a.shape, "float32"), tensor_type(b.shape, "float32"), str(a.dtype))

    def expand(
        self,
        lhs: Expr,
        rhs: Expr,
        lhs_scale: Expr,
        lhs_zero_point: Expr,
        rhs_scale: Expr,
        rhs_zero_point: Expr,
        output_scale: Expr,
        output_zero_point: Expr,
    ) -> Expr:
        """The function of both operands in units of the output's scale: one factor for each operand, and no division."""
        a, b = tensor(lhs.checked_type), tensor(rhs.checked_type)
        m, n = len(a.shape), len(b.shape)
        k = max(m, n)
        scales = (lhs_scale, rhs_scale, output_scale)
        if requantize_config.current().compute_dtype == "int64" and all([isinstance(s, Constant) for s in scales]):
            sides = ((lhs, lhs_zero_point, lhs_scale, self.lhs_axis), (rhs, rhs_zero_point, rhs_scale, self.rhs_axis))
            return self._in_integers(sides, output_scale, output_zero_point, str(a.dtype), k)
        x = in_units(lhs, along(lhs_zero_point, m, self.lhs_axis))
        y = in_units(rhs, along(rhs_zero_point, n, self.rhs_axis))
        left, right = along(lhs_scale, m, self.lhs_axis), along(rhs_scale, n, self.rhs_axis)
        name, to = type(self).name, along(output_scale, k, 0)
        if name == "multiply":
            z = op("multiply")(op("multiply")(x, y), read(op("divide")(op("multiply")(left, right), to), k))
        else:
            parts = [op("multiply")(v, read(op("divide")(scale, to), k)) for v, scale in ((x, left), (y, right))]
            z = op(name)(*parts)
        return rounded(z, along(output_zero_point, k, 0), str(a.dtype))

    def _in_integers(self, sides: Any, to: Any, zero: Expr, dtype: str, ndim: int) -> Expr:
        """The function of integers. sides: (operand, zero point, scale, axis) of both."""
        from tilewright.relay.rewriting import typed

        rounding, name = requantize_config.current().rounding, type(self).name
        parts, scales, axes = [], [], []
        for q, zero_point, scale, axis in sides:
            own = rank(q)
            whole = cast(q, "int32")
            if not is_zero(zero_point):
                whole = op("subtract")(whole, read(along(zero_point, own, axis), own))
            parts.append(whole)
            scales.append(scale)
            axes.append(axis % own if own else 0)
        if name == "multiply":
            first, second = (spread(s.value, ndim, axis - ndim) for s, axis in zip(scales, axes, strict=True))
            total = fixed_point_product(op("multiply")(*parts), first * second / to.value.reshape(()), rounding)
        else:
            scaled = [
                fixed_point_product(typed(part), spread(s.value, rank(part), axis) / to.value.reshape(()), rounding)
                for part, s, axis in zip(parts, scales, axes, strict=True)
            ]
            total = op(name)(*scaled)
        low, high = limits(dtype)
        total = op("add")(total, cast(along(zero, ndim, 0), "int64"))
        return cast(op("clip")(total, float(low), float(high)), dtype)

    def ref(
        self,
        lhs: np.ndarray,
        rhs: np.ndarray,
        lhs_scale: np.ndarray,
        lhs_zero_point: np.ndarray,
        rhs_scale: np.ndarray,
        rhs_zero_point: np.ndarray,
        output_scale: np.ndarray,
        output_zero_point: np.ndarray,
    ) -> np.ndarray:
        one, to = np.float32(1), output_scale.reshape(())
        x = np_dequantize(lhs, one, spread(lhs_zero_point, lhs.ndim, self.lhs_axis))
        y = np_dequantize(rhs, one, spread(rhs_zero_point, rhs.ndim, self.rhs_axis))
        left, right = spread(lhs_scale, lhs.ndim, self.lhs_axis), spread(rhs_scale, rhs.ndim, self.rhs_axis)
        now = requantize_config.current()
        if now.compute_dtype == "int64":
            i, j = x.astype(np.int64), y.astype(np.int64)
            if type(self).name == "multiply":
                total = np_fixed_point(i * j, left * right / to, now.rounding)
            else:
                total = type(self).np_form(
                    *[np_fixed_point(v, s / to, now.rounding) for v, s in ((i, left), (j, right))]
                )
            low, high = limits(lhs.dtype.name)
            return np.asarray(np.clip(total + output_zero_point.reshape(()), low, high).astype(lhs.dtype))
        if type(self).name == "multiply":
            z = x * y * (left * right / to)
        else:
            z = np.asarray(type(self).np_form(x * (left / to), y * (right / to)))
        return np_rounded(z, output_zero_point.reshape(()), lhs.dtype.name)


def _binary(key: str, form: Callable[[np.ndarray, np.ndarray], np.ndarray], about: str) -> type[QuantizedBinary]:
    class card(QuantizedBinary, key=f"qnn.{key}"):
        name = {"mul": "multiply"}.get(key, key)
        samples = [
            ((any_bytes((2, 5)), any_bytes((5,)), f32(0.02), i32(3), f32(0.05), i32(-4), f32(0.0501), i32(1)), {}),
            ((any_bytes((2, 3, 4), "uint8"), any_bytes((3, 4), "uint8"), f32([0.02, 0.1, 0.3]), i32([3, 120, 0]),
              f32(0.05), i32(128), f32(0.0713), i32(111)), {"lhs_axis": 1}),
        ]  # fmt: skip

    card.np_form, card.__doc__ = form, about
    card.__name__ = card.__qualname__ = key
    return card


add = _binary("add", np.add, "Sum of quantised tensors.")
subtract = _binary("subtract", np.subtract, "Difference of quantised tensors.")
mul = _binary("mul", np.multiply, "Product, element by element, of quantised tensors.")


class concatenate(Quantized, key="qnn.concatenate"):
    """Quantised tensors, each with its own scale, joined along `axis` in the output's scale."""

    axis: int = 0
    fuse = INJECTIVE
    samples = [
        (([any_bytes((2, 3)), any_bytes((2, 2))], [f32(0.1), f32(0.2)], [i32(0), i32(3)], f32(0.2), i32(3)), {"axis": 1}),
    ]  # fmt: skip

    @classmethod
    def make(
        cls,
        data: Operand,
        input_scales: Operand,
        input_zero_points: Operand,
        output_scale: Expr,
        output_zero_point: Expr,
        axis: int = 0,
        span: BaseSpan | None = None,
    ) -> Made:
        return cls.call([data, input_scales, input_zero_points, output_scale, output_zero_point], {"axis": axis}, span)

    def infer(
        self,
        data: TupleType,
        input_scales: TupleType,
        input_zero_points: TupleType,
        output_scale: TensorType,
        output_zero_point: TensorType,
    ) -> Type:
        counts = {len(t.fields) for t in (data, input_scales, input_zero_points)}
        need(
            len(counts) == 1,
            "there must be a scale and a zero point for each tensor",
            f"there are {len(data.fields)} tensors, {len(input_scales.fields)} scales and {len(input_zero_points.fields)} zero points",
            1,
        )
        for t, scale, zero in zip(data.fields, input_scales.fields, input_zero_points.fields, strict=True):
            need_quantized(t, 0)
            need_parameter(scale, 1, "input scale")
            need_parameter(zero, 2, "input zero point")
        need_parameter(output_scale, 3, "output scale")
        need_parameter(output_zero_point, 4, "output zero point")
        return plain_concatenate.from_fields(self.axis).infer(data)

    def expand(
        self, data: Expr, input_scales: Expr, input_zero_points: Expr, output_scale: Expr, output_zero_point: Expr
    ) -> Expr:
        """Requantises each tensor whose scale differs from the output's, then joins them."""
        parts = []
        for k, t in enumerate(tuple_fields(data.checked_type)):
            part, scale, zero = field(data, k), field(input_scales, k), field(input_zero_points, k)
            same = all(
                [
                    isinstance(x, Constant) and isinstance(y, Constant) and np.array_equal(x.value, y.value)
                    for x, y in ((scale, output_scale), (zero, output_zero_point))
                ]
            )
            if not same:
                from tilewright.relay.rewriting import typed

                args = [typed(e) for e in (part, scale, zero, output_scale, output_zero_point)]
                part = requantize.from_fields(-1, "None", "None", str(t.dtype)).expand(*args)
            parts.append(part)
        return op("concatenate")(Tuple(tuple(parts)), self.axis)

    def ref(
        self,
        data: Sequence[np.ndarray],
        input_scales: Sequence[np.ndarray],
        input_zero_points: Sequence[np.ndarray],
        output_scale: np.ndarray,
        output_zero_point: np.ndarray,
    ) -> np.ndarray:
        parts = []
        for x, scale, zero in zip(data, input_scales, input_zero_points, strict=True):
            same = np.array_equal(scale, output_scale) and np.array_equal(zero, output_zero_point)
            card = requantize.from_fields(-1, "None", "None", x.dtype.name)
            parts.append(x if same else card.ref(x, scale, zero, output_scale, output_zero_point))
        return np.concatenate(parts, self.axis)
