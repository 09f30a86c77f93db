"""Converters of com.microsoft's quantised operators: element-wise ones in float32, products in integers, weights of a few bits."""

from __future__ import annotations

from typing import Any

from tilewright.relay.frontend.onnx.contrib.attention import projected
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN, add, channels_first, channels_last, embed_layer_norm
from tilewright.relay.frontend.onnx.ops.casting import dequantized, quantized
from tilewright.relay.frontend.onnx.ops.integers import integer_matmul, placed, requantized, scaling, shifted
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, as_value, onnx_op


def _out(node: OnnxNode, x: Tensor, scale: Value, zero: Value | None, like: Value) -> Value:
    element = zero.element if zero is not None else like.element
    return quantized(node, as_value(x), scale, zero, element, 1, 0)


@onnx_op("QuantizeLinear", domain=DOMAIN, typed=True)
def _quantize(node: OnnxNode, x: Value, scale: Value, zero: Value | None = None) -> Value:
    return quantized(node, x, scale, zero, zero.element if zero is not None else "uint8", node.get("axis", 1), 0)


@onnx_op("DequantizeLinear", domain=DOMAIN, typed=True)
def _dequantize(node: OnnxNode, x: Value, scale: Value, zero: Value | None = None) -> Value:
    return dequantized(node, x, scale, zero, node.get("axis", 1))


def _binary(key: str) -> Any:
    def convert(
        node: OnnxNode,
        a: Value, a_scale: Value, a_zero: Value | None,
        b: Value, b_scale: Value, b_zero: Value | None,
        scale: Value, zero: Value | None = None,
    ) -> Value:  # fmt: skip
        made = node.call(key, dequantized(node, a, a_scale, a_zero), dequantized(node, b, b_scale, b_zero))
        return _out(node, made, scale, zero, a)

    return convert


onnx_op("QLinearAdd", domain=DOMAIN)(_binary("add"))
onnx_op("QLinearMul", domain=DOMAIN)(_binary("multiply"))


def _unary(name: str) -> Any:
    def convert(
        node: OnnxNode, x: Value, x_scale: Value, x_zero: Value | None, scale: Value, zero: Value | None = None
    ) -> Value:
        # QLinearSoftmax has an attribute for the opset of its rules.
        attrs = {"opset": None, **{k: v for k, v in node.attrs.items() if k != "channels_last"}}
        if name == "Softmax":
            attrs.setdefault("axis", -1)
        data = dequantized(node, x, x_scale, x_zero)
        last = bool(node.get("channels_last", 0))
        if last:
            data = channels_first(node, data)
        made = as_value(node.nested(name, data, **attrs))
        if last:
            made = channels_last(node, made)
        return _out(node, made, scale, zero, x)

    return convert


for _name, _plain in {
    "QLinearSigmoid": "Sigmoid", "QLinearLeakyRelu": "LeakyRelu", "QLinearSoftmax": "Softmax",
    "QLinearAveragePool": "AveragePool", "QLinearGlobalAveragePool": "GlobalAveragePool", "QLinearReduceMean": "ReduceMean",
}.items():  # fmt: skip
    onnx_op(_name, domain=DOMAIN)(_unary(_plain))


@onnx_op("QLinearConcat", domain=DOMAIN)
def _concat(node: OnnxNode, scale: Value, zero: Value, *parts: Value) -> Value:
    data = [dequantized(node, *group) for group in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]
    return _out(node, node.call("concatenate", data, axis=node.get("axis")), scale, zero, parts[0])


@onnx_op("QLinearWhere", domain=DOMAIN)
def _where(
    node: OnnxNode,
    condition: Value,
    x: Value, x_scale: Value, x_zero: Value,
    y: Value, y_scale: Value, y_zero: Value,
    scale: Value, zero: Value,
) -> Value:  # fmt: skip
    made = node.call("where", condition, dequantized(node, x, x_scale, x_zero), dequantized(node, y, y_scale, y_zero))
    return _out(node, made, scale, zero, x)


# ---- products


@onnx_op("MatMulIntegerToFloat", domain=DOMAIN)
def _matmul_to_float(
    node: OnnxNode,
    a: Value, b: Value, a_scale: Value, b_scale: Value,
    a_zero: Value | None = None, b_zero: Value | None = None, bias: Value | None = None,
) -> Value:  # fmt: skip
    total = integer_matmul(node, a, a_zero, b, b_zero)
    factor = node.call("multiply", placed(node, a_scale, 2, -2), placed(node, b_scale, 2, -1))
    return add(node, node.call("multiply", node.cast(total, "float32"), factor), bias)


@onnx_op("DynamicQuantizeMatMul", domain=DOMAIN)
def _dynamic_matmul(
    node: OnnxNode, a: Value, b: Value, b_scale: Value, b_zero: Value | None = None, bias: Value | None = None
) -> Value:
    return add(node, dynamic_product(node, a, b, b_scale, b_zero), bias)


def dynamic_product(
    node: OnnxNode, a: Value, b: Value, b_scale: Value, b_zero: Value | None, each_row: bool = False
) -> Value:
    """a, quantised by its range (or each row of a matrix by its own range), times a matrix of bytes; in float32."""
    zero, axis = node.scalar(0, a), (1,) if each_row else None
    low = node.call("minimum", node.call("min", a, axis=axis), zero)
    high = node.call("maximum", node.call("max", a, axis=axis), zero)
    scale = node.value("divide", node.call("subtract", high, low), node.scalar(255, a))
    # A range of zeros has no scale.
    scale = node.value("where", node.call("equal", scale, zero), node.scalar(1, a), scale)
    place = node.call("round", node.call("negative", node.call("divide", low, scale)))
    a_zero = node.value("cast", node.call("clip", place, a_min=0.0, a_max=255.0), dtype="uint8")
    held = quantized(node, a, scale, a_zero, "uint8", 0, 0)
    return as_value(_matmul_to_float(node, held, b, scale, b_scale, a_zero, b_zero))


@onnx_op("QGemm", domain=DOMAIN)
def _qgemm(
    node: OnnxNode,
    a: Value, a_scale: Value, a_zero: Value,
    b: Value, b_scale: Value, b_zero: Value,
    c: Value | None = None, scale: Value | None = None, zero: Value | None = None,
) -> Tensor:  # fmt: skip
    columns = 0 if node.get("transB", 0) else 1
    total: Any = node.call(
        "nn.matmul", shifted(node, a, a_zero), shifted(node, b, b_zero, columns),
        transpose_a=bool(node.get("transA", 0)), transpose_b=bool(node.get("transB", 0)),
    )  # fmt: skip
    total = add(node, total, c)
    alpha = float(node.get("alpha", 1.0))
    if scale is None:
        factor = node.call("multiply", node.cast(a_scale, "float32"), placed(node, b_scale, 2, 1))
        factor = node.call("multiply", factor, node.scalar(alpha, "float32"))
        return node.call("multiply", node.cast(total, "float32"), factor)
    factor = scaling(node, a_scale, placed(node, b_scale, 2, 1), scale)
    factor = node.call("multiply", factor, node.scalar(alpha, "float32"))
    return requantized(node, total, factor, zero, zero.element if zero is not None else a.element)


@onnx_op("QAttention", domain=DOMAIN)
def _qattention(
    node: OnnxNode,
    x: Value, weights: Value, bias: Value, x_scale: Value, w_scale: Value,
    mask: Value | None = None, x_zero: Value | None = None, w_zero: Value | None = None, past: Value | None = None,
) -> list[Tensor | None]:  # fmt: skip
    packed = _matmul_to_float(node, x, weights, x_scale, w_scale, x_zero, w_zero, bias)
    return projected(node, as_value(packed), mask, past, None)


@onnx_op("QEmbedLayerNormalization", domain=DOMAIN)
def _embedded(node: OnnxNode, *inputs: Value | None) -> list[Tensor]:
    given: list[Any] = [*inputs, *[None] * (18 - len(inputs))]
    tables: list[Any] = [
        None if table is None else node.nested("DequantizeLinear", table, scale, zero)
        for table, scale, zero in zip(given[2:7], given[8:13], given[13:18], strict=True)
    ]
    words, places, kinds, gamma, beta = tables
    return embed_layer_norm(node, given[0], given[1], words, places, kinds, gamma, beta, given[7])[:2]
