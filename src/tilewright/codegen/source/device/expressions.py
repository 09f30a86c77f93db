"""Expressions of kernels: arithmetic, comparisons, choices, casts, vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.codegen.source.device.dialect import Dialect, Refused, refuse
from tilewright.codegen.source.text.expressions import STRENGTH
from tilewright.codegen.source.text.loops import Statements
from tilewright.codegen.source.text.operands import ATOM, CHOICE, CONNECTION, PRODUCT, SHIFT, SUM, UNARY, Text
from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr
from tilewright.tir import Add, And, Broadcast, Cast, Div, FloorMod, Mod, Mul, Not, Ramp, Select, Shuffle, Sub
from tilewright.tir.analysis.value_range import Range, value_range
from tilewright.tir.scalars import BINARY

if TYPE_CHECKING:
    from tilewright.tir.expr import BinaryOpExpr, Max, Min, Or


class DeviceExpressions(Statements):
    """Rules for expressions, as a part of a kernel's emitter."""

    dialect: Dialect
    longest = 100

    def type_text(self, dtype: DataType) -> str:
        return self.dialect.type(dtype)

    def expr(self, e: PrimExpr) -> Text:
        try:
            return super().expr(e)
        except Refused as error:
            raise refuse(error, self, e) from error  # type: ignore[arg-type]

    def value(self, e: PrimExpr) -> Text:
        """A value that has a line of its own, which may be longer than operands."""
        try:
            text = self._table[type(e)](self, e)
        except Refused as error:
            raise refuse(error, self, e) from error  # type: ignore[arg-type]
        return text if len(text) <= 120 else self.temporary(text, e.dtype)

    def range_of(self, e: PrimExpr) -> Range | None:
        # Integers of kernels are indices and conditions on them, which do not wrap around.
        return value_range(e, self.ranges.get, wraps=False)

    # --- literals

    def on_integer(self, e: IntImm) -> Text:
        return self.dialect.integer(e.value, e.dtype)

    def on_float(self, e: FloatImm) -> Text:
        return self.dialect.floating(e.value, e.dtype)

    # --- arithmetic

    def on_add(self, e: Add | Sub | Mul) -> Text:
        dtype = e.dtype
        if dtype.lanes > 1:
            sign = BINARY[type(e)].sign
            return self.dialect.sign(sign, self.expr(e.a), self.expr(e.b), dtype, STRENGTH[type(e)])
        whole = self._widened(e) or self.signed(e)
        narrow = not dtype.is_float and dtype.bits < 32
        return self.cast_text(whole, dtype) if narrow and not self.in_index else whole

    on_subtract = on_multiply = on_add

    def _widened(self, e: Add | Sub | Mul) -> Text | None:
        """An operation in 64 bits whose second operand is converted by the language, as the first one is as wide."""
        b, strength = e.b, STRENGTH[type(e)]
        if e.dtype != "int64" or isinstance(e.a, IntImm) or not isinstance(b, Cast) or not b.value.dtype.is_int:
            return None
        return Text(
            f"{self.expr(e.a).at(strength)} {BINARY[type(e)].sign} {self.expr(b.value).at(strength + 1)}", strength
        )

    def on_divide(self, e: BinaryOpExpr) -> Text:
        dtype, kind = e.dtype, type(e)
        if dtype.is_float:
            if kind is Mod:
                return self.called("fmod", dtype, e.a, e.b)
            if kind is not Div:
                raise self.error("floor division and modulo take integers", e)
            return self._quotient("/", e)
        remainder = kind in (Mod, FloorMod)
        if kind in (Div, Mod) or dtype.is_uint or self._is_natural(e.a) and self._is_natural(e.b):
            return self._quotient("%" if remainder else "/", e)
        power = self._power_of_two(e.b)
        if power is not None and dtype.lanes == 1:
            a = self.expr(e.a)
            if remainder:
                return Text(f"{a.at(UNARY)} & {(1 << power) - 1}", CONNECTION)
            return Text(f"{a.at(UNARY)} >> {power}", SHIFT)
        name = "floormod" if kind is FloorMod else "floordiv"
        return self.dialect.floor_division(name, dtype, self.expr(e.a), self.expr(e.b))

    def _quotient(self, sign: str, e: BinaryOpExpr) -> Text:
        return self.dialect.sign(sign, self.expr(e.a), self.expr(e.b), e.dtype, PRODUCT)

    def _is_natural(self, e: PrimExpr) -> bool:
        """Whether an integer is not negative."""
        found = self.range_of(e)
        return found is not None and found[0] >= 0

    @staticmethod
    def _power_of_two(e: PrimExpr) -> int | None:
        value = e.value if isinstance(e, IntImm) else 0
        return value.bit_length() - 1 if value > 0 and value & (value - 1) == 0 else None

    def on_extreme(self, e: Max | Min) -> Text:
        return self.dialect.extreme(BINARY[type(e)].word, e.dtype, self.expr(e.a), self.expr(e.b))

    def called(self, name: str, dtype: DataType, *args: PrimExpr) -> Text:
        """A function of floats on values of one type. float16 is computed in float32."""
        operands = [self.expr(a) for a in args]
        if dtype.bits >= 32:
            return self.dialect.function(name, dtype, operands)
        single = DataType("float32").with_lanes(dtype.lanes)
        wide = [self.dialect.convert(t, a.dtype, single) for t, a in zip(operands, args, strict=True)]
        return self.dialect.convert(self.dialect.function(name, single, wide), single, dtype)

    # --- conditions

    def on_compare(self, e: BinaryOpExpr) -> Text:
        if e.dtype.lanes > 1:
            return self.dialect.compared(BINARY[type(e)].sign, self.expr(e.a), self.expr(e.b), e.a.dtype)
        return super().on_compare(e)

    def on_connect(self, e: And | Or) -> Text:
        if e.dtype.lanes > 1:
            sign = "&" if type(e) is And else "|"
            return self.dialect.sign(sign, self.expr(e.a), self.expr(e.b), e.dtype, CONNECTION)
        return super().on_connect(e)

    def on_negate(self, e: Not) -> Text:
        if e.dtype.lanes > 1:
            zero = self.dialect.splat(e.dtype, Text("0"))
            return self.dialect.compared("==", self.expr(e.a), zero, e.dtype)
        return super().on_negate(e)

    def on_select(self, e: Select) -> Text:
        if e.condition.dtype.lanes > 1:
            condition, a, b = [self.expr(x) for x in (e.condition, e.true_value, e.false_value)]
            return self.dialect.select(condition, a, b, e.dtype)
        if e.dtype.bits == 64 and isinstance(e.true_value, IntImm) and isinstance(e.false_value, IntImm):
            # Of two short literals the choice would be int.
            condition, a, b = [self.expr(x) for x in (e.condition, e.true_value, e.false_value)]
            wide = self.cast_text(a, e.dtype)
            return Text(f"{condition.at(CHOICE + 1)} ? {wide} : {b.at(CHOICE + 1)}", CHOICE)
        return super().on_select(e)

    # --- casts and vectors

    def on_cast(self, e: Cast) -> Text:
        return self.dialect.convert(self.expr(e.value), e.value.dtype, e.dtype)

    def on_broadcast(self, e: Broadcast) -> Text:
        if e.value.dtype.lanes == 1:
            return self.dialect.splat(e.dtype, self.expr(e.value))
        lanes = self.lanes_of(e.value)
        return self.dialect.joined(e.dtype, lanes * (e.dtype.lanes // len(lanes)))

    def on_ramp(self, e: Ramp) -> Text:
        base, lanes = self.expr(e.base), []
        for k in range(e.dtype.lanes):
            step: Any = e.stride.value * k if isinstance(e.stride, IntImm) else e.stride * k
            text = Text(str(step), ATOM if step >= 0 else UNARY) if isinstance(step, int) else self.expr(step)
            lanes.append(Text(f"{base.at(SUM)} + {text.at(SUM + 1)}", SUM) if k else base)
        return self.dialect.joined(e.dtype, lanes)

    def named(self, text: Text, dtype: DataType) -> Text:
        """The name of an operand."""
        return text if text.isidentifier() else self.temporary(text, dtype)

    def lanes_of(self, e: PrimExpr) -> list[Text]:
        """The lanes of a vector, or a scalar."""
        text = self.expr(e)
        if e.dtype.lanes == 1:
            return [text]
        name = self.named(text, e.dtype)
        return [self.dialect.lane(name, e.dtype, k) for k in range(e.dtype.lanes)]

    def on_shuffle(self, e: Shuffle) -> Text:
        picks = [i.value if isinstance(i, IntImm) else -1 for i in e.indices]
        if -1 in picks:
            raise self.error("shuffle indices must be constants", e)
        lanes = [lane for v in e.vectors for lane in self.lanes_of(v)]
        chosen = [lanes[k] for k in picks]
        return chosen[0] if len(chosen) == 1 else self.dialect.joined(e.dtype, chosen)

    def per_lane(self, dtype: DataType, args: list[PrimExpr], make: Any) -> Text:
        """A value of scalars, or of each lane of vectors. make: from the operands of a lane to a Text."""
        if dtype.lanes == 1:
            made: Text = make(*[self.expr(a) for a in args])
            return made
        columns = [self.lanes_of(a) for a in args]
        columns = [c * dtype.lanes if len(c) == 1 else c for c in columns]
        return self.dialect.joined(dtype, [make(*row) for row in zip(*columns, strict=True)])


__all__ = ["DeviceExpressions"]
