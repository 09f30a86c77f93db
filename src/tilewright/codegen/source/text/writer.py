"""Blocks of lines, and the operands that are known in them.

A long operand gets a name of its own, which limits the length of lines and of repeated parts of expressions. Code that belongs to one
side of a choice is written inside that side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tilewright.codegen.source.text.identifiers import Names
from tilewright.codegen.source.text.operands import CHOICE, Text
from tilewright.ir import DataType, PrimExpr
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir import Var
from tilewright.tir.analysis.value_range import Range, value_range


class Scope:
    """A block that is being written: its lines, and its known operands."""

    __slots__ = ("depth", "known", "lines")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.lines: list[str] = []
        self.known: dict[int, tuple[PrimExpr, Text]] = {}


class Writer:
    """The state of a function that is being written, as a part of its emitter."""

    language: str
    """The name of the language in messages."""
    longest = 80
    """Operands of more characters get a name."""
    hint = "t"
    """The beginning of such names."""
    name: str
    names: Names
    variables: dict[Var, Text]
    ranges: dict[Var, Range]
    scopes: list[Scope]

    _table: ClassVar[dict[type, Callable[..., Text]]] = {}

    def type_text(self, dtype: DataType) -> str:
        """The type of a value in the language."""
        raise NotImplementedError

    def expr(self, e: PrimExpr) -> Text:
        """The operand that holds `e`."""
        for scope in reversed(self.scopes):
            if (found := scope.known.get(id(e))) is not None:
                return found[1]
        method = self._table.get(type(e))
        if method is None:
            raise self.error(f"{type(e).__name__} is not a lowered expression", e)
        text = method(self, e)
        if len(text) > self.longest and e.dtype.code not in ("void", "handle"):
            text = self.temporary(text, e.dtype, self.hint)
        if not isinstance(e, Var):
            self.scopes[-1].known[id(e)] = (e, text)
        return text

    def error(self, message: str, node: Any) -> TVMError:
        """A TVMError that names the function and the node."""
        text = str(node)
        shown = text if len(text) < 400 else text[:400] + " ..."
        where = f"{self.language} code generation of function {self.name!r}"
        return TVMError(located(f"{where}: {message}\n  in {type(node).__name__}: {shown}", node))

    # --- lines and scopes

    def line(self, text: str) -> None:
        """Adds a line to the innermost block."""
        scope = self.scopes[-1]
        scope.lines.append("  " * scope.depth + text)

    def temporary(self, text: str, dtype: DataType, hint: str = "t") -> Text:
        """Gives an operand a name, and returns the name."""
        name = self.names.fresh(hint)
        self.line(f"const {self.type_text(dtype)} {name} = {text};")
        return Text(name)

    def forget(self) -> None:
        """Drops the known operands, since the memory that they were read from may have changed."""
        for scope in self.scopes:
            scope.known.clear()

    def inside(self, emit: Callable[[], Text], deeper: int = 1) -> tuple[list[str], Text]:
        """(lines, operand) of a value that is computed in a block of its own."""
        self.scopes.append(Scope(self.scopes[-1].depth + deeper))
        result = emit()
        return self.scopes.pop().lines, result

    def lazy(self, condition: Text, then: Callable[[], Text], other: Callable[[], Text], dtype: DataType) -> Text:
        """A choice that computes only the chosen side."""
        (first, a), (second, b) = self.inside(then), self.inside(other)
        if not first and not second:
            return Text(f"{condition.at(CHOICE + 1)} ? {a.at(CHOICE + 1)} : {b.at(CHOICE)}", CHOICE)
        name, lines, pad = self.names.fresh("t"), self.scopes[-1].lines, "  " * (self.scopes[-1].depth + 1)
        self.line(f"{self.type_text(dtype)} {name};")
        self.line(f"if ({condition}) {{")
        lines += [*first, f"{pad}{name} = {a};"]
        self.line("} else {")
        lines += [*second, f"{pad}{name} = {b};"]
        self.line("}")
        return Text(name)

    def range_of(self, e: PrimExpr) -> Range | None:
        """The range of an integer, if it is known. It decides whether plain arithmetic will do, or the result must wrap around."""
        return value_range(e, self.ranges.get)


__all__ = ["Scope", "Writer"]
