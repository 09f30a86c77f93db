"""FoldConstant: calls whose arguments are known are run now."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.evaluation.constant_folding import folded
from tilewright.relay.expr import Expr, Function
from tilewright.relay.rewriting import typed_pass


def fold_constant_expr(expr: Expr, mod: IRModule | None = None) -> Expr:
    """Fold the constants of one expression (classic FoldConstantExpr)."""
    return folded(expr)


def FoldConstant(fold_qnn: bool = False) -> Any:
    """Evaluate constant subgraphs at compile time."""

    def run(func: Function, mod: IRModule) -> Expr:
        return folded(func)

    return typed_pass("FoldConstant", 2, run)
