"""Variables that a function binds in several places, made variables of their own: passes know a variable by what binds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tilewright.relay.adt import Clause, Match, pattern_vars
from tilewright.relay.expr import Expr, Function, Let, Var
from tilewright.relay.functor import ExprMutator, contains

T = TypeVar("T")


class _BoundOnce(ExprMutator):
    """Keeps the first binding of each variable, and renames in the scopes of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: set[Var] = set()

    def inside(self, variables: Iterable[Var], make: Callable[[], T]) -> T:
        """The result of `make` for a scope that binds `variables`."""
        fresh: dict[Expr, Var] = {}
        for v in variables:
            if v in self.bound:
                fresh[v] = Var(v.name_hint, v.type_annotation, v.span)
            self.bound.add(v)
        if not fresh:
            return make()
        outer = self.memo_map
        # What names none of them is the same inside and outside, and stays shared.
        self.memo_map = {e: made for e, made in outer.items() if not contains(e, fresh.__contains__)} | fresh
        try:
            return make()
        finally:
            self.memo_map = outer

    def visit_function(self, fn: Function) -> Expr:
        return self.inside(fn.params, lambda: super(_BoundOnce, self).visit_function(fn))

    def visit_let(self, let: Let) -> Expr:
        # A function may call itself by the variable; other values stand outside of its scope.
        value = None if isinstance(let.value, Function) else self.visit(let.value)

        def made() -> Expr:
            var, own = self.visit(let.var), self.visit(let.value) if value is None else value
            return let.replace(var=var, value=own, body=self.visit(let.body))

        return self.inside([let.var], made)

    def visit_match(self, m: Match) -> Expr:
        def clause(c: Clause) -> Clause:
            names = pattern_vars(c.lhs)
            return self.inside(names, lambda: c.replace(lhs=self.visit_pattern(c.lhs), rhs=self.visit(c.rhs)))

        return m.replace(data=self.visit(m.data), clauses=tuple([clause(c) for c in m.clauses]))


def bound_once(func: Function) -> Function:
    """The function in which each variable is bound in one place: of several, the first keeps the variable.

    fn (%x) { let %y = f(%x); match (%y) { Cons(%y, _) => %y } }  ->  fn (%x) { let %y = f(%x); match (%y) { Cons(%y1, _) => %y1 } }
    """
    return _BoundOnce().rewritten_function(func)
