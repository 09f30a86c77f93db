"""Converters of operators that fuse several of ONNX's own: products with epilogues, activations, normalisations of sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.value import known_extents
from tilewright.relay.frontend.onnx.ops.arithmetic import matmul
from tilewright.relay.frontend.onnx.value import OnnxNode, Result, Tensor, Value, as_value, onnx_op

DOMAIN = "com.microsoft"


def channels_first(node: OnnxNode, x: Value) -> Value:
    """(batch, ..., channels) transposed to (batch, channels, ...)."""
    return node.value("transpose", x, axes=(0, x.ndim - 1, *range(1, x.ndim - 1)))


def channels_last(node: OnnxNode, x: Tensor) -> Value:
    """(batch, channels, ...) transposed to (batch, ..., channels)."""
    rank = as_value(x).ndim
    return node.value("transpose", x, axes=(0, *range(2, rank), 1))


def add(node: OnnxNode, x: Tensor, y: Any | None) -> Value:
    """The sum of its arguments. None counts as zero."""
    return as_value(x) if y is None else node.value("add", x, y)


@onnx_op("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "SparseToDenseMatMul", domain=DOMAIN)
def _fused_matmul(node: OnnxNode, a: Value, b: Value) -> Value:
    def turned(x: Value, flag: str, batch: str) -> Value:
        if node.get(batch, 0):
            # The matrix axis comes first, before the batch.
            x = node.value("transpose", x, axes=(*range(1, x.ndim - 1), 0, x.ndim - 1))
        if node.get(flag, 0) and x.ndim > 1:
            x = node.value("transpose", x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
        return x

    out = matmul(node, turned(a, "transA", "transBatchA"), turned(b, "transB", "transBatchB"))
    alpha = float(node.get("alpha", 1.0))
    return activated(node, out if alpha == 1.0 else node.call("multiply", out, node.scalar(alpha, a)))


@onnx_op("FusedGemm", domain=DOMAIN)
def _fused_gemm(node: OnnxNode, a: Value, b: Value, c: Value | None = None) -> Value:
    attrs = {k: node.get(k) for k in ("alpha", "beta", "transA", "transB") if node.get(k) is not None}
    return activated(node, node.nested("Gemm", a, b, c, **attrs))


def activated(node: OnnxNode, x: Tensor) -> Value:
    """The activation at the end of a fused operator."""
    value, name = as_value(x), node.get("activation", "")
    own = (node.get("activation_alpha"), node.get("activation_beta"))
    given = node.get("activation_params") or [v for v in own if v is not None]
    if not name:
        return value
    if name == "Clip":
        return node.value("clip", value, a_min=float(given[0]), a_max=float(given[1]))
    attrs: dict[str, Any] = dict(zip(("alpha", "beta"), map(float, given), strict=False))
    if name == "Softmax" or name == "LogSoftmax":
        attrs = {"axis": node.get("activation_axis", -1)}
    return as_value(node.nested(name, value, **attrs))


# ---- activations


@onnx_op("Gelu", domain=DOMAIN)
def _gelu(node: OnnxNode, x: Value) -> Any:
    return node.nested("Gelu", x)


@onnx_op("BiasGelu", domain=DOMAIN)
def _bias_gelu(node: OnnxNode, x: Value, bias: Value) -> Any:
    return node.nested("Gelu", add(node, x, bias))


@onnx_op("FastGelu", domain=DOMAIN)
def _fast_gelu(node: OnnxNode, x: Value, bias: Value | None = None) -> Any:
    return node.nested("Gelu", add(node, x, bias), approximate="tanh")


@onnx_op("GemmFastGelu", domain=DOMAIN)
def _gemm_fast_gelu(node: OnnxNode, x: Value, w: Value, bias: Value | None = None) -> Any:
    return node.nested("Gelu", add(node, matmul(node, x, w), bias), approximate="tanh")


@onnx_op("QuickGelu", domain=DOMAIN)
def _quick_gelu(node: OnnxNode, x: Value) -> Expr:
    gate = node.call("sigmoid", node.call("multiply", x, node.scalar(float(node.get("alpha", 1.702)), x)))
    return node.call("multiply", x, gate)


@onnx_op("BiasSplitGelu", domain=DOMAIN)
def _bias_split_gelu(node: OnnxNode, x: Value, bias: Value) -> Expr:
    left, right = node.calls("split", add(node, x, bias), indices_or_sections=2, axis=-1)
    return node.call("multiply", left, node.nested("Gelu", right))


@onnx_op("BiasAdd", domain=DOMAIN)
def _bias_add(node: OnnxNode, x: Value, bias: Value, skip: Value) -> Value:
    return add(node, add(node, x, bias), skip)


@onnx_op("BiasSoftmax", domain=DOMAIN)
def _bias_softmax(node: OnnxNode, x: Value, bias: Value) -> Expr:
    return node.call("nn.softmax", add(node, x, bias), axis=node.get("axis", -1))


# ---- normalisations


def layer_norm(node: OnnxNode, x: Value, gamma: Value, beta: Value | None) -> list[Any]:
    """[the normalised last axis, its mean, 1 / deviation]."""
    epsilon = float(node.get("epsilon", 1e-12))
    bias = beta if beta is not None else Value(array=np.zeros(known_extents(gamma.shape), gamma.dtype))
    out = node.call("nn.layer_norm", x, gamma, bias, axis=-1, epsilon=epsilon)
    if not (node.wants(1) or node.wants(2)):
        return [out, None, None]
    mean = node.value("mean", x, axis=(-1,), keepdims=True)
    apart = node.value("subtract", x, mean)
    spread = node.call("mean", node.call("multiply", apart, apart), axis=(-1,), keepdims=True)
    return [out, mean, node.call("rsqrt", node.call("add", spread, node.scalar(epsilon, x)))]


def rms_norm(node: OnnxNode, x: Value, gamma: Value) -> list[Expr]:
    """[the last axis divided by its root mean square, 1 / that root]."""
    power = node.call("mean", node.call("multiply", x, x), axis=(-1,), keepdims=True)
    root = node.call("rsqrt", node.call("add", power, node.scalar(float(node.get("epsilon", 1e-5)), x)))
    return [node.call("multiply", node.call("multiply", x, root), gamma), root]


@onnx_op("SkipLayerNormalization", domain=DOMAIN)
def _skip_layer_norm(
    node: OnnxNode, x: Value, skip: Value, gamma: Value, beta: Value | None = None, bias: Value | None = None
) -> Result:
    total = add(node, add(node, x, skip), bias)
    return [*layer_norm(node, total, gamma, beta), total]


@onnx_op("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def _skip_rms_norm(
    node: OnnxNode, x: Value, skip: Value, gamma: Value, bias: Value | None = None
) -> list[Tensor | None]:
    total = add(node, add(node, x, skip), bias)
    out, root = rms_norm(node, total, gamma)
    return [out, None, root, total]


@onnx_op("SimplifiedLayerNormalization", domain=DOMAIN)
@onnx_op("SimplifiedLayerNormalization")
def _simplified(node: OnnxNode, x: Value, gamma: Value) -> list[Expr]:
    return rms_norm(node, x, gamma)


def embed_layer_norm(
    node: OnnxNode,
    ids: Value,
    segments: Value | None,
    words: Value,
    positions: Value,
    segment_table: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None = None,
    places: Value | None = None,
) -> list[Tensor]:
    """[normalised embeddings of tokens, positions and segments; the number of tokens of each example; their sum]."""
    total: Any = node.call("take", words, ids, axis=0, mode="bounded")
    length = ids.shape[1]
    if places is not None:
        total = node.call("add", total, node.call("take", positions, places, axis=0, mode="bounded"))
    else:
        rows = node.call("strided_slice", positions, begin=(0,), end=(length,), strides=(1,), axes=(0,))
        total = node.call("add", total, rows)
    if segments is not None and segment_table is not None:
        total = node.call("add", total, node.call("take", segment_table, segments, axis=0, mode="bounded"))
    summed = Value(total)
    out = node.call("nn.layer_norm", summed, gamma, beta, axis=-1, epsilon=float(node.get("epsilon", 1e-12)))
    if mask is None:
        index = node.call("multiply", node.call("take", node.cast(ids, "int32"), node.scalar(0, "int32"), axis=1),
                          node.scalar(0, "int32"))  # fmt: skip
    else:
        index = node.call("sum", node.cast(mask, "int32"), axis=(1,))
    return [out, index, summed]


onnx_op("EmbedLayerNormalization", domain=DOMAIN)(embed_layer_norm)


def group_norm(node: OnnxNode, x: Value, gamma: Value, beta: Value) -> Value:
    """Normalised groups of channels, with an optional activation."""
    last = bool(node.get("channels_last", 1))
    data = channels_first(node, x) if last else x
    epsilon = float(node.get("epsilon", 1e-5))
    scales = [node.cast(v, x.dtype) for v in (gamma, beta)]
    out = node.value("nn.group_norm", data, *scales, num_groups=node.get("groups"), axis=1, epsilon=epsilon)
    if node.get("activation", 0):
        out = node.value("multiply", out, node.call("sigmoid", out))
    return channels_last(node, out) if last else out


@onnx_op("GroupNorm", domain=DOMAIN)
def _group_norm(node: OnnxNode, x: Value, gamma: Value, beta: Value) -> Value:
    return group_norm(node, x, gamma, beta)


@onnx_op("SkipGroupNorm", domain=DOMAIN)
def _skip_group_norm(
    node: OnnxNode, x: Value, gamma: Value, beta: Value, skip: Value, bias: Value | None = None
) -> list[Value]:
    last = bool(node.get("channels_last", 1))
    if skip.ndim == 2:
        axes = (1, 2) if last else (2, 3)
        skip = node.value("expand_dims", skip, axis=axes[0], num_newaxis=2)
    if bias is not None and not last:
        bias = node.value("expand_dims", bias, axis=1, num_newaxis=2)
    total = add(node, add(node, x, skip), bias)
    return [group_norm(node, total, gamma, beta), total]


@onnx_op("BiasDropout", "BitmaskBiasDropout", domain=DOMAIN)
def _bias_dropout(
    node: OnnxNode,
    x: Value,
    bias: Value,
    residual: Value | None = None,
    ratio: Value | None = None,
    training: Value | None = None,
) -> Result:
    out, mask = dropout(node, add(node, x, bias), ratio, training)
    return [add(node, out, residual), mask]


@onnx_op("BitmaskDropout", domain=DOMAIN)
def _bitmask_dropout(node: OnnxNode, x: Value, ratio: Value | None = None, training: Value | None = None) -> Result:
    return dropout(node, x, ratio, training)


def dropout(node: OnnxNode, x: Value, ratio: Value | None, training: Value | None) -> list[Any]:
    """[the input unchanged, a mask of true]."""
    if training is not None and bool(node.numbers(training, "training mode").reshape(-1)[0]):
        raise node.refuse("training_mode", True, "False: export the model in evaluation mode")
    if not node.wants(1):
        return [x, None]
    whole = np.ones(node.static(x), bool)
    if node.op_type.startswith("Bitmask"):
        # 32 flags are packed into a number; bits after the last flag are 0.
        bits = np.packbits(whole.reshape(-1), bitorder="little")
        return [x, np.pad(bits, (0, -len(bits) % 4)).view(np.uint32)]
    return [x, whole]
