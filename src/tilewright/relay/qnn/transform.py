"""Passes over quantised operators."""

from __future__ import annotations

from tilewright.ir import Op
from tilewright.ir.transform import Pass
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import contains
from tilewright.relay.rewriting import typed_pass
from tilewright.relay.transform.operators.legalize import legalize_calls
from tilewright.relay.transform.simplify.simplify_inference import expand_calls


def Legalize() -> Pass:
    """Calls of quantised operators -> what functions of `relay.qnn.op.register_qnn_legalize` make of them."""
    return typed_pass("qnn.Legalize", 1, lambda f, mod: _by_hooks(f, "FTVMQnnLegalize"))


def _by_hooks(function: Function, attribute: str) -> Function:
    """The function with the calls rewritten whose operators have a hook of that name."""

    def wanted(e: Expr) -> bool:
        return type(e) is Call and type(e.op) is Op and e.op.get_attr(attribute) is not None

    return legalize_calls(attribute)(function) if contains(function, wanted) else function


def CanonicalizeOps() -> Pass:
    """Quantised operators as plain ones on integers and float32, by functions of `relay.qnn.op.register_qnn_canonicalize` where there are
    such; what follows knows no quantised operators."""
    name = "qnn.CanonicalizeOps"
    return typed_pass(name, 0, lambda f, mod: expand_calls(_by_hooks(f, "FTVMQnnCanonicalize"), name))
