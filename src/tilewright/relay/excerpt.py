"""The lines of a printed program around one expression, which is underlined: for errors about programs that have no text."""

from __future__ import annotations

from tilewright.ir import GlobalVar
from tilewright.node import deep_recursion
from tilewright.relay.expr import Expr, Function
from tilewright.relay.functor import users
from tilewright.relay.printer import Printer
from tilewright.relay.source_map import WIDEST, mark

BEFORE, AFTER = 3, 1
"""Lines around the one underlined."""


def excerpt(root: Expr, culprit: Expr, name: GlobalVar | None = None) -> str:
    """The head of the function and the printed lines around `culprit`; "" if `culprit` has no line of its own."""
    printer = Printer()
    with deep_recursion():
        printer.shared = {e for e, by in users([root]).items() if len(by) > 1}
        if isinstance(root, Function):
            printer.function(root, f"def @{name.name_hint}" if name is not None else "fn ")
        else:
            printer.indent = -1
            printer.block(root)
    place = printer.places.get(culprit)
    if place is None:
        return ""
    at, start, end = place
    first, last = max(0, at - BEFORE), min(len(printer.lines), at + AFTER + 1)
    shown: list[str] = []
    if first > 0 and isinstance(root, Function):
        shown.append("  " + _cut(printer.lines[0]))
        first = max(first, 1)
    if first > 1:
        shown.append("    ...")
    shown += ["  " + _cut(line) for line in printer.lines[first:at]]
    shown.append(mark(printer.lines[at], start + 1, end + 1))
    shown += ["  " + _cut(line) for line in printer.lines[at + 1 : last]]
    if last < len(printer.lines):
        shown.append("    ...")
    return "\n".join(shown)


def _cut(line: str) -> str:
    return line if len(line) <= WIDEST else line[: WIDEST - 3] + "..."
