"""FastMath: replaces exp, tanh, erf and softmax by their fast forms."""

from __future__ import annotations

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import find_card
from tilewright.relay.expr import Call, Expr
from tilewright.relay.rewriting import card_of, rewrite_calls, typed_pass

FAST = {"exp": "fast_exp", "tanh": "fast_tanh", "erf": "fast_erf", "nn.softmax": "nn.fast_softmax"}


def _fast(call: Call) -> Expr | None:
    fast = FAST.get(call.operator.name)
    if fast is None:
        return None
    card = card_of(call)
    new = find_card(fast)(**{f.name: getattr(card, f.name) for f in card._fields if f.name != "span"})
    return Call(new.op, call.args, new, (), call.span)


def FastMath() -> Pass:
    """Replace exp, tanh, erf and nn.softmax by fast_exp, fast_tanh, fast_erf and nn.fast_softmax, which can be less
    exact. Builds at the default level do not run it.
    """
    return typed_pass("FastMath", 4, lambda f, mod: rewrite_calls(f, _fast))
