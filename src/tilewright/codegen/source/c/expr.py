"""C text of expressions: arithmetic, comparisons, choices, casts, vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.codegen.source.c.names import ctype, floating, integer, scalar
from tilewright.codegen.source.text.expressions import same_products
from tilewright.codegen.source.text.loops import Statements
from tilewright.codegen.source.text.operands import PRODUCT, RELATION, SUM, UNARY, Text
from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr
from tilewright.tir import (
    Add,
    And,
    Broadcast,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Mod,
    Mul,
    Not,
    Ramp,
    Select,
    Shuffle,
    Sub,
)
from tilewright.tir.scalars import BINARY

if TYPE_CHECKING:
    from tilewright.codegen.source.c.module import ModuleEmitter
    from tilewright.tir.expr import BinaryOpExpr, Max, Min, Or

_DIVISIONS: dict[type, str] = {Div: "div", Mod: "mod", FloorDiv: "floordiv", FloorMod: "floormod"}


class ExprEmitter(Statements):
    """Rules for expressions, as a part of a function's emitter."""

    module: ModuleEmitter
    language = "C"

    def type_text(self, dtype: DataType) -> str:
        return ctype(dtype)

    # --- leaves

    def on_integer(self, e: IntImm) -> Text:
        return integer(e.value, e.dtype)

    def on_float(self, e: FloatImm) -> Text:
        return floating(e.value, e.dtype)

    # --- arithmetic

    def lanes(self, dtype: DataType, name: str, *args: str) -> Text:
        """A call of a function on vectors of a type."""
        return self.function(f"{self.module.vector(dtype)}_{name}", *args)

    def on_add(self, e: Add | Mul | Sub) -> Text:
        dtype, name = e.dtype, BINARY[type(e)].word
        if dtype.lanes > 1:
            return self._fused(e) or self.lanes(dtype, name, self.expr(e.a), self.expr(e.b))
        if dtype.is_float and type(e) is Sub and same_products(e.a, e.b):
            one = self.temporary(self.expr(e.a), dtype)
            return Text(f"{one} - {one}", SUM)
        if dtype.is_int and dtype.bits >= 32 and not self.in_index and self.range_of(e) is None:
            return self.function(f"tw_{name}_{scalar(dtype)}", self.expr(e.a), self.expr(e.b))
        whole = self.signed(e)
        return self.cast_text(whole, dtype) if not dtype.is_float and dtype.bits < 32 else whole

    on_subtract = on_multiply = on_add

    def _fused(self, e: PrimExpr) -> Text | None:
        """A sum of a product and another vector as a fused multiply-add, or a difference of equal products; None for others."""
        dtype = e.dtype
        if not dtype.is_float:
            return None
        if type(e) is Sub and same_products(e.a, e.b):
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

    def on_compare(self, e: BinaryOpExpr) -> Text:
        if e.a.dtype.lanes > 1:
            return self.lanes(e.a.dtype, BINARY[type(e)].word, self.expr(e.a), self.expr(e.b))
        return super().on_compare(e)

    def on_connect(self, e: And | Or) -> Text:
        if e.dtype.lanes > 1:
            return self.lanes(e.dtype, "and" if type(e) is And else "or", self.expr(e.a), self.expr(e.b))
        return super().on_connect(e)

    def on_negate(self, e: Not) -> Text:
        if e.dtype.lanes > 1:
            return self.lanes(e.dtype, "xor", self.expr(e.a), self.lanes(e.dtype, "splat", "1"))
        return super().on_negate(e)

    def on_select(self, e: Select) -> Text:
        if e.condition.dtype.lanes > 1:
            c, a, b = self.expr(e.condition), self.expr(e.true_value), self.expr(e.false_value)
            return self.lanes(e.dtype, "select", c, a, b)
        return super().on_select(e)

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
        return self.cast_text(a, to)

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
