"""Converters of element-wise operators: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import may_equal, shape_text
from tilewright.relay.frontend.tflite.node import Node, Quant, Value, tflite_op
from tilewright.relay.frontend.tflite.ops import fixed
from tilewright.relay.frontend.tflite.ops.quantized import (
    activation_range,
    alike,
    limits,
    looked_up,
    need_single,
    out_quant,
    real,
    requantized,
    rounded_float,
    scaled,
    stored,
    stored_real,
)
from tilewright.support.errors import DiagnosticError, OpNotImplemented


def quantized(node: Node, *inputs: Value | None) -> bool:
    """Whether the operator works on quantised integers. Raises OpNotImplemented if only some of its tensors have a quantisation."""
    given: list[Any] = [v for v in (*inputs, node.out) if v is not None and v.dtype in ("int8", "uint8", "int16")]
    without = [v for v in given if v.quant is None]
    if without and len(without) < len(given) and node.out in given:
        raise OpNotImplemented(
            f"its tensor {without[0].name!r} of {without[0].dtype} has no scale, but others of the operator have one"
        )
    whole = [v.dtype in ("int8", "uint8", "int16") and v.quant is not None for v in inputs if v is not None]
    if whole and all(whole) and node.out.dtype.startswith("float"):
        raise OpNotImplemented(f"its inputs are quantised, but its result {node.out.name!r} is {node.out.dtype}")
    if not node.integer or not all([v is None or v.quant is not None for v in inputs]):
        return False
    other = [v for v, known in zip([v for v in inputs if v is not None], whole, strict=True) if not known]
    if other:
        raise OpNotImplemented(
            f"its tensor {other[0].name!r} is {other[0].dtype}, but its result {node.out.name!r} is {node.out.dtype} for others"
        )
    return True


def centred(node: Node, x: Value, quant: Quant) -> Value:
    """int32 numbers minus their zero point."""
    wide = node.cast(x, "int32")
    return node.call("subtract", wide, quant.offset) if quant.offset else wide


def through_real(node: Node, f: Callable[..., Value], *inputs: Value) -> Value:
    """An operator on integers without an integer form in TFLite: computed in float32, and rounded."""
    return stored_real(node, f(*[real(node, x) for x in inputs]), out_quant(node), node.out.dtype)


# ---- arithmetic


@tflite_op("ADD", "SUB")
def _add(node: Node, a: Value, b: Value) -> Value:
    key = "add" if node.name == "ADD" else "subtract"
    if quantized(node, a, b):
        return _sum(node, a, b, key)
    return node.activated(node.call(key, a, b))


def _sum(node: Node, a: Value, b: Value, key: str) -> Value:
    qa, qb = need_single(node, a, b)
    target = out_quant(node)
    shift = 20
    if a.dtype == "int16":
        shift = 15
        if node.get("pot_scale_int16", True) and all([_is_power(q) for q in (qa, qb, target)]):
            return _sum_of_powers(node, a, b, key, qa, qb, target)
    twice = 2.0 * max(qa.step, qb.step)
    x = scaled(node, node.call("left_shift", centred(node, a, qa), shift), qa.step / twice)
    y = scaled(node, node.call("left_shift", centred(node, b, qb), shift), qb.step / twice)
    total = scaled(node, node.call(key, *alike(node, x, y)), twice / float(np.float32((1 << shift) * target.scale[0])))
    low, high = activation_range(node, target, node.out.dtype)
    return stored(node, total, target.offset, low, high, node.out.dtype)


def _is_power(quant: Quant) -> bool:
    return math.frexp(quant.step)[0] == 0.5 and quant.offset == 0


def _sum_of_powers(node: Node, a: Value, b: Value, key: str, qa: Quant, qb: Quant, target: Quant) -> Value:
    """A sum of 16-bit numbers with power-of-two scales: shifted to the result's scale, added with saturation."""
    low, high = activation_range(node, target, "int16")

    def moved(x: Value, q: Quant) -> Value:
        shift = math.frexp(q.step)[1] - math.frexp(target.step)[1]
        wide = node.cast(x, "int32")
        if shift > 0:
            return node.call("clip", node.call("left_shift", wide, shift), a_min=-32768.0, a_max=32767.0)
        return fixed.halved(node, wide, -shift)

    return stored(node, node.call(key, moved(a, qa), moved(b, qb)), 0, low, high, "int16")


@tflite_op("MUL")
def _mul(node: Node, a: Value, b: Value) -> Value:
    if quantized(node, a, b):
        qa, qb = need_single(node, a, b)
        target = out_quant(node)
        product = node.call("multiply", centred(node, a, qa), centred(node, b, qb))
        factor = float(qa.scale[0] * qb.scale[0] / target.scale[0])
        low, high = activation_range(node, target, node.out.dtype)
        return stored(node, scaled(node, product, factor), target.offset, low, high, node.out.dtype)
    return node.activated(node.call("multiply", a, b))


@tflite_op("DIV")
def _div(node: Node, a: Value, b: Value) -> Value:
    if quantized(node, a, b):
        target = out_quant(node)
        ratio = node.call("divide", real(node, a), real(node, b))
        low, high = activation_range(node, target, node.out.dtype)
        return node.call("clip", stored_real(node, ratio, target, node.out.dtype), a_min=float(low), a_max=float(high))
    key = "divide" if a.dtype.startswith("float") else "trunc_divide"
    return node.activated(node.call(key, a, b))


@tflite_op("ADD_N")
def _add_n(node: Node, *parts: Value) -> Value:
    need_one_shape(*parts)
    total = parts[0]
    for p in parts[1:]:
        total = node.call("add", total, p)
    return total


@tflite_op("SQUARED_DIFFERENCE")
def _squared_difference(node: Node, a: Value, b: Value) -> Value:
    if quantized(node, a, b):
        qa, qb = need_single(node, a, b)
        target = out_quant(node)
        shift = 7 if a.dtype == "int8" else 0
        twice = 2.0 * max(qa.step, qb.step)
        x, y = [
            scaled(node, node.call("left_shift", centred(node, v, q), shift), q.step / twice)
            for v, q in ((a, qa), (b, qb))
        ]
        difference = node.call("subtract", *alike(node, x, y))
        square = node.call("multiply", difference, difference)
        factor = twice * twice / float(np.float32((1 << (shift * 2)) * target.scale[0]))
        low, high = limits(node.out.dtype)
        return stored(node, scaled(node, square, factor), target.offset, low, high, node.out.dtype)
    difference = node.call("subtract", a, b)
    return node.call("multiply", difference, difference)


@tflite_op("MAXIMUM", "MINIMUM")
def _extreme(node: Node, a: Value, b: Value) -> Value:
    return node.call(node.name.lower(), a, b)


@tflite_op("FLOOR_DIV")
def _floor_div(node: Node, a: Value, b: Value) -> Value:
    return node.call("floor_divide", a, b)


@tflite_op("FLOOR_MOD")
def _floor_mod(node: Node, a: Value, b: Value) -> Value:
    return node.call("floor_mod", a, b)


@tflite_op("POW")
def _pow(node: Node, a: Value, b: Value) -> Value:
    return node.call("power", a, b)


def need_one_shape(*values: Value) -> None:
    """Raises DiagnosticError for tensors of an operator that TFLite does not broadcast."""
    for v in values[1:]:
        if v.ndim != values[0].ndim or not all(map(may_equal, v.shape, values[0].shape)):
            shapes = " and ".join([shape_text(v.shape) for v in values])
            raise DiagnosticError(f"its inputs have the shapes {shapes}; it does not broadcast them")


@tflite_op("ATAN2")
def _atan2(node: Node, y: Value, x: Value) -> Value:
    need_one_shape(y, x)
    return arctangent(node, y, x)


def arctangent(node: Node, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in radians."""
    angle = node.call("atan", node.call("divide", y, x))
    half = node.call("where", node.call("less", y, 0), node.number(-math.pi, y.dtype), node.number(math.pi, y.dtype))
    left = node.call("where", node.call("less", x, 0), node.call("add", angle, half), angle)
    up = node.call("multiply", node.call("sign", y), math.pi / 2)
    # 0 / 0 has no angle: that of (0, 0) is 0, and other points with x = 0 have a right angle.
    return node.call("where", node.call("equal", x, 0), up, left)


@tflite_op("LOGICAL_AND", "LOGICAL_OR")
def _logical(node: Node, a: Value, b: Value) -> Value:
    return node.call(node.name.lower(), a, b)


@tflite_op("LOGICAL_NOT")
def _logical_not(node: Node, x: Value) -> Value:
    return node.call("logical_not", x)


@tflite_op("BITWISE_XOR")
def _xor(node: Node, a: Value, b: Value) -> Value:
    return node.call("bitwise_xor", a, b)


@tflite_op("RIGHT_SHIFT")
def _right_shift(node: Node, a: Value, b: Value) -> Value:
    return node.call("right_shift", a, b)


COMPARED = {
    "EQUAL": "equal", "NOT_EQUAL": "not_equal", "GREATER": "greater", "GREATER_EQUAL": "greater_equal", "LESS": "less",
    "LESS_EQUAL": "less_equal",
}  # fmt: skip


@tflite_op(*COMPARED)
def _compare(node: Node, a: Value, b: Value) -> Value:
    if a.quant is not None and b.quant is not None and a.dtype in ("int8", "uint8", "int16"):
        qa, qb = need_single(node, a, b)
        if not qa.same(qb):
            if max(qa.step, qb.step) >= 1:
                raise OpNotImplemented(
                    f"it compares numbers of the scales {qa.step:g} and {qb.step:g}; TFLite compares those of different scales below 1 only"
                )
            a, b = [
                scaled(node, node.call("left_shift", centred(node, v, q), 8), q.step) for v, q in ((a, qa), (b, qb))
            ]
            a, b = alike(node, a, b)
    return node.call(COMPARED[node.name], a, b)


# ---- one operand

PLAIN = {"FLOOR": "floor", "CEIL": "ceil", "ROUND": "round", "COS": "cos", "SIN": "sin", "SIGN": "sign"}
TABLES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "EXP": ("exp", np.exp),
    "TANH": ("tanh", np.tanh),
    "LOGISTIC": ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    "SQRT": ("sqrt", np.sqrt),
    "LOG": ("log", np.log),
}


@tflite_op(*PLAIN)
def _plain(node: Node, x: Value) -> Value:
    if quantized(node, x):
        return through_real(node, lambda v: node.call(PLAIN[node.name], v), x)
    return node.call(PLAIN[node.name], x)


@tflite_op("EXP", "SQRT", "LOG", "TANH", "LOGISTIC")
def _tabled(node: Node, x: Value) -> Value:
    key, f = TABLES[node.name]
    if quantized(node, x):
        if node.name == "LOG":
            target = out_quant(node)
            least = np.float32(limits(node.out.dtype)[0] - target.offset) * target.scale[0]
            made = fixed.interpolated16 if x.dtype == "int16" else looked_up
            return made(node, x, lambda v: np.where(v > 0, np.log(v), least))
        if x.dtype == "int16":
            if node.name in ("TANH", "LOGISTIC"):
                return fixed.curve16(node, x, node.name)
            if node.name == "EXP":
                return fixed.interpolated16(node, x, f)
            return through_real(node, lambda v: node.call(key, v), x)
        return looked_up(node, x, f)
    return node.call(key, x)


@tflite_op("ABS")
def _abs(node: Node, x: Value) -> Value:
    if quantized(node, x):
        (source,), target = need_single(node, x), out_quant(node)
        low, high = limits(x.dtype)
        size = node.call("abs", centred(node, x, source))
        if source.step != target.step:
            size = scaled(node, size, float(source.scale[0] / target.scale[0]))
        return stored(node, size, target.offset, low, high, x.dtype)
    return node.call("abs", x)


@tflite_op("NEG")
def _neg(node: Node, x: Value) -> Value:
    if quantized(node, x):
        return through_real(node, lambda v: node.call("negative", v), x)
    return node.call("negative", x)


@tflite_op("SQUARE")
def _square(node: Node, x: Value) -> Value:
    return node.call("multiply", x, x)


@tflite_op("RSQRT")
def _rsqrt(node: Node, x: Value) -> Value:
    if quantized(node, x):
        if x.dtype == "int16":
            top = out_quant(node).scale[0] * np.float32(32767)
            return fixed.interpolated16(node, x, lambda v: np.where(v > 0, 1 / np.sqrt(v), top))
        return fixed.rsqrt(node, x)
    return node.call("rsqrt", x)


RANGES = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}


@tflite_op(*RANGES)
def _relu(node: Node, x: Value) -> Value:
    least, most = RANGES[node.name]
    if quantized(node, x):
        (source,), target = need_single(node, x), out_quant(node)
        low, high = limits(node.out.dtype)

        def q(v: float) -> int:
            units = np.float32(v) / target.scale[0]
            return target.offset + int(math.floor(units + 0.5) if units >= 0 else math.ceil(units - 0.5))

        low = max(low, q(least))
        high = high if most is None else min(high, q(most))
        moved = scaled(node, centred(node, x, source), float(source.scale[0] / target.scale[0]))
        return stored(node, moved, target.offset, low, high, node.out.dtype)
    if most is None:
        return node.call("nn.relu", x)
    return node.call("clip", x, a_min=least, a_max=most)


LARGEST_FACTOR = 1 << 16
"""The limit of a 16-bit factor for which TFLite's 32-bit arithmetic cannot overflow."""


@tflite_op("LEAKY_RELU")
def _leaky(node: Node, x: Value) -> Value:
    alpha = float(node.get("alpha", 0.0))
    if quantized(node, x):
        (source,), target = need_single(node, x), out_quant(node)
        low, high = limits(node.out.dtype)
        centre = centred(node, x, source)
        ratio = source.scale[0] / target.scale[0]
        slope = source.scale[0] * np.float32(alpha) / target.scale[0]
        if max(abs(ratio), abs(slope)) >= LARGEST_FACTOR:
            raise OpNotImplemented(f"its factors are {ratio:g} and {slope:g}; supported below {LARGEST_FACTOR}")
        sides = alike(node, scaled(node, centre, float(ratio)), scaled(node, centre, float(slope)))
        chosen = node.call("where", node.call("greater_equal", centre, 0), *sides)
        return stored(node, chosen, target.offset, low, high, node.out.dtype)
    return node.call("where", node.call("greater", x, 0), x, node.call("multiply", x, alpha))


@tflite_op("PRELU")
def _prelu(node: Node, x: Value, alpha: Value) -> Value:
    if quantized(node, x, alpha):
        qx, qa = need_single(node, x, alpha)
        target = out_quant(node)
        low, high = limits(node.out.dtype)
        centre = centred(node, x, qx)
        steep = node.call("multiply", centre, centred(node, alpha, qa))
        sides = alike(
            node,
            scaled(node, centre, qx.step / target.step),
            scaled(node, steep, float(qx.scale[0] * qa.scale[0]) / target.step),
        )
        chosen = node.call("where", node.call("greater_equal", centre, 0), *sides)
        return stored(node, chosen, target.offset, low, high, node.out.dtype)
    return node.call("where", node.call("greater_equal", x, 0), x, node.call("multiply", x, alpha))


@tflite_op("ELU")
def _elu(node: Node, x: Value) -> Value:
    if quantized(node, x) and x.dtype == "int8":
        return looked_up(node, x, lambda v: np.where(v < 0, np.expm1(v), v))
    below = node.call("subtract", node.call("exp", node.call("minimum", x, 0.0)), 1.0)
    return node.call("where", node.call("less", x, 0), below, x)


@tflite_op("HARD_SWISH")
def _hard_swish(node: Node, x: Value) -> Value:
    if quantized(node, x):
        return fixed.hard_swish(node, x)
    gate = node.call("clip", node.call("add", x, 3.0), a_min=0.0, a_max=6.0)
    return node.call("multiply", node.call("multiply", x, gate), 1.0 / 6.0)


@tflite_op("GELU")
def _gelu(node: Node, x: Value) -> Value:
    approximate = bool(node.get("approximate", False))
    if quantized(node, x):
        made = fixed.interpolated16 if x.dtype == "int16" else looked_up
        return made(node, x, _np_gelu_tanh if approximate else _np_gelu)
    return gelu(node, x, approximate)


def gelu(node: Node, x: Value, approximate: bool) -> Value:
    """x * P(X <= x) of the normal distribution, or its approximation by tanh."""
    if approximate:
        cube = node.call("multiply", node.call("multiply", x, x), x)
        inner = node.call(
            "multiply", node.call("add", x, node.call("multiply", cube, 0.044715)), math.sqrt(2 / math.pi)
        )
        return node.call("multiply", node.call("multiply", x, 0.5), node.call("add", node.call("tanh", inner), 1.0))
    part = node.call("add", node.call("erf", node.call("multiply", x, math.sqrt(0.5))), 1.0)
    return node.call("multiply", node.call("multiply", x, 0.5), part)


def _np_gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * np.array([math.erfc(-float(v) * math.sqrt(0.5)) for v in x], np.float32)


def _np_gelu_tanh(x: np.ndarray) -> np.ndarray:
    return np.asarray(
        0.5 * x * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)))
    )


# ---- types


@tflite_op("CAST")
def _cast(node: Node, x: Value) -> Value:
    return node.cast(x, node.out.dtype)


@tflite_op("QUANTIZE")
def _quantize(node: Node, x: Value) -> Value:
    target = node.out.quant
    if target is None:
        raise OpNotImplemented("its result has no scale")
    if x.quant is not None and not x.dtype.startswith("float"):
        (source,) = need_single(node, x)
        return requantized(node, x, source, out_quant(node), node.out.dtype)
    if target.single:
        return stored_real(node, x, target, node.out.dtype)
    shape = [-1, *[1] * (x.ndim - 1 - target.axis)]
    units = rounded_float(node, node.call("divide", x, Value(array=target.scale.reshape(shape))))
    low, high = limits(node.out.dtype)
    moved = node.call("add", units, Value(array=target.zero.astype(np.float32).reshape(shape)))
    return node.cast(node.call("clip", moved, a_min=float(low), a_max=float(high)), node.out.dtype)


@tflite_op("DEQUANTIZE")
def _dequantize(node: Node, x: Value) -> Value:
    return real(node, x)


@tflite_op("DENSIFY")
def _densify(node: Node, x: Value) -> Value:
    # The reader has already made it dense.
    return x


@tflite_op("FAKE_QUANT")
def _fake_quant(node: Node, x: Value) -> Value:
    least, most = float(node.get("min")), float(node.get("max"))
    low, high = int(bool(node.get("narrow_range"))), (1 << int(node.get("num_bits"))) - 1
    scale = np.float32((np.float32(most) - np.float32(least)) / np.float32(high - low))
    zero = low - np.float32(least) / scale
    nudged = float(low if zero < low else high if zero > high else math.floor(zero + 0.5))
    bottom, top = np.float32((low - nudged) * scale), np.float32((high - nudged) * scale)
    inverse = np.float32(1) / scale
    clamped = node.call("clip", x, a_min=float(bottom), a_max=float(top))
    steps = node.call("multiply", node.call("subtract", clamped, float(bottom)), float(inverse))
    whole = node.call("floor", node.call("add", steps, 0.5))
    return node.call("add", node.call("multiply", whole, float(scale)), float(bottom))


@tflite_op("BITCAST")
def _bitcast(node: Node, x: Value) -> Value:
    before, after = np.dtype(x.dtype).itemsize, np.dtype(node.out.dtype).itemsize
    if before == after:
        return node.call("reinterpret", x, dtype=node.out.dtype)
    if x.is_number and x.array is not None:
        data = np.ascontiguousarray(x.array)
        if after < before:
            data = data[..., None]
        made: Any = data.view(node.out.dtype)
        return Value(array=made if after < before else made[..., 0])
    raise OpNotImplemented(
        f"it views {x.dtype} as {node.out.dtype}; element types of one size are supported where the model computes them"
    )


@tflite_op("COMPLEX_ABS")
def _complex_abs(node: Node, x: Any) -> Value:
    square = [node.call("multiply", v, v) for v in (x.real, x.imag)]
    return node.call("sqrt", node.call("add", square[0], square[1]))


@tflite_op("REAL", "IMAG")
def _part(node: Node, x: Any) -> Any:
    return x.real if node.name == "REAL" else x.imag
