"""The source text of parsed programs, so that errors can show its lines."""

from __future__ import annotations

from collections import OrderedDict

from tilewright.ir.span import BaseSpan, SequentialSpan, Span

KEPT = 64
WIDEST = 160
"""Characters of a line that an error shows."""
_sources: OrderedDict[str, str] = OrderedDict()


def remember(name: str, text: str) -> None:
    """Keep the text of a source; the oldest ones are forgotten."""
    _sources[name] = text
    _sources.move_to_end(name)
    while len(_sources) > KEPT:
        _sources.popitem(last=False)


def caret(span: BaseSpan | None) -> str:
    """The source line of a span with its columns marked; "" when the source is not known."""
    if isinstance(span, SequentialSpan):
        return "\n".join(filter(None, map(caret, span.spans)))
    if not isinstance(span, Span) or not span.line:
        return ""
    lines = _sources.get(span.source_name.name, "").split("\n")
    if span.line > len(lines):
        return ""
    end = span.end_column if span.end_line == span.line else len(lines[span.line - 1]) + 1
    return mark(lines[span.line - 1], span.column, end)


def mark(line: str, column: int, end: int) -> str:
    """`line` and under it carets from `column` up to `end` (both counted from 1); of a long line the part around them."""
    end = max(min(end, len(line) + 1), column + 1)
    head, tail = "", ""
    if len(line) > WIDEST:
        first = max(0, column - 1 - WIDEST // 3)
        last = first + WIDEST
        head, tail = "..." if first else "", "..." if last < len(line) else ""
        line, column, end = line[first:last], column - first, min(end - first, WIDEST + 1)
    # Tabs stay tabs, so that the carets stand where a terminal shows what they mean.
    blank = "".join(["\t" if c == "\t" else " " for c in line[: column - 1].ljust(column - 1)])
    return f"  {head}{line}{tail}\n  {' ' * len(head)}{blank}{'^' * (end - column)}"
