"""Printed programs that know where each node stands, and error texts that underline nodes in them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping

from tilewright.script.doc import Span


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
