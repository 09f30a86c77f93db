"""ScopeBuilder: lets, ifs and a result, one after another, as an expression."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.ir import IncompleteType, Type
from tilewright.relay.cards.card import as_expr
from tilewright.relay.expr import Expr, If, TupleWrapper, Var
from tilewright.relay.functor import lets_around


class _Block:
    def __init__(self) -> None:
        self.lets: list[tuple[Var, Expr]] = []
        self.result: Expr | None = None

    def expr(self) -> Expr:
        if self.result is None:
            raise ValueError("a scope must end with ret(expression), or an if_scope and an else_scope that do")
        return lets_around(self.lets, self.result)


class ScopeBuilder:
    """Builds a chain of lets as a program runs::

    sb = relay.ScopeBuilder()
    y = sb.let("y", relay.tanh(x))
    with sb.if_scope(cond):
        sb.ret(y)
    with sb.else_scope():
        sb.ret(x)
    body = sb.get()
    """

    def __init__(self) -> None:
        self._blocks = [_Block()]
        self._open_if: tuple[_Block, Expr, Expr] | None = None

    def let(self, var: Var | str | tuple[str, Type | None], value: Any) -> Var:
        """Binds a value to a variable and returns the variable. var: a variable, or the name (and type) of a new one."""
        self._need_open()
        if isinstance(var, tuple):
            var = Var(var[0], var[1])
        elif isinstance(var, str):
            var = Var(var)
        self._blocks[-1].lets.append((var, value.tuple_value if isinstance(value, TupleWrapper) else as_expr(value)))
        return var

    @contextmanager
    def if_scope(self, cond: Expr) -> Iterator[None]:
        """The scope that is evaluated when `cond` holds; an else_scope must follow."""
        self._need_open()
        block = _Block()
        self._blocks.append(block)
        yield
        self._blocks.pop()
        self._open_if = (self._blocks[-1], cond, block.expr())

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The scope that is evaluated when the condition of the if_scope right before does not hold."""
        if self._open_if is None or self._open_if[0] is not self._blocks[-1]:
            raise ValueError("else_scope must come right after an if_scope, but there is none")
        home, cond, yes = self._open_if
        self._open_if = None
        block = _Block()
        self._blocks.append(block)
        yield
        self._blocks.pop()
        home.result = If(cond, yes, block.expr())

    def ret(self, value: Any) -> None:
        """The result of the innermost scope."""
        self._need_open()
        self._blocks[-1].result = as_expr(value)

    def get(self) -> Expr:
        """The expression built."""
        if self._open_if is not None:
            raise ValueError("an if_scope must be followed by an else_scope, but there is none")
        return self._blocks[-1].expr()

    def type_of(self, expr: Expr) -> Type | None:
        """The annotation of a variable (None if it has none); for another expression a hole that inference fills with its
        type: the expression is bound to a variable of that type in this scope."""
        if isinstance(expr, Var):
            return expr.type_annotation
        hole = IncompleteType()
        self.let(Var("unify", hole), expr)
        return hole

    def _need_open(self) -> None:
        if self._open_if is not None:
            raise ValueError("an if_scope must be followed by an else_scope, but there is none")
        if self._blocks[-1].result is not None:
            raise ValueError("this scope has its result already; nothing can come after ret or else_scope")
