"""The words of relay text, each with its place."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from tilewright.ir import SourceName, Span
from tilewright.ir.diagnostics import refuse
from tilewright.relay.source_map import mark


class Token(NamedTuple):
    """`kind` is "var", "graph", "global", "number", "string", "name", "end", or the punctuation itself."""

    kind: str
    text: str
    start: int
    end: int


_IDENT = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_WORDS = re.compile(
    rf"""(?P<space>\s+|//[^\n]*)
    |(?P<graph>%\d+)
    |(?P<var>%(?:{_IDENT}|{_STRING}))
    |(?P<global>@(?:{_IDENT}|{_STRING}))
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:[fiu]\d*)?)
    |(?P<string>{_STRING})
    |(?P<name>{_IDENT})
    |(?P<punct>\#\[|->|=>|==|!=|<=|>=|[()\[\]{{}},;:=.?+\-*/<>])""",
    re.VERBOSE | re.DOTALL,
)
_INDEX = re.compile(r"\d+")
_COMMENT = re.compile(r"/\*|\*/")


class Source:
    """A text and its name; errors show the line."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, from 1."""
        line = self.text.count("\n", 0, offset) + 1
        return line, offset - self.text.rfind("\n", 0, offset)

    def fail(self, message: str, start: int, end: int) -> NoReturn:
        """Raise DiagnosticError with the line and carets under the characters from `start` to `end`."""
        line, column = self.place(start)
        shown = mark(self.text.split("\n")[line - 1], column, column + max(1, end - start))
        text = f"{self.name}:{line}:{column}: {message}\n{shown}"
        raise refuse(text, [(Span(SourceName(self.name), line, line, column, column + max(1, end - start)), message)])


def tokens(source: Source) -> list[Token]:
    """All words, comments left out, and an "end" after them. Raises DiagnosticError at what is not a word."""
    found: list[Token] = []
    at, text = 0, source.text
    while at < len(text):
        # After a dot stands the index of a tuple's element: `%0.1.0` has no number 1.0 in it.
        index = _INDEX.match(text, at) if found and found[-1].kind == "." else None
        if index:
            found.append(Token("number", index.group(), at, index.end()))
            at = index.end()
            continue
        if text.startswith("/*", at):
            at = comment_end(source, at)
            continue
        word = _WORDS.match(text, at)
        if word is None:
            if text[at] == '"' or text[at : at + 2] in ('%"', '@"'):
                source.fail('this string has no closing `"` on its line', at, at + 1)
            source.fail(f"no relay word starts with {text[at]!r}", at, at + 1)
        kind = word.lastgroup or ""
        if kind != "space":
            found.append(Token(word.group() if kind == "punct" else kind, word.group(), at, word.end()))
        at = word.end()
    found.append(Token("end", "the end of the text", at, at))
    return found


def comment_end(source: Source, start: int) -> int:
    """The end of the comment that starts at a place; comments nest. Raises DiagnosticError for one without an end."""
    depth, at = 0, start
    while depth or at == start:
        found = _COMMENT.search(source.text, at)
        if found is None:
            source.fail("this comment has no closing `*/`", start, start + 2)
        depth += 1 if found.group() == "/*" else -1
        at = found.end()
    return at
