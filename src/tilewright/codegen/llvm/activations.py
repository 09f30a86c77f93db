"""Activations in float32 that cost less as a whole than by their parts: 1 + erf(x) and 1 + tanh(x) (GELU), x * sigmoid(x) (SiLU).

The sum's rounding hides what an exact erf or tanh would take pains over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import FloatImm, PrimExpr
from tilewright.tir import Broadcast, Call, Div

if TYPE_CHECKING:
    from tilewright.codegen.llvm.expr import ExprEmitter
    from tilewright.codegen.llvm.vecmath import VectorMath


def _constant(e: PrimExpr) -> float | None:
    value = e.value if isinstance(e, Broadcast) else e
    return value.value if isinstance(value, FloatImm) else None


def _function(e: Any) -> str:
    """The name of the intrinsic that an expression calls."""
    return getattr(e.op, "name", "") if type(e) is Call else ""


def one_plus(emitter: ExprEmitter, e: Any) -> str | None:
    """The value of an addition of 1 and erf or tanh, else None."""
    for call, other in ((e.a, e.b), (e.b, e.a)):
        name = _function(call)
        if name in ("tir.erf", "tir.tanh") and _constant(other) == 1.0 and _suits(emitter, e):
            m = emitter.math(e.dtype)
            (x,) = call.args
            if name == "tir.tanh":
                return m.one_plus_tanh(emitter.expr(x))
            by = _constant(x.b) if type(x) is Div else None
            # An ulp of the argument is less than one of the sum.
            return m.one_plus_erf(m.mul(emitter.expr(x.a), m.c(1 / by)) if by else emitter.expr(x))
    return None


def times_sigmoid(emitter: Any, e: Any) -> str | None:
    """The value of a product of a number and a sigmoid, of that number at best; else None."""
    for call, other in ((e.a, e.b), (e.b, e.a)):
        if _function(call) == "tir.sigmoid" and _suits(emitter, e):
            m: VectorMath = emitter.math(e.dtype)
            x, y = emitter.expr(other), emitter.expr(call.args[0])
            # What is equal has been given one name.
            return m.silu(x) if x == y else m.mul(x, emitter.function("sigmoid", [y], e.dtype, call))
    return None


def _suits(emitter: ExprEmitter, e: PrimExpr) -> bool:
    return e.dtype.code == "float" and e.dtype.bits == 32 and emitter.contracts(e.dtype)
