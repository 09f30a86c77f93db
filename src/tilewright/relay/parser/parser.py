"""Relay text to programs: expressions, functions, type definitions and modules."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.ir import BaseFunc, GlobalTypeVar, GlobalVar, IRModule, Op, Type
from tilewright.node.structural import deep_recursion
from tilewright.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from tilewright.relay.cards.card import _clean, argument_names, cards, find_card, required_arguments
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    const,
)
from tilewright.relay.parser.base import SUFFIX_DTYPES, BaseParser, MetadataEntry
from tilewright.relay.parser.lexer import Source, Token
from tilewright.support.errors import OpError

MAX_NESTING = 15_000
"""Each level takes about ten frames of what `deep_recursion` allows."""
METADATA = "#[metadata]"
COMPARE = {"==": "equal", "!=": "not_equal", "<": "less", ">": "greater", "<=": "less_equal", ">=": "greater_equal"}
SUM = {"+": "add", "-": "subtract"}
PRODUCT = {"*": "multiply", "/": "divide"}
OPERATORS = {sign: (level, key) for level, table in enumerate((COMPARE, SUM, PRODUCT)) for sign, key in table.items()}
"""How strongly an infix operator binds, and the relay operator that it is."""


class Parser(BaseParser):
    """One text. `init_module` brings types and functions that the text may use."""

    def __init__(self, source: Source, meta: Mapping[str, list[Any]], init_module: IRModule | None = None) -> None:
        super().__init__(source, meta)
        self.graph: dict[str, Expr] = {}
        self.globals: dict[str, GlobalVar] = {}
        self.used_globals: dict[str, Token] = {}
        self.functions: dict[GlobalVar, BaseFunc] = dict(init_module.functions) if init_module else {}
        self.types: dict[GlobalTypeVar, TypeData] = dict(init_module.type_definitions) if init_module else {}
        self.attrs: dict[str, Any] = dict(init_module.attrs) if init_module else {}
        self.depth = 0
        for data in self.types.values():
            self.headers[data.header.name_hint] = data.header
            self.constructors.update({c.name_hint: c for c in data.constructors})
        self.globals.update({g.name_hint: g for g in self.functions})

    # Modules

    def module(self) -> IRModule:
        """Everything up to the end of the text."""
        self.version()
        self.type_definitions()
        while not self.accept("end"):
            if self.keyword("def"):
                self.definition()
            elif self.keyword("extern"):
                if self.keyword("type"):
                    self.skip_type(extern=True)
                    continue
                name = self.global_name()
                self.expect("=", "`=`")
                self.functions[self.globals.setdefault(name, GlobalVar(name))] = self.meta_value()
                self.expect(";", "`;`")
            elif self.keyword("attributes"):
                self.attrs.update(self.meta_value())
                self.expect(";", "`;`")
            elif self.keyword("type"):
                self.skip_type()
            else:
                self.expect("name", "`def` or `type`", "def")
        known = [g.name_hint for g in self.functions]
        for name, word in self.used_globals.items():
            if name not in known:
                self.unknown("the function", f"@{name}", [f"@{k}" for k in known], word)
        return IRModule(self.functions, self.types, self.attrs)

    def version(self) -> None:
        if self.accept("#["):
            self.expect("name", "`version`", "version")
            self.expect("=", "`=`")
            word = self.expect("string", "a version in quotes")
            if json.loads(word.text) != "0.0.5":
                self.fail(f'this text has version {word.text}, but version "0.0.5" is read', word)
            self.expect("]", "`]`")

    def type_definitions(self) -> None:
        """All types first: functions and types may use those that are defined further down."""
        starts, depth = [], 0
        for i, word in enumerate(self.words):
            depth += (word.kind == "{") - (word.kind == "}")
            if depth == 0 and word.kind == "name" and word.text == "type" and self.words[i + 1].kind == "name":
                name = self.words[i + 1]
                if name.text in self.headers:
                    self.fail(f"the type {name.text} is defined twice", name)
                self.headers[name.text] = GlobalTypeVar(name.text)
                starts.append(i)
        back = self.at
        for i in starts:
            self.at = i + 1
            self.type_definition(extern=i > 0 and self.words[i - 1].text == "extern")
        self.at = back

    def type_definition(self, extern: bool) -> None:
        """From the name on; an `extern` type has no constructors: other code makes its values."""
        header = self.headers[self.next().text]
        self.type_scopes.append({})
        params = self.type_params()
        if not extern:
            self.expect("{", "the constructors in braces")

        def constructor() -> Constructor:
            word = self.expect("name", "a constructor")
            if word.text in self.constructors:
                self.fail(f"the constructor {word.text} is defined twice", word)
            inputs = self.many(self.type, ")", "a type") if self.accept("(") else []
            self.constructors[word.text] = Constructor(word.text, tuple(inputs), header)
            return self.constructors[word.text]

        found = [] if extern else self.many(constructor, "}", "a constructor")
        self.type_scopes.pop()
        self.types[header] = TypeData(header, tuple(params), tuple(found))

    def skip_type(self, extern: bool = False) -> None:
        """The type definitions read so far."""
        self.next()
        if extern:
            self.type_scopes.append({})
            self.type_params()
            self.type_scopes.pop()
            return
        while self.next().kind != "}":
            pass

    def definition(self) -> None:
        start = self.peek()
        name = self.global_name()
        gvar = self.globals.setdefault(name, GlobalVar(name))
        if gvar in self.functions:
            self.fail(f"the function @{name} is defined twice", start)
        self.functions[gvar] = self.function(start)

    def global_name(self) -> str:
        return self.plain_name(self.expect("global", "the name of a function, such as @main"))

    def expression(self) -> Expr:
        """A lone expression up to the end of the text."""
        self.version()
        while self.keyword("free_var"):
            self.variable(self.expect("var", "a variable"))
            self.expect(";", "`;`")
        e = self.statements("end")
        self.expect("end", "the end of the text")
        return e

    # Functions and blocks

    def variable(self, word: Token) -> Var:
        """A new variable of the innermost scope: `%x` or `%x: type`."""
        name = self.plain_name(word)
        note = self.type() if self.accept(":") else None
        self.scopes[-1][name] = v = Var(name, note, self.span(word))
        return v

    def function(self, start: Token) -> Function:
        """From the type parameters on."""
        self.scopes.append({})
        self.type_scopes.append({})
        type_params = self.type_params()
        self.expect("(", "the parameters in parentheses")
        params: list[Var] = []
        attrs: dict[str, Any] = {}

        def item() -> None:
            word = self.next()
            if word.kind in ("name", "string"):
                self.expect("=", "`=` after the name of an attribute")
                attrs[self.plain_name(word)] = self.attribute()
            elif word.kind == "var":
                params.append(self.variable(word))
            else:
                self.fail(f"a parameter is expected, but `{word.text}` was found", word)

        self.many(item, ")", "a parameter")
        ret: Type | None = self.type() if self.accept("->") else None
        body = self.block()
        self.scopes.pop()
        self.type_scopes.pop()
        return Function(params, body, ret, type_params, attrs, self.span(start))

    def block(self) -> Expr:
        self.expect("{", "a block in braces")
        self.scopes.append({})
        e = self.statements("}")
        self.scopes.pop()
        self.expect("}", "`;` or `}` after an expression")
        return e

    def statements(self, close: str) -> Expr:
        """`let`s, numbered expressions, and the result."""
        lets: list[tuple[Var, Expr, Any]] = []
        while True:
            start = self.peek()
            if self.keyword("let"):
                word = self.expect("var", "a variable after `let`")
                recursive = self.let_is_function()
                if recursive:
                    v = self.variable(word)
                else:
                    outer = dict(self.scopes[-1])
                    v = self.variable(word)
                    inner, self.scopes[-1] = self.scopes[-1], outer
                self.expect("=", "`=` after the variable of a `let`")
                value = self.expr()
                if not recursive:
                    self.scopes[-1] = inner
                lets.append((v, value, self.span(start)))
                self.expect(";", "`;` after a `let`")
                continue
            if start.kind == "graph" and self.peek(1).kind == "=":
                self.at += 2
                self.graph[start.text] = self.expr()
                self.expect(";", "`;` after a numbered expression")
                continue
            result = self.expr()
            if not self.accept(";"):
                break
            if self.peek().kind == close:
                break
            lets.append((Var("_"), result, self.span(start)))
        for v, value, span in reversed(lets):
            result = Let(v, value, result, span)
        return result

    def let_is_function(self) -> bool:
        """Whether the value of the `let` at hand is a function, which may call itself."""
        for i in range(len(self.words) - self.at):
            word = self.peek(i)
            if word.kind in ("=", ";", "end"):
                return self.peek(i + 1).text == "fn"
        return False

    # Expressions

    def expr(self) -> Expr:
        """An expression with infix operators; nested ones are as deep as the limit says."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"expressions are nested deeper than {MAX_NESTING}. Name inner ones by `let` or `%0 = ...;`")
        found = self.operation(0)
        self.depth -= 1
        return found

    def operation(self, least: int) -> Expr:
        """Operands with operators between them that bind at least as strongly as `least`."""
        start = self.peek()
        left = self.postfix()
        while True:
            found = OPERATORS.get(self.peek().kind)
            if found is None or found[0] < least:
                return left
            self.next()
            # An operand on the right ends before an operator of the same strength: a - b - c is (a - b) - c.
            right = self.operation(found[0] + 1)
            left = Call(Op.get(found[1]), (left, right), find_card(found[1])(), (), self.span(start))

    def postfix(self) -> Expr:
        start = self.peek()
        e = self.primary()
        while True:
            if self.accept("."):
                index = int(self.expect("number", "the index of an element").text)
                e = TupleGetItem(e, index, self.span(start))
            elif self.peek().kind == "(":
                e = self.call(e, (), start)
            elif self.peek().kind == "[" and not isinstance(e, Constant):
                self.next()
                types = tuple(self.many(self.type, "]", "a type"))
                e = self.call(e, types, start)
            else:
                return e

    def call(self, op: Expr, type_args: tuple[Type, ...], start: Token) -> Expr:
        self.expect("(", "the arguments in parentheses")
        args = self.many(self.expr, ")", "an argument")
        return Call(op, tuple(args), None, type_args, self.span(start))

    def primary(self) -> Expr:
        word = self.peek()
        handler = {
            "var": self.use_variable,
            "graph": self.use_number,
            "global": self.use_global,
            "number": self.literal,
            "-": self.minus,
            "(": self.parenthesis,
            "{": self.block,
            "name": self.named,
        }.get(word.kind)
        if handler is None:
            shown = word.text if word.kind == "end" else f"`{word.text}`"
            self.fail(f"an expression is expected, but {shown} was found")
        return handler()

    def use_variable(self) -> Expr:
        word = self.next()
        name = self.plain_name(word)
        scope = next((s for s in reversed(self.scopes) if name in s), None)
        if scope is None:
            self.unknown("the variable", word.text, ["%" + n for s in self.scopes for n in s], word)
        return scope[name]

    def use_number(self) -> Expr:
        word = self.next()
        found = self.graph.get(word.text)
        if found is None:
            self.unknown("the expression", word.text, self.graph, word)
        return found

    def use_global(self) -> Expr:
        word = self.next()
        name = self.plain_name(word)
        self.used_globals.setdefault(name, word)
        return self.globals.setdefault(name, GlobalVar(name))

    def literal(self) -> Expr:
        word = self.next()
        value, dtype = self.number(word)
        try:
            return Constant(const(np.asarray(value, dtype)).data, self.span(word))
        except OverflowError:
            self.fail(f"{word.text} does not fit in {dtype}", word)

    def number(self, word: Token) -> tuple[float | int, str]:
        """The value and the dtype of a literal."""
        for mark in "fiu":
            digits, found, bits = word.text.partition(mark)
            if found:
                dtype = SUFFIX_DTYPES.get(mark + bits)
                if dtype is None or (mark != "f" and not digits.isdigit()):
                    self.fail(f"{word.text} is not a number; the suffixes are {', '.join(SUFFIX_DTYPES)}", word)
                return (float(digits) if mark == "f" else int(digits)), dtype
        if word.text.isdigit():
            return int(word.text), "int32"
        return float(word.text), "float32"

    def minus(self) -> Expr:
        start = self.next()
        word = self.peek()
        if word.kind == "number":
            self.next()
            value, dtype = self.number(word)
            return Constant(const(np.asarray(-value, dtype)).data, self.span(start))
        return Call(Op.get("negative"), (self.postfix(),), find_card("negative")(), (), self.span(start))

    def parenthesis(self) -> Expr:
        start = self.next()
        fields: list[Expr] = []
        while not self.accept(")"):
            fields.append(self.expr())
            if not self.accept(","):
                self.expect(")", "`,` or `)`")
                if len(fields) == 1:
                    return fields[0]
                break
        return Tuple(tuple(fields), self.span(start))

    def named(self) -> Expr:
        """Parses what starts with a word: literals, keywords, constructors and operators."""
        word = self.peek()
        if word.text == "meta":
            value = self.meta_value()
            if not isinstance(value, Expr):
                self.fail(f"this metadata entry is {type(value).__name__}, which is not an expression", word)
            return value
        self.next()
        if word.text in ("True", "False"):
            return Constant(const(word.text == "True").data, self.span(word))
        if word.text == "fn":
            return self.function(word)
        if word.text == "if":
            return self.branch(word)
        if word.text == "match":
            return self.match(word)
        if word.text in ("ref", "ref_read", "ref_write"):
            return self.reference(word)
        if word.text in self.constructors:
            found = self.constructors[word.text]
            # A constructor of nothing is its value: `Nil` as well as `Nil()`.
            return found if found.inputs or self.peek().text == "(" else Call(found, (), None, (), self.span(word))
        return self.operator(word)

    def branch(self, start: Token) -> Expr:
        self.expect("(", "the condition in parentheses")
        cond = self.expr()
        self.expect(")", "`)` after the condition")
        yes = self.block()
        self.expect("name", "`else`", "else")
        inner = self.peek()
        no = self.branch(self.next()) if inner.text == "if" else self.block()
        return If(cond, yes, no, self.span(start))

    def match(self, start: Token) -> Expr:
        complete = self.accept("?") is None
        self.expect("(", "the value to match in parentheses")
        data = self.expr()
        self.expect(")", "`)` after the value to match")
        self.expect("{", "the clauses in braces")

        def clause() -> Clause:
            self.scopes.append({})
            lhs = self.pattern()
            self.expect("=>", "`=>` after a pattern")
            rhs = self.block() if self.peek().kind == "{" else self.expr()
            self.scopes.pop()
            return Clause(lhs, rhs)

        return Match(data, tuple(self.many(clause, "}", "a clause")), complete, self.span(start))

    def pattern(self) -> Pattern:
        word = self.next()
        if word.kind == "var":
            return PatternVar(self.variable(word), self.span(word))
        if word.kind == "(":
            return PatternTuple(tuple(self.many(self.pattern, ")", "a pattern")), self.span(word))
        if word.text == "_":
            return PatternWildcard(self.span(word))
        if word.text not in self.constructors:
            self.unknown("the constructor", word.text, self.constructors, word)
        inner = self.many(self.pattern, ")", "a pattern") if self.accept("(") else []
        return PatternConstructor(self.constructors[word.text], tuple(inner), self.span(word))

    def reference(self, word: Token) -> Expr:
        self.expect("(", "the arguments in parentheses")
        args = self.many(self.expr, ")", "an argument")
        want = 2 if word.text == "ref_write" else 1
        if len(args) != want:
            self.fail(f"{word.text} takes {want} arguments, but {len(args)} were given", word)
        if word.text == "ref":
            return RefCreate(args[0], self.span(word))
        return RefRead(args[0], self.span(word)) if want == 1 else RefWrite(args[0], args[1], self.span(word))

    # Operators and attributes

    def operator(self, word: Token) -> Expr:
        if word.text not in cards():
            if self.peek().kind == "(":
                self.unknown("the operator", word.text, [*cards(), *self.constructors], word)
            self.unknown("the name", word.text, [*self.constructors, "let", "fn", "if", "match"], word)
        if self.peek().kind != "(":
            return Op.get(word.text)
        card = find_card(word.text)
        args: list[Expr] = []
        attrs: dict[str, Any] = {}
        known = {f.name: f for f in card._fields}
        self.next()

        def item() -> None:
            name = self.peek()
            if name.kind == "name" and self.peek(1).kind == "=":
                if name.text not in known:
                    near = difflib.get_close_matches(name.text, known, n=3) or list(known)
                    what = f"near it: {', '.join(near)}" if near else "it has none"
                    self.fail(f"{word.text} has no attribute {name.text}; {what}", name)
                self.at += 2
                value = self.attribute()
                try:
                    attrs[name.text] = _clean(word.text, name.text, known[name.text].annotation, value)
                except OpError as error:
                    self.fail(str(error), name)
            else:
                args.append(self.expr())

        self.many(item, ")", "an argument")
        names, variadic = argument_names(card)
        if not variadic and not required_arguments(card) <= len(args) <= len(names):
            self.fail(f"{word.text} takes the arguments ({', '.join(names)}), but {len(args)} were given", word)
        missing = [n for n, f in known.items() if f.required and n not in attrs]
        if missing:
            self.fail(f"{word.text} needs the attribute {missing[0]}", word)
        return Call(Op.get(word.text), tuple(args), card(**attrs), (), self.span(word))

    def attribute(self) -> Any:
        """A value of an attribute: number, string, True, False, None, list, or metadata."""
        word = self.peek()
        if word.text == "meta":
            return self.meta_value()
        self.next()
        if word.text == "dim" and self.accept("("):
            size = self.dim()
            self.expect(")", "`)`")
            return size
        if word.kind in ("[", "("):
            return tuple(self.many(self.attribute, "]" if word.kind == "[" else ")", "a value"))
        if word.kind == "string":
            return json.loads(word.text)
        sign = 1
        if word.kind == "-":
            sign, word = -1, self.next()
        if word.kind == "number":
            return sign * self.number(word)[0]
        known = {"True": True, "False": False, "None": None, "inff": sign * math.inf, "nanf": math.nan}
        if word.text not in known:
            self.fail(f"the value of an attribute is expected, but `{word.text}` was found", word)
        return known[word.text]


def split_metadata(source: Source) -> tuple[Source, dict[str, list[Any]]]:
    """The program and the entries of the metadata section."""
    at = source.text.find("\n" + METADATA)
    if at < 0:
        return source, {}
    start = at + 1 + len(METADATA)
    try:
        entries = json.loads(source.text[start:])
    except ValueError as error:
        source.fail(f"the metadata section is not JSON: {error}", at + 1, start)
    if not isinstance(entries, dict) or not all([isinstance(v, list) for v in entries.values()]):
        source.fail("the metadata section must be an object of lists, one for each kind", at + 1, start)
    return Source(source.name, source.text[:at]), {k: [MetadataEntry(e) for e in v] for k, v in entries.items()}


def run(source: Source, init_module: IRModule | None, meta: Mapping[str, list[Any]] | None) -> Parser:
    """A parser at the start of the text."""
    program, entries = split_metadata(source)
    return Parser(program, {**(meta or {}), **entries}, init_module)


def parse_module_text(source: Source, init_module: IRModule | None, meta: Mapping[str, list[Any]] | None) -> IRModule:
    with deep_recursion():
        return run(source, init_module, meta).module()


def parse_expr_text(source: Source, init_module: IRModule | None, meta: Mapping[str, list[Any]] | None) -> Expr:
    with deep_recursion():
        return run(source, init_module, meta).expression()
