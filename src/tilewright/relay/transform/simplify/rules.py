"""The registry of SimplifyExpr: rewrites of calls by the names of their operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.relay.expr import Call, Expr

Rule = Callable[[Call], Expr | None]
_rules: dict[str, list[Rule]] = {}


def rule(*keys: str) -> Callable[[Rule], Rule]:
    """Registers a rewrite for calls of these operators."""

    def add(f: Rule) -> Rule:
        for key in keys:
            _rules.setdefault(key, []).append(f)
        return f

    return add


def rules_of(key: str) -> Sequence[Rule]:
    """The rewrites for calls of an operator."""
    return _rules.get(key, ())


def operand(call: Call, i: int = 0) -> Call:
    """Argument `i`, which was tested to be a call."""
    e = call.args[i]
    assert isinstance(e, Call)
    return e
