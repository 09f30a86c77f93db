"""SimplifyInference and CanonicalizeOps: expand operators to simpler ones by their cards."""

from __future__ import annotations

from tilewright.ir import Op
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function, const
from tilewright.relay.functor import contains
from tilewright.relay.op.arithmetic import elemwise
from tilewright.relay.rewriting import card_of, is_op, rewrite_calls, tensor_of, typed, typed_pass


def expand_call(call: Call, pass_name: str) -> Expr | None:
    """The result of the card's `expand` if it is meant for `pass_name`; else None."""
    card = card_of(call)
    if card.expand_in != pass_name or not card.expands():
        return None
    return card.expand(*call.args)


def expand_calls(f: Function, pass_name: str) -> Function:
    """The function with the operators for `pass_name` expanded. A function without such operators is only scanned."""

    def wanted(e: Expr) -> bool:
        return type(e) is Call and type(e.op) is Op and card_of(e).expand_in == pass_name

    return rewrite_calls(f, lambda c: expand_call(c, pass_name)) if contains(f, wanted) else f


def along_axis(call: Call) -> Expr:
    """The vector argument of bias_add or prelu, shaped to broadcast with the data along the axis."""
    ndim = len(tensor_of(call.args[0]).shape)
    axis = card_of(call, elemwise.AlongAxis).axis % ndim
    trailing = ndim - axis - 1
    if trailing == 0:
        return call.args[1]
    return typed(constructor("expand_dims")(call.args[1], 1, trailing))


def canonical(call: Call) -> Expr | None:
    """bias_add(x, b) -> x + b; prelu(x, a) -> relu(x) + a * min(x, 0). Cards may add more rules."""
    if is_op(call, "nn.bias_add"):
        return constructor("add")(call.args[0], along_axis(call))
    if is_op(call, "nn.prelu"):
        x = call.args[0]
        zero = const(0, tensor_of(x).dtype)
        negative = constructor("multiply")(constructor("minimum")(x, zero), along_axis(call))
        return constructor("add")(constructor("nn.relu")(x), negative)
    return expand_call(call, "CanonicalizeOps")


def SimplifyInference() -> Pass:
    """Simplify operators for inference: batch_norm becomes scale and shift, dropout is removed."""
    return typed_pass("SimplifyInference", 0, lambda f, mod: expand_calls(f, "SimplifyInference"))


def CanonicalizeOps() -> Pass:
    """Replace convenience operators (bias_add) by basic ones, so that later passes handle fewer operators."""
    return typed_pass("CanonicalizeOps", 2, lambda f, mod: rewrite_calls(f, canonical))
