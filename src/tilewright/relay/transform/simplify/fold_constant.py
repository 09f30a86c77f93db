"""FoldConstant: evaluates calls with known arguments at compile time."""

from __future__ import annotations

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass
from tilewright.relay.evaluation.constant_folding import fold_call, folded
from tilewright.relay.expr import Expr, Function
from tilewright.relay.rewriting import rewrite_calls, typed_pass


def fold_constant_expr(expr: Expr, mod: IRModule | None = None, fold_qnn: bool = False) -> Expr:
    """Fold the constants of one expression (classic FoldConstantExpr)."""
    return folded(expr)


def FoldConstant(fold_qnn: bool = False) -> Pass:
    """Evaluate constant subgraphs at compile time."""

    def run(func: Function, mod: IRModule) -> Function:
        return rewrite_calls(func, fold_call)

    return typed_pass("FoldConstant", 2, run)
