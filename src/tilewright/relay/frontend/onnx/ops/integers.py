"""Converters of integer products: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv, with functions for ONNX Runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.ops.arithmetic import matmul
from tilewright.relay.frontend.onnx.ops.casting import decoded, integer_limits
from tilewright.relay.frontend.onnx.ops.layers import convolution, kernel_of, spatial
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, as_value, onnx_op


def shifted(node: OnnxNode, x: Value, zero: Value | None, axis: int | None = None) -> Value:
    """x minus its zero point, as int32. A vector of zero points lies along `axis`."""
    wide = node.cast(decoded(node, x), "int32")
    if zero is None or zero.is_number and zero.array is not None and not zero.array.any():
        return wide
    return node.value("subtract", wide, node.cast(placed(node, zero, x.ndim, axis), "int32"))


def placed(node: OnnxNode, v: Value, rank: int, axis: int | None) -> Value:
    """A scalar, or a vector reshaped to broadcast along an axis."""
    if v.ndim == 0:
        return v
    if v.ndim == 1 and isinstance(v.shape[0], int) and v.shape[0] == 1:
        return node.value("reshape", v, newshape=())
    if v.ndim > 1 or axis is None:
        return v
    after = rank - 1 - node.place(axis, rank)
    return node.value("expand_dims", v, axis=1, num_newaxis=after) if after else v


BYTES = ("int8", "uint8")


def one_zero(node: OnnxNode, zero: Value | None) -> Value | None:
    """A zero point as a scalar of int32; None for a vector of different ones."""
    if zero is None:
        return Value(array=np.zeros((), np.int32))
    if (
        zero.is_number
        and zero.array is not None
        and zero.array.size
        and (zero.array == zero.array.reshape(-1)[0]).all()
    ):
        return Value(array=np.array(zero.array.reshape(-1)[0], np.int32))
    if zero.ndim and not (zero.ndim == 1 and zero.shape[0] == 1):
        return None
    return node.cast(node.value("reshape", zero, newshape=()) if zero.ndim else zero, "int32")


def integer_matmul(node: OnnxNode, a: Value, a_zero: Value | None, b: Value, b_zero: Value | None) -> Value:
    """The product of quantised matrices, as int32. Products of bytes by a matrix use relay.qnn, which has kernels for bytes."""
    zeros = [one_zero(node, a_zero), one_zero(node, b_zero)]
    if b.ndim == 2 and a.ndim >= 2 and a.element in BYTES and b.element in BYTES and None not in zeros:
        shape = a.shape
        columns = (
            node.value("transpose", b, axes=(1, 0)) if b.array is None else Value(array=np.ascontiguousarray(b.array.T))
        )
        # All leading axes become rows of one product; dynamic axes stay.
        rows = a.ndim > 2 and all([isinstance(d, int) for d in shape])
        flat = node.value("reshape", a, newshape=(-1, shape[-1])) if rows else a
        one = node.scalar(1.0, "float32")
        out = node.value("qnn.dense", flat, columns, *zeros, one, one, units=columns.shape[0])
        return node.value("reshape", out, newshape=(*shape[:-1], columns.shape[0])) if rows else out
    return as_value(matmul(node, shifted(node, a, a_zero, -2), shifted(node, b, b_zero, -1)))


def integer_convolution(node: OnnxNode, x: Value, x_zero: Value | None, w: Value, w_zero: Value | None) -> Value:
    """The convolution of quantised numbers, as int32. Convolutions of bytes over two axes use relay.qnn."""
    zeros = [one_zero(node, x_zero), one_zero(node, w_zero)]
    if x.ndim == 4 and x.element in BYTES and w.element in BYTES and None not in zeros:
        kernel = kernel_of(node, w)
        strides, dilations, padding = spatial(node, x, kernel)
        one = node.scalar(1.0, "float32")
        return node.value(
            "qnn.conv2d", x, w, *zeros, one, one, kernel_size=tuple(kernel), channels=w.known_extent(0), strides=strides,
            padding=padding, dilation=dilations, groups=node.get("group", 1),
        )  # fmt: skip
    return Value(convolution(node, shifted(node, x, x_zero), shifted(node, w, w_zero, 0), None))


@onnx_op("MatMulInteger", since=10)
def _matmul_integer(
    node: OnnxNode, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None
) -> Value:
    return integer_matmul(node, a, a_zero, b, b_zero)


@onnx_op("ConvInteger", since=10)
def _conv_integer(
    node: OnnxNode, x: Value, w: Value, x_zero: Value | None = None, w_zero: Value | None = None
) -> Value:
    return integer_convolution(node, x, x_zero, w, w_zero)


def requantized(node: OnnxNode, total: Any, factor: Any, zero: Value | None, element: str) -> Value:
    """round(total * factor) + zero point, clamped to the type's range."""
    ratio = node.call("multiply", node.cast(total, "float32"), factor)
    low, high = integer_limits(element)
    whole = node.call("round", ratio)
    if zero is not None:
        whole = node.call("add", whole, node.cast(placed(node, zero, 0, None), "float32"))
    return node.value("cast", node.call("clip", whole, a_min=low, a_max=high), dtype=element)


def scaling(node: OnnxNode, a: Value, b: Value, y: Value) -> Expr:
    """a * b / y in float32."""
    product = node.call("multiply", node.cast(a, "float32"), node.cast(b, "float32"))
    return node.call("divide", product, node.cast(placed(node, y, 0, None), "float32"))


@onnx_op("QLinearMatMul", since=10)
def _qlinear_matmul(
    node: OnnxNode,
    a: Value, a_scale: Value, a_zero: Value,
    b: Value, b_scale: Value, b_zero: Value,
    y_scale: Value, y_zero: Value,
) -> Value:  # fmt: skip
    total = integer_matmul(node, a, a_zero, b, b_zero)
    factor = scaling(node, placed(node, a_scale, 2, -2), placed(node, b_scale, 2, -1), y_scale)
    return requantized(node, total, factor, y_zero, y_zero.element)


@onnx_op("QLinearConv", since=10)
def qlinear_convolution(
    node: OnnxNode,
    x: Value, x_scale: Value, x_zero: Value,
    w: Value, w_scale: Value, w_zero: Value,
    y_scale: Value, y_zero: Value, bias: Value | None = None,
) -> Value:  # fmt: skip
    """The quantised convolution, with a quantised result."""
    total: Any = integer_convolution(node, x, x_zero, w, w_zero)
    if bias is not None:
        total = node.call("nn.bias_add", total, bias)
    factor = scaling(node, placed(node, x_scale, 0, None), placed(node, w_scale, x.ndim, 1), y_scale)
    return requantized(node, total, factor, y_zero, y_zero.element)
