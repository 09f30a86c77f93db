"""Converters of small fused operators of recent language models: gated norms and sums, hyper-connections."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, as_value, onnx_op


def wide(node: OnnxNode, x: Value) -> Value:
    """A value in float32, the type in which these operators compute."""
    return node.cast(x, "float32")


def root_norm(node: OnnxNode, x: Value, scale: Value | None) -> Value:
    """x in float32: the last axis divided by its root mean square, times a scale."""
    power = node.call("mean", node.call("multiply", x, x), axis=(-1,), keepdims=True)
    epsilon = node.scalar(float(node.get("epsilon", 1e-5)), x)
    made = node.value("multiply", x, node.call("rsqrt", node.call("add", power, epsilon)))
    return made if scale is None else node.value("multiply", made, wide(node, scale))


def branches(node: OnnxNode, x: Value, width: int | None = None) -> Value:
    """The input reshaped to (..., branches, width), if it is flat."""
    count = node.get("num_branches", 0)
    if not count:
        return x
    size = x.known_extent(-1) // count if width is None else width
    return node.value("reshape", x, newshape=(*[0] * (x.ndim - 1), count, size))


def as_given(node: OnnxNode, x: Tensor, like: Value) -> Tensor:
    """A result converted to the type and shape of an input."""
    made = node.cast(as_value(x), like.dtype)
    if made.ndim == like.ndim:
        return made
    return node.call("reshape", made, newshape=(*[0] * (like.ndim - 1), like.known_extent(-1)))


@onnx_op("GatedAdd", domain=DOMAIN)
def _gated_add(node: OnnxNode, x: Value, y: Value, gate: Value) -> Expr:
    return node.call("add", x, node.call("multiply", y, gate))


@onnx_op("GatedRMSNorm", domain=DOMAIN)
def _gated_norm(node: OnnxNode, x: Value, scale: Value, gate: Value) -> Tensor:
    kind = node.get("activation", "silu")
    if kind not in ("silu", "swish", "sigmoid"):
        raise node.refuse("activation", kind, "silu, swish, sigmoid")
    size = scale.known_extent(0)
    parts = [node.value("reshape", wide(node, v), newshape=(*[0] * (v.ndim - 1), -1, size)) for v in (x, gate)]
    opened = node.value("sigmoid", parts[1])
    if kind != "sigmoid":
        opened = node.value("multiply", parts[1], opened)
    return as_given(node, node.call("multiply", root_norm(node, parts[0], scale), opened), x)


@onnx_op("BranchwiseRMSNorm", domain=DOMAIN)
def _branch_norm(node: OnnxNode, x: Value, scale: Value | None = None) -> Tensor:
    data = branches(node, wide(node, x))
    if scale is not None and scale.ndim == 1 and scale.known_extent(0) != data.known_extent(-1):
        scale = node.value("reshape", scale, newshape=(data.known_extent(-2), data.known_extent(-1)))
    return as_given(node, root_norm(node, data, scale), x)


@onnx_op("ScaledSiLU", domain=DOMAIN)
def _scaled_silu(node: OnnxNode, x: Value, scale: Value | None = None) -> Expr:
    by = node.scalar(float(node.get("alpha", 1.0)), "float32")
    if scale is not None:
        by = node.call("reshape", wide(node, scale), newshape=())
    line = node.cast(node.call("multiply", wide(node, x), by), x.dtype)
    return node.call("multiply", line, node.cast(node.call("sigmoid", wide(node, line)), x.dtype))


@onnx_op("HyperConnectionPreMix", domain=DOMAIN)
def _streams_to_one(node: OnnxNode, streams: Value, mix: Value) -> Value:
    data = branches(node, wide(node, streams))
    by = _gates(node, mix, data)
    total = node.call("sum", node.call("multiply", data, by), axis=(-2,))
    return node.cast(
        node.call("multiply", total, node.scalar(float(node.get("reduction_scale", 1.0)), "float32")), streams.dtype
    )


def _gates(node: OnnxNode, mix: Value, data: Value) -> Value:
    """Gates of branches, or of their elements, shaped to broadcast with (..., branches, width)."""
    by = wide(node, mix)
    if by.ndim == data.ndim:
        return by
    if by.known_extent(-1) == data.known_extent(-2):
        return node.value("expand_dims", by, axis=by.ndim)
    return node.value("reshape", by, newshape=(*[0] * (by.ndim - 1), data.known_extent(-2), data.known_extent(-1)))


@onnx_op("HyperConnectionPostMix", domain=DOMAIN)
def _one_to_streams(node: OnnxNode, streams: Value, block: Value, mix: Value, between: Value | None = None) -> Tensor:
    data = branches(node, wide(node, streams))
    kept: Any = data
    if between is not None:
        turned = node.call(
            "transpose", wide(node, between), axes=(*range(between.ndim - 2), between.ndim - 1, between.ndim - 2)
        )
        kept = node.nested("MatMul", turned, data)
    one = node.call("expand_dims", wide(node, block), axis=block.ndim - 1)
    return as_given(node, node.call("add", kept, node.call("multiply", _gates(node, mix, data), one)), streams)


@onnx_op("EngramGate", domain=DOMAIN)
def _engram(
    node: OnnxNode,
    key: Value,
    query: Value,
    value: Value,
    key_scale: Value,
    query_scale: Value,
    last: Value | None = None,
) -> list[Value | None]:
    k, q = root_norm(node, wide(node, key), key_scale), root_norm(node, wide(node, query), query_scale)
    dot = node.value("sum", node.call("multiply", k, q), axis=(-1,), keepdims=True)
    dot = node.value("divide", dot, node.scalar(float(np.sqrt(key.known_extent(-1))), dot))
    size = node.call("sqrt", node.call("maximum", node.call("abs", dot), node.scalar(1e-6, dot)))
    gate = node.call("sigmoid", node.call("multiply", node.call("sign", dot), size))
    made = node.value("multiply", gate, node.call("expand_dims", wide(node, value), axis=2))
    return [node.cast(made, key.dtype), None if last is None else node.cast(root_norm(node, made, last), key.dtype)]


@onnx_op("LinearAttentionGate", domain=DOMAIN)
def _decay(node: OnnxNode, a: Value, bias: Value, scale: Value, b: Value | None = None) -> list[Value | None]:
    line = as_value(node.nested("Softplus", node.call("add", wide(node, a), bias)))
    decay = node.cast(node.call("multiply", line, scale), a.dtype)
    return [decay, None if b is None else node.cast(node.call("sigmoid", wide(node, b)), b.dtype)]
