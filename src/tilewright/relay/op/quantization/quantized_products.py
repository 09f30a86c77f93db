"""Convolutions and products of quantised tensors: sums of (data - its zero point) * (weight - its zero point), as int32.

The sums do not depend on the scales. Scales are arguments, so that passes know the quantisation of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tilewright.ir import Op, TensorType, Type
from tilewright.relay.cards.card import OUT_ELEMWISE, OpCard, any_bytes
from tilewright.relay.cards.relations import dims, tensor, tensor_type
from tilewright.relay.expr import Call, Constant, Expr, const
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.convolution import conv, conv_nd
from tilewright.relay.op.convolution.windows import pads
from tilewright.relay.op.layers import pool, products
from tilewright.relay.op.quantization.quantized import (
    Quantized,
    along,
    cast,
    dequantized,
    f32,
    i32,
    is_zero,
    need_in_and_out,
    need_parameter,
    need_quantized,
    np_dequantize,
    np_quantize,
    quantized,
    read,
    spread,
)
from tilewright.target import Target


def difference(q: Expr, zero: Expr, axis: int) -> Expr:
    """q - zero_point, in the narrowest type that holds it; q itself if the zero point is 0."""
    if is_zero(zero):
        return q
    t = tensor(q.checked_type)
    wide = "int16" if str(t.dtype) in ("int8", "uint8") else "int32"
    return op("subtract")(cast(q, wide), cast(along(zero, len(t.shape), axis), wide))


def alike(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Both operands unchanged if they are 8-bit integers, which processors can multiply; else both in a dtype that holds both."""
    from tilewright.relay.rewriting import typed

    types = [str(tensor(typed(e).checked_type).dtype) for e in (a, b)]
    if types[0] == types[1] or set(types) == {"int8", "uint8"}:
        return a, b
    wide = "int32" if "int32" in types else "int16"
    return cast(a, wide), cast(b, wide)


def _of_constants(e: Expr, depth: int = 8) -> bool:
    """Whether at most a few nested operator calls compute a value from constants."""
    if isinstance(e, Constant) or depth == 0:
        return depth > 0
    return isinstance(e, Call) and isinstance(e.op, Op) and all(_of_constants(a, depth - 1) for a in e.args)


def known_weight(weight: Expr, zero: Expr, axis: int) -> tuple[Expr, Expr]:
    """Constant weights minus their zero point, if the result is int8 (often for uint8 weights around 128). An expression of
    constants is a constant."""
    if not isinstance(weight, Constant) and _of_constants(weight):
        from tilewright.relay.evaluation.constant_folding import folded

        weight = folded(weight)
    if not isinstance(weight, Constant) or not isinstance(zero, Constant) or is_zero(zero):
        return weight, zero
    value = weight.value
    less = value.astype(np.int32) - spread(zero.value, value.ndim, axis)
    if value.dtype.itemsize > 1 or less.min(initial=0) < -128 or less.max(initial=0) > 127:
        return weight, zero
    from tilewright.relay.rewriting import typed

    return typed(const(less.astype(np.int8))), typed(const(0, "int32"))


class Product(Quantized):
    """Base of operators that are linear in data and in weights. plain: the card for integers."""

    fuse = OUT_ELEMWISE
    names: ClassVar[tuple[str, str]] = ("input", "kernel")

    def plain(self) -> OpCard:
        """The card for plain integers, with an int32 result."""
        raise TypeError(f"{type(self).__name__} has no card for plain integers")

    def channels_axis(self, ndim: int) -> int:
        """The axis of the weights along which their scale and zero point may vary."""
        return 0

    def infer(
        self,
        data: TensorType,
        weight: TensorType,
        input_zero_point: TensorType,
        kernel_zero_point: TensorType,
        input_scale: TensorType,
        kernel_scale: TensorType,
    ) -> Type:
        x, w = need_quantized(data, 0), need_quantized(weight, 1)
        first, second = self.names
        count = dims(w)[self.channels_axis(len(w.shape))]
        need_parameter(input_zero_point, 2, f"{first} zero point")
        need_parameter(kernel_zero_point, 3, f"{second} zero point", count)
        need_parameter(input_scale, 4, f"{first} scale")
        need_parameter(kernel_scale, 5, f"{second} scale", count)
        same = [tensor_type(t.shape, "int32") for t in (x, w)]
        return self.plain().infer(*same)

    def expand(self, *args: Expr) -> Expr:
        """Subtracts the zero points of both operands, then applies the plain operator. Padding then stands for 0, as required."""
        data, weight, input_zero_point, kernel_zero_point, *_ = args
        ndim = len(tensor(weight.checked_type).shape)
        x = difference(data, input_zero_point, 0)
        w = difference(weight, kernel_zero_point, self.channels_axis(ndim))
        return type(self.plain()).call(alike(x, w), vars_of(self.plain()))

    def ref(
        self,
        data: np.ndarray,
        weight: np.ndarray,
        input_zero_point: np.ndarray,
        kernel_zero_point: np.ndarray,
        input_scale: np.ndarray,
        kernel_scale: np.ndarray,
    ) -> np.ndarray:
        x = data.astype(np.int32) - input_zero_point.reshape(())
        w = weight.astype(np.int32) - spread(kernel_zero_point, weight.ndim, self.channels_axis(weight.ndim))
        found: np.ndarray = self.plain().ref(x, w)
        return found


class ProductOfBytes(Product):
    """A product whose 8-bit operands stay 8-bit: if only the data has a zero point, its share is computed from the sums of constant
    weights."""

    def shifted(self, data: Expr, weight: Constant, zero: Expr) -> Expr | None:
        """The product minus the share of the data's zero point. None if the attributes do not allow it."""
        raise TypeError(f"{type(self).__name__} has no product of bytes")

    def expand(self, *args: Expr) -> Expr:
        """The product of 8-bit integers, if possible; else that of the differences from the zero points."""
        data, weight, zero, kernel_zero, *scales = args
        weight, kernel_zero = known_weight(weight, kernel_zero, self.channels_axis(0))
        made = None
        if not is_zero(zero) and is_zero(kernel_zero) and isinstance(weight, Constant):
            made = self.shifted(data, weight, zero)
        return made if made is not None else super().expand(data, weight, zero, kernel_zero, *scales)


def vars_of(card: OpCard) -> dict[str, Any]:
    """The attributes of a card by name."""
    return {f.name: getattr(card, f.name) for f in type(card)._fields if f.name != "span"}


def shifted_product(call: Expr, data_zero: Expr, sums: Expr) -> Expr:
    """sum(x * w) - zero * sum(w), which is sum((x - zero) * w)."""
    return op("subtract")(call, op("multiply")(data_zero, sums))


def with_sign(q: Expr, zero: Expr, signed: bool) -> tuple[Expr, Expr]:
    """8-bit integers converted to signed or unsigned, and their new zero point."""
    from tilewright.relay.rewriting import typed

    if (str(tensor(q.checked_type).dtype) == "int8") is signed:
        return q, zero
    moved = op("add")(cast(q, "uint8"), const(128, "uint8"))
    by = const(-128 if signed else 128)
    shifted = const((zero.value + by.value).astype("int32")) if isinstance(zero, Constant) else op("add")(zero, by)
    return typed(cast(moved, "int8" if signed else "uint8")), typed(shifted)


def filled_up(a: Expr, b: Expr, inner: int) -> tuple[Expr, Expr]:
    """Both operands, padded with zeros at the end of their last axis to a multiple of four."""
    more = -inner % 4
    if not more:
        return a, b
    width = [[(0, 0)] * (len(tensor(e.checked_type).shape) - 1) + [(0, more)] for e in (a, b)]
    dtypes = [str(tensor(e.checked_type).dtype) for e in (a, b)]
    first, second = [op("nn.pad")(e, w, const(0, d)) for e, w, d in zip((a, b), width, dtypes, strict=True)]
    return first, second


class dense(ProductOfBytes, key="qnn.dense"):
    """data (M, K) times the transpose of weight (N, K): int32 (M, N)."""

    units: int | None = None
    out_dtype: str = "int32"
    samples = [
        ((any_bytes((3, 4)), any_bytes((5, 4)), i32(0), i32(0), f32(0.1), f32(0.2)), {"units": 5}),
        ((any_bytes((3, 4), "uint8"), any_bytes((5, 4)), i32(120), i32(0), f32(0.1), f32(0.2)), {"units": 5}),
        ((any_bytes((3, 4), "uint8"), any_bytes((2, 4), "uint8"), i32(120), i32([7, 130]), f32(0.1), f32([0.2, 1])), {"units": 2}),
    ]  # fmt: skip

    def plain(self) -> OpCard:
        return products.dense.from_fields(self.units, self.out_dtype)

    def shifted(self, data: Expr, weight: Constant, zero: Expr) -> Expr:
        product = op("nn.dense")(*alike(data, weight), units=self.units, out_dtype=self.out_dtype)
        # Computed at once: FoldConstant would keep the sum's expression, since large weights are smaller than their cast to int32.
        return shifted_product(product, zero, const(weight.value.sum(1, dtype=np.int32)))


class batch_matmul(Product, key="qnn.batch_matmul"):
    """x (B, M, K) times the transpose of y (B, N, K): int32 (B, M, N)."""

    out_dtype: str = "int32"
    names = ("x", "y")
    samples = [
        ((any_bytes((2, 3, 4)), any_bytes((2, 5, 4)), i32(3), i32(-7), f32(0.1), f32(0.2)), {}),
        ((any_bytes((2, 3, 4), "uint8"), any_bytes((2, 5, 4)), i32(120), i32(0), f32(0.1), f32(0.2)), {}),
    ]

    def plain(self) -> OpCard:
        return products.batch_matmul.from_fields(self.out_dtype, False, True)

    def infer(
        self,
        x: TensorType,
        y: TensorType,
        x_zero_point: TensorType,
        y_zero_point: TensorType,
        x_scale: TensorType,
        y_scale: TensorType,
    ) -> Type:
        return super().infer(x, y, x_zero_point, y_zero_point, x_scale, y_scale)

    def expand(self, *args: Expr) -> Expr:
        """Keeps 8-bit operands if the target has dot products for them:
        sum((x - a) * (y - b)) = sum(x * y) - b * sum(x) - a * sum(y) + K * a * b, without the parts whose zero point is 0."""
        from tilewright.scheduling.instructions import dot_products

        x, y, x_zero_point, y_zero_point, *_ = args
        types = [tensor(e.checked_type) for e in (x, y)]
        inner = dims(types[0])[-1]
        target = Target.current(True)
        narrow = {str(t.dtype) for t in types} <= {"int8", "uint8"} and dot_products(target, "uint8", "int8", "int32")
        if not isinstance(inner, int) or not narrow:
            return super().expand(*args)
        left, a = with_sign(x, x_zero_point, False)
        right, b = with_sign(y, y_zero_point, True)
        product: Expr = op("nn.batch_matmul")(*filled_up(left, right, inner), out_dtype="int32")
        one, two = read(a, 1), read(b, 1)
        if not is_zero(b):
            product = shifted_product(product, two, op("sum")(cast(left, "int32"), axis=(-1,), keepdims=True))
        if not is_zero(a):
            sums = op("expand_dims")(op("sum")(cast(right, "int32"), axis=(-1,)), axis=-2)
            product = shifted_product(product, one, sums)
        if is_zero(a) or is_zero(b):
            return product
        return op("add")(product, op("multiply")(op("multiply")(one, two), const(inner, "int32")))


class conv2d(ProductOfBytes, key="qnn.conv2d"):
    """Convolution of data (N, C, H, W) with kernel (O, C / groups, KH, KW), as int32; padding stands for 0."""

    kernel_size: tuple[int, ...] | None = None
    channels: int | None = None
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = ""
    out_dtype: str = "int32"
    samples = [
        ((any_bytes((1, 3, 6, 7)), any_bytes((4, 3, 3, 3)), i32(0), i32(0), f32(0.1), f32(0.2)), {"padding": (1, 1)}),
        ((any_bytes((1, 3, 6, 7), "uint8"), any_bytes((4, 3, 3, 3)), i32(120), i32(0), f32(0.1), f32([1, 2, 3, 4])),
         {"padding": (1, 1), "kernel_size": (3, 3), "channels": 4}),
        ((any_bytes((1, 4, 6, 7), "uint8"), any_bytes((4, 1, 3, 3), "uint8"), i32(120), i32(111), f32(0.1), f32(0.2)),
         {"groups": 4, "strides": (2, 2)}),
        ((any_bytes((1, 6, 6, 3), "uint8"), any_bytes((3, 3, 3, 4), "uint8"), i32(120), i32([1, 2, 3, 4]), f32(0.1), f32(0.2)),
         {"data_layout": "NHWC", "kernel_layout": "HWIO", "padding": (1, 0, 0, 1)}),
        ((any_bytes((1, 3, 1, 2), "uint8"), any_bytes((4, 3, 5, 5)), i32(120), i32(0), f32(0.1), f32(0.2)),
         {"padding": (2, 3), "kernel_size": (5, 5)}),
        ((any_bytes((1, 2, 1, 3), "uint8"), any_bytes((5, 5, 3, 4)), i32(120), i32(0), f32(0.1), f32(0.2)),
         {"data_layout": "NHWC", "kernel_layout": "HWIO", "padding": (2, 3), "strides": (2, 1)}),
        ((any_bytes((1, 5, 4, 3), "uint8"), any_bytes((3, 2, 3, 2)), i32(7), i32(0), f32(0.1), f32(0.2)),
         {"data_layout": "NHWC", "kernel_layout": "HWOI", "groups": 3, "channels": 6}),
    ]  # fmt: skip

    def infer(
        self, data: TensorType, kernel: TensorType, input_zero_point: TensorType, kernel_zero_point: TensorType,
        input_scale: TensorType, kernel_scale: TensorType,
    ) -> Type:  # fmt: skip
        return super().infer(data, kernel, input_zero_point, kernel_zero_point, input_scale, kernel_scale)

    def plain(self) -> conv.conv2d:
        names = [f.name for f in type(self)._fields if f.name != "span"]
        return conv.conv2d(**{n: getattr(self, n) for n in names})

    def channels_axis(self, ndim: int) -> int:
        return self.kernel_layout.index("O")

    def shifted(self, data: Expr, weight: Constant, zero: Expr) -> Expr | None:
        """Pads the data by its zero point first. Kernel offsets that read only padding are left out: they add zeros."""
        if (
            not isinstance(zero, Constant)
            or self.data_layout not in ("NCHW", "NHWC")
            or self.out_layout not in ("", self.data_layout)
        ):
            return None
        before, after = pads(self.padding)
        values, plain, data_type = weight.value, self.plain(), data.checked_type
        extents = [dims(tensor(data_type))[self.data_layout.index(axis)] for axis in "HW"]
        rows, columns = (self.kernel_layout.index(axis) for axis in "HW")
        kernel = [values.shape[rows], values.shape[columns]]
        known = [e for e in extents if isinstance(e, int)]
        if len(known) == 2 and (found := plain.offsets_on_data(known, kernel)) is not None:
            begin, end, before, after = found
            kept: list[slice] = [slice(None)] * 4
            kept[rows], kept[columns] = (slice(b, e) for b, e in zip(begin, end, strict=True))
            values = np.ascontiguousarray(values[tuple(kept)])
            size = tuple([e - b for b, e in zip(begin, end, strict=True)])
            weight, plain = const(values), plain.replace(kernel_size=size if self.kernel_size is not None else None)
        if any((*before, *after)):
            width = [(0, 0)] * 4
            for axis, lo, hi in zip("HW", before, after, strict=True):
                width[self.data_layout.index(axis)] = (lo, hi)
            value = cast(op("reshape")(zero, ()), str(tensor(data_type).dtype))
            data = op("nn.pad")(data, tuple(width), value)
        product = op("nn.conv2d")(*alike(data, weight), **{**vars_of(plain), "padding": (0, 0)})
        filters = plain.plain_weights(values)
        channels = dims(tensor(data_type))[self.data_layout.index("C")]
        if isinstance(channels, int) and plain.channels_made(channels, *filters.shape[:2]) != len(filters):
            # Depthwise weights: (channels, filters per channel, ...).
            filters = filters.reshape(-1, 1, *filters.shape[2:])
        sums = filters.sum((1, 2, 3), dtype=np.int32)
        return shifted_product(product, zero, const(sums.reshape(-1, 1, 1) if self.data_layout == "NCHW" else sums))


class conv2d_transpose(Product, key="qnn.conv2d_transpose"):
    """The adjoint of conv2d: data (N, C, H, W), weight (C, O / groups, KH, KW), as int32."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "IOHW"
    out_layout: str = ""
    output_padding: tuple[int, ...] = (0, 0)
    out_dtype: str = "int32"
    samples = [
        ((any_bytes((1, 3, 4, 5)), any_bytes((3, 2, 2, 2)), i32(5), i32(-3), f32(0.1), f32(0.2)), {"strides": (2, 2)}),
        ((any_bytes((1, 4, 4, 4), "uint8"), any_bytes((4, 3, 3, 3)), i32(120), i32(0), f32(0.1), f32(0.2)),
         {"strides": (2, 2), "padding": (1, 1), "output_padding": (1, 1)}),
    ]  # fmt: skip

    def plain(self) -> OpCard:
        names = [f.name for f in type(self)._fields if f.name != "span"]
        return conv_nd.conv2d_transpose(**{n: getattr(self, n) for n in names})

    def channels_axis(self, ndim: int) -> int:
        return self.kernel_layout.index("O")


class avg_pool2d(Quantized, key="qnn.avg_pool2d"):
    """The mean of every window of quantised numbers, in the same dtype."""

    pool_size: tuple[int, ...]
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    ceil_mode: bool = False
    count_include_pad: bool = True
    layout: str = "NHWC"
    out_layout: str = ""
    fuse = OUT_ELEMWISE
    samples = [
        ((any_bytes((1, 7, 8, 2)), f32(0.1), i32(3), f32(0.0713), i32(-5)), {"pool_size": (3, 3), "strides": (2, 2)}),
        ((any_bytes((1, 2, 7, 8), "uint8"), f32(0.1), i32(100), f32(0.0713), i32(111)),
         {"pool_size": (2, 2), "padding": (1, 1), "layout": "NCHW"}),
    ]  # fmt: skip

    def plain(self) -> OpCard:
        return pool.avg_pool2d(**vars_of(self))

    def infer(
        self,
        data: TensorType,
        input_scale: TensorType,
        input_zero_point: TensorType,
        output_scale: TensorType,
        output_zero_point: TensorType,
    ) -> Type:
        t = need_in_and_out(data, input_scale, input_zero_point, output_scale, output_zero_point)
        found = tensor(self.plain().infer(tensor_type(t.shape, "float32")))
        return tensor_type(found.shape, str(t.dtype))

    def expand(
        self, data: Expr, input_scale: Expr, input_zero_point: Expr, output_scale: Expr, output_zero_point: Expr
    ) -> Expr:
        """Dequantise, average, quantise."""
        x = dequantized(data, along(input_scale, 4, 0), along(input_zero_point, 4, 0))
        y = type(self.plain()).call([x], vars_of(self.plain()))
        return quantized(
            y, along(output_scale, 4, 0), along(output_zero_point, 4, 0), str(tensor(data.checked_type).dtype)
        )

    def ref(
        self,
        data: np.ndarray,
        input_scale: np.ndarray,
        input_zero_point: np.ndarray,
        output_scale: np.ndarray,
        output_zero_point: np.ndarray,
    ) -> np.ndarray:
        x = np_dequantize(data, input_scale.reshape(()), input_zero_point.reshape(()))
        y = self.plain().ref(x)
        return np_quantize(y, output_scale.reshape(()), output_zero_point.reshape(()), data.dtype.name)


__all__: Sequence[str] = ("avg_pool2d", "batch_matmul", "conv2d", "conv2d_transpose", "dense")
