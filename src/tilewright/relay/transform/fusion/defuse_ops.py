"""DefuseOps: replaces primitive functions by their operators; the inverse of FuseOps."""

from __future__ import annotations

from tilewright.ir.transform import Pass
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import ExprMutator, substitute
from tilewright.relay.rewriting import typed_pass


class _Defuse(ExprMutator):
    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if isinstance(new, Call) and isinstance(new.op, Function) and new.op.is_primitive:
            return substitute(new.op.body, dict(zip(new.op.params, new.args, strict=True)))
        return new


def DefuseOps() -> Pass:
    """Replace calls of primitive functions by the operators in them: the inverse of FuseOps."""
    return typed_pass("DefuseOps", 0, lambda f, mod: _Defuse().rewritten_function(f))
