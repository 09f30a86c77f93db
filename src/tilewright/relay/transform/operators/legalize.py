"""Legalize: replaces calls by the results of functions that programs register for operators, for example for a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import as_expr
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.rewriting import Rule, rewrite_calls, typed_pass


def Legalize(legalize_map_attr_name: str = "FTVMLegalize") -> Pass:
    """Replace calls of operators with this attribute (set by `relay.op.register_legalize`) by the result of its
    function of (attrs, args, types of args and result). None leaves the call as it is.
    """

    legalize = legalize_calls(legalize_map_attr_name)
    return typed_pass("Legalize", 1, lambda f, mod: legalize(f))


def legalize_calls(attr: str) -> Callable[[Function], Function]:
    """Rewrites a function by the functions that operators have in this attribute."""

    def rule(call: Call) -> Expr | None:
        legal: Any = call.operator.get_attr(attr)
        if legal is None:
            return None
        found = legal(call.attrs, list(call.args), [*[a.checked_type for a in call.args], call.checked_type])
        return None if found is None else as_expr(found)

    return lambda f: rewrite_calls(f, once(rule))


def once(rule: Rule) -> Rule:
    """A rule that skips the calls it made itself, so that they stay as the program made them."""
    made: set[Expr] = set()

    def ask(call: Call) -> Expr | None:
        if call in made:
            return None
        found = rule(call)
        if isinstance(found, Call):
            made.add(found)
        return found

    return ask


__all__ = ["Legalize", "once"]
