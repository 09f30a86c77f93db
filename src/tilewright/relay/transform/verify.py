"""Verifier of relay functions: scopes, and types against the operators' rules. Used by `PassVerifier`."""

from __future__ import annotations

from tilewright.ir import BaseFunc, IRModule, Op
from tilewright.relay.analysis.well_formedness import function_findings
from tilewright.relay.cards.card import OpCard
from tilewright.relay.expr import Call
from tilewright.relay.functor import post_order
from tilewright.relay.texts import type_text
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import type_of
from tilewright.support.errors import TVMError


def faults(func: BaseFunc, mod: IRModule) -> list[str]:
    """The faults of a function of a module, in words."""
    found = function_findings(func, set())
    if found:
        return found
    try:
        infer_module(mod)
    except TVMError as error:
        return [str(error)]
    return [text for e in post_order(func) if isinstance(e, Call) for text in _wrong_type(e)]


def _wrong_type(call: Call) -> list[str]:
    """The error of an operator call whose stored type differs from its rule's result."""
    kept, operands = type_of(call), [type_of(a) for a in call.args]
    if type(call.op) is not Op or not isinstance(call.attrs, OpCard) or kept is None or None in operands:
        return []
    try:
        found = call.attrs.infer(*operands)
    except Exception as error:
        return [f"{call.op.name} does not take its operands: {error}"]
    if found == kept:
        return []
    return [f"{call.op.name} is said to be {type_text(kept)}, but is {type_text(found)} by its type rule"]


def size(func: BaseFunc) -> int:
    """The number of expressions of a function."""
    return sum([1 for _ in post_order(func)])
