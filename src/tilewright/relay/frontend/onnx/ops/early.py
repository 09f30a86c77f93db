"""Experimental operators of ONNX's first opsets. Later opsets lack them, but models of that time (and of Core ML) use them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, onnx_op


def _scaled(node: OnnxNode, x: Tensor, factor: float, offset: float = 0.0) -> Value:
    return node.value("add", node.call("multiply", x, node.scalar(factor, x)), node.scalar(offset, x))


@onnx_op("Affine")
def _affine(node: OnnxNode, x: Value) -> Value:
    return _scaled(node, x, float(node.get("alpha", 1.0)), float(node.get("beta", 0.0)))


@onnx_op("Scale")
def _scale(node: OnnxNode, x: Value) -> Expr:
    return node.call("multiply", x, node.scalar(float(node.get("scale", 1.0)), x))


@onnx_op("ImageScaler")
def _scaled_image(node: OnnxNode, x: Value) -> Expr:
    scaled = _scale(node, x)
    bias = node.get("bias")
    return node.call("add", scaled, np.array(bias, x.dtype).reshape(-1, 1, 1)) if bias else scaled


@onnx_op("ScaledTanh")
def _scaled_tanh(node: OnnxNode, x: Value) -> Expr:
    inner = node.call("multiply", x, node.scalar(float(node.get("beta", 1.0)), x))
    return node.call("multiply", node.call("tanh", inner), node.scalar(float(node.get("alpha", 1.0)), x))


@onnx_op("ParametricSoftplus")
def _parametric_softplus(node: OnnxNode, x: Value) -> Expr:
    inner = node.value("multiply", x, node.scalar(float(node.get("beta", 1.0)), x))
    return node.call("multiply", node.nested("Softplus", inner), node.scalar(float(node.get("alpha", 1.0)), x))


@onnx_op("Crop")
def _crop(node: OnnxNode, x: Value) -> Expr:
    left, top, right, bottom = node.get("border")
    height, width = node.static(x)[2:]
    size = node.get("scale")
    ends = (top + size[0], left + size[1]) if size else (height - bottom, width - right)
    return node.call("strided_slice", x, begin=(top, left), end=ends, strides=(1, 1), axes=(2, 3))


@onnx_op("DynamicSlice")
def _slice(node: OnnxNode, x: Value, starts: Value, ends: Value, axes: Value | None = None) -> Any:
    return node.nested("Slice", x, starts, ends, axes, opset=10)


@onnx_op("MeanVarianceNormalization")
def _normalized(node: OnnxNode, x: Value) -> Tensor:
    axes = tuple(range(2 if not node.get("across_channels", 0) else 1, x.ndim))
    return _over_deviation(node, x, axes, bool(node.get("normalize_variance", 1)))


@onnx_op("MeanVarianceNormalization", since=9)
def _normalized_over_axes(node: OnnxNode, x: Value) -> Tensor:
    axes = node.places(node.get("axes", (0, 2, 3)), x.ndim)
    if not axes:
        raise node.refuse("axes", axes, "one axis or more")
    return _over_deviation(node, x, tuple(axes), True, 1e-9)


def _over_deviation(node: OnnxNode, x: Value, axes: tuple[int, ...], divided: bool, least: float = 0.0) -> Tensor:
    """Values minus their mean, divided by their deviation if `divided`."""
    apart = node.value("subtract", x, node.call("mean", x, axis=axes, keepdims=True))
    if not divided:
        return apart
    spread = node.call("sqrt", node.call("mean", node.call("multiply", apart, apart), axis=axes, keepdims=True))
    return node.call("divide", apart, node.call("add", spread, node.scalar(least, x)))
