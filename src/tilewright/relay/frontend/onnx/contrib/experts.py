"""Converters of mixtures of experts: every expert computes all tokens, weighted by its router weight (0 for experts not chosen)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.contrib.block_weights import block_weights
from tilewright.relay.frontend.onnx.contrib.fused import DOMAIN
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, as_value, onnx_op
from tilewright.support.errors import OpNotImplemented


def routed(node: OnnxNode, scores: Value, shares: Value | None, normal: bool) -> Value:
    """The router weight of each expert (axis 1) for each token: 0 except for the best. normal: the weights of a token add up to 1."""
    count, best = scores.known_extent(-1), node.get("k", 1)
    if node.get("use_sparse_mixer", 0):
        raise node.refuse("use_sparse_mixer", 1, "0")
    scores = node.cast(scores, "float32")
    _, at = node.calls("topk", scores, k=best, axis=-1, ret_type="both", is_ascend=False, dtype="int64")
    places = Value(array=np.arange(count, dtype=np.int64).reshape(1, 1, count))
    hits = node.call("equal", node.call("expand_dims", at, axis=2), places)
    chosen = node.call("any", hits, axis=(1,))
    if shares is not None:
        given: Any = node.call("where", chosen, node.cast(shares, "float32"), node.scalar(0, "float32"))
        if normal:
            given = node.call("divide", given, node.call("sum", given, axis=(1,), keepdims=True))
        return as_value(given)
    if normal:
        held = node.call("where", chosen, scores, node.scalar(-np.inf, "float32"))
        return node.value("nn.softmax", held, axis=-1)
    return node.value("where", chosen, node.call("nn.softmax", scores, axis=-1), node.scalar(0, "float32"))


def bent(node: OnnxNode, x: Value, gated: Any | None) -> Value:
    """The activation between the layers of an expert. gated: computes the second factor of gated units if it is not fused."""
    kind = node.get("activation_type", "relu")
    if kind == "swiglu":
        return _gated_unit(node, x, gated)
    made = {
        "identity": lambda: x,
        "relu": lambda: node.value("nn.relu", x),
        "gelu": lambda: as_value(node.nested("Gelu", x, approximate="tanh")),
        "silu": lambda: node.value("multiply", x, node.call("sigmoid", x)),
    }.get(kind)
    if made is None:
        raise node.refuse("activation_type", kind, "relu, gelu, silu, swiglu, identity")
    return made() if gated is None else node.value("multiply", made(), gated())


def _gated_unit(node: OnnxNode, x: Value, gated: Any | None) -> Value:
    width, order = x.known_extent(-1), node.get("swiglu_fusion", 0)
    if order == 0:
        if gated is None:
            raise OpNotImplemented("its activation is swiglu, not fused, but it has no third weights")
        gate, line = x, gated()
    elif order == 1:
        # Interleaved: one element of each half in turn.
        gate, line = [
            node.value("strided_slice", x, begin=(k,), end=(width,), strides=(2,), axes=(x.ndim - 1,)) for k in (0, 1)
        ]
    else:
        gate, line = [Value(p) for p in node.calls("split", x, indices_or_sections=2, axis=-1)]
    limit = node.get("swiglu_limit")
    if limit is not None:
        gate = node.value("minimum", gate, node.scalar(float(limit), gate))
        line = node.value("clip", line, a_min=-float(limit), a_max=float(limit))
    alpha, beta = float(node.get("activation_alpha", 1.0)), float(node.get("activation_beta", 0.0))
    opened = node.call("multiply", gate, node.call("sigmoid", node.call("multiply", gate, node.scalar(alpha, gate))))
    return node.value("multiply", opened, node.call("add", line, node.scalar(beta, line)))


def mixture(node: OnnxNode, x: Value, shares: Value, layers: list[tuple[Value, Value | None] | None]) -> Tensor:
    """The weighted sum of the experts' results. layers: weights (experts, out, in) and biases (experts, out) of the first, second and
    third product."""
    width = x.known_extent(-1)
    rows = node.value("reshape", x, newshape=(-1, width)) if x.ndim > 2 else x
    first, second, third = layers
    assert first is not None and second is not None
    experts = first[0].known_extent(0)
    wide = node.value("expand_dims", rows, axis=0)

    def layer(data: Value, what: tuple[Value, Value | None]) -> Value:
        weights, bias = what
        if int(node.static(data)[0]) == 1:
            data = node.value("broadcast_to", data, shape=(experts, *data.shape[1:]))
        out = node.value("nn.batch_matmul", data, weights, transpose_b=True)
        return out if bias is None else node.value("add", out, node.call("expand_dims", bias, axis=1))

    inner = bent(node, layer(wide, first), None if third is None else lambda: layer(wide, third))
    each = layer(inner, second)
    part = node.call("expand_dims", node.call("transpose", node.cast(shares, x.dtype), axes=(1, 0)), axis=2)
    total = node.value("sum", node.call("multiply", each, part), axis=(0,))
    return total if x.ndim == 2 else node.call("reshape", total, newshape=tuple(x.shape))


@onnx_op("MoE", domain=DOMAIN)
def _mixture(
    node: OnnxNode,
    x: Value,
    scores: Value,
    first: Value, first_bias: Value | None, second: Value, second_bias: Value | None = None,
    third: Value | None = None, third_bias: Value | None = None,
) -> Tensor:  # fmt: skip
    layers: list[tuple[Value, Value | None] | None] = [(first, first_bias), (second, second_bias)]
    layers.append(None if third is None else (third, third_bias))
    return mixture(node, x, routed(node, scores, None, bool(node.get("normalize_routing_weights", 0))), layers)


@onnx_op("QMoE", domain=DOMAIN)
def _quantized_mixture(node: OnnxNode, x: Value, scores: Value, *parts: Value | None) -> Tensor:
    given = [*parts, *[None] * (19 - len(parts))]
    kind = node.get("quant_type", "int")
    if kind != "int" or any([p is not None for p in given[13:]]):
        raise node.refuse("quant_type", kind, "int, without scales of activations")
    layers: list[tuple[Value, Value | None] | None] = []
    for k in range(3):
        packed, scale, bias = given[3 * k : 3 * k + 3]
        if packed is None or scale is None:
            layers.append(None)
            continue
        bits = node.get(f"fc{k + 1}_expert_weight_bits") or node.get("expert_weight_bits", 4)
        zeros = given[9 + k]
        layers.append((Value(array=_opened(node, packed, scale, zeros, bits).astype(x.dtype)), bias))
    # Without separate router weights, ONNX Runtime always normalises the weights of the chosen experts.
    normal = given[12] is None or bool(node.get("normalize_routing_weights", 0))
    return mixture(node, x, routed(node, scores, given[12], normal), layers)


def _opened(node: OnnxNode, packed: Value, scale: Value, zeros: Value | None, bits: int) -> np.ndarray:
    """Weights (experts, out, in) in float32, unpacked."""
    bytes_, factor = node.numbers(packed, "weights"), node.numbers(scale, "scales")
    experts, rows, width = bytes_.shape
    depth = width * 8 // bits
    blocked = factor.ndim == 3 and node.get("block_size", 0)
    block = node.get("block_size") if blocked else depth
    given = None if zeros is None else node.numbers(zeros, "zero points")
    if given is not None and not blocked:
        # Numbers of one row of an expert are packed together.
        from tilewright.relay.frontend.onnx.contrib.block_weights import unpacked

        given = unpacked(given.reshape(experts, -1), bits)[:, :rows].reshape(experts * rows, 1).astype(np.float32)
    flat = block_weights(bytes_.reshape(experts * rows, -1), factor, given, bits, block, depth)
    return flat.reshape(experts, rows, depth)
