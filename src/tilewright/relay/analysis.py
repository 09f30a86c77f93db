"""Questions about relay programs, with the classic names."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import GlobalVar, IRModule
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import all_vars, bound_vars, free_vars, post_order, post_order_visit

__all__ = ["all_vars", "bound_vars", "called_functions", "free_vars", "list_op_freqs", "post_order", "post_order_visit"]


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """How often each operator is called in a module."""
    counts: dict[str, int] = {}
    for f in mod.functions.values():
        if isinstance(f, Function):
            for e in post_order(f):
                if isinstance(e, Call) and hasattr(e.op, "name"):
                    counts[e.op.name] = counts.get(e.op.name, 0) + 1
    return counts


def called_functions(mod: IRModule, roots: Sequence[str] = ("main",)) -> list[GlobalVar]:
    """The functions that can be reached from `roots`, in the order found."""
    pending: list[Expr] = [mod.get_global_var(r) for r in roots]
    found: dict[GlobalVar, None] = {}
    while pending:
        g = pending.pop(0)
        if g in found or g not in mod.functions or not isinstance(g, GlobalVar):
            continue
        found[g] = None
        f = mod.functions[g]
        if isinstance(f, Function):
            pending += [e for e in post_order(f) if isinstance(e, GlobalVar)]
    return list(found)
