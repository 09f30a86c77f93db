"""Printed programs that know where each node stands, and error texts that underline nodes in them."""

from __future__ import annotations

import bisect
import linecache
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.ir.span import SequentialSpan, SourceName
from tilewright.ir.span import Span as SourceSpan
from tilewright.node import Node, deep_recursion
from tilewright.script.doc import Span

# The lines that spans point into, for as long as a span does; a file is not read again, since it may have changed.
_sources: weakref.WeakKeyDictionary[SourceName, Sequence[str]] = weakref.WeakKeyDictionary()


def register_source(name: SourceName, lines: Sequence[str]) -> None:
    """Keeps the lines of a text that spans of `name` point into."""
    _sources[name] = lines


def excerpt(span: SourceSpan, lines: Sequence[str] | None = None, label: str = "", remedy: str = "") -> str:
    """The place of a span and its first line with carets below, followed by `label`; without lines only the place."""
    name = span.source_name
    if lines is None:
        lines = _sources.get(name) or linecache.getlines(name.name)
    if not 0 < span.line <= len(lines):
        place = f" --> {name.name}:{span.line}:{span.column}" if span.line else f" --> {name.name}"
        return f"{place} {label}".rstrip()
    text = lines[span.line - 1].rstrip("\n")
    start = span.column - 1
    stop = span.end_column - 1 if span.end_line == span.line and span.end_column else len(text)
    margin = " " * len(str(span.line))
    shown = text.replace("\t", " ") if "\t" in text[:start] else text.expandtabs(4)
    out = [
        f"{margin}--> {name.name}:{span.line}:{span.column}",
        f"{margin} |",
        f"{span.line} | {shown}".rstrip(),
        f"{margin} | {' ' * start}{'^' * max(1, len(text[start:stop].rstrip()))} {label}".rstrip(),
    ]
    if remedy:
        out.append(f"{margin} = {remedy}")
    return "\n".join(out)


def own_span(node: Any) -> SourceSpan | None:
    """The place in the user's text of a node, or of the variable of a loop; None where it says none."""
    for holder in (node, getattr(node, "loop_var", None)):
        span = getattr(holder, "span", None)
        while isinstance(span, SequentialSpan) and span.spans:
            span = span.spans[0]
        if isinstance(span, SourceSpan):
            return span
    return None


def span_of(node: Any) -> SourceSpan | None:
    """The place in the user's text that a node comes from: its own, or the first inside of it."""
    budget = 10_000

    def find(n: Any) -> SourceSpan | None:
        nonlocal budget
        span = own_span(n)
        if span is not None or not isinstance(n, Node):
            return span
        for f in n._fields:
            value = getattr(n, f.name)
            for child in value if isinstance(value, tuple) else (value,):
                # What stands for a variable or a buffer says where that was made, not where it is used.
                if isinstance(child, Node) and not child._leaf and budget > 0:
                    budget -= 1
                    span = find(child)
                    if span is not None:
                        return span
        return None

    with deep_recursion():
        return find(node)


def located(message: str, *nodes: Any, labels: Mapping[Any, str] | None = None) -> str:
    """`message`, and below it the lines of the user's text that the nodes come from, each once, with their labels."""
    out, seen = [message], set()
    for node in nodes:
        span = span_of(node)
        if span is not None and (place := (span.source_name.name, span.line, span.column, span.end_column)) not in seen:
            seen.add(place)
            out.append(excerpt(span, label="" if labels is None else labels.get(node, "")))
    return "\n".join(out)


def underline(text: str, span: Span, message: str = "", context_lines: int | None = None) -> str:
    """`text` with the characters `span[0]:span[1]` marked by `^` on a line of its own, followed by `message`.

    A span over several lines is marked on its first. With `context_lines`, only that many lines before
    and after are kept and `...` stands for the rest.
    """
    return underline_all(text, [(span, message)], context_lines)


def underline_all(text: str, marks: Iterable[tuple[Span, str]], context_lines: int | None = None) -> str:
    """`underline` for several spans at once; marks on the same line come in the order of their start."""
    lines = text.rstrip("\n").split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    below: dict[int, list[str]] = {}
    for (start, stop), message in sorted(marks, key=lambda m: m[0]):
        row = min(bisect.bisect_right(starts, start) - 1, len(lines) - 1)
        column = start - starts[row]
        width = max(1, min(stop - starts[row], len(lines[row])) - column)
        below.setdefault(row, []).append(f"{' ' * column}{'^' * width} {message}".rstrip())
    kept = set(range(len(lines)))
    if context_lines is not None:
        kept = {r for mark in below for r in range(mark - context_lines, mark + context_lines + 1)}
    out: list[str] = []
    elided = False
    for row, line in enumerate(lines):
        if row in kept:
            out += [line, *below.get(row, ())]
            elided = False
        elif not elided:
            out.append("...")
            elided = True
    return "\n".join(out)


def numbered(text: str) -> str:
    """`text` with the number of each line before it."""
    lines = text.split("\n")
    width = len(str(len(lines)))
    return "\n".join([f"{i:>{width}} {line}".rstrip() for i, line in enumerate(lines, 1)])


class Printed:
    """The text of a program, and where each of its nodes stands in it."""

    __slots__ = ("_nodes", "spans", "text")

    def __init__(self, text: str, spans: Mapping[int, list[Span]], nodes: list[object]) -> None:
        # The nodes are held so that an id in `spans` cannot be taken by another object.
        self.text, self.spans, self._nodes = text, spans, nodes

    def find(self, node: object) -> list[Span]:
        """The character ranges that print `node` (this very object), in order; empty when it was not printed."""
        return sorted(self.spans.get(id(node), ()))

    def line_of(self, node: object) -> int | None:
        """The 1-based line on which `node` first starts."""
        spans = self.find(node)
        return self.text.count("\n", 0, spans[0][0]) + 1 if spans else None

    def underline(self, messages: Iterable[tuple[object, str]], context_lines: int | None = None) -> str:
        """The text with each `(node, message)` marked; nodes that the text does not show are left out."""
        marks = [(span, message) for node, message in messages for span in self.find(node)[:1]]
        return underline_all(self.text, marks, context_lines)

    def __str__(self) -> str:
        return self.text
