"""NumPy references of normalisations, products and losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def softmax_python(a_np: Array, axis: int = 1) -> Array:
    """exp(a) normalised along `axis`."""
    e = np.exp(a_np - a_np.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def log_softmax_python(a_np: Array, axis: int = 1) -> Array:
    """log(softmax(a))."""
    d = a_np - a_np.max(axis, keepdims=True)
    return np.asarray(d - np.log(np.exp(d).sum(axis, keepdims=True)))


def l2_normalize_python(a_np: Array, eps: float, axis: Any = None) -> Array:
    """a / sqrt(max(sum of squares along `axis`, eps))."""
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else axis
    return np.asarray(a_np / np.sqrt(np.maximum(np.sum(a_np * a_np, axes, keepdims=True), eps)))


def lrn_python(a_np: Array, size: int, axis: int, bias: float, alpha: float, beta: float) -> Array:
    """Local response normalisation over `size` neighbours along `axis`."""
    half = size // 2
    widths = [(half, half) if i == axis else (0, 0) for i in range(a_np.ndim)]
    squares = np.lib.stride_tricks.sliding_window_view(np.pad(a_np * a_np, widths), size, axis).sum(-1)
    return np.asarray(a_np / (bias + alpha / size * squares) ** beta)


def _scaled(x: Array, gamma: Array | None, beta: Array | None, axes: Sequence[int]) -> Array:
    shape = [d if i in axes else 1 for i, d in enumerate(x.shape)]
    x = x if gamma is None else x * gamma.reshape(shape)
    return x if beta is None else x + beta.reshape(shape)


def _normal(x: Array, axes: Sequence[int], epsilon: float) -> Array:
    mean, var = x.mean(tuple(axes), keepdims=True), x.var(tuple(axes), keepdims=True)
    return np.asarray((x - mean) / np.sqrt(var + epsilon))


def layer_norm_python(
    data: Array, gamma: Array, beta: Array | None, axis: int | Sequence[int], epsilon: float = 1e-5
) -> Array:
    """Zero mean and unit variance over `axis`, then times gamma plus beta."""
    axes = [a % data.ndim for a in ([axis] if isinstance(axis, int) else axis)]
    return _scaled(_normal(data, axes, epsilon), gamma, beta, axes)


def rms_norm_python(data: Array, weight: Array, axis: Sequence[int] | int, epsilon: float = 1e-5) -> Array:
    """data / sqrt(mean of its squares over `axis` + epsilon) * weight, which has the shape of those axes."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    root = np.sqrt((data * data).mean(axes, keepdims=True) + data.dtype.type(epsilon))
    shape = [d if a in [x % data.ndim for x in axes] else 1 for a, d in enumerate(data.shape)]
    return np.asarray(data / root * weight.reshape(shape), data.dtype)


def instance_norm_python(
    data: Array, gamma: Array, beta: Array, axis: int | Sequence[int], epsilon: float = 1e-5
) -> Array:
    """Zero mean and unit variance over `axis` for each batch and channel, then times gamma plus beta of the channel."""
    axes = [a % data.ndim for a in ([axis] if isinstance(axis, int) else axis)]
    return _scaled(_normal(data, axes, epsilon), gamma, beta, [a for a in range(1, data.ndim) if a not in axes])


def group_norm_python(
    data: Array,
    gamma: Array,
    beta: Array,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Array:
    """Zero mean and unit variance over each group of channels and `axes`."""
    at = channel_axis % data.ndim
    shape = [*data.shape[:at], num_groups, data.shape[at] // num_groups, *data.shape[at + 1 :]]
    over = [at + 1, *[a % data.ndim + (a % data.ndim > at) for a in axes]]
    return _scaled(_normal(data.reshape(shape), over, epsilon).reshape(data.shape), gamma, beta, [at])


def batch_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    moving_mean: Array,
    moving_var: Array,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    training: bool,
    momentum: float,
) -> list[Array]:
    """[the normalised data, mean, variance]. training: uses the statistics of the batch, and updates the moving ones by `momentum`."""
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    over = tuple([a for a in range(x.ndim) if a != axis % x.ndim])
    mean, var = (x.mean(over), x.var(over)) if training else (moving_mean, moving_var)
    out = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + epsilon)
    out = out * gamma.reshape(shape) if scale else out
    out = out + beta.reshape(shape) if center else out
    if not training:
        return [out, moving_mean, moving_var]
    return [out, (1 - momentum) * moving_mean + momentum * mean, (1 - momentum) * moving_var + momentum * var]


def batch_matmul(
    x: Array, y: Array, out_dtype: str | None = None, trans_x: bool = False, trans_y: bool = True
) -> Array:
    """Products of two batches of matrices."""
    a = x.swapaxes(-1, -2) if trans_x else x
    b = y.swapaxes(-1, -2) if trans_y else y
    dtype = out_dtype or x.dtype
    return np.matmul(a.astype(dtype), b.astype(dtype))  # type: ignore[no-any-return]


def dense(
    x: Array,
    y: Array,
    bias: Array | None = None,
    use_bias: bool = False,
    use_relu: bool = False,
    out_dtype: str | None = None,
) -> Array:
    """x times the transpose of y."""
    dtype = out_dtype or x.dtype
    out = x.astype(dtype) @ y.T.astype(dtype)
    out = out + bias if use_bias and bias is not None else out
    return np.maximum(out, 0) if use_relu else np.asarray(out)


def nll_loss(predictions: Array, targets: Array, weights: Array, reduction: str, ignore_index: int) -> Array:
    """Weighted negative log likelihood; `reduction` is mean, sum or none."""
    kept = targets != ignore_index
    safe = np.where(kept, targets, 0)
    shares = np.where(kept, weights[safe], 0).astype(predictions.dtype)
    terms = -np.take_along_axis(predictions, safe[:, None], 1)[:, 0] * shares
    if reduction == "none":
        return np.asarray(terms)
    return np.asarray(terms.sum() / shares.sum() if reduction == "mean" else terms.sum())
