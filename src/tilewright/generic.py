"""Arithmetic on expressions by name, as classic programs that hold operators in tables call it."""

from __future__ import annotations

from typing import Any

from tilewright.ir import PrimExpr
from tilewright.ir.span import BaseSpan
from tilewright.tir import arithmetic
from tilewright.tir.expr import Cast


def add(lhs: Any, rhs: Any, span: BaseSpan | None = None) -> PrimExpr:
    """lhs + rhs."""
    return arithmetic.add(lhs, rhs, span)


def subtract(lhs: Any, rhs: Any, span: BaseSpan | None = None) -> PrimExpr:
    """lhs - rhs."""
    return arithmetic.subtract(lhs, rhs, span)


def multiply(lhs: Any, rhs: Any, span: BaseSpan | None = None) -> PrimExpr:
    """lhs * rhs."""
    return arithmetic.multiply(lhs, rhs, span)


def divide(lhs: Any, rhs: Any, span: BaseSpan | None = None) -> PrimExpr:
    """lhs / rhs; integers as in C."""
    return arithmetic.div(lhs, rhs, span)


def floordiv(lhs: Any, rhs: Any, span: BaseSpan | None = None) -> PrimExpr:
    """The largest integer that is not above lhs / rhs."""
    return arithmetic.floordiv(lhs, rhs, span)


def cast(src: PrimExpr, dtype: str, span: BaseSpan | None = None) -> PrimExpr:
    """An expression converted to a type."""
    return Cast(dtype, src, span)
