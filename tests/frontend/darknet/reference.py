"""Darknet's layers in NumPy and PyTorch, one function each, and files of networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

Array = np.ndarray[Any, Any]


def write(folder: Path, cfg: str, weights: Array, major: int = 0, minor: int = 2) -> tuple[str, str]:
    """The two files of a network."""
    (folder / "net.cfg").write_text(cfg)
    seen = np.array([0], "<i8" if major * 10 + minor >= 2 and major < 1000 and minor < 1000 else "<i4").tobytes()
    header = np.array([major, minor, 0], "<i4").tobytes() + seen
    (folder / "net.weights").write_bytes(header + weights.astype("<f4").tobytes())
    return str(folder / "net.cfg"), str(folder / "net.weights")


def conv(x: Array, w: Array, b: Array, stride: int, pad: int, groups: int = 1, dilation: int = 1) -> Array:
    given = [torch.from_numpy(np.ascontiguousarray(v)) for v in (x, w, b)]
    found: Array = functional.conv2d(*given, stride, pad, dilation, groups).numpy()
    return found


def deconv(x: Array, w: Array, b: Array, stride: int, pad: int) -> Array:
    given = [torch.from_numpy(np.ascontiguousarray(v)) for v in (x, w, b)]
    found: Array = functional.conv_transpose2d(*given, stride, pad).numpy()
    return found


def local(x: Array, w: Array, b: Array, size: int, stride: int, pad: int) -> Array:
    columns = functional.unfold(torch.from_numpy(x), size, padding=pad, stride=stride).numpy()
    out: Array = np.einsum("pfk,nkp->nfp", w, columns).reshape(len(x), *b.shape)
    out += b
    return out


def normalised(x: Array, scales: Array, mean: Array, variance: Array) -> Array:
    shape = (1, -1, *[1] * (x.ndim - 2))
    away = (x - mean.reshape(shape)) / (np.sqrt(variance.reshape(shape)) + 1e-6)
    return away * scales.reshape(shape)


def maxpool(x: Array, size: int, stride: int, pad: int) -> Array:
    """Windows begin pad / 2 before the image; what lies outside does not count."""
    n, c, h, w = x.shape
    rows, columns = ((d + pad - size) // stride + 1 for d in (h, w))
    out = np.full((n, c, rows, columns), -np.inf, x.dtype)
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride - pad // 2, j * stride - pad // 2
            part = x[:, :, max(top, 0) : max(top + size, 0), max(left, 0) : max(left + size, 0)]
            out[:, :, i, j] = part.max((2, 3))
    return out


def reorg(x: Array, stride: int, reverse: bool) -> Array:
    """The loops of Darknet: which element goes where."""
    n, c, h, w = x.shape
    flat, out = x.reshape(n, -1), np.empty((n, c * h * w), x.dtype)
    depth = c // (stride * stride)
    for k in range(c):
        c2, offset = k % depth, k // depth
        for j in range(h):
            for i in range(w):
                near = i + w * (j + h * k)
                far = i * stride + offset % stride + w * stride * (j * stride + offset // stride + h * stride * c2)
                if reverse:
                    out[:, far] = flat[:, near]
                else:
                    out[:, near] = flat[:, far]
    return out.reshape(
        (n, depth, h * stride, w * stride) if reverse else (n, c * stride * stride, h // stride, w // stride)
    )


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    out: Array = e / e.sum(axis, keepdims=True)
    return out


def stair(x: Array) -> Array:
    n = np.floor(x)
    return np.where(n % 2 == 0, np.floor(x / 2), (x - n) + np.floor(x / 2))


ACTIVATIONS: dict[str, Any] = {
    "linear": lambda x: x,
    "logistic": sigmoid,
    "loggy": lambda x: 2 / (1 + np.exp(-x)) - 1,
    "relu": lambda x: x * (x > 0),
    "elu": lambda x: (x >= 0) * x + (x < 0) * (np.exp(x) - 1),
    "selu": lambda x: (x >= 0) * 1.0507 * x + (x < 0) * 1.0507 * 1.6732 * (np.exp(x) - 1),
    "relie": lambda x: np.where(x > 0, x, 0.01 * x),
    "ramp": lambda x: x * (x > 0) + 0.1 * x,
    "tanh": np.tanh,
    "leaky": lambda x: np.where(x > 0, x, 0.1 * x),
    "plse": lambda x: np.where(x < -4, 0.01 * (x + 4), np.where(x > 4, 0.01 * (x - 4) + 1, 0.125 * x + 0.5)),
    "stair": stair,
    "hardtan": lambda x: np.clip(x, -1, 1),
    "lhtan": lambda x: np.where(x < 0, 0.001 * x, np.where(x > 1, 0.001 * (x - 1) + 1, x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "swish": lambda x: x * sigmoid(x),
}
