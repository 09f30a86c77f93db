"""C text of intrinsics and calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tilewright.codegen.source.c.memory import MemoryEmitter
from tilewright.codegen.source.c.names import ctype, floating, integer, kept, scalar
from tilewright.codegen.source.text.operands import PRODUCT, RELATION, UNARY, Text
from tilewright.ir import DataType, FloatImm, GlobalVar, IntImm
from tilewright.tir import Broadcast, BufferLoad, Call, StringImm, Var
from tilewright.tir.op import ACTIVATIONS
from tilewright.tir.scalars import BITWISE

_OF_ONE = """exp exp2 exp10 expm1 log log2 log10 log1p tanh sinh cosh sigmoid erf erfc sin cos tan asin acos atan asinh acosh
    atanh rsqrt sqrt fabs floor ceil trunc round"""
_OF_TWO = "atan2 hypot pow fmod nextafter copysign"
MATH = dict.fromkeys((*_OF_ONE.split(), *ACTIVATIONS), 1) | dict.fromkeys(_OF_TWO.split(), 2) | {"fma": 3}
"""Functions of floats in tilewright/kernel.h -> their number of arguments."""
SAME = {"nearbyint": "round", "rint": "round"}
_LIBRARY_WORDS = """expm1 log2 log10 log1p sinh cosh sin cos tan asin acos atan asinh acosh atanh erfc floor ceil trunc atan2
    hypot pow fmod nextafter exp10 fma round sqrt rsqrt"""
_FROM_LIBRARY = frozenset(_LIBRARY_WORDS.split())
"""Functions that call the C library for floats of all widths, unless the compiler has an instruction."""


OF_ARM = {
    "llvm.arm.smlad": "tw_smlad", "llvm.arm.smlabb": "tw_smlabb", "llvm.arm.smlatt": "tw_smlatt", "llvm.arm.sxtb16": "tw_sxtb16",
    "llvm.fshl.i32": "tw_fshl_u32",
}  # fmt: skip
"""LLVM's names of instructions -> functions in tilewright/kernel.h, which are these instructions or portable C."""


class CallEmitter(MemoryEmitter):
    """Rules for calls, as a part of a function's emitter."""

    _calls: ClassVar[dict[str, Callable[..., Text]]] = {}

    def on_call(self, e: Call) -> Text:
        if isinstance(e.op, GlobalVar):
            return self.call_function(e)
        method = self._calls.get(e.intrinsic)
        if method is not None:
            return method(self, e)
        name = SAME.get(e.intrinsic, e.intrinsic)
        if name in MATH:
            return self._math(name, e)
        raise self.error(f"the C back end has no rule for the intrinsic tir.{e.intrinsic}", e)

    # --- mathematics

    def _math(self, name: str, e: Call) -> Text:
        dtype = e.dtype
        if not dtype.is_float:
            raise self.error(f"{name} takes floating point values, but was given {dtype}", e)
        if name in ACTIVATIONS and dtype.element != "float32":
            raise self.error(f"{name} takes float32 values, but was given {dtype}", e)
        if name == "pow" and (found := self._power(e)) is not None:
            return found
        if name == "fma":
            return self.on_fma(e)
        if dtype.bits == 64 or name in _FROM_LIBRARY:
            stem = {"exp10": "pow", "round": "rint", "rsqrt": "sqrt"}.get(name, name)
            self.module.library.update((stem, f"{stem}f"))
        return self.mapped(name, dtype, *e.args)

    def on_fma(self, e: Call) -> Text:
        a, b, c = map(self.expr, e.args)
        if e.dtype.lanes > 1:
            if e.dtype.is_float:
                return self.lanes(e.dtype, "fma", a, b, c)
            return self.lanes(e.dtype, "add", self.lanes(e.dtype, "mul", a, b), c)
        if e.dtype.is_float:
            return Text(f"{a.at(PRODUCT)} * {b.at(PRODUCT + 1)} + {c.at(PRODUCT)}", PRODUCT - 10)
        s = scalar(e.dtype)
        return self.function(f"tw_add_{s}", self.function(f"tw_mul_{s}", a, b), c)

    def _power(self, e: Call) -> Text | None:
        """A power with the exponent 1, 2, 3, -1 or 0.5 as a product, a quotient or a root; None for others."""
        exponent = e.args[1].value if isinstance(e.args[1], Broadcast) else e.args[1]
        if not isinstance(exponent, FloatImm) or exponent.value not in (1.0, 2.0, 3.0, -1.0, 0.5):
            return None
        x, dtype, value = self.expr(e.args[0]), e.dtype, exponent.value
        if value == 1.0:
            return x
        if len(x) > 8:
            x = self.temporary(x, dtype)

        if value == 2.0:
            return self.product(x, x, dtype)
        if value == 3.0:
            return self.product(self.product(x, x, dtype), x, dtype)
        if value == -1.0:
            one = floating(1.0, dtype)
            if dtype.lanes > 1:
                return self.lanes(dtype, "div", self.broadcast(one, dtype), x)
            return Text(f"{one} / {x.at(PRODUCT + 1)}", PRODUCT)
        zero = floating(0.0, dtype)
        if dtype.lanes == 1:
            # pow(-0, 0.5) is 0, sqrt(-0) is -0.
            return self.function(f"tw_sqrt_{scalar(dtype)}", f"{x.at(PRODUCT)} + {zero}")
        whole = self.lanes(dtype, "add", x, self.broadcast(zero, dtype))
        return self.function(self.module.mapped("sqrt", f"tw_sqrt_{scalar(dtype)}", dtype, [dtype]), whole)

    def on_ldexp(self, e: Call) -> Text:
        x, n = e.args
        operands = self.expr(x), self.convert(self.expr(n), n.dtype, DataType("int32").with_lanes(n.dtype.lanes))
        name = f"tw_ldexp_{scalar(e.dtype)}"
        if e.dtype.lanes > 1:
            name = self.module.mapped("ldexp", name, e.dtype, [x.dtype, DataType("int32").with_lanes(e.dtype.lanes)])
        return self.function(name, *operands)

    def on_classify(self, e: Call) -> Text:
        value, name = e.args[0], e.intrinsic
        x, dtype = self.expr(value), value.dtype
        if not dtype.is_float:
            truth = Text("1" if name == "isfinite" else "0")
            return self.broadcast(truth, e.dtype) if dtype.lanes > 1 else truth
        if dtype.element == "float16":
            wide = DataType("float32").with_lanes(dtype.lanes)
            x, dtype = self.convert(x, dtype, wide), wide
        if dtype.lanes == 1:
            return self.function(f"tw_{name}_{scalar(dtype)}", x)
        return self.function(self.module.mapped(name, f"tw_{name}_{scalar(dtype)}", e.dtype, [dtype]), x)

    # --- bits

    def on_bitwise(self, e: Call) -> Text:
        operation = BITWISE[e.intrinsic]
        sign, name = operation.sign, operation.word
        a, b = map(self.expr, e.args)
        if e.dtype.lanes > 1:
            return self.lanes(e.dtype, name, a, b)
        whole = Text(f"{a.at(UNARY)} {sign} {b.at(UNARY)}", RELATION - 5)
        return self.cast_text(whole, e.dtype) if e.dtype.bits < 32 and not e.dtype.is_bool else whole

    def on_shift(self, e: Call) -> Text:
        name = BITWISE[e.intrinsic].word
        a, b = map(self.expr, e.args)
        if e.dtype.lanes > 1:
            return self.lanes(e.dtype, name, a, b)
        return self.function(f"tw_{name}_{scalar(e.dtype)}", a, b)

    def on_bitwise_not(self, e: Call) -> Text:
        a = self.expr(e.args[0])
        if e.dtype.lanes > 1:
            return self.lanes(e.dtype, "xor", a, self.broadcast(integer(-1, e.dtype.element), e.dtype))
        whole = Text(f"~{a.at(UNARY)}", UNARY)
        return self.cast_text(whole, e.dtype) if e.dtype.bits < 32 else whole

    def on_popcount(self, e: Call) -> Text:
        value, name = e.args[0], e.intrinsic
        return self.convert(self.mapped(name, value.dtype, value), value.dtype, e.dtype)

    on_clz = on_popcount

    def on_reinterpret(self, e: Call) -> Text:
        value = e.args[0]
        source, to = kept(value.dtype), kept(e.dtype)
        place = self.neighbours(value) if to.lanes == 1 and to.bits >= 32 and not to.is_float else None
        if place is not None:
            return self.function(f"tw_read_{scalar(to)}", place)
        a = self.expr(value)
        if source == to:
            return a
        if "handle" in (source.code, to.code):
            return Text(f"({ctype(to)})(intptr_t){a.at(UNARY)}", UNARY)
        if not source.is_float and not to.is_float and source.lanes == to.lanes == 1:
            return self.cast_text(a, to)
        if source.lanes == to.lanes == 1:
            if source.is_float and not to.is_float:
                return self.cast_text(self.function(f"{scalar(source)}_bits", a), to)
            return self.function(f"{scalar(to)}_of_bits", a)
        if source.lanes == 1 or to.lanes == 1:
            held = self.names.fresh("bits")
            self.line(f"{ctype(to)} {held};")
            self.line(f"tw_copy(&{held}, &{self.temporary(a, source)}, sizeof {held});")
            return Text(held)
        return self.function(self.module.reinterpreted(source, to), a)

    def on_large_uint(self, e: Call) -> Text:
        low, high = e.args
        assert isinstance(low, IntImm) and isinstance(high, IntImm)
        return integer((high.value << 32) | low.value, e.dtype)

    def on_q_multiply_shift(self, e: Call) -> Text:
        """round(x * y * 2**-s / 2**q) in 64 bits; ties are rounded up."""
        lanes = e.dtype.lanes
        same = DataType(e.dtype.element).with_lanes(lanes)
        operands = []
        for arg in e.args[:4]:
            wide = arg if arg.dtype.lanes == lanes else Broadcast(arg, lanes)
            operands.append(self.convert(self.expr(wide), wide.dtype, same))
        if lanes == 1:
            return self.cast_text(self.function("tw_q_multiply_shift", *operands), e.dtype)
        return self.function(self.module.mapped("q_multiply_shift", "tw_q_multiply_shift", same, [same] * 4), *operands)

    # --- choices and addresses

    def on_address_of(self, e: Call) -> Text:
        load = e.args[0]
        if not isinstance(load, BufferLoad):
            raise self.error("address_of takes a buffer element", e)
        at = self.offset(load.buffer, load.indices)
        if at is None:
            raise self.error("address_of takes a single element or a ramp", e)
        return Text(f"(void*){self.place(load.buffer, at.start).at(UNARY)}", UNARY)

    def on_access_ptr(self, e: Call) -> Text:
        annotation, data, offset = e.args[0], e.args[1], e.args[2]
        assert isinstance(data, Var)
        size = annotation.dtype.bytes * annotation.dtype.lanes
        return self._moved(self.pointer(data), Text(f"{self.index(offset).at(PRODUCT)} * {size}", PRODUCT))

    def _moved(self, base: Text, by: Text) -> Text:
        return base if by == "0" else Text(f"(void*)((char*){base.at(UNARY)} + {by})", UNARY)

    def on_byte_offset(self, e: Call) -> Text:
        return self._moved(self.expr(e.args[0]), self.index(e.args[1]))

    def on_is_null(self, e: Call) -> Text:
        return Text(f"{self.expr(e.args[0]).at(RELATION + 1)} == 0", RELATION)

    # --- calls

    def now(self, text: Text, dtype: DataType) -> Text:
        """Writes a call whose effects must happen here. Returns the name of its result."""
        self.forget()
        if dtype.code in ("void", ""):
            self.line(f"{text};")
            return Text("0")
        return self.temporary(text, dtype, "result")

    def on_extern(self, e: Call) -> Text:
        symbol = e.args[0]
        if not isinstance(symbol, StringImm):
            raise self.error("a call of a C function names it with a string", e)
        operands = [self.expr(arg) for arg in e.args[1:]]
        types = ["const char*" if isinstance(a, StringImm) else ctype(a.dtype) for a in e.args[1:]]
        name = self.module.external(symbol.value, ctype(e.dtype), types)
        text = self.function(name, *operands)
        return text if e.intrinsic == "call_pure_extern" else self.now(text, e.dtype)

    def on_llvm(self, e: Call) -> Text:
        name = OF_ARM.get(getattr(e.args[0], "value", ""))
        if name is None:
            raise self.error("an LLVM intrinsic has no form in C; compile for the target llvm", e)
        return self.function(name, *[self.expr(a) for a in e.args[1:]])

    def on_prefetch(self, e: Call) -> Text:
        rw, locality = [a.value if isinstance(a, IntImm) else 0 for a in e.args[1:3]] or [0, 2]
        self.line(f"TW_PREFETCH({self.expr(e.args[0])}, {rw}, {locality});")
        return Text("0")

    def on_nothing(self, e: Call) -> Text:
        return Text("0")

    def on_undefined(self, e: Call) -> Text:
        return self.broadcast(Text("0"), e.dtype) if e.dtype.lanes > 1 else Text("0")

    def on_vector_half(self, e: Call) -> Text:
        value, n = e.args[-1], e.dtype.lanes
        start = 0 if e.intrinsic == "vectorlow" else value.dtype.lanes - n
        return self.joined([(self.expr(value), value.dtype)], e.dtype, start)

    def on_vector_combine(self, e: Call) -> Text:
        return self.joined([(self.expr(a), a.dtype) for a in e.args[:2]], e.dtype)

    def on_return(self, e: Call) -> Text:
        value = e.args[0]
        text = self.expr(value)
        self.line(f"return {text};")
        return Text("0")

    # --- given by the function emitter

    def call_function(self, e: Call) -> Text:
        raise self.error("calls are emitted by the function", e)
