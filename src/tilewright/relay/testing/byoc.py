"""Regions of programs for the example of a code generator, `ccompiler`."""

from __future__ import annotations

from typing import Any

from tilewright.relay.expr import Call, Expr, Var
from tilewright.relay.expr_functor import ExprMutator
from tilewright.relay.op import annotation

OPERATORS = ("add", "subtract", "multiply")


class CcompilerAnnotator(ExprMutator):
    """Marks the products of a program with the sums and differences that they are made of: they begin at variables and end at the product.

    `transform.PartitionGraph` makes a function for `ccompiler` of each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.in_compiler = 0

    def visit_call(self, call: Call) -> Expr:
        name = getattr(call.op, "name", "")
        outermost = name == "multiply" and not self.in_compiler
        if name not in OPERATORS or not (self.in_compiler or outermost):
            made: Expr = super().visit_call(call)
            return made
        self.in_compiler += 1
        args = [self._begun(self.visit(a)) for a in call.args]
        self.in_compiler -= 1
        product = Call(call.op, args, call.attrs, call.type_args, call.span)
        return annotation.compiler_end(product, "ccompiler") if outermost else product

    @staticmethod
    def _begun(value: Any) -> Expr:
        begun: Expr = annotation.compiler_begin(value, "ccompiler") if isinstance(value, Var) else value
        return begun
