"""Activations and bias_add."""

from __future__ import annotations

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.math import elementwise
from tilewright.topi.utils import normalize_axis


def relu(x: te.Tensor) -> te.Tensor:
    """max(x, 0)."""
    return elementwise(x, lambda v: tir.max(v, tir.const(0, v.dtype)), "T_relu")


def leaky_relu(x: te.Tensor, alpha: float) -> te.Tensor:
    """x where positive, else alpha * x."""
    return elementwise(
        x, lambda v: tir.Select(v > tir.const(0, v.dtype), v, v * tir.const(alpha, v.dtype)), "T_leaky_relu"
    )


def prelu(x: te.Tensor, slope: te.Tensor, axis: int = 1) -> te.Tensor:
    """x where positive, else slope[i] * x with i the position along `axis`."""
    at = normalize_axis(axis, len(x.shape))
    return compute(
        x.shape,
        lambda *i: tir.Select(x(*i) > tir.const(0, x.dtype), x(*i), x(*i) * slope(i[at])),
        name="T_prelu",
        tag=tag.BROADCAST,
    )


def bias_add(data: te.Tensor, bias: te.Tensor, axis: int = 1) -> te.Tensor:
    """data + bias[i] with i the position along `axis`."""
    at = normalize_axis(axis, len(data.shape))
    return compute(data.shape, lambda *i: data(*i) + bias(i[at]), name="T_bias_add", tag=tag.BROADCAST)
