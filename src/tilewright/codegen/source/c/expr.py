"""C text of expressions: arithmetic, comparisons, choices, casts, vectors.

A long operand gets a name of its own, which limits the length of lines and of repeated parts of expressions. Code that belongs to one
side of a choice is written inside that side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.codegen.source.c.names import (
    CHOICE,
    PRODUCT,
    RELATION,
    SUM,
    UNARY,
    Names,
    Text,
    ctype,
    floating,
    integer,
    scalar,
    string,
)
from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr, structural_equal
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir import (
    Add,
    And,
    Broadcast,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Mod,
    Mul,
    Not,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from tilewright.tir.analysis.value_range import Range, value_range
from tilewright.tir.scalars import BINARY

if TYPE_CHECKING:
    from tilewright.codegen.source.c.module import ModuleEmitter
    from tilewright.tir.expr import Max, Min, Or

LONG = 80
"""Operands of at least so many characters get a name."""
_STRENGTH: dict[type, int] = {Add: SUM, Sub: SUM, Mul: PRODUCT}
_DIVISIONS: dict[type, str] = {Div: "div", Mod: "mod", FloorDiv: "floordiv", FloorMod: "floormod"}


class Scope:
    """A block that is being written: its lines, and its known operands."""

    __slots__ = ("depth", "known", "lines")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.lines: list[str] = []
        self.known: dict[int, tuple[PrimExpr, Text]] = {}


class ExprEmitter:
    """Rules for expressions, as a part of a function's emitter."""

    module: ModuleEmitter
    name: str
    names: Names
    variables: dict[Var, Text]
    ranges: dict[Var, Range]
    scopes: list[Scope]
    in_index = False
    """Whether an index is being computed. An index is in bounds, so its arithmetic does not wrap around."""

    _table: ClassVar[dict[type, Callable[..., Text]]] = {}

    def expr(self, e: PrimExpr) -> Text:
        """The operand that holds `e`."""
        for scope in reversed(self.scopes):
            if (found := scope.known.get(id(e))) is not None:
                return found[1]
        method = self._table.get(type(e))
        if method is None:
            raise self.error(f"{type(e).__name__} is not a lowered expression", e)
        text = method(self, e)
        if len(text) > LONG and e.dtype.code not in ("void", "handle"):
            text = self.temporary(text, e.dtype)
        if not isinstance(e, Var):
            self.scopes[-1].known[id(e)] = (e, text)
        return text

    def error(self, message: str, node: Any) -> TVMError:
        """A TVMError that names the function and the node."""
        text = str(node)
        shown = text if len(text) < 400 else text[:400] + " ..."
        return TVMError(
            located(
                f"C code generation of function {self.name!r}: {message}\n  in {type(node).__name__}: {shown}", node
            )
        )

    # --- lines and scopes

    def line(self, text: str) -> None:
        """Adds a line to the innermost block."""
        scope = self.scopes[-1]
        scope.lines.append("  " * scope.depth + text)

    def temporary(self, text: str, dtype: DataType, hint: str = "t") -> Text:
        """Gives an operand a name, and returns the name."""
        name = self.names.fresh(hint)
        self.line(f"const {ctype(dtype)} {name} = {text};")
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
        self.line(f"{ctype(dtype)} {name};")
        self.line(f"if ({condition}) {{")
        lines += [*first, f"{pad}{name} = {a};"]
        self.line("} else {")
        lines += [*second, f"{pad}{name} = {b};"]
        self.line("}")
        return Text(name)

    def range_of(self, e: PrimExpr) -> Range | None:
        """The range of an integer, if it is known. It decides whether plain C arithmetic will do, or the result must wrap around."""
        return value_range(e, self.ranges.get)

    # --- leaves

    def on_var(self, e: Var) -> Text:
        found = self.variables.get(e)
        if found is None:
            raise self.error(f"variable {e.name} is used but never defined", e)
        return found

    def on_integer(self, e: IntImm) -> Text:
        return integer(e.value, e.dtype)

    def on_float(self, e: FloatImm) -> Text:
        return floating(e.value, e.dtype)

    def on_string(self, e: StringImm) -> Text:
        return string(e.value)

    # --- arithmetic

    def function(self, name: str, *args: str) -> Text:
        return Text(f"{name}({', '.join(args)})")

    def lanes(self, dtype: DataType, name: str, *args: str) -> Text:
        """A call of a function on vectors of a type."""
        return self.function(f"{self.module.vector(dtype)}_{name}", *args)

    def on_add(self, e: Add | Mul | Sub) -> Text:
        operation, strength = BINARY[type(e)], _STRENGTH[type(e)]
        sign, name = operation.sign, operation.word
        dtype = e.dtype
        if dtype.lanes > 1:
            return self._fused(e) or self.lanes(dtype, name, self.expr(e.a), self.expr(e.b))
        if dtype.is_float and type(e) is Sub and _same_products(e.a, e.b):
            # A fused difference of equal products is the rounding error of one product instead of 0.
            one = self.temporary(self.expr(e.a), dtype)
            return Text(f"{one} - {one}", SUM)
        a, b = self.expr(e.a), self.expr(e.b)
        if dtype.is_int and dtype.bits >= 32 and not self.in_index and self.range_of(e) is None:
            return self.function(f"tw_{name}_{scalar(dtype)}", a, b)
        whole = Text(f"{a.at(strength)} {sign} {b.at(strength + 1)}", strength)
        return self._cast_to(whole, dtype) if not dtype.is_float and dtype.bits < 32 else whole

    on_subtract = on_multiply = on_add

    def _cast_to(self, text: Text, dtype: DataType) -> Text:
        return Text(f"({ctype(dtype)}){text.at(UNARY)}", UNARY)

    def _fused(self, e: PrimExpr) -> Text | None:
        """A sum of a product and another vector as a fused multiply-add, or a difference of equal products; None for others."""
        dtype = e.dtype
        if not dtype.is_float:
            return None
        if type(e) is Sub and _same_products(e.a, e.b):
            one = self.temporary(self.expr(e.a), dtype)
            return self.lanes(dtype, "sub", one, one)
        if type(e) is Add and type(e.a) is Mul:
            return self.lanes(dtype, "fma", self.expr(e.a.a), self.expr(e.a.b), self.expr(e.b))
        if type(e) is Add and type(e.b) is Mul:
            return self.lanes(dtype, "fma", self.expr(e.b.a), self.expr(e.b.b), self.expr(e.a))
        return None

    def on_divide(self, e: Any) -> Text:
        dtype, name = e.dtype, _DIVISIONS[type(e)]
        if dtype.is_float:
            if type(e) is Div:
                a, b = self.expr(e.a), self.expr(e.b)
                if dtype.lanes > 1:
                    return self.lanes(dtype, "div", a, b)
                return Text(f"{a.at(PRODUCT)} / {b.at(PRODUCT + 1)}", PRODUCT)
            if type(e) is Mod:
                return self.mapped("fmod", dtype, e.a, e.b)
            raise self.error("floor division and modulo take integers", e)
        low, high = self.range_of(e.a), self.range_of(e.b)
        positive = low is not None and low[0] >= 0 and high is not None and high[0] > 0
        if dtype.lanes > 1:
            return self.mapped(name, dtype, e.a, e.b)
        if positive and dtype.bits >= 32:
            sign = "%" if type(e) in (Mod, FloorMod) else "/"
            return Text(f"{self.expr(e.a).at(PRODUCT)} {sign} {self.expr(e.b).at(PRODUCT + 1)}", PRODUCT)
        return self.mapped(name, dtype, e.a, e.b)

    def product(self, a: Text, b: Text, dtype: DataType) -> Text:
        """The product of two floats."""
        if dtype.lanes > 1:
            return self.lanes(dtype, "mul", a, b)
        return Text(f"{a.at(PRODUCT)} * {b.at(PRODUCT + 1)}", PRODUCT)

    def mapped(self, name: str, dtype: DataType, *args: PrimExpr) -> Text:
        """A call of `tw_<name>_<type>` on scalars, or on each lane of vectors, of one type."""
        operands = [self.expr(a) for a in args]
        scalars = f"tw_{name}_{scalar(dtype)}"
        if dtype.lanes == 1:
            return self.function(scalars, *operands)
        return self.function(self.module.mapped(name, scalars, dtype, [a.dtype for a in args]), *operands)

    def on_extreme(self, e: Max | Min) -> Text:
        name, dtype = BINARY[type(e)].word, e.dtype
        a, b = self.expr(e.a), self.expr(e.b)
        if dtype.lanes > 1:
            return self.lanes(dtype, name, a, b)
        return self.function(f"tw_{name}_{scalar(dtype)}", a, b)

    # --- conditions

    def on_compare(self, e: Any) -> Text:
        sign, name = BINARY[type(e)].sign, BINARY[type(e)].word
        a, b, dtype = self.expr(e.a), self.expr(e.b), e.a.dtype
        if dtype.lanes > 1:
            return self.lanes(dtype, name, a, b)
        return Text(f"{a.at(RELATION + 1)} {sign} {b.at(RELATION + 1)}", RELATION)

    def on_connect(self, e: And | Or) -> Text:
        sign, name = ("&&", "and") if type(e) is And else ("||", "or")
        a = self.expr(e.a)
        if e.dtype.lanes > 1:
            return self.lanes(e.dtype, name, a, self.expr(e.b))
        lines, b = self.inside(lambda: self.expr(e.b))
        if not lines:
            # Mixed operators get parentheses that C does not need, for readers and compilers' warnings.
            strength = RELATION if type(e.a) is not type(e) else RELATION - 10
            return Text(f"{a.at(strength)} {sign} {b.at(RELATION)}", RELATION - 10)
        zero, one = (lambda: Text("0")), (lambda: Text("1"))
        value = lambda: self.expr(e.b)  # noqa: E731
        return self.lazy(a, value, zero, e.dtype) if type(e) is And else self.lazy(a, one, value, e.dtype)

    def on_negate(self, e: Not) -> Text:
        a = self.expr(e.a)
        if e.dtype.lanes > 1:
            return self.lanes(e.dtype, "xor", a, self.lanes(e.dtype, "splat", "1"))
        return Text(f"!{a.at(UNARY)}", UNARY)

    def on_select(self, e: Select) -> Text:
        c, a, b = self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value)
        if e.condition.dtype.lanes > 1:
            return self.lanes(e.dtype, "select", c, a, b)
        return Text(f"{c.at(CHOICE + 1)} ? {a.at(CHOICE + 1)} : {b.at(CHOICE + 1)}", CHOICE)

    # --- casts

    def on_cast(self, e: Cast) -> Text:
        return self.convert(self.expr(e.value), e.value.dtype, e.dtype)

    def convert(self, a: Text, source: DataType, to: DataType) -> Text:
        """A value converted to another type. Rounding as in C; integers saturate, and NaN becomes 0, where C defines nothing."""
        if source == to:
            return a
        if to.is_bool:
            zero = floating(0.0, source) if source.is_float else Text("0")
            if to.lanes > 1:
                return self.lanes(source, "ne", a, self.lanes(source, "splat", zero))
            return Text(f"{a.at(RELATION + 1)} != {zero}", RELATION)
        if "float16" in (source.element, to.element):
            return self._convert_half(a, source, to)
        if source.code == "handle" or to.code == "handle":
            return a if source.code == to.code else Text(f"({ctype(to)})(intptr_t){a.at(UNARY)}", UNARY)
        saturates = source.is_float and not to.is_float
        if to.lanes > 1:
            function = f"tw_{scalar(source)}_to_{scalar(to)}" if saturates else ""
            return self.function(self.module.converted(source, to, function), a)
        if saturates:
            return self.function(f"tw_{scalar(source)}_to_{scalar(to)}", a)
        return self._cast_to(a, to)

    def _convert_half(self, a: Text, source: DataType, to: DataType) -> Text:
        """Converts from float16 or to it, through float32."""
        single, lanes = DataType("float32").with_lanes(to.lanes), to.lanes
        if source.element == "float16":
            wide = "tw_f16_to_f32"
            a = self.function(self.module.converted(source, single, wide) if lanes > 1 else wide, a)
            return self.convert(a, single, to)
        a, narrow = self.convert(a, source, single), "tw_f32_to_f16"
        return self.function(self.module.converted(single, to, narrow) if lanes > 1 else narrow, a)

    # --- vectors

    def broadcast(self, a: Text, dtype: DataType) -> Text:
        """A scalar in every lane of `dtype`."""
        return self.lanes(dtype, "splat", a)

    def on_broadcast(self, e: Broadcast) -> Text:
        value = e.value.dtype
        if value.lanes == 1:
            return self.broadcast(self.expr(e.value), e.dtype)
        one = self.temporary(self.expr(e.value), value)
        return self.joined([(one, value)] * (e.dtype.lanes // value.lanes), e.dtype)

    def on_ramp(self, e: Ramp) -> Text:
        return self.lanes(e.dtype, "ramp", self.expr(e.base), self.expr(e.stride))

    def array(self, dtype: DataType, lanes: int, values: str = "") -> str:
        """Declares a local array of elements, and returns its name."""
        name = self.names.fresh("lanes")
        const, filled = ("const ", f" = {{{values}}}") if values else ("", "")
        self.line(f"{const}{ctype(dtype.element)} {name}[{lanes}]{filled};")
        return name

    def joined(self, parts: list[tuple[Text, DataType]], dtype: DataType, first: int = 0) -> Text:
        """The lanes of the concatenation of vectors of one element type, from lane `first` on."""
        place = self.array(dtype, sum([t.lanes for _, t in parts]))
        at = 0
        for text, t in parts:
            where = f"{place} + {at}" if at else place
            self.line(f"{self.lanes(t, 'store', where, text)};" if t.lanes > 1 else f"{place}[{at}] = {text};")
            at += t.lanes
        return self.lanes(dtype, "load", f"{place} + {first}" if first else place)

    def lane(self, a: Text, dtype: DataType, k: int) -> Text:
        """Lane `k` of a vector."""
        return self.lanes(dtype, "get", a, str(k)) if dtype.lanes > 1 else a

    def on_shuffle(self, e: Shuffle) -> Text:
        picks = [i.value if isinstance(i, IntImm) else None for i in e.indices]
        if None in picks:
            raise self.error("shuffle indices must be constants", e)
        parts = [(self.expr(v), v.dtype) for v in e.vectors]
        n = len(picks)
        if n > 1 and picks == list(range(picks[0] or 0, (picks[0] or 0) + n)):
            return self.joined(parts, e.dtype, picks[0] or 0)
        lanes: list[Text] = []
        for text, t in parts:
            named = self.temporary(text, t) if t.lanes > 1 and len(text) > 8 else text
            lanes += [self.lane(named, t, k) for k in range(t.lanes)]
        chosen = [lanes[k or 0] for k in picks]
        if n == 1:
            return chosen[0]
        return self.lanes(e.dtype, "load", self.array(e.dtype, n, ", ".join(chosen)))

    def on_let(self, e: Let) -> Text:
        self.bind(e.var, e.value)
        return self.expr(e.body)

    def bind(self, var: Var, value: PrimExpr) -> None:
        """Binds `var` to `value` from here on."""
        text = self.expr(value)
        found = self.range_of(value)
        self.variables[var] = self.temporary(text, var.dtype, var.name)
        if found is not None:
            self.ranges[var] = found
        else:
            self.ranges.pop(var, None)


def _same_products(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two expressions are products of the same factors."""
    if type(a) is not Mul or type(b) is not Mul:
        return False
    return any([structural_equal(a.a, c) and structural_equal(a.b, d) for c, d in ((b.a, b.b), (b.b, b.a))])
