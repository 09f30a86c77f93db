"""SimplifyInference and CanonicalizeOps: operators whose card says how become simpler operators."""

from __future__ import annotations

from typing import Any

from tilewright.relay.expr import Call, Expr
from tilewright.relay.transform.rewriting import card_of, function_pass, rewrite_calls


def expand_call(call: Call, pass_name: str) -> Expr | None:
    """What the card's `expand` makes of a call when it is meant for `pass_name`."""
    card = card_of(call)
    if card.expand_in != pass_name or not card.expands():
        return None
    result = card.expand(*call.args)
    return getattr(result, "tuple_value", result)  # type: ignore[no-any-return]


def _expanding(name: str, opt_level: int) -> Any:
    return function_pass(name, opt_level, lambda f, mod: rewrite_calls(f, lambda call: expand_call(call, name)))


def SimplifyInference() -> Any:  # noqa: N802
    """Operators as they are at inference: batch_norm becomes scale and shift, dropout nothing."""
    return _expanding("SimplifyInference", 0)


def CanonicalizeOps() -> Any:  # noqa: N802
    """Convenience operators (bias_add) become basic ones, so that later passes know fewer."""
    return _expanding("CanonicalizeOps", 3)
