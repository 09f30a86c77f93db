"""Converters of quantised numbers: PT2E's quantize and dequantize around float operators, and fake quantisation.

`relay.transform.FakeQuantizationToInteger` then makes the integer form of the operators between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.relay.expr import Var
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value, known_extents
from tilewright.relay.frontend.pytorch.dtypes import DType, dtype_name
from tilewright.relay.frontend.pytorch.value import TorchCall, aten

RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1), "int16": (-(2**15), 2**15 - 1)}


def _scale(c: TorchCall, x: Any) -> Value:
    """Scales as float32."""
    return Value(array=c.known(x, "scale").astype(np.float32))


def _zero(c: TorchCall, x: Any) -> Value:
    """Zero points as int32."""
    return Value(array=c.known(x, "zero point").astype(np.int32))


def _cut(c: TorchCall, x: Value, low: int, high: int) -> Value:
    """Levels clipped to a range that is narrower than their type's."""
    if (low, high) == RANGES.get(x.dtype):
        return x
    return c.call("clip", x, a_min=float(low), a_max=float(high))


def _computed(c: TorchCall, *parameters: Any) -> bool:
    """Whether the model computes scales or zero points from its inputs."""
    return any([isinstance(p, Value) and p.array is None and not _is_weight(c, p) for p in parameters])


def _is_weight(c: TorchCall, x: Value) -> bool:
    return isinstance(x.expr, Var) and x.expr.name_hint in c.home.params


def _level(c: TorchCall, x: Value, scale: Value, zero: Value, low: Any, high: Any, dtype: DType) -> Value:
    """The levels of numbers, for scales and zero points that the model computes."""
    turned = c.call("divide", c.number(1, scale.dtype), scale)
    moved = c.call("add", c.call("round", c.call("multiply", x, c.cast(turned, x.dtype))), c.cast(zero, x.dtype))
    return c.cast(c.call("clip", moved, a_min=float(low), a_max=float(high)), dtype_name(dtype))


def _number(c: TorchCall, x: Value, scale: Value, zero: Value | None, dtype: DType) -> Value:
    """The real values of levels, for scales and zero points that the model computes."""
    name = "float32" if dtype is None else dtype_name(dtype)
    levels = c.cast(x, "float32" if zero is None else "int32")
    if zero is not None:
        levels = c.cast(c.call("subtract", levels, c.cast(zero, "int32")), "float32")
    return c.cast(c.call("multiply", levels, c.cast(scale, "float32")), name)


def _one(c: TorchCall, x: Any) -> Value:
    """A number, or a tensor of one element, as a tensor without axes."""
    x = c.tensor(x)
    return c.reshape(x, []) if x.ndim else x


@aten("quantized_decomposed::quantize_per_tensor")
def _quantize(c: TorchCall, x: Value, scale: Any, zero: Any, low: Operand, high: Operand, dtype: DType) -> Value:
    low, high = int(c.known(low, "least level").item()), int(c.known(high, "greatest level").item())
    if _computed(c, scale, zero):
        return _level(c, x, _one(c, scale), _one(c, zero), low, high, dtype)
    made = c.call("qnn.quantize", x, _scale(c, scale), _zero(c, zero), axis=-1, out_dtype=dtype_name(dtype))
    return _cut(c, made, low, high)


@aten("quantized_decomposed::dequantize_per_tensor")
def _dequantize(
    c: TorchCall,
    x: Value,
    scale: Any,
    zero: Any,
    low: Operand,
    high: Operand,
    dtype: DType,
    out_dtype: DType | None = None,
) -> Value:
    if _computed(c, scale, zero):
        return _number(c, x, _one(c, scale), _one(c, zero), out_dtype)
    made = c.call("qnn.dequantize", x, _scale(c, scale), _zero(c, zero), axis=-1)
    return made if out_dtype is None else c.cast(made, dtype_name(out_dtype))


@aten("quantized_decomposed::quantize_per_channel")
def _quantize_channels(
    c: TorchCall, x: Value, scales: Value, zeros: Value, axis: int, low: int, high: int, dtype: Any
) -> Value:
    made = c.call(
        "qnn.quantize", x, _scale(c, scales), _zero(c, zeros), axis=c.axis(axis, x.ndim), out_dtype=dtype_name(dtype)
    )
    return _cut(c, made, low, high)


@aten("quantized_decomposed::dequantize_per_channel")
def _dequantize_channels(
    c: TorchCall, x: Value, scales: Value, zeros: Value | None, axis: int, low: int, high: int, dtype: DType,
    out_dtype: DType | None = None,
) -> Value:  # fmt: skip
    zero = _zero(c, zeros) if zeros is not None else Value(array=np.zeros(known_extents(scales.shape), np.int32))
    made = c.call("qnn.dequantize", x, _scale(c, scales), zero, axis=c.axis(axis, x.ndim))
    return made if out_dtype is None else c.cast(made, dtype_name(out_dtype))


# Dynamic quantisation: scales that the model computes from its inputs


@aten("quantized_decomposed::choose_qparams", "quantized_decomposed::choose_qparams_symmetric")
def _choose(c: TorchCall, x: Value, low: int, high: int, eps: float, dtype: DType) -> list[Value]:
    x = c.cast(x, "float32")
    least = c.call("minimum", c.call("min", x, axis=None), 0)
    most = c.call("maximum", c.call("max", x, axis=None), 0)
    if "symmetric" in c.target:
        largest = c.call("maximum", c.call("negative", least), most)
        scale = c.call("maximum", c.call("divide", largest, float(high - low) / 2), eps)
        zero = c.number(128 if dtype_name(dtype) == "uint8" else 0, "int64")
    else:
        scale = c.call("maximum", c.call("divide", c.call("subtract", most, least), float(high - low)), eps)
        begin = c.call("subtract", float(low), c.call("round", c.call("divide", least, scale)))
        zero = c.cast(c.call("clip", begin, a_min=float(low), a_max=float(high)), "int64")
    return [c.reshape(c.cast(scale, "float64"), [1]), c.reshape(zero, [1])]


@aten("quantized_decomposed::choose_qparams_per_token")
def _choose_tokens(c: TorchCall, x: Value, dtype: DType) -> list[Value]:
    largest = c.call("max", c.call("abs", x), axis=-1, keepdims=True)
    largest = c.cast(largest, "float32") if x.dtype == "float16" else largest
    scales = c.call("divide", c.call("maximum", largest, 1e-5), 127.0)
    # The types of an exported program; PyTorch's own function returns float32.
    return [c.cast(scales, "float64"), c.full(scales.shape, 0, "int64")]


@aten(
    "quantized_decomposed::choose_qparams_per_token_asymmetric",
    "quantized_decomposed::_choose_qparams_per_token_asymmetric_impl",
)
def _choose_tokens_two_sided(c: TorchCall, x: Value, dtype: DType) -> list[Value]:
    low, high = -128.0, 127.0
    least = c.call("minimum", c.call("min", x, axis=-1, keepdims=True), 0)
    most = c.call("maximum", c.call("max", x, axis=-1, keepdims=True), 0)
    scale = c.call(
        "maximum", c.call("divide", c.call("subtract", most, least), high - low), float(np.finfo(np.float32).eps)
    )
    least, most = c.call("divide", least, scale), c.call("divide", most, scale)
    below = c.call("greater", c.call("add", c.call("add", least, low), c.call("add", most, high)), 0)
    zero = c.call("where", below, c.call("subtract", low, least), c.call("subtract", high, most))
    zero = c.call("round", c.call("clip", zero, a_min=low, a_max=high))
    return [c.cast(scale, "float64"), c.cast(zero, "int64")]


@aten("quantized_decomposed::quantize_per_token")
def _quantize_tokens(c: TorchCall, x: Value, scales: Value, zeros: Value, low: int, high: int, dtype: DType) -> Value:
    moved = c.call("multiply", *c.promote(x, c.call("divide", c.number(1, scales.dtype), scales)))
    levels = c.call("round", c.call("add", *c.promote(moved, zeros)))
    return c.cast(c.call("clip", levels, a_min=float(low), a_max=float(high)), dtype_name(dtype))


@aten("quantized_decomposed::dequantize_per_token")
def _dequantize_tokens(
    c: TorchCall,
    x: Value,
    scales: Value,
    zeros: Value,
    low: int,
    high: int,
    dtype: DType,
    out_dtype: DType | None = None,
) -> Value:
    moved = c.call("subtract", *c.promote(x, zeros))
    name = "float32" if out_dtype is None else dtype_name(out_dtype)
    return c.cast(c.call("multiply", *c.promote(moved, scales)), name)


@aten("quantized_decomposed::quantize_per_channel_group")
def _quantize_groups(
    c: TorchCall, x: Value, scales: Value, zeros: Value, low: int, high: int, dtype: DType, size: int = 128
) -> Value:
    rows = c.reshape(x, [-1, size])
    made = _quantize_tokens(c, rows, c.reshape(scales, [-1, 1]), c.reshape(zeros, [-1, 1]), low, high, dtype)
    return c.reshape(made, x.shape)


@aten("quantized_decomposed::dequantize_per_channel_group")
def _dequantize_groups(
    c: TorchCall, x: Value, scales: Value, zeros: Value | None, low: int, high: int, dtype: DType, size: int = 128,
    out_dtype: DType | None = None,
) -> Value:  # fmt: skip
    zero = None if zeros is None else c.reshape(zeros, [-1, 1])
    rows = _number(c, c.reshape(x, [-1, size]), c.reshape(scales, [-1, 1]), zero, out_dtype)
    return c.reshape(rows, x.shape)


@aten("quantized_decomposed::convert_element_type")
def _convert(c: TorchCall, x: Value, dtype: DType) -> Value:
    return c.cast(x, dtype_name(dtype))


def _rounded(c: TorchCall, x: Value, scale: Value, zero: Value, low: int, high: int) -> Value:
    """x rounded to the nearest level (quantize, then dequantize)."""
    levels = c.call("add", c.call("round", c.call("divide", x, scale)), zero)
    kept = c.call("clip", levels, a_min=float(low), a_max=float(high))
    return c.call("multiply", c.call("subtract", kept, zero), scale)


@aten("fake_quantize_per_tensor_affine")
def _fake(c: TorchCall, x: Value, scale: Any, zero: Any, low: int, high: int) -> Value:
    return _rounded(c, x, c.tensor(scale, x.dtype), c.tensor(zero, x.dtype), low, high)


@aten("fake_quantize_per_channel_affine", "quantized_decomposed::fake_quant_per_channel")
def _fake_channels(c: TorchCall, x: Value, scales: Value, zeros: Value, axis: int, low: int, high: int) -> Value:
    shape = [-1 if k == c.axis(axis, x.ndim) else 1 for k in range(x.ndim)]
    return _rounded(c, x, c.reshape(scales, shape), c.reshape(c.cast(zeros, x.dtype), shape), low, high)


@aten("_int_mm")
def _bytes_product(c: TorchCall, a: Value, b: Value) -> Value:
    """A product of bytes, in int32."""
    zero, one = c.number(0, "int32"), c.number(1, "float32")
    return c.call("qnn.dense", a, c.transpose(b, [1, 0]), zero, zero, one, one, units=b.shape[1], out_dtype="int32")
