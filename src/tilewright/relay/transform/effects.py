"""Analysis of expressions with effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir import Op
from tilewright.relay.adt import Constructor, Match
from tilewright.relay.expr import Call, Expr, Function, Let, RefCreate, RefRead, RefWrite
from tilewright.relay.functor import children
from tilewright.relay.rewriting import card_of


def evaluated(e: Expr) -> Sequence[Expr]:
    """The expressions under `e` that are evaluated with it. The body of a function is not: it is evaluated at calls."""
    if isinstance(e, Function):
        return ()
    if isinstance(e, Let):
        return (e.value, e.body)
    if isinstance(e, Match):
        return (e.data, *[c.rhs for c in e.clauses])
    return children(e)


def calls_unknown(e: Expr) -> bool:
    """Whether `e` calls a function that is not a kernel, or an operator that is not pure."""
    if not isinstance(e, Call) or isinstance(e.op, Constructor):
        return False
    if type(e.op) is Op:
        return not card_of(e).pure
    return not (isinstance(e.op, Function) and e.op.is_primitive)


def in_order(e: Expr) -> bool:
    """Whether `e` itself (without its operands) has an effect, or depends on one."""
    return isinstance(e, (RefCreate, RefRead, RefWrite)) or calls_unknown(e)


class Effects:
    """Whether `own` holds for an expression or one that is evaluated with it. Each expression is visited once."""

    def __init__(self, own: Callable[[Expr], bool] = in_order) -> None:
        self.own = own
        self.known: dict[Expr, bool] = {}

    def __call__(self, root: Expr) -> bool:
        known = self.known
        stack = [root]
        while stack:
            e = stack[-1]
            if e in known:
                stack.pop()
                continue
            if self.own(e):
                known[e] = True
                continue
            parts = evaluated(e)
            if any([known.get(c, False) for c in parts]):
                known[e] = True
                continue
            waiting = [c for c in parts if c not in known]
            stack += waiting
            if not waiting:
                known[e] = False
        return known[root]
