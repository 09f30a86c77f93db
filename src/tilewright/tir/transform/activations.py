"""FuseActivations: replaces activations in float32 by cheaper intrinsics."""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.ir import FloatImm, Op, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, on
from tilewright.tir.analysis import expr_deep_equal
from tilewright.tir.arithmetic import const
from tilewright.tir.expr import Add, Broadcast, Call, Div, Mul
from tilewright.tir.op import is_pure
from tilewright.tir.transform.base import body_pass, call_name


class _Activations(Mutator):
    """Replaces activations from the outside in, so that the largest one is found."""

    @on(Add)
    def _add(self, e: Add) -> PrimExpr:
        found = self._one_plus(e) if _is_float32(e) else None
        return self.rebuild(e) if found is None else found

    @on(Mul)
    def _multiply(self, e: Mul) -> PrimExpr:
        found = self._product(e) if _is_float32(e) else None
        return self.rebuild(e) if found is None else found

    def _one_plus(self, e: Add) -> Any:
        """1 + tanh(x) or 1 + erf(x)."""
        if (x := _beside_one(e, "tanh")) is not None:
            return _call("one_plus_tanh", self.visit(x))
        if (x := _beside_one(e, "erf")) is None:
            return None
        # The error of one ulp in the argument is less than one ulp of the sum.
        by = _constant(x.b) if type(x) is Div else None
        return _call("one_plus_erf", self.visit(x.a) * const(1 / by, x.dtype) if by else self.visit(x))

    def _product(self, e: Mul) -> Any:
        found = self._gelu(e)
        return self._silu(e) if found is None else found

    def _gelu(self, e: Mul) -> Any:
        """A product of x, 1 + erf(x / sqrt(2)) and other factors."""
        factors = _factors(e)
        sums = [f for f in factors if _beside_one(f, "erf") is not None]
        x = _over_root_of_two(_beside_one(sums[0], "erf")) if len(sums) == 1 else None
        if x is None or not is_pure(x):
            return None
        others = [f for f in factors if f is not sums[0] and _constant(f) is None]
        same = next((f for f in others if expr_deep_equal(f, x)), None)
        if same is None:
            return None
        known = prod([2.0, *[c for f in factors if (c := _constant(f)) is not None]])
        whole = _call("gelu", self.visit(x))
        for f in others:
            if f is not same:
                whole = whole * self.visit(f)
        return whole if known == 1.0 else whole * const(known, whole.dtype)

    def _silu(self, e: Mul) -> Any:
        """x * sigmoid(x)."""
        for call, x in ((e.a, e.b), (e.b, e.a)):
            if (
                isinstance(call, Call)
                and call_name(call) == "sigmoid"
                and expr_deep_equal(call.args[0], x)
                and is_pure(x)
            ):
                return _call("silu", self.visit(x))
        return None


def _is_float32(e: PrimExpr) -> bool:
    return e.dtype.code == "float" and e.dtype.bits == 32


def _call(name: str, x: PrimExpr) -> Any:
    return Call(x.dtype, Op.get(f"tir.{name}"), (x,))


def _constant(e: PrimExpr) -> float | None:
    value = e.value if isinstance(e, Broadcast) else e
    return value.value if isinstance(value, FloatImm) else None


def _factors(e: PrimExpr) -> list[PrimExpr]:
    return [*_factors(e.a), *_factors(e.b)] if type(e) is Mul else [e]


def _beside_one(e: PrimExpr, function: str) -> Any:
    """The argument x of a sum f(x) + 1; None for other expressions."""
    if type(e) is Add:
        for call, other in ((e.a, e.b), (e.b, e.a)):
            if isinstance(call, Call) and call_name(call) == function and _constant(other) == 1.0:
                return call.args[0]
    return None


def _over_root_of_two(e: Any) -> Any:
    """The quotient of a division by sqrt(2) (up to float rounding); None for other expressions."""
    by = _constant(e.b) if type(e) in (Mul, Div) else None
    if by and abs((by if type(e) is Div else 1 / by) - 2**0.5) < 2e-7:
        return e.a
    return None


def FuseActivations() -> Pass:
    """Replace GELU, x * sigmoid(x), 1 + erf(x) and 1 + tanh(x) in float32 by intrinsics. These need fewer instructions than an exact
    erf or tanh, since the sum rounds the last digits away. Runs for LLVM; for C if the target has fused multiply-adds.
    """
    return body_pass("FuseActivations", lambda f: _Activations().visit(f.body))
