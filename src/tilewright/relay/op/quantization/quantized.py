"""Operators on quantised numbers: q stands for scale * (q - zero_point). Each is defined by the plain operators to which it
expands.

Scales are float32, zero points int32: scalars, or vectors along an axis of the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import BROADCAST, OpCard, TypeRuleError, any_bytes, need
from tilewright.relay.cards.relations import Dim, dims, known_equal, may_equal, normal_axis, tensor, tensor_type
from tilewright.relay.expr import Call, Constant, Expr, Tuple, TupleGetItem, const, var
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.quantization.requantize_config import COMPUTE_DTYPES, ROUNDINGS, requantize_config

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")


class Quantized(OpCard):
    """Base of operators that are defined by `expand` alone."""

    expand_in = "qnn.CanonicalizeOps"
    undifferentiable = "quantised numbers are whole; differentiate the float32 program, and quantise it then"

    def compute(self, *args: Any) -> Any:
        return composed(self, args)


def composed(card: OpCard, args: Sequence[Any]) -> Any:
    """The te tensors of the expression to which a card expands. Its constants are scalars."""
    from tilewright.relay.rewriting import card_of, typed

    values: dict[Expr, Any] = {}

    def parameter(x: Any, name: str) -> Expr:
        if isinstance(x, (list, tuple)):
            made: Expr = Tuple(tuple([parameter(t, f"{name}_{i}") for i, t in enumerate(x)]))
        else:
            made = typed(var(name, shape=x.shape, dtype=x.dtype))
        values[made] = x
        return typed(made)

    def value(e: Expr) -> Any:
        known = values.get(e)
        if known is None:
            if isinstance(e, Constant):
                known = te.compute((), lambda: tir.const(e.value.item(), e.data.dtype.name), name="constant")
            elif isinstance(e, Tuple):
                known = [value(f) for f in e.fields]
            elif isinstance(e, TupleGetItem):
                known = value(e.tuple_value)[e.index]
            else:
                assert isinstance(e, Call)
                known = card_of(e).compute(*[value(a) for a in e.args])
            values[e] = known
        return known

    parameters = [parameter(x, f"p{i}") for i, x in enumerate(args)]
    return value(typed(card.expand(*parameters)))


# ---- shapes and ranges of types


def limits(dtype: str) -> tuple[int, int]:
    """The lowest and highest value of an integer dtype."""
    need(dtype in INTEGERS, f"quantised numbers are {', '.join(INTEGERS)}", f"the dtype is {dtype}")
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def need_quantized(t: Type, arg: int) -> TensorType:
    """`t` as a tensor of integers. Raises TypeRuleError otherwise."""
    found = tensor(t, arg)
    need(str(found.dtype) in INTEGERS, f"quantised numbers are {', '.join(INTEGERS)}", f"they are {found.dtype}", arg)
    return found


def need_parameter(t: Type, arg: int, what: str, count: Dim | None = None) -> None:
    """`t` as a scale (float32) or zero point (int32): one number, or `count` numbers if several are allowed. Raises TypeRuleError
    otherwise."""
    found, wanted = tensor(t, arg), "float32" if "scale" in what else "int32"
    need(str(found.dtype) == wanted, f"the {what} must be {wanted}", f"it is {found.dtype}", arg)
    shape = dims(found)
    one = all([known_equal(n, 1) for n in shape])
    several = count is not None and len(shape) == 1 and may_equal(shape[0], count)
    need(
        len(shape) <= 1 and (one or several),
        f"the {what} must be one number" + ("" if count is None else f" or {count} along the axis"),
        f"its shape is {tuple(shape)}",
        arg,
    )


def need_in_and_out(
    x: TensorType, scale: TensorType, zero_point: TensorType, output_scale: TensorType, output_zero_point: TensorType
) -> TensorType:
    """Checks a quantised tensor with one scale and zero point, and those of the result."""
    t = need_quantized(x, 0)
    need_parameter(scale, 1, "input scale")
    need_parameter(zero_point, 2, "input zero point")
    need_parameter(output_scale, 3, "output scale")
    need_parameter(output_zero_point, 4, "output zero point")
    return t


def along(v: Expr, ndim: int, axis: int) -> Expr:
    """A vector shaped to broadcast along `axis` of `ndim` axes; a scalar is returned unchanged."""
    shape = dims(tensor(v.checked_type))
    if not shape:
        return v
    if known_equal(shape[0], 1):
        return op("reshape")(v, ()) if ndim == 0 else v
    after = ndim - 1 - axis % ndim
    return op("expand_dims")(v, 1, after) if after else v


def read(v: Expr, ndim: int) -> Expr:
    """A scalar as a tensor of one element, for operands of `ndim` axes. Kernels read it from memory instead of containing it as a
    constant, so layers of one shape share a kernel whatever their scales."""
    from tilewright.relay.rewriting import typed

    return op("reshape")(v, (1,)) if ndim and not tensor(typed(v).checked_type).shape else v


def rank(e: Expr) -> int:
    """The number of axes of an expression."""
    from tilewright.relay.rewriting import typed

    return len(tensor(typed(e).checked_type).shape)


def spread(v: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    """`along` for NumPy arrays."""
    if v.size == 1:
        return v.reshape(())
    return v.reshape([-1 if k == axis % ndim else 1 for k in range(ndim)])


def is_zero(e: Expr) -> bool:
    """Whether an expression is a constant of zeros."""
    return isinstance(e, Constant) and not e.value.any()


def cast(e: Expr, dtype: str) -> Expr:
    """An expression in another dtype; unchanged if it has that dtype."""
    from tilewright.relay.rewriting import typed

    same = str(tensor(typed(e).checked_type).dtype) == dtype
    return e if same else op("cast")(e, dtype=dtype)


# ---- between real and quantised numbers


def np_quantize(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, dtype: str) -> np.ndarray:
    return np_rounded(x / scale, zero, dtype)


def np_rounded(x: np.ndarray, zero: np.ndarray, dtype: str) -> np.ndarray:
    low, high = limits(dtype)
    shifted = np.rint(x) + zero.astype(np.float32)
    return np.asarray(np.clip(shifted, np.float32(low), np.float32(top_float(high))).astype(dtype))


def np_dequantize(q: np.ndarray, scale: np.ndarray | np.float32, zero: np.ndarray) -> np.ndarray:
    return np.asarray((q.astype(np.int32) - zero).astype(np.float32) * scale)


def quantized(x: Expr, scale: Expr, zero: Expr, dtype: str) -> Expr:
    """float32 -> quantised; scale and zero point broadcast against x."""
    return rounded(op("divide")(x, read(scale, rank(x))), zero, dtype)


def rounded(x: Expr, zero: Expr, dtype: str) -> Expr:
    """float32 in units of the scale -> quantised."""
    low, high = limits(dtype)
    shifted = op("round")(x)
    if not is_zero(zero):
        shifted = op("add")(shifted, read(cast(zero, "float32"), rank(x)))
    return cast(op("clip")(shifted, float(low), float(top_float(high))), dtype)


def top_float(high: int) -> int:
    """The largest float32 that is not above an integer limit."""
    return high if high < 2**24 else high - 127


def dequantized(q: Expr, scale: Expr, zero: Expr) -> Expr:
    """quantised -> float32."""
    return op("multiply")(in_units(q, zero), read(scale, rank(q)))


def in_units(q: Expr, zero: Expr) -> Expr:
    """quantised -> float32 in units of the scale."""
    whole = cast(q, "int32")
    return cast(whole if is_zero(zero) else op("subtract")(whole, read(zero, rank(q))), "float32")


def f32(value: Any) -> np.ndarray:
    return np.array(value, np.float32)


def i32(value: Any) -> np.ndarray:
    return np.array(value, np.int32)


class quantize(Quantized, key="qnn.quantize"):
    """clip(round(data / output_scale) + output_zero_point) of float32 data; halves round to even."""

    axis: int = -1
    out_dtype: str = "int8"
    fuse = BROADCAST
    samples = [
        (((2, 5), f32(0.02), i32(3)), {}),
        (((2, 5), f32(0.05), i32(128)), {"out_dtype": "uint8"}),
        (((2, 3, 4), f32([0.1, 0.02, 0.5]), i32([0, -5, 7])), {"axis": 1}),
        ((np.array([2.5, -2.5, 1e30, -1e30, 0.5], np.float32), f32(1), i32(0)), {"out_dtype": "int32"}),
    ]

    def infer(self, data: TensorType, output_scale: TensorType, output_zero_point: TensorType) -> Type:
        t = tensor(data, 0)
        need(str(t.dtype) == "float32", "the data must be float32", f"it is {t.dtype}", 0)
        limits(self.out_dtype)
        count = dims(t)[normal_axis(self.axis, len(t.shape))] if t.shape else 1
        need_parameter(output_scale, 1, "output scale", count)
        need_parameter(output_zero_point, 2, "output zero point", count)
        return tensor_type(t.shape, self.out_dtype)

    def expand(self, data: Expr, output_scale: Expr, output_zero_point: Expr) -> Expr:
        """Divide, round, shift, clip."""
        ndim = len(tensor(data.checked_type).shape)
        scale, zero = along(output_scale, ndim, self.axis), along(output_zero_point, ndim, self.axis)
        return quantized(data, scale, zero, self.out_dtype)

    def ref(self, data: np.ndarray, output_scale: np.ndarray, output_zero_point: np.ndarray) -> np.ndarray:
        scale, zero = spread(output_scale, data.ndim, self.axis), spread(output_zero_point, data.ndim, self.axis)
        return np_quantize(data, scale, zero, self.out_dtype)


class dequantize(Quantized, key="qnn.dequantize"):
    """(data - input_zero_point) * input_scale."""

    axis: int = -1
    out_dtype: str = "float32"
    fuse = BROADCAST
    samples = [
        ((any_bytes((2, 5)), f32(0.02), i32(3)), {}),
        ((any_bytes((2, 3, 4), "uint8"), f32([0.1, 0.02, 0.5]), i32([0, 100, 7])), {"axis": 1}),
    ]

    def infer(self, data: TensorType, input_scale: TensorType, input_zero_point: TensorType) -> Type:
        t = need_quantized(data, 0)
        need(
            self.out_dtype in ("float32", "float16", "bfloat16"),
            "out_dtype must be a float",
            f"it is {self.out_dtype}",
        )
        count = dims(t)[normal_axis(self.axis, len(t.shape))] if t.shape else 1
        need_parameter(input_scale, 1, "input scale", count)
        need_parameter(input_zero_point, 2, "input zero point", count)
        return tensor_type(t.shape, self.out_dtype)

    def expand(self, data: Expr, input_scale: Expr, input_zero_point: Expr) -> Expr:
        """Shift, and multiply by the scale."""
        ndim = len(tensor(data.checked_type).shape)
        out = dequantized(data, along(input_scale, ndim, self.axis), along(input_zero_point, ndim, self.axis))
        return out if self.out_dtype == "float32" else cast(out, self.out_dtype)

    def ref(self, data: np.ndarray, input_scale: np.ndarray, input_zero_point: np.ndarray) -> np.ndarray:
        scale, zero = spread(input_scale, data.ndim, self.axis), spread(input_zero_point, data.ndim, self.axis)
        return np_dequantize(data, scale, zero).astype(self.out_dtype)


class requantize(Quantized, key="qnn.requantize"):
    """Quantised numbers converted from one scale and zero point to another; `axis` is that of the input's vectors.

    rounding: halves go "UPWARD" (the default) or away from zero ("TONEAREST"). compute_dtype: "float32" (the default) and "float64"
    multiply by the ratio of the scales; "int64", for constant scales, multiplies by an integer of 31 bits and shifts.
    """

    axis: int = -1
    rounding: str = "None"
    compute_dtype: str = "None"
    out_dtype: str = "int8"
    fuse = BROADCAST
    samples = [
        (((lambda rng: rng.integers(-9000, 9000, (2, 5)).astype("int32")), f32(0.01), i32(0), f32(0.7), i32(2)), {}),
        (((lambda rng: rng.integers(-900, 900, (2, 3, 4)).astype("int32")), f32([0.1, 0.02, 0.5]), i32(0), f32(2), i32(128)),
         {"axis": 1, "out_dtype": "uint8", "rounding": "TONEAREST"}),
        ((any_bytes((7,)), f32(0.5), i32(4), f32(1), i32(0)), {"compute_dtype": "float64"}),
    ]  # fmt: skip

    def infer(
        self,
        data: TensorType,
        input_scale: TensorType,
        input_zero_point: TensorType,
        output_scale: TensorType,
        output_zero_point: TensorType,
    ) -> Type:
        t = need_quantized(data, 0)
        need(self.rounding in ROUNDINGS, f"rounding must be one of {', '.join(ROUNDINGS)}", f"it is {self.rounding}")
        need(
            self.compute_dtype in COMPUTE_DTYPES,
            f"compute_dtype must be one of {', '.join(COMPUTE_DTYPES)}",
            f"it is {self.compute_dtype}",
        )
        limits(self.out_dtype)
        count = dims(t)[normal_axis(self.axis, len(t.shape))] if t.shape else 1
        need_parameter(input_scale, 1, "input scale", count)
        need_parameter(input_zero_point, 2, "input zero point", count)
        need_parameter(output_scale, 3, "output scale")
        need_parameter(output_zero_point, 4, "output zero point")
        return tensor_type(t.shape, self.out_dtype)

    def choices(self) -> tuple[str, str]:
        """(rounding, compute_dtype), from the current `requantize_config` if they are not given."""
        now = requantize_config.current()
        rounding = now.rounding if self.rounding == "None" else self.rounding
        dtype = now.compute_dtype if self.compute_dtype == "None" else self.compute_dtype
        return rounding, dtype

    def expand(
        self, data: Expr, input_scale: Expr, input_zero_point: Expr, output_scale: Expr, output_zero_point: Expr
    ) -> Expr:
        """Shift, multiply by the ratio of the scales, round, shift, clip."""
        rounding, dtype = self.choices()
        low, high = limits(self.out_dtype)
        ndim = len(tensor(data.checked_type).shape)
        whole = cast(data, "int32")
        if not is_zero(input_zero_point):
            whole = op("subtract")(whole, read(along(input_zero_point, ndim, self.axis), ndim))
        to = along(output_zero_point, ndim, 0)
        if dtype == "int64":
            if not isinstance(input_scale, Constant) or not isinstance(output_scale, Constant):
                rule = "scales must be constants to compute with integers"
                raise TypeRuleError(rule, "they are not", 1, 'Use compute_dtype="float32"')
            scaled = _fixed_point(whole, input_scale, output_scale, ndim, self.axis, rounding)
            out = op("add")(scaled, cast(to, "int64"))
            return cast(op("clip")(out, float(low), float(high)), self.out_dtype)
        ratio = op("divide")(
            cast(along(input_scale, ndim, self.axis), dtype), cast(along(output_scale, ndim, 0), dtype)
        )
        scaled = op("multiply")(cast(whole, dtype), read(ratio, ndim))
        if rounding == "UPWARD":
            rounded = op("floor")(op("add")(scaled, const(0.5, dtype)))
        else:
            rounded = op("multiply")(op("sign")(scaled), op("floor")(op("add")(op("abs")(scaled), const(0.5, dtype))))
        top = high if dtype == "float64" else top_float(high)
        if not is_zero(output_zero_point):
            rounded = op("add")(rounded, read(cast(to, dtype), ndim))
        return cast(op("clip")(rounded, float(low), float(top)), self.out_dtype)

    def ref(
        self,
        data: np.ndarray,
        input_scale: np.ndarray,
        input_zero_point: np.ndarray,
        output_scale: np.ndarray,
        output_zero_point: np.ndarray,
    ) -> np.ndarray:
        rounding, dtype = self.choices()
        low, high = limits(self.out_dtype)
        whole = data.astype(np.int32) - spread(input_zero_point, data.ndim, self.axis)
        if dtype == "int64":
            q, shift = fixed_point(input_scale / output_scale)
            out = np_shift(
                whole.astype(np.int64) * spread(q, data.ndim, self.axis), spread(shift, data.ndim, self.axis), rounding
            )
            return np.asarray(np.clip(out + output_zero_point, low, high).astype(self.out_dtype))
        kind = np.dtype(dtype).type
        scaled = whole.astype(kind) * (
            spread(input_scale, data.ndim, self.axis).astype(kind) / output_scale.reshape(()).astype(kind)
        )
        rounded = (
            np.floor(scaled + kind(0.5))
            if rounding == "UPWARD"
            else np.sign(scaled) * np.floor(np.abs(scaled) + kind(0.5))
        )
        shifted = rounded + output_zero_point.reshape(()).astype(kind)
        top = high if dtype == "float64" else top_float(high)
        return np.asarray(np.clip(shifted, kind(low), kind(top)).astype(self.out_dtype))


def fixed_point(ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(q, shift) such that ratio = q / 2**shift, with q of at most 31 bits."""
    significand, exponent = np.frexp(ratio.astype(np.float64))
    q = np.round(significand * 2.0**31).astype(np.int64)
    over = q == 2**31
    return np.where(over, q // 2, q), (31 - exponent - over).astype(np.int64)


def np_shift(x: np.ndarray, shift: np.ndarray, rounding: str) -> np.ndarray:
    """x / 2**shift, rounded."""
    half = np.left_shift(np.int64(1), shift - 1)
    if rounding != "UPWARD":
        half = half - (x < 0)
    return np.asarray(np.right_shift(x + half, shift))


def _fixed_point(whole: Expr, source: Constant, target: Constant, ndim: int, axis: int, rounding: str) -> Expr:
    return fixed_point_product(whole, spread(source.value, ndim, axis) / target.value.reshape(()), rounding)


def fixed_point_product(whole: Expr, ratio: np.ndarray, rounding: str) -> Expr:
    """Integers times ratios of scales, rounded, as int64: a multiplication by an integer of 31 bits and a shift. ratio: broadcasts against
    them."""
    q, shift = fixed_point(ratio)
    need(
        bool((shift >= 1).all() and (shift < 63).all()),
        "the ratio of the scales must lie between 2**-31 and 2**30 to compute with integers",
        f"it reaches {ratio.max()}",
        1,
    )
    product = op("multiply")(cast(whole, "int64"), const(q))
    half: Expr = const(np.left_shift(np.int64(1), shift - 1))
    if rounding != "UPWARD":
        half = op("subtract")(half, cast(op("less")(product, const(np.array(0, np.int64))), "int64"))
    return op("right_shift")(op("add")(product, half), const(shift))


def np_fixed_point(whole: np.ndarray, ratio: np.ndarray, rounding: str) -> np.ndarray:
    """`fixed_point_product` of arrays of int64."""
    q, shift = fixed_point(ratio)
    return np_shift(whole * q, shift, rounding)


class simulated_quantize(Quantized, key="qnn.simulated_quantize"):
    """The numbers of `quantize`, as float32."""

    axis: int = -1
    out_dtype: str = "int8"
    fuse = BROADCAST
    samples = [(((2, 5), f32(0.02), i32(3)), {})]

    def infer(self, data: TensorType, output_scale: TensorType, output_zero_point: TensorType) -> Type:
        quantize.from_fields(self.axis, self.out_dtype).infer(data, output_scale, output_zero_point)
        return data

    def expand(self, data: Expr, output_scale: Expr, output_zero_point: Expr) -> Expr:
        """Divide, round, shift, clip."""
        return cast(
            quantize.from_fields(self.axis, self.out_dtype).expand(data, output_scale, output_zero_point), "float32"
        )

    def ref(self, data: np.ndarray, output_scale: np.ndarray, output_zero_point: np.ndarray) -> np.ndarray:
        return (
            quantize.from_fields(self.axis, self.out_dtype)
            .ref(data, output_scale, output_zero_point)
            .astype(np.float32)
        )


class simulated_dequantize(Quantized, key="qnn.simulated_dequantize"):
    """(data - input_zero_point) * input_scale of quantised numbers in float32."""

    axis: int = -1
    in_dtype: str = "int8"
    fuse = BROADCAST
    samples = [(((lambda rng: rng.integers(-128, 128, (2, 5)).astype("float32")), f32(0.02), i32(3)), {})]

    def infer(self, data: TensorType, input_scale: TensorType, input_zero_point: TensorType) -> Type:
        t = tensor(data, 0)
        limits(self.in_dtype)
        count = dims(t)[normal_axis(self.axis, len(t.shape))] if t.shape else 1
        need_parameter(input_scale, 1, "input scale", count)
        need_parameter(input_zero_point, 2, "input zero point", count)
        return t

    def expand(self, data: Expr, input_scale: Expr, input_zero_point: Expr) -> Expr:
        """Shift, and multiply by the scale."""
        ndim = len(tensor(data.checked_type).shape)
        zero = cast(along(input_zero_point, ndim, self.axis), "float32")
        return op("multiply")(op("subtract")(data, zero), along(input_scale, ndim, self.axis))

    def ref(self, data: np.ndarray, input_scale: np.ndarray, input_zero_point: np.ndarray) -> np.ndarray:
        scale, zero = spread(input_scale, data.ndim, self.axis), spread(input_zero_point, data.ndim, self.axis)
        return np.asarray((data - zero.astype(np.float32)) * scale)
