"""Passes over quantised operators."""

from __future__ import annotations

from tilewright.ir.transform import Pass
from tilewright.relay.transform.rewriting import typed_pass
from tilewright.relay.transform.simplify_inference import expand_calls


def CanonicalizeOps() -> Pass:
    """Quantised operators as plain ones on integers and float32; what follows knows no quantised operators."""
    name = "qnn.CanonicalizeOps"
    return typed_pass(name, 0, lambda f, mod: expand_calls(f, name))
