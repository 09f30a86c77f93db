"""Functions of numbers in kernels: mathematics and bits."""

from __future__ import annotations

from tilewright.codegen.source.device.memory import DeviceMemory
from tilewright.codegen.source.text.operands import CONNECTION, PRODUCT, SHIFT, SUM, UNARY, Text
from tilewright.ir import DataType, FloatImm, IntImm
from tilewright.tir import Broadcast, Call, StringImm, const, exp
from tilewright.tir.scalars import BITWISE

SINGLE = DataType("float32")
LLVM_FUNCTIONS = {
    "fabs": "fabs", "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "log10": "log10",
    "sin": "sin", "cos": "cos", "pow": "pow", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round",
    "nearbyint": "nearbyint", "rint": "nearbyint", "fma": "fma", "fmuladd": "fma", "copysign": "copysign",
}  # fmt: skip
"""Intrinsic of LLVM -> function of floats."""


class DeviceMathematics(DeviceMemory):
    """Rules for functions of numbers, as a part of a kernel's emitter."""

    def on_power(self, e: Call) -> Text:
        exponent = e.args[1].value if isinstance(e.args[1], Broadcast) else e.args[1]
        if isinstance(exponent, FloatImm) and exponent.value in (2.0, 3.0):
            x = self.expr(e.args[0])
            x = x if len(x) < 20 else self.temporary(x, e.dtype)
            square = self.dialect.sign("*", x, x, e.dtype, PRODUCT)
            return square if exponent.value == 2.0 else self.dialect.sign("*", square, x, e.dtype, PRODUCT)
        return self.called("pow", e.dtype, *e.args)

    def on_fma(self, e: Call) -> Text:
        if e.dtype.is_float:
            return self.called("fma", e.dtype, *e.args)
        a, b, c = map(self.expr, e.args)
        return self.dialect.sign("+", self.dialect.sign("*", a, b, e.dtype, PRODUCT), c, e.dtype, SUM)

    def on_sigmoid(self, e: Call) -> Text:
        one = const(1.0, e.dtype)
        return self.expr(one / (one + exp(const(0.0, e.dtype) - e.args[0])))

    def on_absolute(self, e: Call) -> Text:
        if e.dtype.is_float:
            return self.called("fabs", e.dtype, e.args[0])
        return self.per_lane(e.dtype, list(e.args), lambda a: self.function("abs", a))

    def on_ldexp(self, e: Call) -> Text:
        x, n = e.args
        return self.per_lane(e.dtype, [x, n], lambda a, b: self.function("ldexp", a, self._as_int(b, n.dtype)))

    def _as_int(self, text: Text, dtype: DataType) -> Text:
        return self.dialect.convert(text, dtype.element, DataType("int32"))

    def on_classify(self, e: Call) -> Text:
        value, name = e.args[0], e.intrinsic
        if not value.dtype.is_float:
            return self.expr(const(name == "isfinite", e.dtype))
        element = value.dtype.element

        def classified(x: Text) -> Text:
            wide = x if element.bits >= 32 else self.dialect.convert(x, element, SINGLE)
            return self.function(name, wide)

        return self.per_lane(e.dtype, [value], classified)

    # --- bits

    def on_bitwise(self, e: Call) -> Text:
        a, b = map(self.expr, e.args)
        whole = self.dialect.sign(BITWISE[e.intrinsic].sign, Text(a.at(UNARY)), Text(b.at(UNARY)), e.dtype, CONNECTION)
        return Text(whole, min(whole.strength, CONNECTION)) if whole.strength < UNARY else whole

    def on_shift(self, e: Call) -> Text:
        # Parentheses around sums, which C does not need.
        a, b = [Text(self.expr(x).at(UNARY)) for x in e.args]
        if e.dtype.lanes == 1 and e.dtype.bits == 64 and isinstance(e.args[0], IntImm):
            a = self.cast_text(a, e.dtype)  # the type of a shift is that of what is shifted, and short literals are int
        whole = self.dialect.sign(BITWISE[e.intrinsic].sign, a, b, e.dtype, SHIFT)
        return self.cast_text(whole, e.dtype) if e.dtype.lanes == 1 and e.dtype.bits < 32 else whole

    def on_bitwise_not(self, e: Call) -> Text:
        def inverted(a: Text) -> Text:
            whole = Text(f"~{a.at(UNARY)}", UNARY)
            return self.cast_text(whole, e.dtype.element) if e.dtype.bits < 32 else whole

        return self.per_lane(e.dtype, [e.args[0]], inverted)

    def on_popcount(self, e: Call) -> Text:
        value, name = e.args[0], e.intrinsic
        kind, element = value.dtype.element, e.dtype.element

        def counted(a: Text) -> Text:
            text = self.dialect.count_bits(name, kind, a)
            return self.dialect.convert(text, DataType("int32"), element)

        return self.per_lane(e.dtype, [value], counted)

    on_clz = on_popcount

    def on_reinterpret(self, e: Call) -> Text:
        value = e.args[0]
        if value.dtype == e.dtype:
            return self.expr(value)
        if "handle" in (value.dtype.code, e.dtype.code):
            raise self.error("addresses of devices are no numbers", e)
        return self.dialect.reinterpret(self.expr(value), value.dtype, e.dtype)

    def on_large_uint(self, e: Call) -> Text:
        low, high = e.args
        assert isinstance(low, IntImm) and isinstance(high, IntImm)
        return self.dialect.integer((high.value << 32) | low.value, e.dtype)

    def on_q_multiply_shift(self, e: Call) -> Text:
        """round(x * y * 2**-s / 2**q) in 64 bits; ties are rounded up."""
        wide, narrow = DataType("int64"), e.dtype.element

        def scaled(x: Text, y: Text, q: Text, s: Text) -> Text:
            def long(a: Text) -> Text:
                return self.dialect.convert(a, DataType("int32"), wide)

            shift = Text(f"{q.at(SUM)} + {s.at(SUM + 1)}", SUM)
            product = Text(f"{long(x).at(PRODUCT)} * {long(y).at(PRODUCT + 1)}", PRODUCT)
            half = f"({long(Text('1'))} << ({shift} - 1))"
            return self.dialect.convert(Text(f"({product} + {half}) >> ({shift})", SHIFT), wide, narrow)

        return self.per_lane(e.dtype, list(e.args[:4]), scaled)

    def on_dot(self, e: Call) -> Text:
        a, b = [self.named(self.expr(x), x.dtype) for x in e.args[:2]]
        return self.dialect.dot(e, a, b, self.expr(e.args[2]))

    def on_llvm(self, e: Call) -> Text:
        symbol = e.args[0].value if isinstance(e.args[0], StringImm) else str(e.args[0])
        parts = symbol.removeprefix("llvm.").split(".")
        name = LLVM_FUNCTIONS.get(parts[0])
        if name is None or not symbol.startswith("llvm."):
            raise self.error(f"{self.dialect.name} has no function for LLVM's {symbol}; use the intrinsic of tir", e)
        args = [a for a in e.args[1:] if a.dtype == e.dtype]
        return self.called(name, e.dtype, *args)


__all__ = ["DeviceMathematics"]
