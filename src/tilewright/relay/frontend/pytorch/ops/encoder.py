"""Converters of fused layers of PyTorch's modules (used while gradients are off): multi-head attention, transformer encoder layers."""

from __future__ import annotations

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.ops.activation import gelu
from tilewright.relay.frontend.pytorch.ops.linalg import batches, linear
from tilewright.relay.frontend.pytorch.ops.norm import layer_norm
from tilewright.relay.frontend.pytorch.value import TorchCall, aten

BY_KEY = 1
"""The kind of mask with a row of keys for each example; 0: (queries, keys); 2: a mask for each head, too."""


@aten("_native_multi_head_attention")
def native_attention(
    c: TorchCall, query: Value, key: Value, value: Value, width: int, heads: int, qkv_weight: Value, qkv_bias: Value | None,
    out_weight: Value, out_bias: Value | None, mask: Value | None = None, need_weights: bool = True, average: bool = True,
    mask_type: int | None = None,
) -> tuple[Value, Value | None]:  # fmt: skip
    depth = width // heads
    if query.expr is key.expr and key.expr is value.expr:
        together = linear(c, query, qkv_weight, qkv_bias)
        parts = [_columns(c, together, k * width, width) for k in range(3)]
    else:
        weights = [_rows(c, qkv_weight, k * width, width) for k in range(3)]
        biases = [None if qkv_bias is None else _rows(c, qkv_bias, k * width, width) for k in range(3)]
        parts = [linear(c, x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]
    split = [c.transpose(c.reshape(p, [*p.shape[:2], heads, depth]), (0, 2, 1, 3)) for p in parts]
    scores = c.call("multiply", batches(c, split[0], split[1], transpose_b=True), 1.0 / float(np.sqrt(depth)))
    if mask is not None:
        # Masks of other types become bool: 0 is visible, -inf is masked.
        hidden = c.cast(mask, "bool")
        if mask_type == BY_KEY:
            hidden = c.call("expand_dims", hidden, axis=1, num_newaxis=2)
        scores = c.call("where", hidden, c.number(-np.inf, scores.dtype), scores)
    shares = c.call("nn.softmax", scores, axis=3)
    mixed = c.reshape(c.transpose(batches(c, shares, split[2]), (0, 2, 1, 3)), [*query.shape[:2], width])
    weights_seen = None
    if need_weights:
        weights_seen = c.call("mean", shares, axis=(1,)) if average else shares
    return linear(c, mixed, out_weight, out_bias), weights_seen


@aten("_transformer_encoder_layer_fwd")
def encoder_layer(
    c: TorchCall, x: Value, width: int, heads: int, qkv_weight: Value, qkv_bias: Value, out_weight: Value, out_bias: Value,
    use_gelu: bool, norm_first: bool, eps: float, scale_1: Value, shift_1: Value, scale_2: Value, shift_2: Value, weight_1: Value,
    bias_1: Value, weight_2: Value, bias_2: Value, mask: Value | None = None, mask_type: int | None = None,
) -> Value:  # fmt: skip
    def attended(y: Value) -> Value:
        found = native_attention(
            c, y, y, y, width, heads, qkv_weight, qkv_bias, out_weight, out_bias, mask, False, True, mask_type
        )
        return found[0]

    def fed(y: Value) -> Value:
        inner = linear(c, y, weight_1, bias_1)
        return linear(c, gelu(c, inner) if use_gelu else c.call("nn.relu", inner), weight_2, bias_2)

    def normal_1(y: Value) -> Value:
        return layer_norm(c, y, [width], scale_1, shift_1, eps)

    def normal_2(y: Value) -> Value:
        return layer_norm(c, y, [width], scale_2, shift_2, eps)

    if norm_first:
        x = c.call("add", x, attended(normal_1(x)))
        return c.call("add", x, fed(normal_2(x)))
    x = normal_1(c.call("add", x, attended(x)))
    return normal_2(c.call("add", x, fed(x)))


def _columns(c: TorchCall, x: Value, begin: int, count: int) -> Value:
    return c.call("strided_slice", x, begin=(begin,), end=(begin + count,), strides=(1,), axes=(x.ndim - 1,))


def _rows(c: TorchCall, x: Value, begin: int, count: int) -> Value:
    return c.call("strided_slice", x, begin=(begin,), end=(begin + count,), strides=(1,), axes=(0,))
