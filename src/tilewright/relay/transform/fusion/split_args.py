"""SplitArgs: splits concatenations of very many operands into nested ones."""

from __future__ import annotations

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Tuple
from tilewright.relay.op.movement import reshaping
from tilewright.relay.rewriting import card_of, is_op, rewrite_calls, typed, typed_pass


def SplitArgs(max_function_args: int) -> Pass:
    """Divide concatenations of more than `max_function_args` operands into several, separated by
    annotation.stop_fusion, for targets that limit the arguments of a kernel. 0: no limit.
    """

    def rule(call: Call) -> Expr | None:
        if max_function_args <= 1 or not is_op(call, "concatenate") or not isinstance(call.args[0], Tuple):
            return None
        fields = call.args[0].fields
        if len(fields) <= max_function_args:
            return None
        axis = card_of(call, reshaping.concatenate).axis
        parts = []
        for start in range(0, len(fields), max_function_args):
            chunk = fields[start : start + max_function_args]
            part = chunk[0] if len(chunk) == 1 else constructor("concatenate")(typed(Tuple(tuple(chunk))), axis=axis)
            parts.append(typed(constructor("annotation.stop_fusion")(typed(part))))
        return constructor("concatenate")(typed(Tuple(tuple(parts))), axis=axis)

    return typed_pass("SplitArgs", 1, lambda f, mod: rewrite_calls(f, rule))
