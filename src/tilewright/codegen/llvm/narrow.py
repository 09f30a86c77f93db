"""Vectors of float32 as bytes and words."""

from __future__ import annotations

from typing import Any

from tilewright.codegen.llvm.types import float_const, llvm_type, splat
from tilewright.ir import DataType, FloatImm, PrimExpr
from tilewright.tir import Broadcast, Cast, Max, Min
from tilewright.tir.scalars import int_range


def to_narrow(source: DataType, to: DataType) -> bool:
    """Whether float32 vectors become bytes or words."""
    return source.is_float and source.bits == 32 and to.lanes > 1 and 1 < to.bits < 32 and not to.is_float


def clipped(cast: Cast) -> tuple[PrimExpr, float, float] | None:
    """(x, low, high) of a cast of min(max(x, low), high) to a narrow type that holds both ends."""
    e = cast.value
    if not to_narrow(e.dtype, cast.dtype) or type(e) is not Min or type(e.a) is not Max:
        return None
    low, high = _constant(e.a.b), _constant(e.b)
    least, most = int_range(cast.dtype)
    return (e.a.a, low, high) if low is not None and high is not None and least <= low <= high <= most else None


def _constant(e: PrimExpr) -> float | None:
    value = e.value if type(e) is Broadcast else e
    return value.value if type(value) is FloatImm else None


def saturated(emit: Any, a: str, source: DataType, to: DataType, low: float, high: float) -> str:
    """float32 vectors as bytes or words, held between two of them before; LLVM's own saturation takes them apart. emit: what
    emits expressions."""
    p, s, m = emit.b.pure, llvm_type(source), emit.math(source)
    held = a
    for order, bound in (("ogt", low), ("olt", high)):
        # NaN comes out as the lower bound.
        limit = splat(source, float_const(source, float(bound)))
        held = m.select(m.cmp(order, held, limit), held, limit)
    wide, t = llvm_type(DataType("int32").with_lanes(to.lanes)), llvm_type(to)
    whole: str = p(f"fptosi {s} {held} to {wide}", held)
    narrow: str = p(f"trunc {wide} {whole} to {t}", whole)
    if not low:
        return narrow
    number = p(f"fcmp ord {s} {a}, {a}", a)
    answer: str = p(f"select <{to.lanes} x i1> {number}, {t} {narrow}, {t} {splat(to, '0')}", number, narrow)
    return answer
