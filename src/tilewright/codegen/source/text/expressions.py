"""Rules for expressions that C-like languages write alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.codegen.source.text.operands import CHOICE, CONNECTION, PRODUCT, RELATION, SUM, UNARY, Text, string
from tilewright.codegen.source.text.writer import Writer
from tilewright.ir import DataType, PrimExpr, structural_equal
from tilewright.tir import Add, And, Call, Let, Mul, Not, Select, StringImm, Sub, Var
from tilewright.tir.scalars import BINARY

if TYPE_CHECKING:
    from tilewright.tir.expr import BinaryOpExpr, Or

STRENGTH: dict[type, int] = {Add: SUM, Sub: SUM, Mul: PRODUCT}


class Expressions(Writer):
    """Rules for variables, signs and choices, as a part of a function's emitter."""

    def on_choose(self, e: Call) -> Text:
        condition, a, b = e.args
        return self.lazy(self.expr(condition), lambda: self.expr(a), lambda: self.expr(b), e.dtype)

    def on_likely(self, e: Call) -> Text:
        return self.expr(e.args[0])

    in_index = False
    """Whether an index is being computed. An index is in bounds, so its arithmetic does not wrap around."""

    def index(self, e: PrimExpr) -> Text:
        """The operand of a part of an index."""
        outer, self.in_index = self.in_index, True
        text = self.expr(e)
        self.in_index = outer
        return text

    def function(self, name: str, *args: str) -> Text:
        return Text(f"{name}({', '.join(args)})")

    def on_var(self, e: Var) -> Text:
        found = self.variables.get(e)
        if found is None:
            raise self.error(f"variable {e.name} is used but never defined", e)
        return found

    def on_string(self, e: StringImm) -> Text:
        return string(e.value)

    def signed(self, e: Add | Sub | Mul) -> Text:
        """A sum, a difference or a product by its sign."""
        strength = STRENGTH[type(e)]
        a, b = self.expr(e.a), self.expr(e.b)
        return Text(f"{a.at(strength)} {BINARY[type(e)].sign} {b.at(strength + 1)}", strength)

    def on_compare(self, e: BinaryOpExpr) -> Text:
        a, b = self.expr(e.a), self.expr(e.b)
        return Text(f"{a.at(RELATION + 1)} {BINARY[type(e)].sign} {b.at(RELATION + 1)}", RELATION)

    def on_connect(self, e: And | Or) -> Text:
        sign = "&&" if type(e) is And else "||"
        a = self.expr(e.a)
        lines, b = self.inside(lambda: self.expr(e.b))
        if not lines:
            # Mixed operators get parentheses that C does not need, for readers and compilers' warnings.
            strength = RELATION if type(e.a) is not type(e) else CONNECTION
            return Text(f"{a.at(strength)} {sign} {b.at(RELATION)}", CONNECTION)
        zero, one = (lambda: Text("0")), (lambda: Text("1"))
        value = lambda: self.expr(e.b)  # noqa: E731
        return self.lazy(a, value, zero, e.dtype) if type(e) is And else self.lazy(a, one, value, e.dtype)

    def on_negate(self, e: Not) -> Text:
        return Text(f"!{self.expr(e.a).at(UNARY)}", UNARY)

    def on_select(self, e: Select) -> Text:
        c, a, b = self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value)
        return Text(f"{c.at(CHOICE + 1)} ? {a.at(CHOICE + 1)} : {b.at(CHOICE + 1)}", CHOICE)

    def cast_text(self, text: Text, dtype: DataType) -> Text:
        return Text(f"({self.type_text(dtype)}){text.at(UNARY)}", UNARY)

    def on_let(self, e: Let) -> Text:
        self.bind(e.var, e.value)
        return self.expr(e.body)

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Binds `var` to `value` from here on."""
        text = self.expr(value)
        found = self.range_of(value)
        self.variables[var] = self.temporary(text, var.dtype, var.name)
        if found is not None:
            self.ranges[var] = found
        else:
            self.ranges.pop(var, None)


def same_products(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two expressions are products of the same factors. A fused difference of them is the rounding error of one product
    instead of 0."""
    if type(a) is not Mul or type(b) is not Mul:
        return False
    return any([structural_equal(a.a, c) and structural_equal(a.b, d) for c, d in ((b.a, b.b), (b.b, b.a))])


__all__ = ["STRENGTH", "Expressions", "same_products"]
