"""Functors, visitors and mutators for user programs, as classic TVM has them: a method decides what below it is visited, and
when. The mixed-mode ones visit operands first, without recursion; relay's own passes are made of those."""

from __future__ import annotations

from tilewright.relay import functor
from tilewright.relay.expr import Expr, Let
from tilewright.relay.functor import R
from tilewright.support.errors import TVMError

__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor", "MixedModeMutator", "MixedModeVisitor"]

MixedModeVisitor = functor.ExprVisitor
MixedModeMutator = functor.ExprMutator


class ExprFunctor(functor.Functor[R]):
    """A function of expressions by cases: define visit_call, visit_var and the like. Results are kept by expression, so
    a shared one is visited once. Programs may be tens of thousands of calls deep."""

    def visit(self, expr: Expr) -> R:
        """The result for `expr`: that of its kind's method, at its first visit."""
        memo = self.memo_map
        if expr in memo:
            return memo[expr]
        if not self._entered:
            return self._first(expr)
        method = self._table.get(type(expr))
        if method is None:
            raise TypeError(f"{type(self).__name__}.visit takes a relay expression, but was given {expr!r}")
        result: R = method(self, expr)
        memo[expr] = result
        return result

    def _first(self, expr: Expr) -> R:
        try:
            return super()._first(expr)
        except RecursionError:
            raise TVMError(
                f"{type(self).__name__} went deeper than Python allows. Derive it from relay.expr_functor.MixedModeMutator"
                " or MixedModeVisitor, which do not recurse along operands"
            ) from None


class ExprVisitor(ExprFunctor[None], functor.ExprVisitor):
    """Visits everything below an expression, each part once. A method that does not call `super()` visits nothing below."""

    def visit_let(self, let: Let) -> None:
        self.visit(let.var)
        self.visit(let.value)
        self.visit(let.body)


class ExprMutator(ExprFunctor[Expr], functor.ExprMutator):
    """Rewrites an expression; a method gets it as it was, and decides what of it is rewritten. What does not change comes back
    as the same object."""

    def visit_let(self, let: Let) -> Expr:
        return let.replace(var=self.visit(let.var), value=self.visit(let.value), body=self.visit(let.body))
