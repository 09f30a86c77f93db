"""ConstantsToArguments: constants in primitive functions become arguments of their calls.

    fn (%p0) { dense(%p0, meta[..]) }(%x)   ->   fn (%p0, %p1) { dense(%p0, %p1) }(%x, meta[..])

A build keeps all constants in one place of the library, and a kernel gets them as operands. Numbers stay in its code. Programs fuse with
"relay.FuseOps.link_params", or write such functions.
"""

from __future__ import annotations

from tilewright.ir.transform import Pass
from tilewright.relay.expr import Call, Constant, Expr, Function, Var
from tilewright.relay.functor import ExprMutator, post_order, substitute
from tilewright.relay.rewriting import typed, typed_pass


class _Lift(ExprMutator):
    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else super().visit_function(fn)

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if not (isinstance(new, Call) and isinstance(new.op, Function) and new.op.is_primitive):
            return new
        func = new.op
        held = [e for e in post_order(func.body) if type(e) is Constant and e.data.ndim > 0]
        if not held or "Compiler" in (func.attrs or {}):
            return new
        fresh: dict[Expr, Expr] = {
            c: Var(f"p{len(func.params) + i}", typed(c).checked_type) for i, c in enumerate(held)
        }
        body = substitute(func.body, fresh)
        lifted = typed(func.replace(params=(*func.params, *fresh.values()), body=body))
        return typed(Call(lifted, (*new.args, *held), new.attrs, (), new.span))


def ConstantsToArguments() -> Pass:
    """Give the constants of primitive functions as arguments."""
    return typed_pass("ConstantsToArguments", 0, lambda f, mod: _Lift().rewritten_function(f))


__all__ = ["ConstantsToArguments"]
