"""An error of type inference: its place and its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir import FuncType, GlobalVar, IRModule, Type
from tilewright.ir.diagnostics import refuse
from tilewright.relay.adt import Match
from tilewright.relay.cards.card import TypeRuleError
from tilewright.relay.excerpt import excerpt
from tilewright.relay.expr import Call, Constant, Expr, Function, Var
from tilewright.relay.printer import Printer
from tilewright.relay.source_map import caret
from tilewright.relay.texts import span_text, type_text
from tilewright.relay.typing.match_coverage import unmatched_cases
from tilewright.support.errors import DiagnosticError

MAX_FINDINGS = 16
MAX_EXCERPTS = 3


class Findings:
    """The errors found in a program, in the order found."""

    def __init__(self, mod: IRModule | None) -> None:
        self.mod = mod
        self.active: dict[GlobalVar, FuncType] = {}
        """The functions that are looked at, the innermost last, with what is known of their types."""
        self.root: Expr | None = None
        """The expression, if it is not a function of a module."""
        self.findings: list[str] = []
        self.found_at: list[tuple[Any, str]] = []

    def report(self, expr: Expr, text: str) -> None:
        """Note an error about an expression; with too many of them, raise."""
        span = getattr(expr, "span", None)
        where = span_text(span)
        shown = caret(span)
        # What came from a text or a model is found by its place there.
        if not where and not shown and len(self.findings) < MAX_EXCERPTS:
            shown = self.excerpt(expr)
        self.findings.append((f"{where}: " if where else "") + text + (f"\n{shown}" if shown else ""))
        self.found_at.append((span, text))
        if len(self.findings) >= MAX_FINDINGS:
            self.finish()

    def finish(self) -> None:
        """Raise DiagnosticError if something was found."""
        if self.findings:
            raise self.error()

    def excerpt(self, culprit: Expr) -> str:
        """The lines around an expression of a program that was not read from a text."""
        roots: dict[Any, GlobalVar | None] = {} if self.root is None else {self.root: None}
        if self.mod is not None:
            # What waited for its operands' types is found wrong after its function: any one may be meant.
            named = {g: f for g in (*reversed(self.active), *self.mod.functions) if (f := self.mod.functions[g])}
            roots.update({f: g for g, f in named.items() if isinstance(f, Function)})
        texts = (excerpt(root, culprit, gvar) for root, gvar in roots.items())
        return next(filter(None, texts), "")

    def covers(self, e: Match) -> bool:
        """Whether a match that promises to fit every value does."""
        if not e.complete:
            return True
        missing = unmatched_cases(e, self.mod)
        if missing:
            printer = Printer()
            cases = ", ".join([printer.pattern(p) for p in missing[:5]])
            self.report(
                e,
                f"the match has no clause for {cases}. Add one, or write `match?` (Match(..., complete=False)) to leave it open",
            )
        return not missing

    def error(self) -> DiagnosticError:
        """All findings as one error, given to the program's renderer if it set one."""
        count = len(self.findings)
        head = "" if count == 1 else f"type inference found {count} errors\n"
        return refuse(head + "\n".join(self.findings), self.found_at, self.mod)


def rule_text(e: Call, names: Sequence[str], types: Sequence[Type], error: TypeRuleError) -> str:
    """Operator, argument, rule, finding, and the call with its arguments' types."""
    arg = ""
    if error.arg is not None and error.arg < len(types):
        arg = f", argument {error.arg}" + (f" ({names[error.arg]})" if error.arg < len(names) else "")
    remedy = f"\n  {error.remedy}" if error.remedy else ""
    return f"{e.operator.name}{arg}: {error.rule}, but {error.finding}{remedy}\n{call_text(e, names, types)}"


def call_text(e: Call, names: Sequence[str], types: Sequence[Type]) -> str:
    """The call on one line, then a line per argument with its type."""
    printer = Printer(types=False)
    for i, a in enumerate(e.args):
        if not isinstance(a, (Var, Constant)):
            printer.names[a] = f"%{i}"
    lines = [f"  in {printer.call(e)}"]
    for i, t in enumerate(types):
        name = names[i] if i < len(names) else f"argument {i}"
        lines.append(f"     {name}: {type_text(t)}")
    return "\n".join(lines)
