"""Activations and bias_add."""

from __future__ import annotations

from collections.abc import Callable

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


def _scaled(channel: int, name: str) -> Callable[[te.Tensor, te.Tensor, te.Tensor], te.Tensor]:
    def scale_shift(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
        return compute(
            Input.shape,
            lambda *i: Input(*i) * Scale(i[channel]) + Shift(i[channel]),
            name="ScaleShift",
            tag=tag.BROADCAST,
        )

    scale_shift.__name__ = scale_shift.__qualname__ = name
    scale_shift.__doc__ = f"Input * Scale[c] + Shift[c] with c the position along axis {channel}."
    return scale_shift


scale_shift_nchw, scale_shift_nhwc = _scaled(1, "scale_shift_nchw"), _scaled(3, "scale_shift_nhwc")


def scale_shift_nchwc(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Input * Scale + Shift in blocks of channels: data (N, C / b, H, W, b), scale and shift (C / b, b)."""
    return compute(
        Input.shape,
        lambda n, c, y, x, b: Input(n, c, y, x, b) * Scale(c, b) + Shift(c, b),
        name="ScaleShift",
        tag=tag.BROADCAST,
    )


def bias_add(data: te.Tensor, bias: te.Tensor, axis: int = 1) -> te.Tensor:
    """data + bias[i] with i the position along `axis`."""
    at = normalize_axis(axis, len(data.shape))
    return compute(data.shape, lambda *i: data(*i) + bias(i[at]), name="T_bias_add", tag=tag.BROADCAST)
