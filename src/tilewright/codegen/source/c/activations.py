"""Activations that are written as a whole (`codegen/activations.py` finds them): functions of tilewright/kernel.h."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.codegen import activations
from tilewright.codegen.source.c.names import Text, floating
from tilewright.ir import DataType

if TYPE_CHECKING:
    from tilewright.codegen.source.c.expr import ExprEmitter


def whole_sum(emitter: ExprEmitter, e: Any) -> Text | None:
    """An addition of 1 and erf or tanh, else None."""
    found = activations.one_plus(e)
    if found is None or not _suits(emitter, e.dtype):
        return None
    x = emitter.expr(found.argument)
    if found.divisor != 1.0:
        x = emitter.product(x, _filled(emitter, 1 / found.divisor, e.dtype), e.dtype)
    return emitter.applied(f"one_plus_{found.function}", e.dtype, x)


def whole_product(emitter: ExprEmitter, e: Any) -> Text | None:
    """A product that is GELU or SiLU, with other factors or without, else None."""
    if not _suits(emitter, e.dtype):
        return None
    found = activations.gelu(e)
    if found is not None:
        values, x = [emitter.expr(f) for f in found.others], emitter.expr(found.x)
        if x in values:
            values.remove(x)
            known = 2.0 * found.constant
            if known != 1.0:
                values.append(_filled(emitter, known, e.dtype))
            whole = emitter.applied("gelu", e.dtype, x)
            for value in values:
                whole = emitter.product(whole, value, e.dtype)
            return whole
    silu = activations.times_sigmoid(e)
    if silu is None:
        return None
    x = emitter.expr(silu.factor)
    return emitter.applied("silu", e.dtype, x) if x == emitter.expr(silu.argument) else None


def _filled(emitter: ExprEmitter, value: float, dtype: DataType) -> Text:
    one = floating(value, dtype)
    return emitter.broadcast(one, dtype) if dtype.lanes > 1 else one


def _suits(emitter: ExprEmitter, dtype: DataType) -> bool:
    """Where products and sums are fused: the functions' errors rest on it."""
    return dtype.code == "float" and dtype.bits == 32 and emitter.module.target.cpu.fma


__all__ = ["whole_product", "whole_sum"]
