"""The intrinsics of tir in NumPy: computed in float64, and rounded to the result's type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.codegen.interp.values import InterpError

_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def _float(f: Callable[..., Any]) -> Callable[..., Any]:
    def apply(kind: Any, *args: Any) -> Any:
        with np.errstate(all="ignore"):
            result = np.asarray(f(*[_wide(a) for a in args]), np.float64)
            if kind == np.float64:
                return result if result.ndim else np.float64(result)
            narrow = result.astype(np.float32).astype(kind) if kind.itemsize < 4 else result.astype(kind)
        return narrow if narrow.ndim else narrow[()]

    return apply


def _round_away(x: Any) -> Any:
    return np.rint(x)


FLOAT: dict[str, Callable[..., Any]] = {
    "exp": _float(np.exp),
    "exp2": _float(np.exp2),
    "exp10": _float(lambda x: np.power(10.0, x)),
    "log": _float(np.log),
    "log2": _float(np.log2),
    "log10": _float(np.log10),
    "log1p": _float(np.log1p),
    "sqrt": _float(np.sqrt),
    "rsqrt": _float(lambda x: 1.0 / np.sqrt(x)),
    "sigmoid": _float(lambda x: 1.0 / (1.0 + np.exp(-x))),
    "tanh": _float(np.tanh),
    "sinh": _float(np.sinh),
    "cosh": _float(np.cosh),
    "tan": _float(np.tan),
    "sin": _float(np.sin),
    "cos": _float(np.cos),
    "asin": _float(np.arcsin),
    "acos": _float(np.arccos),
    "atan": _float(np.arctan),
    "asinh": _float(np.arcsinh),
    "acosh": _float(np.arccosh),
    "atanh": _float(np.arctanh),
    "atan2": _float(np.arctan2),
    "pow": _float(np.power),
    "hypot": _float(np.hypot),
    "copysign": _float(np.copysign),
    "fmod": _float(np.fmod),
    "erf": _float(lambda x: np.asarray(_erf(x), np.float64)),
    "erfc": _float(lambda x: np.asarray(_erfc(x), np.float64)),
    "gelu": _float(lambda x: 0.5 * x * np.asarray(_erfc(-x / math.sqrt(2)), np.float64)),
    "silu": _float(lambda x: x / (1.0 + np.exp(-x))),
    "one_plus_erf": _float(lambda x: np.asarray(_erfc(-x), np.float64)),
    "one_plus_tanh": _float(lambda x: 2.0 / (1.0 + np.exp(-2.0 * x))),
    "floor": _float(np.floor),
    "ceil": _float(np.ceil),
    "trunc": _float(np.trunc),
    "round": _float(_round_away),
    "nearbyint": _float(np.rint),
    "rint": _float(np.rint),
    "fabs": _float(np.abs),
    "ldexp": _float(lambda x, n: x * np.exp2(n)),
}
"""Name -> f(NumPy type of the result, *arguments)."""


def nextafter(kind: Any, a: Any, b: Any) -> Any:
    return np.nextafter(np.asarray(a, kind), np.asarray(b, kind))[()]


FLOAT["nextafter"] = nextafter


def fma(kind: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c. Narrow types are computed in float64 and rounded at the end; float64 is rounded after each of the two operations."""
    if kind == np.float64:
        product = np.asarray(a) * np.asarray(b) + np.asarray(c)
        return product[()] if product.ndim == 0 else product
    result = (_wide(a) * _wide(b) + _wide(c)).astype(kind)
    return result[()] if result.ndim == 0 else result


PREDICATES: dict[str, Callable[[Any], Any]] = {
    "isnan": lambda x: _flag(np.isnan(_wide(x))),
    "isinf": lambda x: _flag(np.isinf(_wide(x))),
    "isfinite": lambda x: _flag(np.isfinite(_wide(x))),
}


def _flag(x: Any) -> bool:
    return bool(x) if np.ndim(x) == 0 else x


def shift_left(a: Any, b: Any, bits: int) -> Any:
    """a << b, before it is wrapped around. Raises InterpError for shifts beyond the width."""
    _check_shift(b, bits)
    return a << b


def shift_right(a: Any, b: Any, bits: int) -> Any:
    """a >> b, an arithmetic shift for signed types. Raises InterpError for shifts beyond the width."""
    _check_shift(b, bits)
    return a >> b


def _check_shift(b: Any, bits: int) -> None:
    if np.any((np.asarray(b) < 0) | (np.asarray(b) >= bits)):
        raise InterpError(f"shift by {b!r}: the amount must lie in 0..{bits - 1}")


def popcount(x: Any, bits: int) -> Any:
    if isinstance(x, np.ndarray):
        return np.array([int(v & ((1 << bits) - 1)).bit_count() for v in x.tolist()], x.dtype)
    return (x & ((1 << bits) - 1)).bit_count()


def clz(x: Any, bits: int) -> Any:
    if isinstance(x, np.ndarray):
        return np.array([bits - int(v & ((1 << bits) - 1)).bit_length() for v in x.tolist()], np.int32)
    return bits - (x & ((1 << bits) - 1)).bit_length()


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> Any:
    """round(x * y * 2**-(q + s)), ties upward; left shifts come before the product is rounded."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        columns = np.broadcast_arrays(x, y, q, s)
        return np.array([q_multiply_shift(*map(int, row)) for row in zip(*columns, strict=True)], np.int32)
    product = (x * y) << max(-s, 0)
    total = q + max(s, 0)
    return (product + (1 << (total - 1))) >> total


def reinterpret(value: Any, source: Any, to: Any) -> Any:
    """The same bits as another type."""
    result = np.asarray(value, source).reshape(-1).view(to)
    return result if result.size > 1 else result[0]
