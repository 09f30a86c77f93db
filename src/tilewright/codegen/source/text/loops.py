"""Rules for statements that C-like languages write alike: sequences, loops, conditionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from tilewright.codegen.source.text.offsets import Offsets
from tilewright.codegen.source.text.operands import UNARY, Text
from tilewright.codegen.source.text.writer import Scope
from tilewright.ir import IntImm, PrimExpr
from tilewright.tir import Evaluate, For, IfThenElse, Prefetch, SeqStmt, Stmt, Var, While
from tilewright.tir.scalars import fits

if TYPE_CHECKING:
    from tilewright.tir.stmt import DeclBuffer


class Statements(Offsets):
    """Rules for statements, as a part of a function's emitter."""

    _stmts: ClassVar[dict[type, Callable[..., None]]] = {}

    def stmt(self, s: Stmt) -> None:
        method = self._stmts.get(type(s))
        if method is None:
            raise self.error(
                f"{type(s).__name__} must be lowered before code generation (run the lowering pipeline)", s
            )
        method(self, s)

    def block(self, s: Stmt) -> None:
        """Writes a statement one level deeper."""
        self.scopes.append(Scope(self.scopes[-1].depth + 1))
        self.stmt(s)
        lines = self.scopes.pop().lines
        self.scopes[-1].lines += lines
        self.forget()

    def on_sequence(self, s: SeqStmt) -> None:
        for item in s.seq:
            self.stmt(item)
            self.forget()

    def on_hint(self, s: Prefetch) -> None:
        """Ignores a prefetch that the schedule did not turn into calls."""

    def on_evaluate(self, s: Evaluate) -> None:
        if type(s.value) is IntImm:
            return
        text = self.expr(s.value)
        if not text.isidentifier() and text != "0":
            self.line(f"(void)({text});")

    def on_declaration(self, s: DeclBuffer) -> None:
        self.stmt(s.body)

    def bounds(self, s: For) -> tuple[Text, Text]:
        """(first value of the loop variable, end)."""
        known_low, known_count = self.range_of(s.min), self.range_of(s.extent)
        self.ranges.pop(s.loop_var, None)
        if known_low is not None:
            most = known_low[1] + known_count[1] - 1 if known_count is not None else (1 << 31) - 1
            if fits((known_low[0], most), s.loop_var.dtype):
                self.ranges[s.loop_var] = known_low[0], max(most, known_low[0])
        end: PrimExpr = s.extent if isinstance(s.min, IntImm) and s.min.value == 0 else s.min + s.extent
        low, high = self.index(s.min), self.index(end)
        if not isinstance(end, (IntImm, Var)):
            high = self.temporary(high, s.loop_var.dtype, f"{s.loop_var.name}_end")
        return low, high

    def counted(self, s: For, low: str, high: str) -> None:
        """Writes a loop over low, ..., high - 1."""
        name = self.names.fresh(s.loop_var.name)
        self.variables[s.loop_var] = Text(name)
        self.line(f"for ({self.type_text(s.loop_var.dtype)} {name} = {low}; {name} < {high}; ++{name}) {{")
        self.forget()
        self.block(s.body)
        self.line("}")

    def on_while(self, s: While) -> None:
        self.forget()
        lines, condition = self.inside(lambda: self.expr(s.condition))
        if not lines:
            self.line(f"while ({condition}) {{")
        else:
            self.line("for (;;) {")
            self.scopes[-1].lines += lines
            self.line(f"  if (!{condition.at(UNARY)}) break;")
        self.block(s.body)
        self.line("}")

    def on_if(self, s: IfThenElse) -> None:
        condition = self.expr(s.condition)
        self.line(f"if ({condition}) {{")
        self.block(s.then_case)
        if s.else_case is not None:
            self.line("} else {")
            self.block(s.else_case)
        self.line("}")


__all__ = ["Statements"]
