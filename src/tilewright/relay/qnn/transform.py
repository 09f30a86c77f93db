"""Passes over quantised operators."""

from __future__ import annotations

from tilewright.ir import Op
from tilewright.ir.transform import Pass
from tilewright.relay.expr import Call, Expr
from tilewright.relay.functor import contains
from tilewright.relay.rewriting import typed_pass
from tilewright.relay.transform.operators.legalize import legalize_calls
from tilewright.relay.transform.simplify.simplify_inference import expand_calls


def Legalize() -> Pass:
    """Calls of quantised operators -> what functions of `relay.qnn.op.register_qnn_legalize` make of them."""
    legalize = legalize_calls("FTVMQnnLegalize")

    def wanted(e: Expr) -> bool:
        return type(e) is Call and type(e.op) is Op and e.op.get_attr("FTVMQnnLegalize") is not None

    return typed_pass("qnn.Legalize", 1, lambda f, mod: legalize(f) if contains(f, wanted) else f)


def CanonicalizeOps() -> Pass:
    """Quantised operators as plain ones on integers and float32; what follows knows no quantised operators."""
    name = "qnn.CanonicalizeOps"
    return typed_pass(name, 0, lambda f, mod: expand_calls(f, name))
