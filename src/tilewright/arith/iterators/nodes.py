"""The nodes of iterator maps, and their conversion to plain expressions.

IterMark        an iterator: a loop variable, or the fusion of a sum of splits, with its extent
IterSplitExpr   mark // lower_factor % extent * scale
IterSumExpr     sum of splits + base
"""

from __future__ import annotations

from enum import IntEnum

from tilewright.arith.analyzer import Analyzer
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Node
from tilewright.tir import arithmetic as A


class IterMapExpr(PrimExpr):
    """Root of iterator map expressions."""


class IterMark(Node, key="arith.IterMark"):
    """An iterator from 0 to extent - 1. `source`: an expression of one variable, or an IterSumExpr."""

    source: PrimExpr
    extent: PrimExpr


class IterSplitExpr(IterMapExpr, key="arith.IterSplitExpr"):
    """source // lower_factor % extent * scale."""

    source: IterMark
    lower_factor: PrimExpr
    extent: PrimExpr
    scale: PrimExpr

    def _derive(self) -> None:
        self.dtype = self.source.source.dtype


class IterSumExpr(IterMapExpr, key="arith.IterSumExpr"):
    """The sum of `args` plus `base`."""

    args: tuple[IterSplitExpr, ...]
    base: PrimExpr

    def _derive(self) -> None:
        self.dtype = self.base.dtype


class IterMapLevel(IntEnum):
    """The required property of a map. Bijective: it covers the iteration space; Surjective: its indices are independent; NoCheck: none."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: str) -> IterMapLevel:
        levels = {
            "bijective": IterMapLevel.Bijective,
            "surjective": IterMapLevel.Surjective,
            "nocheck": IterMapLevel.NoCheck,
        }
        if name.lower() not in levels:
            raise ValueError(f"unknown check level {name!r}; it is one of {sorted(levels)}")
        return levels[name.lower()]


class IterMapResult(Node, key="arith.IterMapResult"):
    """`indices`: one IterSumExpr for each index; () on failure, with the reasons in `errors`.

    `padding_predicate` is true for elements of the padding.
    """

    indices: tuple[IterSumExpr, ...]
    errors: tuple[str, ...]
    padding_predicate: PrimExpr


def normalize_iter_map_to_expr(expr: PrimExpr) -> PrimExpr:
    """The plain expression for an IterSumExpr or IterSplitExpr."""
    if isinstance(expr, IterSumExpr):
        out: PrimExpr = IntImm(expr.dtype, 0)
        for s in expr.args:
            out = A.add(out, normalize_iter_map_to_expr(s))
        return A.add(out, expr.base)
    if not isinstance(expr, IterSplitExpr):
        return expr
    mark = expr.source
    source = normalize_iter_map_to_expr(mark.source)
    whole = Analyzer()
    if (
        isinstance(expr.lower_factor, IntImm)
        and expr.lower_factor.value == 1
        and whole.can_prove_equal(expr.extent, mark.extent)
    ):
        return A.multiply(source, expr.scale)
    if not whole.can_prove_equal(mark.extent, A.multiply(expr.lower_factor, expr.extent)):
        source = A.floormod(source, A.multiply(expr.lower_factor, expr.extent))
    return A.multiply(A.floordiv(source, expr.lower_factor), expr.scale)
