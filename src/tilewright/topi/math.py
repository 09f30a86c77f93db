"""Element-wise computes of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr


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
isinf = _unary("isinf", lambda v: tir.EQ(tir.abs(v), tir.const(float("inf"), v.dtype)), "Whether x is infinite (bool).")
isfinite = _unary(
    "isfinite", lambda v: tir.LT(tir.abs(v), tir.const(float("inf"), v.dtype)), "Whether x is a finite number (bool)."
)
logical_not = _unary("logical_not", lambda v: tir.Not(v), "Not x (bool).")
bitwise_not = _unary("bitwise_not", tir.bitwise_not, "All bits of x inverted.")
identity = _unary("identity", lambda v: v, "x itself.")


def cast(x: te.Tensor, dtype: str) -> te.Tensor:
    """x converted to `dtype`: to bool by comparison with zero, from float to int rounded towards zero."""
    if x.dtype == dtype:
        return x
    if dtype == "bool":
        return elementwise(x, lambda v: tir.NE(v, tir.const(0, v.dtype)), "T_cast")
    return elementwise(x, lambda v: tir.Cast(dtype, v), "T_cast")


def clip(x: te.Tensor, a_min: float, a_max: float) -> te.Tensor:
    """min(max(x, a_min), a_max)."""

    def bound(v: PrimExpr) -> PrimExpr:
        if a_min != float("-inf"):
            v = tir.max(v, tir.const(a_min, v.dtype))
        return v if a_max == float("inf") else tir.min(v, tir.const(a_max, v.dtype))

    return elementwise(x, bound, "T_clip")


def fast_exp(x: te.Tensor) -> te.Tensor:
    """exp(x). The same as `exp`, for which back ends have vector code."""
    return exp(x)


def full(shape: Any, dtype: str, fill_value: Any) -> te.Tensor:
    """A tensor of `shape` filled with one number."""
    return compute(shape, lambda *i: tir.const(fill_value, dtype), name="T_full", tag=tag.ELEMWISE)


def full_like(x: te.Tensor, fill_value: Any) -> te.Tensor:
    """A tensor filled with one number, with the shape and dtype of x."""
    return full(x.shape, x.dtype, fill_value)
