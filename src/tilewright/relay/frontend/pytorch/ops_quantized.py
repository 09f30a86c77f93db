"""Converters of quantised numbers: what PT2E writes (quantize and dequantize around plain operators), and fake quantisation.

`relay.transform.FakeQuantizationToInteger` then finds the integer form of what lies between.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import dtype_name
from tilewright.relay.frontend.pytorch.value import TorchCall, aten

RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1), "int16": (-(2**15), 2**15 - 1)}


def _scale(c: TorchCall, x: Any) -> Value:
    """Scales as float32."""
    return Value(array=c.known(x, "scale").astype(np.float32))


def _zero(c: TorchCall, x: Any) -> Value:
    """Zero points as int32."""
    return Value(array=c.known(x, "zero point").astype(np.int32))


def _cut(c: TorchCall, x: Value, low: int, high: int) -> Value:
    """Levels narrower than the type's own."""
    if (low, high) == RANGES.get(x.dtype):
        return x
    return c.call("clip", x, a_min=float(low), a_max=float(high))  # type: ignore[no-any-return]


@aten("quantized_decomposed::quantize_per_tensor")
def _quantize(c: TorchCall, x: Value, scale: Any, zero: Any, low: int, high: int, dtype: Any) -> Any:
    made = c.call("qnn.quantize", x, _scale(c, scale), _zero(c, zero), axis=-1, out_dtype=dtype_name(dtype))
    return _cut(c, made, low, high)


@aten("quantized_decomposed::dequantize_per_tensor")
def _dequantize(
    c: TorchCall, x: Value, scale: Any, zero: Any, low: int, high: int, dtype: Any, out_dtype: Any = None
) -> Any:
    made = c.call("qnn.dequantize", x, _scale(c, scale), _zero(c, zero), axis=-1)
    return made if out_dtype is None else c.cast(made, dtype_name(out_dtype))


@aten("quantized_decomposed::quantize_per_channel")
def _quantize_channels(
    c: TorchCall, x: Value, scales: Value, zeros: Value, axis: int, low: int, high: int, dtype: Any
) -> Any:
    made = c.call(
        "qnn.quantize", x, _scale(c, scales), _zero(c, zeros), axis=c.axis(axis, x.ndim), out_dtype=dtype_name(dtype)
    )
    return _cut(c, made, low, high)


@aten("quantized_decomposed::dequantize_per_channel")
def _dequantize_channels(
    c: TorchCall, x: Value, scales: Value, zeros: Value | None, axis: int, low: int, high: int, dtype: Any,
    out_dtype: Any = None,
) -> Any:  # fmt: skip
    zero = _zero(c, zeros) if zeros is not None else Value(array=np.zeros(scales.shape, np.int32))
    made = c.call("qnn.dequantize", x, _scale(c, scales), zero, axis=c.axis(axis, x.ndim))
    return made if out_dtype is None else c.cast(made, dtype_name(out_dtype))


def _rounded(c: TorchCall, x: Value, scale: Value, zero: Value, low: int, high: int) -> Value:
    """x as its nearest level says it."""
    levels = c.call("add", c.call("round", c.call("divide", x, scale)), zero)
    kept = c.call("clip", levels, a_min=float(low), a_max=float(high))
    return c.call("multiply", c.call("subtract", kept, zero), scale)  # type: ignore[no-any-return]


@aten("fake_quantize_per_tensor_affine")
def _fake(c: TorchCall, x: Value, scale: Any, zero: Any, low: int, high: int) -> Any:
    return _rounded(c, x, c.tensor(scale, x.dtype), c.tensor(zero, x.dtype), low, high)


@aten("fake_quantize_per_channel_affine")
def _fake_channels(c: TorchCall, x: Value, scales: Value, zeros: Value, axis: int, low: int, high: int) -> Any:
    shape = [-1 if k == c.axis(axis, x.ndim) else 1 for k in range(x.ndim)]
    return _rounded(c, x, c.reshape(scales, shape), c.reshape(c.cast(zeros, x.dtype), shape), low, high)
