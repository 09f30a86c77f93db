"""Loops as recursion: `while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.relay.cards.card import Operand, as_expr
from tilewright.relay.expr import Expr, Function, Let, Tuple, Var, var
from tilewright.relay.scope_builder import ScopeBuilder


def while_loop(
    cond: Callable[..., Expr], loop_vars: Sequence[Expr], loop_bodies: Callable[..., Sequence[Operand]]
) -> Expr:
    """A function that runs a loop: it takes the initial values of the loop's variables and returns the tuple of their final values.

    cond: from the variables to a bool scalar, whether the loop goes on. loop_vars: what the variables are named and
    typed like, a relay.Var each (another expression: named `arg0`, ..., of its type). loop_bodies: from the variables to
    their values in the next round.
    """
    sb = ScopeBuilder()
    loop = Var("while_loop")
    fresh = [
        var(v.name_hint if isinstance(v, Var) else f"arg{i}", sb.type_of(v))
        for i, v in enumerate(map(as_expr, loop_vars))
    ]
    with sb.if_scope(cond(*fresh)):
        sb.ret(loop(*[as_expr(v) for v in loop_bodies(*fresh)]))
    with sb.else_scope():
        sb.ret(Tuple(tuple(fresh)))
    return Let(loop, Function(fresh, sb.get()), loop)
