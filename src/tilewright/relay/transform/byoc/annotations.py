"""Functions that read and make the operators at the borders of compiler regions."""

from __future__ import annotations

from typing import TypeGuard

from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.op.program.compiler_regions import RegionMark
from tilewright.relay.rewriting import card_of

BEGIN, END = "annotation.compiler_begin", "annotation.compiler_end"
DEFAULT = "default"
"""The compiler of operators that no other compiler supports."""


def is_begin(e: Expr) -> bool:
    """Whether `e` is the mark of a value that enters a region."""
    return type(e) is Call and type(e.op) is Op and e.op.name == BEGIN


def is_end(e: Expr) -> bool:
    """Whether `e` is the mark of a value that leaves a region."""
    return type(e) is Call and type(e.op) is Op and e.op.name == END


def is_border(e: Expr) -> bool:
    return is_begin(e) or is_end(e)


def inner(border: Expr) -> Expr:
    """The value that an annotation encloses."""
    assert isinstance(border, Call)
    return border.args[0]


def compiler_of(border: Expr) -> str:
    """The compiler of a border."""
    assert isinstance(border, Call)
    return card_of(border, RegionMark).compiler


def begin(e: Expr, compiler: str) -> Expr:
    return constructor(BEGIN)(e, compiler=compiler)


def end(e: Expr, compiler: str) -> Expr:
    return constructor(END)(e, compiler=compiler)


def is_composite(f: object) -> TypeGuard[Function]:
    """Whether a function is a match of a pattern."""
    return isinstance(f, Function) and "Composite" in f.attrs


def is_external(f: object) -> bool:
    """Whether a function belongs to another compiler, or is compiled already."""
    return isinstance(f, Function) and ("Compiler" in f.attrs or bool(f.attrs.get("Extern", 0)))


def is_own(f: object) -> TypeGuard[Function]:
    """Whether relay's passes may rewrite a global function."""
    return isinstance(f, Function) and not f.is_primitive and not is_external(f)


def own_functions(mod: IRModule) -> dict[GlobalVar, Function]:
    """The functions of a module that relay's passes may rewrite."""
    return {g: f for g, f in mod.functions.items() if is_own(f)}
