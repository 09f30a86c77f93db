"""Converters of normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.ops.reduce import total, variance
from tilewright.relay.frontend.pytorch.value import Result, Results, TorchCall, aten


def _vector(c: TorchCall, x: Value | None, count: int, value: float, dtype: str) -> Value:
    return x if x is not None else Value(array=np.full(count, value, dtype))


def _moments(c: TorchCall, x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value]:
    """(mean, 1 / deviation) along axes, which are kept with extent 1."""
    spread, middle = variance(c, x, list(axes), 0, True)
    return middle, c.call("rsqrt", c.call("add", spread, float(eps)))


@aten("layer_norm")
def layer_norm(
    c: TorchCall, x: Value, shape: Sequence[Dim], weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5, *rest: object
) -> Value:  # fmt: skip
    if len(shape) == 1 and isinstance(shape[0], int):
        gamma, beta = _vector(c, weight, shape[0], 1, x.dtype), _vector(c, bias, shape[0], 0, x.dtype)
        return c.call("nn.layer_norm", x, gamma, beta, axis=-1, epsilon=float(eps))
    middle, scale = _moments(c, x, range(x.ndim - len(shape), x.ndim), eps)
    return _affine(c, c.call("multiply", c.call("subtract", x, middle), scale), weight, bias)


def _affine(c: TorchCall, x: Value, weight: Value | None, bias: Value | None) -> Value:
    x = c.call("multiply", x, weight) if weight is not None else x
    return c.call("add", x, bias) if bias is not None else x


@aten("native_layer_norm")
def _native_layer_norm(
    c: TorchCall, x: Value, shape: Sequence[Dim], weight: Value | None, bias: Value | None, eps: float
) -> Results:
    out = layer_norm(c, x, shape, weight, bias, eps)
    if not (c.wants(1) or c.wants(2)):
        return [out, None, None]
    return [out, *_moments(c, x, range(x.ndim - len(shape), x.ndim), eps)]


@aten("rms_norm", "_fused_rms_norm")
def _rms_norm(
    c: TorchCall, x: Value, shape: Sequence[Dim], weight: Value | None = None, eps: float | None = None
) -> Value | Results:
    axes = list(range(x.ndim - len(shape), x.ndim))
    power = total(c, "mean", c.call("multiply", x, x), axes, True)
    scale = c.call("rsqrt", c.call("add", power, float(eps if eps is not None else np.finfo(x.dtype).eps)))
    out = _affine(c, c.call("multiply", x, scale), weight, None)
    return [out, scale] if "_fused" in c.target else out


def _batch_norm(
    c: TorchCall, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, var: Value | None, training: bool, eps: float
) -> Value:  # fmt: skip
    if x.ndim < 2:
        # A vector has a batch axis only, without channels. PyTorch accepts only an empty one.
        return x
    channels = x.known_extent(1)
    gamma, beta = _vector(c, weight, channels, 1, x.dtype), _vector(c, bias, channels, 0, x.dtype)
    if training or mean is None or var is None:
        middle, scale = _moments(c, x, [0, *range(2, x.ndim)], eps)
        tail = [1] * (x.ndim - 2)
        gamma, beta = (c.reshape(v, [channels, *tail]) for v in (gamma, beta))
        return _affine(c, c.call("multiply", c.call("subtract", x, middle), scale), gamma, beta)
    return c.calls("nn.batch_norm", x, gamma, beta, mean, var, axis=1, epsilon=float(eps))[0]


def _statistics(c: TorchCall, x: Value, eps: float) -> list[None] | list[Value]:
    if not (c.wants(1) or c.wants(2)):
        return [None, None]
    return [c.reshape(v, [x.shape[1]]) for v in _moments(c, x, [0, *range(2, x.ndim)], eps)]


@aten("batch_norm")
def _plain_batch_norm(
    c: TorchCall, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, var: Value | None, training: bool,
    momentum: float, eps: float, *rest: object,
) -> Value:  # fmt: skip
    return _batch_norm(c, x, weight, bias, mean, var, training, eps)


@aten("native_batch_norm", "_native_batch_norm_legit")
def _native_batch_norm(
    c: TorchCall, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, var: Value | None, training: bool,
    momentum: float, eps: float,
) -> Result:  # fmt: skip
    out = _batch_norm(c, x, weight, bias, mean, var, training, eps)
    return [out, *(_statistics(c, x, eps) if training else _nothing(c, x))]


@aten("_native_batch_norm_legit.no_stats")
def _batch_norm_no_stats(
    c: TorchCall, x: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> Result:
    return [_batch_norm(c, x, weight, bias, None, None, True, eps), *_statistics(c, x, eps)]


@aten("_native_batch_norm_legit_no_training")
def _batch_norm_inference(
    c: TorchCall,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    momentum: float,
    eps: float,
) -> list[Value]:
    return [_batch_norm(c, x, weight, bias, mean, var, False, eps), *_nothing(c, x)]


def _nothing(c: TorchCall, x: Value) -> list[Value]:
    """The statistics for training, which inference does not compute."""
    return [Value(array=np.zeros(0, x.dtype)), Value(array=np.zeros(0, x.dtype))]


@aten("instance_norm")
def _instance_norm(
    c: TorchCall, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, var: Value | None, use_input_stats: bool,
    momentum: float, eps: float, *rest: object,
) -> Value:  # fmt: skip
    if not use_input_stats:
        return _batch_norm(c, x, weight, bias, mean, var, False, eps)
    channels = x.known_extent(1)
    gamma, beta = _vector(c, weight, channels, 1, x.dtype), _vector(c, bias, channels, 0, x.dtype)
    return c.call("nn.instance_norm", x, gamma, beta, axis=1, epsilon=float(eps))


@aten("group_norm")
def group_norm(
    c: TorchCall,
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *rest: object,
) -> Value:
    channels = x.known_extent(1)
    gamma, beta = _vector(c, weight, channels, 1, x.dtype), _vector(c, bias, channels, 0, x.dtype)
    if x.ndim > 2:
        return c.call("nn.group_norm", x, gamma, beta, num_groups=groups, axis=1, epsilon=float(eps))
    wide = c.call(
        "nn.group_norm", c.reshape(x, [*x.shape, 1]), gamma, beta, num_groups=groups, axis=1, epsilon=float(eps)
    )
    return c.reshape(wide, x.shape)


@aten("native_group_norm")
def _native_group_norm(
    c: TorchCall,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: Operand,
    channels: Any,
    pixels: Any,
    groups: int,
    eps: float,
) -> Results:
    out = group_norm(c, x, groups, weight, bias, eps)
    if not (c.wants(1) or c.wants(2)):
        return [out, None, None]
    apart = c.reshape(x, [n, groups, channels // groups * pixels])
    return [out, *[c.reshape(v, [n, groups]) for v in _moments(c, apart, [2], eps)]]


@aten("_weight_norm", "_weight_norm_interface")
def _weight_norm(c: TorchCall, v: Value, g: Value, dim: int = 0) -> Value | Results:
    axes = [k for k in range(v.ndim) if k != c.axis(dim, v.ndim)]
    length = c.call("sqrt", total(c, "sum", c.call("multiply", v, v), axes, True))
    out = c.call("multiply", v, c.call("divide", g, length))
    return [out, length] if "interface" in c.target else out
