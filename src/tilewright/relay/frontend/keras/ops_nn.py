"""Converters of keras.ops for whole layers: normalisation, attention, convolutions, losses, images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.keras.layers_conv import convolve, depthwise, is_first
from tilewright.relay.frontend.keras.layers_core import one_hot
from tilewright.relay.frontend.keras.value import LayerCall, extents, keras_op


@keras_op("BatchNorm")
def _batch_norm(c: LayerCall, x: Value, mean: Any, variance: Any, offset: Any = None, scale: Any = None) -> Value:
    axis = c.axis(int(c.config["axis"]), x.ndim)
    shape = [-1 if k == axis else 1 for k in range(x.ndim)]

    def along(v: Any) -> Value:
        return c.reshape(c.cast(c.tensor(v), x.dtype), shape)

    factor_ = c.call("rsqrt", c.call("add", along(variance), float(c.get("epsilon", 1e-3))))
    factor_ = factor_ if scale is None else c.call("multiply", factor_, along(scale))
    made = c.call("multiply", c.call("subtract", x, along(mean)), factor_)
    return made if offset is None else c.call("add", made, along(offset))


@keras_op("DotProductAttention")
def _attention(
    c: LayerCall, q: Value, k: Value, v: Value, bias: Any = None, mask: Value | None = None, scale: Any = None
) -> Value:
    """Attention on tensors (batch, steps, heads, depth). Several heads of queries may share a head of keys."""
    cap = c.config.get("attn_logits_soft_cap")
    heads, own = c.static([q.shape[2], k.shape[2]], "the number of heads")
    if own != heads:
        k, v = (c.call("repeat", t, repeats=heads // own, axis=2) for t in (k, v))
    (depth,) = c.static(q.shape[-1:], "the depth of its heads")
    scores = c.call("einsum", [q, k], equation="btnh,bsnh->bnts")
    scores = c.call("multiply", scores, float(scale) if scale is not None else 1 / math.sqrt(depth))
    if cap is not None:
        scores = c.call("multiply", c.call("tanh", c.call("divide", scores, float(cap))), float(cap))
    scores = scores if bias is None else c.call("add", scores, c.tensor(bias))
    kept = [c.cast(c.tensor(mask), "bool")] if mask is not None else []
    if c.get("is_causal", False):
        t, s = c.static(scores.shape[-2:], "the number of steps")
        kept.append(Value(array=np.tril(np.ones((t, s), bool))))
    for m in kept:
        scores = c.call("where", m, scores, c.number(float(np.finfo(scores.dtype).min) * 0.7, scores.dtype))
    return c.call("einsum", [c.call("nn.softmax", scores, axis=3), v], equation="bnts,bsnh->btnh")


def _window(c: LayerCall, n: int) -> tuple[tuple[int, ...], str, tuple[int, ...]]:
    return extents(c.get("strides", 1), n), str(c.get("padding", "valid")), extents(c.get("dilation_rate", 1), n)


@keras_op("DepthwiseConv")
def _depthwise(c: LayerCall, x: Value, kernel: Any) -> Value:
    return depthwise(c, x, c.tensor(kernel), *_window(c, x.ndim - 2), is_first(c))


@keras_op("SeparableConv")
def _separable(c: LayerCall, x: Value, inner: Any, outer: Any) -> Value:
    n = x.ndim - 2
    mid = depthwise(c, x, c.tensor(inner), *_window(c, n), is_first(c))
    return convolve(c, mid, c.tensor(outer), (1,) * n, "valid", (1,) * n, 1, is_first(c))


@keras_op("DepthToSpace", "SpaceToDepth")
def _depth(c: LayerCall, x: Value) -> Value:
    block, first = int(c.config["block_size"]), c.get("data_format", "channels_last") == "channels_first"
    x = c.transpose(x, [0, 2, 3, 1]) if first else x
    n, h, w, d = x.shape
    if c.kind.endswith("SpaceToDepth"):
        apart = c.reshape(x, [n, h // block, block, w // block, block, d])
        made = c.reshape(c.transpose(apart, [0, 1, 3, 2, 4, 5]), [n, h // block, w // block, d * block * block])
    else:
        apart = c.reshape(x, [n, h, w, block, block, d // (block * block)])
        made = c.reshape(c.transpose(apart, [0, 1, 3, 2, 4, 5]), [n, h * block, w * block, d // (block * block)])
    return c.transpose(made, [0, 3, 1, 2]) if first else made


@keras_op("MultiHot")
def _multi_hot(c: LayerCall, x: Value) -> Value:
    hot = one_hot(c, c.cast(x, "int32"), int(c.config["num_classes"]), str(c.get("dtype", "float32")))
    return c.reduce("max", hot, [hot.ndim - 2]) if x.ndim else hot


# ---- losses


@keras_op("BinaryCrossentropy", "CategoricalCrossentropy", "SparseCategoricalCrossentropy")
def _crossentropy(c: LayerCall, target: Any, x: Value) -> Value:
    target, kind, logits = c.tensor(target), c.kind.rpartition(".")[2], bool(c.get("from_logits", False))
    if kind == "BinaryCrossentropy":
        x = c.call("sigmoid", x) if logits else x
        target, x = c.cast(target, x.dtype), c.call("clip", x, a_min=1e-7, a_max=1 - 1e-7)
        one = c.number(1, x.dtype)
        hit = c.call("multiply", target, c.call("log", x))
        miss = c.call("multiply", c.call("subtract", one, target), c.call("log", c.call("subtract", one, x)))
        return c.call("negative", c.call("add", hit, miss))
    axis = c.axis(int(c.get("axis", -1)), x.ndim)
    if logits:
        logs = c.call("nn.log_softmax", x, axis=axis)
    else:
        if kind == "CategoricalCrossentropy":
            x = c.call("divide", x, c.reduce("sum", x, [axis], True))
        logs = c.call("log", c.call("clip", x, a_min=1e-7, a_max=1 - 1e-7))
    if kind != "CategoricalCrossentropy":
        if target.ndim == x.ndim:
            target = c.call("squeeze", target, axis=(target.ndim - 1,))
        (classes,) = c.static([x.shape[axis]], "the number of classes")
        target = one_hot(c, c.cast(target, "int32"), classes, x.dtype, axis)
    return c.call("negative", c.reduce("sum", c.call("multiply", c.cast(target, x.dtype), logs), [axis]))


# ---- images


@keras_op("RGBToGrayscale")
def _grayscale(c: LayerCall, x: Value) -> Value:
    axis = x.ndim - 3 if c.get("data_format", "channels_last") == "channels_first" else x.ndim - 1
    weights = np.array([0.2989, 0.5870, 0.1140], np.float32).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    made = c.reduce("sum", c.call("multiply", c.floats(x), Value(array=weights)), [axis], True)
    return c.cast(made, x.dtype)


@keras_op("PadImages", "CropImages")
def _pad_or_crop(c: LayerCall, x: Value) -> Value:
    first = c.get("data_format", "channels_last") == "channels_first"
    start = x.ndim - 2 if first else x.ndim - 3
    ending = "padding" if c.kind.endswith("PadImages") else "cropping"
    for axis, (a, b, goal) in enumerate((("top", "bottom", "height"), ("left", "right", "width")), start):
        (extent,) = c.static([x.shape[axis]], "the size of its images")
        given = [c.config.get(k) for k in (f"{a}_{ending}", f"{b}_{ending}", f"target_{goal}")]
        before, after, target = [None if v is None else int(v) for v in given]
        # One of an axis's two crop widths and its size may be missing.
        total = abs((extent if target is None else target) - extent)
        before = (total - (after or 0) if target is not None else 0) if before is None else before
        after = (total - before if target is not None else 0) if after is None else after
        if ending == "padding":
            x = c.pad(x, [(before, after) if k == axis else (0, 0) for k in range(x.ndim)])
        else:
            x = c.cut(x, axis, before, extent - after)
    return x
