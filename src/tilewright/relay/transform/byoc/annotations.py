"""Reading and making the operators at the borders of compiler regions."""

from __future__ import annotations

from typing import Any, TypeGuard

from tilewright.ir import IRModule, Op
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function

BEGIN, END = "annotation.compiler_begin", "annotation.compiler_end"
DEFAULT = "default"
"""The compiler of what is given to no other."""


def is_begin(e: Expr) -> bool:
    """Whether `e` is where something enters a region."""
    return type(e) is Call and type(e.op) is Op and e.op.name == BEGIN


def is_end(e: Expr) -> bool:
    """Whether `e` is where something leaves a region."""
    return type(e) is Call and type(e.op) is Op and e.op.name == END


def is_border(e: Expr) -> bool:
    return is_begin(e) or is_end(e)


def inner(border: Expr) -> Expr:
    """The value that an annotation encloses."""
    assert isinstance(border, Call)
    return border.args[0]


def compiler_of(border: Expr) -> str:
    """The compiler that a border names."""
    assert isinstance(border, Call)
    return str(border.attrs.compiler)  # type: ignore[union-attr]


def begin(e: Expr, compiler: str) -> Expr:
    return constructor(BEGIN)(e, compiler=compiler)


def end(e: Expr, compiler: str) -> Expr:
    return constructor(END)(e, compiler=compiler)


def is_composite(f: Any) -> TypeGuard[Function]:
    """Whether a function stands for a match of a pattern."""
    return isinstance(f, Function) and "Composite" in f.attrs


def is_external(f: Any) -> bool:
    """Whether a function belongs to another compiler, or is code that one made already."""
    return isinstance(f, Function) and ("Compiler" in f.attrs or bool(f.attrs.get("Extern", 0)))


def is_own(f: Any) -> bool:
    """Whether a global function is relay's to rewrite."""
    return isinstance(f, Function) and not f.is_primitive and not is_external(f)


def own_functions(mod: IRModule) -> dict[Any, Function]:
    """The functions of a module that are relay's to rewrite."""
    return {g: f for g, f in mod.functions.items() if is_own(f)}  # type: ignore[misc]
