"""Products of integers: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv and what they share with ONNX Runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.casting import decoded, integer_limits
from tilewright.relay.frontend.onnx.ops_math import matmul
from tilewright.relay.frontend.onnx.ops_nn import convolution
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op


def shifted(node: OnnxNode, x: Value, zero: Value | None, axis: int | None = None) -> Value:
    """x less its zero point, as int32; a vector of zero points lies along `axis`."""
    wide = node.cast(decoded(node, x), "int32")
    if zero is None or zero.is_number and zero.array is not None and not zero.array.any():
        return wide
    return node.value("subtract", wide, node.cast(placed(node, zero, x.ndim, axis), "int32"))


def placed(node: OnnxNode, v: Value, rank: int, axis: int | None) -> Value:
    """A scalar, or a vector shaped to lie along an axis."""
    if v.ndim == 0:
        return v
    if v.ndim == 1 and isinstance(v.shape[0], int) and v.shape[0] == 1:
        return node.value("reshape", v, newshape=())
    if v.ndim > 1 or axis is None:
        return v
    after = rank - 1 - axis % rank
    return node.value("expand_dims", v, axis=1, num_newaxis=after) if after else v


@onnx_op("MatMulInteger", since=10)
def _matmul_integer(
    node: OnnxNode, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None
) -> Any:
    return matmul(node, shifted(node, a, a_zero, -2), shifted(node, b, b_zero, -1))


@onnx_op("ConvInteger", since=10)
def _conv_integer(node: OnnxNode, x: Value, w: Value, x_zero: Value | None = None, w_zero: Value | None = None) -> Any:
    return convolution(node, shifted(node, x, x_zero), shifted(node, w, w_zero, 0), None)


def requantized(node: OnnxNode, total: Any, factor: Any, zero: Value | None, element: str) -> Value:
    """round(total * factor) + zero point, held within the type."""
    ratio = node.call("multiply", node.cast(total, "float32"), factor)
    low, high = integer_limits(element)
    whole = node.call("round", ratio)
    if zero is not None:
        whole = node.call("add", whole, node.cast(placed(node, zero, 0, None), "float32"))
    return node.value("cast", node.call("clip", whole, a_min=low, a_max=high), dtype=element)


def scaling(node: OnnxNode, a: Value, b: Value, y: Value) -> Any:
    """a * b / y in float32."""
    product = node.call("multiply", node.cast(a, "float32"), node.cast(b, "float32"))
    return node.call("divide", product, node.cast(placed(node, y, 0, None), "float32"))


@onnx_op("QLinearMatMul", since=10)
def _qlinear_matmul(
    node: OnnxNode,
    a: Value, a_scale: Value, a_zero: Value,
    b: Value, b_scale: Value, b_zero: Value,
    y_scale: Value, y_zero: Value,
) -> Any:  # fmt: skip
    total = matmul(node, shifted(node, a, a_zero, -2), shifted(node, b, b_zero, -1))
    factor = scaling(node, placed(node, a_scale, 2, -2), placed(node, b_scale, 2, -1), y_scale)
    return requantized(node, total, factor, y_zero, y_zero.element)


@onnx_op("QLinearConv", since=10)
def _qlinear_conv(
    node: OnnxNode,
    x: Value, x_scale: Value, x_zero: Value,
    w: Value, w_scale: Value, w_zero: Value,
    y_scale: Value, y_zero: Value, bias: Value | None = None,
) -> Any:  # fmt: skip
    total: Any = convolution(node, shifted(node, x, x_zero), shifted(node, w, w_zero, 0), None)
    if bias is not None:
        total = node.call("nn.bias_add", total, bias)
    factor = scaling(node, placed(node, x_scale, 0, None), placed(node, w_scale, x.ndim, 1), y_scale)
    return requantized(node, total, factor, y_zero, y_zero.element)


def constant(values: Any, dtype: Any) -> Value:
    """A known tensor."""
    return Value(array=np.asarray(values, dtype))
