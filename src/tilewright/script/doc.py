"""Documents: what a dialect's printer hooks return, and their rendering to text with node -> text spans.

An expression document is a tree of text pieces with a precedence; a statement document is a line, a
suite (header and indented body), a comment or a group of these. A document may name the node that it
prints; rendering records where that node's text starts and ends. Of a suite only the header counts,
so that underlining a loop marks its `for` line and not its whole body.
"""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Python's precedences; a child that binds looser than its place asks for is put in parentheses.
LAMBDA, TERNARY, OR, AND, NOT, COMPARE, BITOR, BITXOR, BITAND, SHIFT, SUM, PRODUCT, UNARY, POWER, ATOM = range(15)


class Expr:
    """An expression: text pieces and sub-expressions, how tightly it binds, and the node it prints."""

    __slots__ = ("node", "parts", "prec")

    def __init__(self, parts: tuple[str | Expr, ...], prec: int = ATOM, node: object = None) -> None:
        self.parts, self.prec, self.node = parts, prec, node

    def at(self, prec: int) -> Expr:
        """This expression as an operand of a place that needs at least `prec`."""
        return self if self.prec >= prec else Expr(("(", self, ")"))

    def of(self, node: object) -> Expr:
        """The same text, recorded as the text of `node` too."""
        if self.node is None:
            return Expr(self.parts, self.prec, node)
        return Expr((self,), self.prec, node)

    def attr(self, name: str) -> Expr:
        # `1.x` would be a float and a name.
        owner = Expr(("(", self, ")")) if self._is_integer() else self.at(ATOM)
        return Expr((owner, "." + name))

    def _is_integer(self) -> bool:
        whole: str | Expr = self
        while isinstance(whole, Expr) and len(whole.parts) == 1:
            whole = whole.parts[0]
        return isinstance(whole, str) and whole.isdecimal()

    def call(self, *args: Expr | str, **kwargs: Expr | str) -> Expr:
        parts: list[str | Expr] = [self.at(ATOM), "("]
        parts += _joined([*args, *(Expr((f"{k}=", v), LAMBDA) for k, v in kwargs.items())])
        return Expr((*parts, ")"))

    def index(self, indices: Sequence[Expr]) -> Expr:
        if not indices:
            return Expr((self.at(ATOM), "[()]"))
        return Expr((self.at(ATOM), "[", *_joined(indices), "]"))

    def __str__(self) -> str:
        out = Writer()
        out.expr(self)
        return "".join(out.pieces)


def _joined(items: Iterable[Expr | str]) -> list[str | Expr]:
    parts: list[str | Expr] = []
    for item in items:
        if parts:
            parts.append(", ")
        parts.append(item)
    return parts


def text(value: str) -> Expr:
    return Expr((value,))


def literal(value: str | int | float | bool | None) -> Expr:
    """A Python literal. Negative numbers bind like a unary minus; infinities and NaN become strings."""
    if isinstance(value, str):
        return text(quoted(value))
    shown = float_text(value) if isinstance(value, float) else repr(value)
    return Expr((shown,), UNARY if shown.startswith("-") else ATOM)


def quoted(value: str) -> str:
    """A double-quoted Python string literal."""
    # JSON's escapes are Python's too, as long as characters stand for themselves.
    return json.dumps(value, ensure_ascii=False)


def float_text(value: float) -> str:
    """The shortest text that reads back to the same double; `"inf"`, `"-inf"` and `"nan"` quoted."""
    if value != value or value in (float("inf"), float("-inf")):
        return f'"{value}"'
    return repr(value)


def binary(op: str, prec: int, lhs: Expr, rhs: Expr) -> Expr:
    """A left-associative operator; comparisons never chain."""
    return Expr((lhs.at(prec + 1 if prec == COMPARE else prec), f" {op} ", rhs.at(prec + 1)), prec)


def unary(op: str, prec: int, operand: Expr) -> Expr:
    return Expr((op, operand.at(prec)), prec)


def tuple_(items: Sequence[Expr]) -> Expr:
    if len(items) == 1:
        return Expr(("(", items[0], ",)"))
    return Expr(("(", *_joined(items), ")"))


def bare_tuple(items: Sequence[Expr]) -> Expr:
    """`a, b` without parentheses, for the left side of an assignment."""
    return items[0] if len(items) == 1 else Expr(tuple(_joined(items)), LAMBDA)


def list_(items: Sequence[Expr]) -> Expr:
    return Expr(("[", *_joined(items), "]"))


def dict_(items: Sequence[tuple[Expr, Expr]]) -> Expr:
    return Expr(("{", *_joined([Expr((k, ": ", v), LAMBDA) for k, v in items]), "}"))


def slice_(start: Expr, stop: Expr, step: Expr | None = None) -> Expr:
    parts: tuple[str | Expr, ...] = (start, ":", stop)
    return Expr(parts if step is None else (*parts, ":", step), LAMBDA)


def lambda_(params: Sequence[str], body: Expr) -> Expr:
    return Expr((f"lambda {', '.join(params)}: ", body), LAMBDA)


class Stmt:
    """Base of statement documents."""

    __slots__ = ("node",)
    node: object


class Line(Stmt):
    """One line of code."""

    __slots__ = ("expr",)

    def __init__(self, *parts: str | Expr, node: object = None) -> None:
        self.expr, self.node = Expr(parts, LAMBDA), node


class Comment(Stmt):
    """One or more comment lines."""

    __slots__ = ("value",)

    def __init__(self, value: str, node: object = None) -> None:
        self.value, self.node = value, node


class Blank(Stmt):
    """An empty line."""

    __slots__ = ()

    def __init__(self) -> None:
        self.node = None


class Group(Stmt):
    """Statements at the same indentation."""

    __slots__ = ("body",)

    def __init__(self, body: Sequence[Stmt]) -> None:
        self.body, self.node = body, None


class Suite(Stmt):
    """`header:` and an indented body; the span is that of the header line."""

    __slots__ = ("body", "decorators", "header")

    def __init__(
        self, header: Sequence[str | Expr], body: Sequence[Stmt], node: object = None, decorators: Sequence[str] = ()
    ) -> None:
        self.header, self.body, self.node, self.decorators = Expr(tuple(header), LAMBDA), body, node, decorators


def assign(target: Expr, value: Expr, annotation: Expr | None = None, node: object = None) -> Line:
    if annotation is None:
        return Line(target, " = ", value, node=node)
    return Line(target, ": ", annotation, " = ", value, node=node)


def is_empty(doc: Stmt) -> bool:
    """Whether a statement document has no code, so that a suite around it needs `pass`."""
    if isinstance(doc, Group):
        return all(is_empty(d) for d in doc.body)
    return isinstance(doc, (Comment, Blank))


Span = tuple[int, int]


class Writer:
    """Renders documents; `spans[id(node)]` are the half-open character ranges of a node's text."""

    def __init__(self, indent_spaces: int = 4) -> None:
        self.pieces: list[str] = []
        self.length = 0
        self.spans: dict[int, list[Span]] = {}
        self.nodes: list[object] = []
        self._indent = " " * indent_spaces

    def put(self, value: str) -> None:
        self.pieces.append(value)
        self.length += len(value)

    def record(self, node: object, start: int) -> None:
        self.spans.setdefault(id(node), []).append((start, self.length))
        self.nodes.append(node)

    def expr(self, doc: Expr | str) -> None:
        if isinstance(doc, str):
            self.put(doc)
            return
        start = self.length
        for part in doc.parts:
            if isinstance(part, str):
                self.pieces.append(part)
                self.length += len(part)
            else:
                self.expr(part)
        if doc.node is not None:
            self.record(doc.node, start)

    def stmt(self, doc: Stmt, margin: str = "") -> None:
        start = self.length + len(margin)
        if isinstance(doc, Line):
            self.put(margin)
            self.expr(doc.expr)
        elif isinstance(doc, Suite):
            for decorator in doc.decorators:
                self.put(f"{margin}{decorator}\n")
            start = self.length + len(margin)
            self.put(margin)
            self.expr(doc.header)
            self.put(":")
            if doc.node is not None:
                self.record(doc.node, start)
            self.put("\n")
            self.body(doc.body, margin + self._indent)
            return
        elif isinstance(doc, Group):
            for inner in doc.body:
                self.stmt(inner, margin)
            return
        elif isinstance(doc, Comment):
            self.put("\n".join(f"{margin}# {line}".rstrip() for line in doc.value.split("\n")))
        if doc.node is not None:
            self.record(doc.node, start)
        self.put("\n")

    def body(self, docs: Sequence[Stmt], margin: str) -> None:
        for doc in docs:
            self.stmt(doc, margin)
        if all(is_empty(doc) for doc in docs):
            self.put(f"{margin}pass\n")


def identifier(hint: str) -> str:
    """The nearest Python identifier to a name hint."""
    if hint.isidentifier() and hint.isascii():
        return hint + "_" if keyword.iskeyword(hint) else hint
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in hint)
    if not name or name[0].isdigit():
        name = "v" + name
    return name + "_" if keyword.iskeyword(name) else name


def by_key(value: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """The pairs of a mapping in the order of their printing: by key where all keys are texts, else their own."""
    pairs = list(value.items())
    return sorted(pairs, key=lambda pair: pair[0]) if all([isinstance(k, str) for k in value]) else pairs


def value_doc(value: Any) -> Expr | None:
    """Plain Python data as a document; None when it holds anything else."""
    if isinstance(value, float) and not math.isfinite(value):
        return text("float").call(float_text(value))
    for plain in (bool, int, float, str):
        # NumPy's numbers and named constants are shown as the plain values that they are equal to.
        if isinstance(value, plain):
            return literal(plain(value))
    if value is None:
        return literal(None)
    if isinstance(value, (list, tuple)):
        items = [value_doc(v) for v in value]
        return None if any(v is None for v in items) else list_([v for v in items if v is not None])
    if isinstance(value, Mapping):
        pairs = [(value_doc(k), value_doc(v)) for k, v in by_key(value)]
        known = [(k, v) for k, v in pairs if k is not None and v is not None]
        return dict_(known) if len(known) == len(pairs) else None
    return None
