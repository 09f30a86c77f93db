"""Activations in float32 that cost less as a whole than by their parts: GELU, 1 + erf(x), 1 + tanh(x), x * sigmoid(x) (SiLU).

The sum's rounding hides what an exact erf or tanh would take pains over.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.codegen.llvm.vecmath import VECTOR_FUNCTIONS
from tilewright.ir import FloatImm, PrimExpr
from tilewright.tir import Add, Broadcast, Call, Div, Mul

if TYPE_CHECKING:
    from tilewright.codegen.llvm.arithmetic import Arithmetic


def _constant(e: PrimExpr) -> float | None:
    value = e.value if isinstance(e, Broadcast) else e
    return value.value if isinstance(value, FloatImm) else None


def _function(e: Any) -> str:
    """The name of the intrinsic that an expression calls."""
    return getattr(e.op, "name", "") if type(e) is Call else ""


def one_plus(emitter: Arithmetic, e: Any) -> str | None:
    """The value of an addition of 1 and erf or tanh, else None."""
    angle, x = _beside_one(e, "tir.tanh"), _beside_one(e, "tir.erf")
    if (angle is None and x is None) or not _suits(emitter, e):
        return None
    m = emitter.frame.math(e.dtype)
    if angle is not None:
        return m.one_plus_tanh(emitter.expr(angle))
    by = _constant(x.b) if type(x) is Div else None
    # An ulp of the argument is less than one of the sum.
    return m.one_plus_erf(m.mul(emitter.expr(x.a), m.c(1 / by)) if by else emitter.expr(x))


def gelu(emitter: Arithmetic, e: Any) -> str | None:
    """The value of a product of x, 1 + erf(x / sqrt(2)) and other factors, else None."""
    factors = _factors(e)
    sums = [f for f in factors if _beside_one(f, "tir.erf") is not None]
    x = _over_root_of_two(_beside_one(sums[0], "tir.erf")) if len(sums) == 1 else None
    if x is None or not _suits(emitter, e):
        return None
    m = emitter.frame.math(e.dtype)
    others = [f for f in factors if f is not sums[0]]
    values, of = [emitter.expr(f) for f in others if _constant(f) is None], emitter.expr(x)
    if of not in values:
        return None
    # What is equal has been given one name.
    values.remove(of)
    known = prod([2.0, *[c for f in others if (c := _constant(f)) is not None]])
    return reduce(m.mul, [*values, m.c(known)] if known != 1.0 else values, m.gelu(of))


def _factors(e: Any) -> list[Any]:
    return [*_factors(e.a), *_factors(e.b)] if type(e) is Mul else [e]


def _beside_one(e: Any, function: str) -> Any:
    """The argument of a function in a sum of it and 1; None for other expressions."""
    if type(e) is Add:
        pairs: Any = ((e.a, e.b), (e.b, e.a))
        for call, other in pairs:
            if _function(call) == function and _constant(other) == 1.0:
                return call.args[0]
    return None


def _over_root_of_two(e: Any) -> Any:
    """What is divided by the root of two, as exact as a float is; None for other expressions."""
    by = _constant(e.b) if type(e) in (Mul, Div) else None
    if by and abs((by if type(e) is Div else 1 / by) - 2**0.5) < 2e-7:
        return e.a
    return None


def times_sigmoid(emitter: Arithmetic, e: Any) -> str | None:
    """The value of a product of a number and a sigmoid, of that number at best; else None."""
    for call, other in ((e.a, e.b), (e.b, e.a)):
        if _function(call) == "tir.sigmoid" and _suits(emitter, e):
            m = emitter.frame.math(e.dtype)
            x, y = emitter.expr(other), emitter.expr(call.args[0])
            return m.silu(x) if x == y else m.mul(x, VECTOR_FUNCTIONS["sigmoid"](m, y))
    return None


def _suits(emitter: Arithmetic, e: PrimExpr) -> bool:
    return e.dtype.code == "float" and e.dtype.bits == 32 and emitter.frame.contracts(e.dtype)
