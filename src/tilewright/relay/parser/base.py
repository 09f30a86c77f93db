"""Base of all parts of the parser: the position among the words, scopes, errors, spans, and types."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

from tilewright import tir
from tilewright.ir import (
    DataType,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    IntImm,
    RefType,
    SourceName,
    Span,
    TensorType,
    TupleType,
    Type,
    TypeCall,
)
from tilewright.ir import TypeVar as RelayTypeVar
from tilewright.node import load_json
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.adt import Constructor
from tilewright.relay.expr import Var
from tilewright.relay.parser.lexer import Source, Token, tokens
from tilewright.support.errors import TVMError

T = TypeVar("T")

SUFFIX_DTYPES = {
    "f": "float32",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}
_DIM_CALLS: dict[str, tuple[Any, int]] = {
    "floordiv": (tir.FloorDiv, 2),
    "floormod": (tir.FloorMod, 2),
    "truncdiv": (tir.Div, 2),
    "truncmod": (tir.Mod, 2),
    "min": (tir.Min, 2),
    "max": (tir.Max, 2),
    "eq": (tir.EQ, 2),
    "ne": (tir.NE, 2),
    "lt": (tir.LT, 2),
    "le": (tir.LE, 2),
    "gt": (tir.GT, 2),
    "ge": (tir.GE, 2),
    "and": (tir.And, 2),
    "or": (tir.Or, 2),
    "not": (tir.Not, 1),
    "select": (tir.Select, 3),
}
_DIM_OPS: dict[str, Any] = {"+": tir.Add, "-": tir.Sub, "*": tir.Mul}


def known_dtype(name: str) -> DataType:
    """A dtype that arrays can have. Raises TypeError for another."""
    numpy_dtype(name)
    return DataType(name)


class MetadataEntry(NamedTuple):
    """An entry of a metadata section, not read yet."""

    json: Any


class BaseParser:
    """Words, scopes and types."""

    def __init__(self, source: Source, meta: Mapping[str, list[Any]]) -> None:
        self.source = source
        self.words = tokens(source)
        self.at = 0
        self.meta = meta
        self.loaded: dict[tuple[str, int], Any] = {}
        self.source_name = SourceName(source.name)
        self.lines = [0]
        for i, c in enumerate(source.text):
            if c == "\n":
                self.lines.append(i + 1)
        self.line = 0
        self.scopes: list[dict[str, Var]] = [{}]
        self.type_scopes: list[dict[str, RelayTypeVar]] = [{}]
        self.headers: dict[str, GlobalTypeVar] = {}
        self.constructors: dict[str, Constructor] = {}
        self.dims: dict[str, tir.Var] = {}
        self.holes: dict[str, IncompleteType] = {}

    def peek(self, ahead: int = 0) -> Token:
        return self.words[min(self.at + ahead, len(self.words) - 1)]

    def next(self) -> Token:
        word = self.words[self.at]
        self.at = min(self.at + 1, len(self.words) - 1)
        return word

    def fail(self, message: str, word: Token | None = None) -> NoReturn:
        word = word or self.peek()
        self.source.fail(message, word.start, word.end)

    def accept(self, kind: str, text: str | None = None) -> Token | None:
        """The next word if it is this one."""
        word = self.peek()
        if word.kind != kind or (text is not None and word.text != text):
            return None
        return self.next()

    def expect(self, kind: str, what: str, text: str | None = None) -> Token:
        word = self.accept(kind, text)
        if word is None:
            found = self.peek()
            shown = found.text if found.kind == "end" else f"`{found.text}`"
            self.fail(f"{what} is expected, but {shown} was found")
        return word

    def keyword(self, text: str) -> Token | None:
        return self.accept("name", text)

    def many(self, item: Callable[[], T], close: str, what: str) -> list[T]:
        """Items with commas between (and maybe after) them, up to and including `close`."""
        found: list[T] = []
        while not self.accept(close):
            found.append(item())
            if not self.accept(","):
                self.expect(close, f"`,` or `{close}` after {what}")
                break
        return found

    def span(self, start: Token) -> Span:
        """From the first character of `start` to the last one of the word just read."""
        end = self.words[self.at - 1].end if self.at else start.end
        first, last = self.place(start.start), self.place(max(end, start.end))
        return Span(self.source_name, first[0], last[0], first[1], last[1])

    def place(self, offset: int) -> tuple[int, int]:
        # Words are asked for nearly in order, so the line of the last one is a good start.
        line = self.line
        while line + 1 < len(self.lines) and self.lines[line + 1] <= offset:
            line += 1
        while self.lines[line] > offset:
            line -= 1
        self.line = line
        return line + 1, offset - self.lines[line] + 1

    def unknown(self, what: str, name: str, known: Iterable[str], word: Token) -> NoReturn:
        near = difflib.get_close_matches(name, list(known), n=3)
        self.fail(f"{what} {name} is not defined here" + (f"; near it: {', '.join(near)}" if near else ""), word)

    @staticmethod
    def plain_name(word: Token) -> str:
        """The name in a `%name`, `@name` or `"name"`."""
        text = word.text.lstrip("%@") if word.kind != "string" else word.text
        return str(json.loads(text)) if text.startswith('"') else text

    def meta_value(self) -> Any:
        """`meta[kind][index]`; each entry is one object however often it is named."""
        start = self.expect("name", "`meta`", "meta")
        self.expect("[", "`[`")
        kind = self.expect("name", "the kind of a metadata entry").text
        self.expect("]", "`]`")
        self.expect("[", "`[`")
        index = int(self.expect("number", "the number of a metadata entry").text)
        self.expect("]", "`]`")
        entries = self.meta.get(kind, ())
        if index >= len(entries):
            word = Token("name", "", start.start, self.words[self.at - 1].end)
            self.fail(
                f"the metadata section holds {len(entries)} entries of {kind}, but number {index} is used."
                " Print the program with show_meta_data=True",
                word,
            )
        if (kind, index) not in self.loaded:
            entry = entries[index]
            try:
                self.loaded[kind, index] = load_json(json.dumps(entry.json)) if type(entry) is MetadataEntry else entry
            except TVMError as error:
                word = Token("name", "", start.start, self.words[self.at - 1].end)
                self.fail(f"entry {index} of {kind} in the metadata section cannot be read: {error}", word)
        return self.loaded[kind, index]

    def type(self) -> Type:
        """A type."""
        word = self.peek()
        if self.accept("?"):
            # `?0` is the same unknown type wherever it stands.
            number = self.peek()
            if number.kind != "number" or number.start != word.end:
                return IncompleteType()
            return self.holes.setdefault(self.next().text, IncompleteType())
        if self.accept("("):
            return TupleType(tuple(self.many(self.type, ")", "a type")))
        name = self.expect("name", "a type").text
        if name == "Tensor":
            return self.tensor_type()
        if name == "fn":
            return self.function_type()
        if name == "ref":
            self.expect("(", "`(`")
            value = self.type()
            self.expect(")", "`)`")
            return RefType(value)
        if name == "_":
            return IncompleteType()
        for scope in reversed(self.type_scopes):
            if name in scope:
                return scope[name]
        if name in self.headers:
            header = self.headers[name]
            return TypeCall(header, tuple(self.many(self.type, "]", "a type"))) if self.accept("[") else header
        try:
            return TensorType((), known_dtype(name))
        except (ValueError, TypeError):
            known = [*self.headers, *[n for s in self.type_scopes for n in s], "Tensor", "float32", "int32", "bool"]
            self.unknown("the type", name, known, word)

    def tensor_type(self) -> Type:
        self.expect("[", "`[` after Tensor")
        self.expect("(", "the shape in parentheses")
        shape = self.many(self.dim, ")", "a dimension")
        self.expect(",", "`,` and the dtype")
        word = self.expect("name", "a dtype")
        self.expect("]", "`]`")
        try:
            return TensorType(tuple(shape), known_dtype(word.text))
        except (ValueError, TypeError) as error:
            self.fail(str(error), word)

    def function_type(self) -> Type:
        self.type_scopes.append({})
        params = self.type_params()
        self.expect("(", "the argument types in parentheses")
        args = self.many(self.type, ")", "a type")
        self.expect("->", "`->` and the result type")
        ret = self.type()
        self.type_scopes.pop()
        return FuncType(tuple(args), ret, tuple(params))

    def type_params(self) -> list[RelayTypeVar]:
        """`[A, B]`, or nothing; the names are defined in the innermost type scope."""

        def one() -> RelayTypeVar:
            name = self.expect("name", "a type parameter").text
            self.type_scopes[-1][name] = RelayTypeVar(name)
            return self.type_scopes[-1][name]

        return self.many(one, "]", "a type parameter") if self.accept("[") else []

    def dim(self) -> Any:
        """A dimension: a number, `?`, a symbol, or arithmetic of them."""
        left = self.dim_term()
        while self.peek().kind in ("+", "-"):
            sign = self.next()
            left = self.combined(sign, left, self.dim_term())
        return left

    def combined(self, sign: Token, left: Any, right: Any) -> Any:
        """The sum, difference or product of two dimensions."""
        try:
            return _DIM_OPS[sign.kind](left, right)
        except TypeError as error:
            self.fail(f"{sign.text}: {error}", sign)

    def dim_term(self) -> Any:
        left = self.dim_atom()
        while sign := self.accept("*"):
            left = self.combined(sign, left, self.dim_atom())
        return left

    def dim_atom(self) -> Any:
        word = self.peek()
        if self.accept("?"):
            return tir.Any()
        if self.accept("("):
            inner = self.dim()
            self.expect(")", "`)`")
            return inner
        if self.accept("-"):
            number = self.expect("number", "a number after `-`")
            return self.dim_number(number, -1)
        if self.accept("number"):
            return self.dim_number(word, 1)
        if word.text == "meta":
            return self.meta_value()
        name = self.expect("name", "a dimension").text
        if name == "cast" and self.accept("("):
            inner = self.dim()
            self.expect(",", "`,` and the dtype")
            wanted = self.expect("name", "a dtype")
            self.expect(")", "`)`")
            try:
                return tir.Cast(known_dtype(wanted.text), inner)
            except TypeError as error:
                self.fail(str(error), wanted)
        if name in _DIM_CALLS and self.accept("("):
            make, count = _DIM_CALLS[name]
            parts = self.many(self.dim, ")", "a dimension")
            if len(parts) != count:
                self.fail(f"{name} takes {count} dimensions, but {len(parts)} were given", word)
            try:
                return make(*parts)
            except TypeError as error:
                self.fail(f"{name}: {error}", word)
        if self.accept(":"):
            sized = self.keyword("size") is not None
            dtype = self.accept("name")
            kind = tir.SizeVar if sized else tir.Var
            self.dims[name] = kind(name, dtype.text if dtype else "int32")
        return self.dims.setdefault(name, tir.Var(name, "int32"))

    def dim_number(self, word: Token, sign: int) -> IntImm:
        digits = word.text.rstrip("iu0123456789") or word.text
        number, _, bits = word.text.partition("i")
        if not number.isdigit() or (bits and f"i{bits}" not in SUFFIX_DTYPES) or "." in digits:
            self.fail(f"a dimension must be an integer, but is {word.text}", word)
        try:
            return IntImm(f"int{bits}" if bits else "int32", sign * int(number))
        except ValueError as error:
            self.fail(f"{error}; write {number}i64 for one of 64 bits", word)
