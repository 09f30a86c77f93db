"""The texts that programs were parsed from, so that errors about a parsed program can show the line they mean."""

from __future__ import annotations

from collections import OrderedDict

from tilewright.ir.span import BaseSpan, SequentialSpan, Span

KEPT = 64
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
    """`line` and under it carets from `column` up to `end` (both counted from 1)."""
    return f"  {line}\n  {' ' * (column - 1)}{'^' * max(1, min(end, len(line) + 1) - column)}"
