"""Algebraic data types: constructors, type definitions, patterns and matches over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from tilewright.ir import FuncType, GlobalTypeVar, RelayExpr, Type, TypeCall, TypeVar
from tilewright.ir.span import BaseSpan
from tilewright.node import GRAPH, Def, Node, Skip, derived, register_converter
from tilewright.relay.expr import Call, ExprWithOp, RelayVar, Var


class Pattern(Node):
    """Root of the patterns of a match."""


register_converter("Pattern", Pattern)


class Constructor(RelayExpr, key="relay.Constructor"):
    """One form of an algebraic data type: `inputs` are its fields' types, `belong_to` the type it makes.

    `tag`, once TypeData holds it, tells it from those of other types: its place among the type's constructors, and above 24 bits a
    number made of the type's name."""

    name_hint: str
    inputs: Def[tuple[Type, ...]]
    belong_to: GlobalTypeVar
    tag: Skip[int] = -1
    type_data: TypeData | None = derived()

    def _derive(self) -> None:
        self.type_data = None

    def __call__(self, *args: Any) -> Call:
        return Call(self, args)


register_converter("Constructor", Constructor)


class TypeData(Type, key="relay.TypeData"):
    """The definition of an algebraic data type: `type header[type_vars] { constructors }`."""

    header: GlobalTypeVar
    type_vars: Def[tuple[TypeVar, ...]]
    constructors: tuple[Constructor, ...]
    span: Skip[BaseSpan | None] = None

    __hash__ = object.__hash__

    def _derive(self) -> None:
        of_type = (crc32(self.header.name_hint.encode()) & 0x7F) << 24
        for place, c in enumerate(self.constructors):
            object.__setattr__(c, "tag", of_type | place)
            object.__setattr__(c, "type_data", self)


class PatternWildcard(Pattern, key="relay.PatternWildcard"):
    """`_`: matches everything and binds nothing."""

    span: Skip[BaseSpan | None] = None


class PatternVar(Pattern, key="relay.PatternVar"):
    """`%x`: matches everything and binds it to `var`."""

    var: Def[RelayVar]
    span: Skip[BaseSpan | None] = None


class PatternConstructor(Pattern, key="relay.PatternConstructor"):
    """`Cons(%x, _)`: matches what `constructor` made, if its fields match `patterns`."""

    constructor: Constructor
    patterns: tuple[Pattern, ...] = ()
    span: Skip[BaseSpan | None] = None


class PatternTuple(Pattern, key="relay.PatternTuple"):
    """`(%a, _)`: matches a tuple whose elements match `patterns`."""

    patterns: tuple[Pattern, ...] = ()
    span: Skip[BaseSpan | None] = None


class Clause(Node, key="relay.Clause"):
    """`lhs => rhs` of a match."""

    lhs: Pattern
    rhs: RelayExpr


register_converter("Clause", Clause)


class Match(ExprWithOp, key="relay.Match"):
    """The right side of the first clause whose pattern `data` fits. `complete` promises that one always does."""

    _identity = GRAPH
    data: RelayExpr
    clauses: tuple[Clause, ...]
    complete: bool = True
    span: Skip[BaseSpan | None] = None


def constructor_type(c: Constructor) -> FuncType:
    """`fn [A](A, List[A]) -> List[A]`; known once a TypeData holds the constructor."""
    data = c.type_data
    variables: Sequence[TypeVar] = data.type_vars if data is not None else ()
    result: Type = TypeCall(c.belong_to, tuple(variables)) if variables else c.belong_to
    return FuncType(c.inputs, result, tuple(variables))


def parts_of(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns right under a pattern."""
    return pattern.patterns if isinstance(pattern, (PatternConstructor, PatternTuple)) else ()


def pattern_vars(pattern: Pattern) -> list[Var]:
    """The variables that a pattern binds, from left to right."""
    if isinstance(pattern, PatternVar):
        return [pattern.var]
    return [v for p in parts_of(pattern) for v in pattern_vars(p)]
