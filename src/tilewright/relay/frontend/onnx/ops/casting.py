"""Conversions between element types, also those that kernels do not support, and quantised values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.formats.onnx_messages import numpy_type
from tilewright.relay.cards.relations import known_equal
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.onnx import kinds
from tilewright.relay.frontend.onnx.fold import _element
from tilewright.relay.frontend.onnx.ops.strings import parsed, printed
from tilewright.relay.frontend.onnx.value import OnnxNode, Tensor, Value, as_value, onnx_op
from tilewright.support.errors import OpAttributeInvalid, OpNotImplemented


def element_type(number: Any) -> str:
    """The name of an ONNX element type that is given by number, or (before opset 6) by name."""
    try:
        dtype = numpy_type(_element(number))
    except (KeyError, ValueError):
        raise OpAttributeInvalid(f"the element type {number!r} is none that ONNX defines") from None
    return kinds.kind_of(dtype) or dtype.name


def decoded(node: OnnxNode, x: Value) -> Value:
    """Values in types that kernels support: float32 for small floats, int8 or uint8 for small integers."""
    if x.kind in kinds.SMALL_FLOATS:
        table = kinds.decoding(x.kind)
        return Value(node.call("take", Value(array=table), node.cast(x.plain(), "int32"), axis=0))
    if x.kind in kinds.SMALL_INTS or not x.kind:
        return x.plain()
    raise OpNotImplemented(f"it computes on {x.kind}, which is not a number")


def encoded(node: OnnxNode, x: Value, kind: str, saturate: bool = True, rounding: str = "nearest") -> Value:
    """Numbers encoded in a small type."""
    made = (_whole if kind in kinds.SMALL_INTS else _small_float)(node, x, kind, saturate, rounding)
    return Value(made, kind=kind)


def _whole(node: OnnxNode, x: Value, kind: str, saturate: bool, rounding: str) -> Expr:
    # As in casts of integers, the lowest bits are kept.
    bits, carrier = int(kind[-1]), kinds.SMALL_INTS[kind]
    whole = node.cast(x, "int32")
    mask, half = (1 << bits) - 1, 1 << (bits - 1)
    if kind.startswith("u"):
        return node.cast(node.call("bitwise_and", whole, node.scalar(mask, "int32")), carrier).expr
    low = node.call("bitwise_and", node.call("add", whole, node.scalar(half, "int32")), node.scalar(mask, "int32"))
    return node.cast(node.call("subtract", low, node.scalar(half, "int32")), carrier).expr


def _small_float(node: OnnxNode, x: Value, kind: str, saturate: bool, rounding: str) -> Expr:
    value = node.cast(x, "float32")
    if kind == "float8_e8m0fnu" and rounding != "nearest":
        # Rounding up takes the smallest power that is not less; rounding down the largest that is not more.
        powers = kinds.decoding(kind)[:255]
        place = node.call(
            "searchsorted", Value(array=powers), node.call("abs", value), right=rounding == "down", dtype="int32"
        )
        if rounding == "down":
            place = node.call("subtract", place, node.scalar(1, "int32"))
        codes, nan, sign = np.arange(255, dtype=np.uint8), 255, 0
        place = node.call("clip", place, a_min=0.0, a_max=254.0)
    else:
        bounds, codes, nan, sign = kinds.encoding(kind, saturate)
        place = node.call("searchsorted", Value(array=bounds), node.call("abs", value), dtype="int32")
    code = node.call("take", Value(array=codes.astype(np.int32)), place, axis=0)
    if sign:
        negative = node.call("less", node.call("reinterpret", value, dtype="int32"), node.scalar(0, "int32"))
        if kind.endswith("fnuz"):
            # These types have one zero, and NaN has the code of minus zero.
            some = node.call("logical_and", node.call("not_equal", code, node.scalar(0, "int32")), negative)
            negative = node.call("logical_and", some, node.call("not_equal", code, node.scalar(nan, "int32")))
        signed = node.call("add", code, node.scalar(sign, "int32"))
        code = node.call("where", negative, signed, code)
    code = node.call("where", node.call("isnan", value), node.scalar(nan, "int32"), code)
    return node.call("cast", code, dtype="uint8")


def converted(node: OnnxNode, x: Value, element: str, saturate: bool = True, rounding: str = "nearest") -> Value:
    """A value converted to any element type."""
    if x.element == element:
        return x
    if x.kind == "string" or element == "string":
        return printed(node, x) if element == "string" else converted(node, parsed(node, x, element), element)
    plain = decoded(node, x)
    if element in kinds.CARRIERS:
        return encoded(node, plain, element, saturate, rounding)
    return node.cast(plain, element)


@onnx_op("Cast", typed=True)
def _cast(node: OnnxNode, x: Value) -> Value:
    return converted(node, x, element_type(node.get("to")), bool(node.get("saturate", 1)), node.get("round_mode", "up"))


@onnx_op("CastLike", typed=True)
def _cast_like(node: OnnxNode, x: Value, like: Value) -> Value:
    return converted(node, x, like.element, bool(node.get("saturate", 1)), node.get("round_mode", "up"))


@onnx_op("BitCast", typed=True)
def _bit_cast(node: OnnxNode, x: Value) -> Value:
    element = element_type(node.get("to"))
    carrier = kinds.CARRIERS.get(element, element)
    kind = element if element in kinds.CARRIERS else ""
    if "string" in (x.kind, kind) or (x.kind or kind) in kinds.SMALL_INTS:
        raise OpNotImplemented(f"it reads the bits of {x.element} as {element}; types of whole bytes are supported")
    if x.is_number and x.array is not None:
        return Value(array=np.ascontiguousarray(x.array).view(carrier).reshape(x.array.shape), kind=kind)
    if x.dtype == carrier:
        return Value(x.expr, kind=kind)
    if "bool" in (x.dtype, carrier):
        return Value(node.cast(node.cast(Value(x.expr), "uint8"), carrier).expr, kind=kind)
    return Value(node.call("reinterpret", Value(x.expr), dtype=carrier), kind=kind)


# ---- quantised values

QNN = ("int8", "uint8", "int16", "uint16", "int32")
"""Element types that relay.qnn supports."""


def along(node: OnnxNode, v: Value, x: Value, axis: int, block: int) -> Value:
    """A scale or zero point shaped to broadcast with x: one number, one for each index of an axis, or one for each block of an axis."""
    if v.ndim == 0 or v.ndim == 1 and known_equal(v.shape[0], 1):
        return Value(node.call("reshape", v, newshape=()), kind=v.kind) if v.ndim else v
    at = node.place(axis, x.ndim) if x.ndim else 0
    if v.ndim == 1 and not block:
        after = x.ndim - 1 - at
        return Value(node.call("expand_dims", v, axis=1, num_newaxis=after), kind=v.kind) if after else v
    spread = node.call("repeat", v, repeats=block, axis=at)
    extent = x.shape[at]
    if not known_equal(Value(spread).shape[at], extent):
        spread = node.call("strided_slice", spread, begin=(0,), end=(extent,), strides=(1,), axes=(at,))
    return Value(spread, kind=v.kind)


def integer_limits(element: str) -> tuple[float, float]:
    """The minimum and the maximum of an integer element type."""
    if element in kinds.SMALL_INTS:
        bits = int(element[-1])
        return (0.0, 2.0**bits - 1) if element.startswith("u") else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1)
    info = np.iinfo(element)
    return float(info.min), float(info.max)


BYTES_AND_WORDS = ("int8", "uint8", "int16", "uint16")
Parameters = tuple[Value, Tensor, int]


def parameters(node: OnnxNode, x: Value, scale: Value, zero: Value | None, axis: int, block: int) -> Parameters | None:
    """(scale, zero point, axis) for the operators of relay.qnn; None if they do not support this form."""
    several = scale.ndim == 1 and not known_equal(scale.shape[0], 1)
    plain = scale.dtype == "float32" and not scale.kind and not (zero is not None and zero.kind)
    if block or not plain or scale.ndim > 1 or (several and not x.ndim):
        return None
    shift = node.scalar(0, "int32") if zero is None or _is_zero(zero) else node.cast(_single(node, zero), "int32")
    return _single(node, scale), shift, node.place(axis, x.ndim) if several else -1


def _single(node: OnnxNode, v: Value) -> Value:
    """A vector of one number as a scalar; other values unchanged."""
    if v.ndim != 1 or not known_equal(v.shape[0], 1):
        return v
    if v.is_number and v.array is not None:
        return Value(array=v.array.reshape(()))
    return Value(node.call("reshape", v, newshape=()))


def _is_zero(v: Value) -> bool:
    return v.is_number and v.array is not None and not v.array.any()


def quantized(
    node: OnnxNode,
    x: Value,
    scale: Value,
    zero: Value | None,
    element: str,
    axis: int,
    block: int,
    saturate: bool = True,
) -> Value:
    """x / scale rounded to even, plus the zero point, clamped to the type's range."""
    precision = node.get("precision", 0)
    if precision and "float" not in element_type(precision):
        raise node.refuse("precision", precision, "0 (that of the scale) and types of floats")
    known = parameters(node, x, scale, zero, axis, block)
    if known is not None and x.dtype == "float32" and not x.kind and element in BYTES_AND_WORDS:
        by, shift, at = known
        return Value(node.call("qnn.quantize", x, by, shift, axis=at, out_dtype=element))
    factor = along(node, scale, x, axis, block)
    dtype = "float32" if x.dtype in ("float16", "bfloat16", "int32") else x.dtype
    if precision:
        dtype = element_type(precision)
    if dtype not in ("float32", "float64"):
        dtype = "float32"
    ratio = node.call("divide", node.cast(x, dtype), node.cast(decoded(node, factor), dtype))
    if element in kinds.SMALL_FLOATS:
        if zero is not None:
            ratio = node.call("add", ratio, node.cast(decoded(node, along(node, zero, x, axis, block)), dtype))
        return encoded(node, Value(ratio), element, saturate)
    low, high = integer_limits(element)
    whole = node.call("round", ratio)
    if zero is not None:
        whole = node.call("add", whole, node.cast(decoded(node, along(node, zero, x, axis, block)), dtype))
    held = node.call("clip", whole, a_min=low, a_max=high)
    carrier = kinds.CARRIERS.get(element, element)
    return Value(node.call("cast", held, dtype=carrier), kind=element if element in kinds.CARRIERS else "")


def _as_qnn(node: OnnxNode, x: Value, scale: Value, zero: Value | None, axis: int, element: str) -> list[Any] | None:
    """[scale, zero point, axis] for an operator of relay.qnn, which FakeQuantizationToInteger can convert; None if no operator fits."""
    fits = not scale.kind and scale.dtype == "float32" and scale.ndim <= 1 and not node.get("block_size", 0)
    if not fits or element not in QNN or zero is not None and zero.element not in QNN:
        return None
    if zero is None:
        zero = Value(array=np.zeros(scale.array.shape if scale.array is not None else (), np.int32))
    pair = [scale, node.cast(zero, "int32")]
    one = [known_equal(v.shape[0], 1) if v.ndim else True for v in pair]
    if all(one):
        pair = [node.value("reshape", v, newshape=()) if v.ndim else v for v in pair]
    return [*pair, axis if x.ndim and -x.ndim <= axis < x.ndim else -1]


@onnx_op("QuantizeLinear", typed=True)
def _quantize(node: OnnxNode, x: Value, scale: Value, zero: Value | None = None) -> Tensor:
    element = zero.element if zero is not None else "uint8"
    if zero is None and node.get("output_dtype"):
        element = element_type(node.get("output_dtype"))
    parts = _as_qnn(node, x, scale, zero, node.get("axis", 1), element) if x.element == "float32" else None
    if parts is not None and not node.get("precision", 0):
        return node.call("qnn.quantize", x, *parts[:2], axis=parts[2], out_dtype=element)
    return quantized(
        node, x, scale, zero, element, node.get("axis", 1), node.get("block_size", 0), bool(node.get("saturate", 1))
    )


def dequantized(node: OnnxNode, x: Value, scale: Value, zero: Value | None, axis: int = 1, block: int = 0) -> Value:
    """(x - zero point) * scale, in the scale's type."""
    known = parameters(node, x, scale, zero, axis, block)
    if known is not None and not x.kind and x.dtype in (*BYTES_AND_WORDS, "int32"):
        by, shift, at = known
        return Value(node.call("qnn.dequantize", x, by, shift, axis=at))
    number = decoded(node, x)
    dtype = "float32" if scale.element in ("float16", "bfloat16") or scale.kind else scale.dtype
    if zero is not None and x.element not in kinds.SMALL_FLOATS:
        shift = node.cast(decoded(node, along(node, zero, x, axis, block)), "int32")
        number = Value(node.call("subtract", node.cast(number, "int32"), shift))
    factor = node.cast(decoded(node, along(node, scale, x, axis, block)), dtype)
    return as_value(node.call("multiply", node.cast(number, dtype), factor))


@onnx_op("DequantizeLinear", typed=True)
def _dequantize(node: OnnxNode, x: Value, scale: Value, zero: Value | None = None) -> Tensor:
    parts = _as_qnn(node, x, scale, zero, node.get("axis", 1), x.element)
    if parts is not None and not node.get("output_dtype", 0):
        return node.call("qnn.dequantize", x, *parts[:2], axis=parts[2])
    made = dequantized(node, x, scale, zero, node.get("axis", 1), node.get("block_size", 0))
    wanted = element_type(node.get("output_dtype")) if node.get("output_dtype") else scale.element
    return converted(node, made, wanted)
