"""Element-wise computes of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from tilewright import te
from tilewright.support import lazy
from tilewright.topi import broadcast, tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.utils import normalize_axis, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.ir.span import BaseSpan


# Hooks are of relay, a layer above.
__getattr__, __dir__ = lazy.late(__name__)


def elementwise(x: te.Tensor, f: Callable[[Any], Any], name: str) -> te.Tensor:
    """f applied to every element of x."""
    return compute(x.shape, lambda *i: f(x(*i)), name=name, tag=tag.ELEMWISE)


def _unary(name: str, f: Callable[[Any], Any], doc: str) -> Callable[[te.Tensor], te.Tensor]:
    def compute(x: te.Tensor) -> te.Tensor:
        return elementwise(x, f, f"T_{name}")

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = doc
    return compute


def _relu(v: Any) -> Any:
    return tir.max(v, tir.const(0, v.dtype))


def _sign(v: PrimExpr) -> PrimExpr:
    zero, one = tir.const(0, v.dtype), tir.const(1, v.dtype)
    return tir.Select(v < zero, zero - one, tir.Select(v > zero, one, zero))


def _isnan(v: PrimExpr) -> PrimExpr:
    # Only NaN differs from itself, and every back end vectorises this comparison.
    return tir.NE(v, v)


def _isinf(v: PrimExpr) -> PrimExpr:
    return tir.EQ(tir.abs(v), tir.const(float("inf"), v.dtype)) if v.dtype.is_float else tir.const(0, "bool")


def _isfinite(v: PrimExpr) -> PrimExpr:
    return tir.LT(tir.abs(v), tir.const(float("inf"), v.dtype)) if v.dtype.is_float else tir.const(1, "bool")


def _negative(v: PrimExpr) -> PrimExpr:
    # -1 * v has the right sign for zeros; 0 - v has not.
    return v * tir.const(-1, v.dtype)


exp = _unary("exp", tir.exp, "e to the x.")
log = _unary("log", tir.log, "Natural logarithm.")
log2 = _unary("log2", tir.log2, "Logarithm to base 2.")
log10 = _unary("log10", tir.log10, "Logarithm to base 10.")
log1p = _unary("log1p", tir.log1p, "log(1 + x).")
sqrt = _unary("sqrt", tir.sqrt, "Square root.")
rsqrt = _unary("rsqrt", tir.rsqrt, "1 / sqrt(x).")
tanh = _unary("tanh", tir.tanh, "Hyperbolic tangent.")
sigmoid = _unary("sigmoid", tir.sigmoid, "1 / (1 + exp(-x)).")
erf = _unary("erf", tir.erf, "Error function.")
sin = _unary("sin", tir.sin, "Sine of radians.")
cos = _unary("cos", tir.cos, "Cosine of radians.")
tan = _unary("tan", tir.tan, "Tangent of radians.")
asin = _unary("asin", tir.asin, "Inverse sine, in radians.")
acos = _unary("acos", tir.acos, "Inverse cosine, in radians.")
atan = _unary("atan", tir.atan, "Inverse tangent, in radians.")
sinh = _unary("sinh", tir.sinh, "Hyperbolic sine.")
cosh = _unary("cosh", tir.cosh, "Hyperbolic cosine.")
asinh = _unary("asinh", tir.asinh, "Inverse hyperbolic sine.")
acosh = _unary("acosh", tir.acosh, "Inverse hyperbolic cosine.")
atanh = _unary("atanh", tir.atanh, "Inverse hyperbolic tangent.")
floor = _unary("floor", tir.floor, "Largest integer not above x.")
ceil = _unary("ceil", tir.ceil, "Smallest integer not below x.")
trunc = _unary("trunc", tir.trunc, "x without its fraction.")
round = _unary("round", tir.nearbyint, "Nearest integer, halves to even.")
abs = _unary("abs", tir.abs, "Magnitude.")
negative = _unary("negative", _negative, "-x.")
sign = _unary("sign", _sign, "-1, 0 or 1.")
isnan = _unary("isnan", _isnan, "Whether x is NaN (bool).")
isinf = _unary("isinf", _isinf, "Whether x is infinite (bool).")
isfinite = _unary("isfinite", _isfinite, "Whether x is a finite number (bool).")
identity = _unary("identity", lambda v: v, "x itself.")


@overload
def cast(x: te.Tensor, dtype: str, span: BaseSpan | None = None) -> te.Tensor: ...


@overload
def cast(x: PrimExpr, dtype: str, span: BaseSpan | None = None) -> PrimExpr: ...


def cast(x: Any, dtype: str, span: BaseSpan | None = None) -> Any:
    """x, a tensor or an expression, converted to `dtype`: to bool by comparison with zero, from float to int rounded towards zero. span:
    the place of the source that the converted values are of."""
    if x.dtype == dtype:
        return x

    def converted(v: Any) -> Any:
        return tir.NE(v, tir.const(0, v.dtype), span) if dtype == "bool" else tir.Cast(dtype, v, span)

    return elementwise(x, converted, "T_cast") if isinstance(x, te.Tensor) else converted(x)


def reals(x: te.Tensor) -> te.Tensor:
    """x in floats: integers in float32 if it has all of them, else in float64."""
    return x if x.dtype.is_float else cast(x, "float32" if x.dtype.bits < 32 else "float64")


def reinterpret(x: te.Tensor, dtype: str) -> te.Tensor:
    """The bits of x as another type with the same number of bits."""
    return elementwise(x, lambda v: tir.reinterpret(dtype, v), "T_reinterpret")


def ceil_log2(x: Any) -> Any:
    """The exponent of the smallest power of two that is not below x, a positive number or expression: of an integer exactly, by its
    leading zeros; of a float by the logarithm."""
    value = tir.const(x) if isinstance(x, (int, float)) else x
    if "float" in value.dtype:
        return tir.ceil(tir.log2(value))
    bits = value.dtype.bits
    leading = to(tir.clz(value - tir.const(1, value.dtype)), value.dtype)
    return tir.Select(
        value <= tir.const(1, value.dtype), tir.const(0, value.dtype), tir.const(bits, value.dtype) - leading
    )


def fixed_point_multiply(x: te.Tensor, multiplier: int, shift: int) -> te.Tensor:
    """round(x * multiplier * 2 ** (shift - 31)) of int32; halves are rounded upwards. multiplier: a fraction of 31 bits."""
    fraction, bits, right = (tir.const(v, "int32") for v in (multiplier, 31, -shift))
    return elementwise(x, lambda v: tir.q_multiply_shift(v, fraction, bits, right), "fixed_point_multiply")


def fixed_point_multiply_per_axis(
    x: te.Tensor,
    y: te.Tensor,
    lshift: te.Tensor,
    rshift: te.Tensor,
    is_lshift_required: int,
    is_rshift_required: int,
    axes: Sequence[int],
) -> te.Tensor:
    """`fixed_point_multiply` of x with a multiplier y, a left shift and a right shift for each index along `axes`. A shift that is not
    required is not read."""
    places = [normalize_axis(int(a), len(x.shape)) for a in axes]

    def element(*i: PrimExpr) -> PrimExpr:
        at = [i[a] for a in places]
        wide: PrimExpr = tir.Cast("int64", x(*i))
        if is_lshift_required:
            wide = tir.shift_left(wide, tir.Cast("int64", lshift(*at)))
        total = tir.const(31, "int64")
        if is_rshift_required:
            total = total + tir.Cast("int64", rshift(*at))
        half = tir.shift_left(tir.const(1, "int64"), total - tir.const(1, "int64"))
        return tir.Cast("int32", tir.shift_right(wide * tir.Cast("int64", y(*at)) + half, total))

    return compute(x.shape, element, name="fixed_point_multiply_per_axis", tag=tag.BROADCAST)


def left_shift(x: Any, n: Any) -> Any:
    """x, a tensor or an expression, shifted to higher bits by n."""
    return broadcast.left_shift(x, n)


def right_shift(x: Any, n: Any) -> Any:
    """x, a tensor or an expression, shifted to lower bits by n; the sign is kept."""
    return broadcast.right_shift(x, n)


def clip(x: te.Tensor, a_min: float, a_max: float) -> te.Tensor:
    """min(max(x, a_min), a_max)."""

    def bound(v: PrimExpr) -> PrimExpr:
        if a_min != float("-inf"):
            v = tir.max(v, tir.const(a_min, v.dtype))
        return v if a_max == float("inf") else tir.min(v, tir.const(a_max, v.dtype))

    return elementwise(x, bound, "T_clip")


# Back ends have vector code for the exact functions, which is as fast as the classic approximations.
fast_exp, fast_tanh, fast_erf = exp, tanh, erf


def elemwise_sum(xs: Sequence[te.Tensor]) -> te.Tensor:
    """The sum of tensors of one shape, element by element. Raises ValueError without tensors."""
    if not xs:
        raise ValueError("elemwise_sum: there must be a tensor")

    def total(*i: Any) -> Any:
        value: Any = xs[0](*i)
        for x in xs[1:]:
            value = value + x(*i)
        return value

    return compute(xs[0].shape, total, name="T_elemwise_sum", tag=tag.ELEMWISE)


def full(shape: Any, dtype: str, fill_value: Any) -> te.Tensor:
    """A tensor of `shape` filled with one number."""
    return compute(shape, lambda *i: tir.const(fill_value, dtype), name="T_full", tag=tag.ELEMWISE)


def full_like(x: te.Tensor, fill_value: Any) -> te.Tensor:
    """A tensor filled with one number, with the shape and dtype of x."""
    return full(x.shape, x.dtype, fill_value)
