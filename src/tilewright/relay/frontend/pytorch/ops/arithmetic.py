"""Converters of elementwise operators: arithmetic, comparisons, logic, element types, activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.relay.frontend.common import near_zero
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import DType, dtype_name, is_float, kind, result_dtype
from tilewright.relay.frontend.pytorch.ops.movement import broadcast_all
from tilewright.relay.frontend.pytorch.value import Complex, Results, TorchCall, aten

SAME = {
    "abs": "abs", "ceil": "ceil", "floor": "floor", "trunc": "trunc", "fix": "trunc", "neg": "negative", "negative": "negative",
    "relu": "nn.relu", "positive": "copy",
}  # fmt: skip
"""Operators that keep the element type and round or change signs; integers are returned unchanged."""
FLOAT = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh", "cos": "cos", "cosh": "cosh",
    "erf": "erf", "exp": "exp", "log": "log", "log2": "log2", "log10": "log10", "rsqrt": "rsqrt", "sigmoid": "sigmoid", "sin": "sin",
    "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "special_erf": "erf", "special_expit": "sigmoid",
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctanh": "atanh",
}  # fmt: skip
"""Operators on floats; integers are first converted to float32."""
COMPARE = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "less": "less",
    "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater_equal", "not_equal": "not_equal",
}  # fmt: skip
BITWISE = {
    "bitwise_and": ("bitwise_and", "logical_and"), "bitwise_or": ("bitwise_or", "logical_or"),
    "bitwise_xor": ("bitwise_xor", "logical_xor"), "__and__": ("bitwise_and", "logical_and"),
    "__or__": ("bitwise_or", "logical_or"), "__xor__": ("bitwise_xor", "logical_xor"),
}  # fmt: skip
WHOLE = {"ceil", "floor", "trunc", "fix"}


def _same(name: str, key: str) -> Callable[..., Value]:
    def convert(c: TorchCall, x: Value) -> Value:
        if kind(x.dtype) < 2 and name in WHOLE or key == "abs" and (x.dtype == "bool" or x.dtype.startswith("uint")):
            return x
        if x.dtype == "bool":
            return x
        return c.call(key, x)

    return convert


def _floating(key: str) -> Callable[..., Value]:
    def convert(c: TorchCall, x: Value) -> Value:
        return c.call(key, c.floats(x))

    return convert


def _compare(key: str) -> Callable[..., Value]:
    def convert(c: TorchCall, a: Operand, b: Operand) -> Value:
        x, y = c.promote(a, b)
        if x.dtype == "bool":
            # The order of bools is that of their numbers.
            x, y = c.cast(x, "uint8"), c.cast(y, "uint8")
        return c.call(key, x, y)

    return convert


def _bitwise(key: str, logical: str) -> Callable[..., Value]:
    def convert(c: TorchCall, a: Operand, b: Operand) -> Value:
        x, y = c.promote(a, b)
        return c.call(logical if x.dtype == "bool" else key, x, y)

    return convert


for _name, _key in SAME.items():
    aten(_name)(_same(_name, _key))
for _name, _key in FLOAT.items():
    aten(_name)(_floating(_key))
for _name, _key in COMPARE.items():
    aten(_name)(_compare(_key))
for _name, (_key, _logical) in BITWISE.items():
    aten(_name)(_bitwise(_key, _logical))


@aten("sign", "sgn")
def _sign(c: TorchCall, x: Value) -> Value:
    if x.dtype == "bool":
        return x
    # NaN has no sign.
    ways = [c.cast(c.call(key, x, 0), x.dtype) for key in ("greater", "less")]
    return c.call("subtract", *ways)


@aten("add")
def add(c: TorchCall, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    x, y = c.promote(a, b)
    if alpha != 1:
        y = c.call("multiply", y, alpha)
    return c.call("logical_or" if x.dtype == "bool" else "add", x, y)


@aten("add.Scalar", "sub.Scalar", "subtract.Scalar")
def _add_scalar(c: TorchCall, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    convert = sub if "sub" in c.target else add
    return convert(c, a, b, alpha)


@aten("sub", "subtract")
def sub(c: TorchCall, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    x, y = c.promote(a, b)
    return c.call("subtract", x, c.call("multiply", y, alpha) if alpha != 1 else y)


@aten("rsub")
def _rsub(c: TorchCall, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    x, y = c.promote(a, b)
    return c.call("subtract", y, c.call("multiply", x, alpha) if alpha != 1 else x)


@aten("mul", "multiply")
def mul(c: TorchCall, a: Operand, b: Operand) -> Value:
    x, y = c.promote(a, b)
    return c.call("logical_and" if x.dtype == "bool" else "multiply", x, y)


@aten("div", "divide", "true_divide")
def div(c: TorchCall, a: Operand, b: Operand, rounding_mode: str | None = None) -> Value:
    x, y = c.promote(a, b, floating=rounding_mode is None)
    if rounding_mode is None:
        return c.call("divide", x, y)
    if rounding_mode == "floor":
        return c.call("floor_divide", x, y)
    if not is_float(x.dtype):
        return c.call("trunc_divide", x, y)
    return c.call("trunc", c.call("divide", x, y))


@aten("floor_divide", "floordiv")
def _floor_divide(c: TorchCall, a: Operand, b: Operand) -> Value:
    return div(c, a, b, "floor")


@aten("remainder", "__mod__")
def _remainder(c: TorchCall, a: Operand, b: Operand) -> Value:
    x, y = c.promote(a, b)
    return c.call("floor_mod", x, y)


@aten("fmod")
def _fmod(c: TorchCall, a: Operand, b: Operand) -> Value:
    x, y = c.promote(a, b)
    return c.call("trunc_mod" if not is_float(x.dtype) else "mod", x, y)


@aten("maximum", "max.other")
def maximum(c: TorchCall, a: Operand, b: Operand) -> Value:
    x, y = c.promote(a, b)
    return c.call("logical_or" if x.dtype == "bool" else "maximum", x, y)


@aten("minimum", "min.other")
def minimum(c: TorchCall, a: Operand, b: Operand) -> Value:
    x, y = c.promote(a, b)
    return c.call("logical_and" if x.dtype == "bool" else "minimum", x, y)


@aten("fmax", "fmin")
def _fmax(c: TorchCall, a: Operand, b: Operand) -> Value:
    x, y = c.promote(a, b)
    best = c.call("maximum" if "fmax" in c.target else "minimum", x, y)
    if not is_float(x.dtype):
        return best
    return c.call("where", c.call("isnan", x), y, c.call("where", c.call("isnan", y), x, best))


@aten("pow", "float_power", "__pow__")
def power(c: TorchCall, a: Operand, b: Operand) -> Value:
    if "float_power" in c.target:
        return c.call("power", c.tensor(a, "float64"), c.tensor(b, "float64"))
    dtype = result_dtype([a, b])
    if isinstance(a, Value) and not isinstance(b, (Value, PrimExpr)):
        x = c.cast(a, dtype)
        if b == 1:
            return x
        if b == 0:
            return c.full(x.shape, 1, dtype)
        if b in (2, 3, 4):
            square = c.call("multiply", x, x)
            return square if b == 2 else c.call("multiply", square, x if b == 3 else square)
        if is_float(dtype) and b in (0.5, -0.5, -1):
            return c.call("divide", c.number(1, dtype), x) if b == -1 else c.call("sqrt" if b == 0.5 else "rsqrt", x)
        if not is_float(dtype) and isinstance(b, int) and b > 0:
            return _repeated_product(c, x, b)
    x, y = c.tensor(a, dtype), c.tensor(b, dtype)
    if is_float(dtype):
        return c.call("power", x, y)
    exact = c.call("power", c.cast(x, "float64"), c.cast(y, "float64"))
    return c.cast(c.call("round", exact), dtype)


def _repeated_product(c: TorchCall, x: Value, exponent: int) -> Value:
    result: Value | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else c.call("multiply", result, x)
        exponent >>= 1
        x = c.call("multiply", x, x) if exponent else x
    assert result is not None
    return result


@aten("reciprocal")
def _reciprocal(c: TorchCall, x: Value) -> Value:
    x = c.floats(x)
    return c.call("divide", c.number(1, x.dtype), x)


@aten("square")
def _square(c: TorchCall, x: Value) -> Value:
    return c.call("multiply", x, x)


@aten("expm1", "special_expm1")
def _expm1(c: TorchCall, x: Value) -> Value:
    return near_zero.expm1(c, c.floats(x))


@aten("log1p", "special_log1p")
def log1p(c: TorchCall, x: Value) -> Value:
    return near_zero.log1p(c, c.floats(x))


@aten("exp2", "special_exp2")
def _exp2(c: TorchCall, x: Value) -> Value:
    x = c.floats(x)
    return c.call("power", c.number(2, x.dtype), x)


@aten("erfc", "special_erfc")
def _erfc(c: TorchCall, x: Value) -> Value:
    x = c.floats(x)
    return c.call("subtract", c.number(1, x.dtype), c.call("erf", x))


@aten("atan2", "arctan2")
def atan2(c: TorchCall, a: Operand, b: Operand) -> Value:
    y, x = c.promote(a, b, floating=True)
    zero = c.call("multiply", x, 0)
    angle = c.call("atan", c.call("divide", y, c.call("where", c.call("equal", x, 0), c.number(1, x.dtype), x)))
    # A negative y, also -0, gives a negative angle.
    down = c.call(
        "less", c.call("divide", c.number(1, y.dtype), c.call("where", c.call("equal", y, 0), y, c.call("sign", y))), 0
    )
    turn = c.call("where", down, c.number(-np.pi, x.dtype), c.number(np.pi, x.dtype))
    right = c.call("where", down, c.number(-np.pi / 2, x.dtype), c.number(np.pi / 2, x.dtype))
    left = c.call("less", c.call("where", c.call("equal", x, 0), c.call("divide", c.number(1, x.dtype), x), x), 0)
    # For x = 0 the angle is a right angle, except for y = 0: then the sign of x decides.
    upright = c.call("where", c.call("equal", y, 0), y, right)
    base = c.call("where", c.call("equal", x, 0), upright, angle)
    shifted = c.call("logical_and", left, c.call("logical_or", c.call("not_equal", x, 0), c.call("equal", y, 0)))
    result = c.call("where", shifted, c.call("add", base, turn), base)
    return c.call("add", result, c.call("where", c.call("isnan", zero), zero, c.number(0, x.dtype)))


@aten("hypot")
def _hypot(c: TorchCall, a: Value, b: Value) -> Value:
    x, y = c.promote(a, b)
    return c.call("sqrt", c.call("add", c.call("multiply", x, x), c.call("multiply", y, y)))


@aten("round")
def _round(c: TorchCall, x: Value, decimals: int = 0) -> Value:
    if not is_float(x.dtype):
        return x
    if decimals == 0:
        return c.call("round", x)
    scale = 10.0**decimals
    return c.call("divide", c.call("round", c.call("multiply", x, scale)), scale)


@aten("frac")
def _frac(c: TorchCall, x: Value) -> Value:
    return c.call("subtract", x, c.call("trunc", x))


@aten("clamp", "clip")
def clamp(c: TorchCall, x: Value, low: Any = None, high: Any = None) -> Value:
    bounds = [b for b in (low, high) if b is not None]
    dtype = result_dtype([x, *bounds])
    x = c.cast(x, dtype)
    if all([not isinstance(b, (Value, PrimExpr)) for b in bounds]) and is_float(dtype):
        a_min, a_max = -np.inf if low is None else float(low), np.inf if high is None else float(high)
        if (a_min, a_max) == (0.0, np.inf):
            return c.call("nn.relu", x)
        return c.call("clip", x, a_min=a_min, a_max=a_max)
    if low is not None:
        x = c.call("maximum", x, c.tensor(low, dtype))
    return c.call("minimum", x, c.tensor(high, dtype)) if high is not None else x


@aten("clamp_min")
def _clamp_min(c: TorchCall, x: Value, low: Operand) -> Value:
    return clamp(c, x, low, None)


@aten("clamp_max")
def _clamp_max(c: TorchCall, x: Value, high: Operand) -> Value:
    return clamp(c, x, None, high)


@aten("isnan", "isinf", "isfinite")
def _is_kind(c: TorchCall, x: Value) -> Value:
    if not is_float(x.dtype):
        return c.full(x.shape, "isfinite" in c.target, "bool")
    return c.call(c.target.split(".")[0].split("::")[-1], x)


@aten("isposinf", "isneginf")
def _is_signed_infinity(c: TorchCall, x: Value) -> Value:
    return c.call("equal", c.floats(x), np.inf if "pos" in c.target else -np.inf)


@aten("nan_to_num")
def _nan_to_num(c: TorchCall, x: Value, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Value:
    if not is_float(x.dtype):
        return x
    largest = float(np.finfo(x.dtype).max) if x.dtype != "bfloat16" else 3.3895313892515355e38
    x = c.call("where", c.call("isnan", x), c.number(nan or 0.0, x.dtype), x)
    high = c.number(largest if posinf is None else posinf, x.dtype)
    x = c.call("where", c.call("equal", x, np.inf), high, x)
    low = c.number(-largest if neginf is None else neginf, x.dtype)
    return c.call("where", c.call("equal", x, -np.inf), low, x)


@aten("logical_and", "logical_or", "logical_xor")
def _logical_pair(c: TorchCall, a: Value, b: Value) -> Value:
    key = next(k for k in ("logical_and", "logical_or", "logical_xor") if k in c.target)
    return c.call(key, c.cast(a, "bool"), c.cast(b, "bool"))


@aten("logical_not")
def _logical_not(c: TorchCall, x: Value) -> Value:
    return c.call("logical_not", c.cast(x, "bool"))


@aten("bitwise_not", "__not__")
def _bitwise_not(c: TorchCall, x: Value) -> Value:
    return c.call("logical_not" if x.dtype == "bool" else "bitwise_not", x)


@aten("bitwise_left_shift", "__lshift__", "bitwise_right_shift", "__rshift__")
def _shift(c: TorchCall, a: Operand, b: Operand) -> Value:
    x, y = c.promote(a, b)
    return c.call("left_shift" if "left" in c.target or "lshift" in c.target else "right_shift", x, y)


@aten("where")
def where(c: TorchCall, condition: Value, a: Operand | None = None, b: Operand | None = None) -> Value | Results:
    if a is None:
        from tilewright.relay.frontend.pytorch.ops.data import columns

        return columns(c, condition)
    x, y = c.promote(a, b)
    return c.call("where", c.cast(condition, "bool"), x, y)


@aten("masked_fill")
def masked_fill(c: TorchCall, x: Value, mask: Value, value: Operand) -> Value:
    return c.call("where", c.cast(mask, "bool"), c.tensor(value, x.dtype), x)


@aten("addcmul", "addcdiv")
def _addc(c: TorchCall, x: Value, a: Value, b: Value, value: Operand = 1) -> Value:
    x, a, b = c.promote(x, a, b)
    part = c.call("multiply" if "addcmul" in c.target else "divide", a, b)
    return c.call("add", x, c.call("multiply", part, value) if value != 1 else part)


@aten("lerp")
def _lerp(c: TorchCall, a: Value, b: Value, weight: Any) -> Value:
    return c.call("add", a, c.call("multiply", c.call("subtract", b, a), c.tensor(weight, a.dtype)))


@aten("copysign")
def _copysign(c: TorchCall, a: Value, b: Operand) -> Value:
    x, y = c.promote(a, b, floating=True)
    size = c.call("abs", x)
    zero = c.call("equal", y, 0)
    sign = c.call("where", zero, c.call("divide", c.number(1, y.dtype), y), y)
    return c.call("where", c.call("less", sign, 0), c.call("negative", size), size)


@aten("signbit")
def _signbit(c: TorchCall, x: Value) -> Value:
    if not is_float(x.dtype):
        return c.call("less", x, 0)
    return c.call("less", c.call("where", c.call("equal", x, 0), c.call("divide", c.number(1, x.dtype), x), x), 0)


@aten("logaddexp")
def _logaddexp(c: TorchCall, a: Value, b: Value) -> Value:
    x, y = c.promote(a, b)
    near = log1p(c, c.call("exp", c.call("negative", c.call("abs", c.call("subtract", x, y)))))
    # Equal infinities have no difference.
    apart = c.call("add", c.call("maximum", x, y), near)
    return c.call("where", c.call("equal", x, y), c.call("add", x, float(np.log(2))), apart)


BITS = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}


@aten("nextafter")
def _nextafter(c: TorchCall, a: Value, b: Value) -> Value:
    """Adds or subtracts 1 to the bits as an integer: for numbers of one sign, bits are ordered like the numbers."""
    x, y = broadcast_all(c, c.promote(a, b))
    whole = BITS[x.dtype]
    bits = c.call("reinterpret", x, dtype=whole)
    away = c.call("equal", c.call("greater", y, x), c.call("greater", x, 0))
    moved = c.call("add", bits, c.call("where", away, c.number(1, whole), c.number(-1, whole)))
    least = c.call("where", c.call("greater", y, 0), c.number(1, whole), c.number(np.iinfo(whole).min + 1, whole))
    found = c.call("reinterpret", c.call("where", c.call("equal", x, 0), least, moved), dtype=x.dtype)
    found = c.call("where", c.call("equal", x, y), y, found)
    unknown = c.call("logical_or", c.call("isnan", x), c.call("isnan", y))
    return c.call("where", unknown, c.number(np.nan, x.dtype), found)


@aten("isclose")
def _isclose(
    c: TorchCall, a: Value, b: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Value:
    x, y = c.promote(a, b)
    far = c.call("add", c.call("multiply", c.call("abs", y), rtol), atol)
    near = c.call("less_equal", c.call("abs", c.call("subtract", x, y)), far)
    return c.call("logical_or", near, c.call("equal", x, y))


# Element types


@aten("_to_copy")
def _to_copy(c: TorchCall, x: Value, dtype: DType | None = None) -> Value | Complex:
    return x if dtype is None else to_dtype(c, x, dtype)


@aten("to.dtype", "to.dtype_layout", "type", "_cast", "prims::convert_element_type")
def to_dtype(c: TorchCall, x: Value, dtype: DType | None = None, *rest: object) -> Value | Complex:
    if dtype is None or isinstance(dtype, bool):
        return x
    name = dtype_name(dtype)
    if kind(name) == 3:
        part = c.cast(x, {"complex128": "float64", "complex32": "float16"}.get(name, "float32"))
        return Complex(part, c.full(part.shape, 0, part.dtype))
    return c.cast(x, name)


@aten("to.device")
def _to_device(c: TorchCall, x: Value, dtype: DType | None = None, *rest: object) -> Value | Complex:
    return to_dtype(c, x, dtype)


@aten("to.other", "type_as")
def _to_other(c: TorchCall, x: Value, other: Value, *rest: object) -> Value:
    return c.cast(x, other.dtype)


@aten("to.prim_Device", "to.prim_other", "cpu", "cuda", "_autocast_to_full_precision", "_autocast_to_reduced_precision")
def _to_place(c: TorchCall, x: Value, dtype: DType | None = None, *rest: object) -> Value:
    return x if dtype is None or isinstance(dtype, bool) else c.cast(x, dtype_name(dtype))


def _cast_to(dtype: str) -> Callable[..., Value]:
    def convert(c: TorchCall, x: Value, *rest: object) -> Value:
        return c.cast(x, dtype)

    return convert


for _name, _key in {
    "float": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64", "bool": "bool", "short": "int16",
    "char": "int8", "byte": "uint8", "bfloat16": "bfloat16", "_cast_Float": "float32", "_cast_Long": "int64", "_cast_Int": "int32",
    "_cast_Double": "float64", "_cast_Half": "float16", "_cast_Byte": "uint8", "_cast_Char": "int8", "_cast_Short": "int16",
}.items():  # fmt: skip
    aten(_name)(_cast_to(_key))


@aten(
    "clone", "contiguous", "alias", "detach", "lift_fresh_copy", "lift_fresh", "lift", "resolve_conj",
    "resolve_neg", "conj_physical", "alias_copy", "detach_copy", "requires_grad_", "pin_memory", "data",
    "_to_cpu", "real", "conj",
)  # fmt: skip
def identity(c: TorchCall, x: Value, *rest: object, **more: object) -> Value:
    return x


@aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")
def _dropout(c: TorchCall, x: Value, p: float, train: bool | None = False) -> Value | Results:
    if train and p:
        raise c.refuse("train", True, "False: call model.eval() before exporting")
    return [x, c.full(x.shape, True, "bool")] if "native" in c.target else x


@aten("rrelu")
def _rrelu(c: TorchCall, x: Value, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Value:
    if training:
        raise c.refuse("training", True, "False: call model.eval() before exporting")
    return c.call("nn.leaky_relu", x, alpha=(lower + upper) / 2)


@aten("copy", "copy_")
def _copy(c: TorchCall, x: Value, source: Any, *rest: object) -> Value:
    return c.broadcast(c.tensor(source, x.dtype), x.shape)
