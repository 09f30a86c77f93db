"""LLVM IR text of arithmetic and comparisons."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.extremes import Extremes
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import int_literal, is_literal, llvm_type, splat, suffix
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.variables import Variables
from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr, structural_equal
from tilewright.tir import EQ, NE, Add, Broadcast, BufferLoad, Div, Min, Mod, Mul, Sub
from tilewright.tir.expr import BinaryOpExpr, CmpExpr
from tilewright.tir.scalars import BINARY, wrap_int

_F32 = DataType("float32")


class Arithmetic:
    """Emits binary operations into a function."""

    def __init__(self, frame: Frame, variables: Variables, operands: Operands, expressions: ExprEmitter) -> None:
        self.frame, self.variables, self.operands, self.expressions = frame, variables, operands, expressions
        self.b, self.expr = frame.b, expressions.expr
        self.extremes = Extremes()

    def _int_binary(self, e: BinaryOpExpr) -> str:
        a, b, dtype, kind = self.expr(e.a), self.expr(e.b), e.dtype, type(e)
        if is_literal(a) and is_literal(b) and dtype.lanes == 1:
            return int_literal(BINARY[kind].integers(wrap_int(int(a), dtype), wrap_int(int(b), dtype)), dtype)
        t = llvm_type(dtype)
        if kind is Add:
            if a == "0" or b == "0":
                return b if a == "0" else a
            return self.b.pure(f"add {t} {a}, {b}", a, b)
        if kind is Sub:
            return a if b == "0" else self.b.pure(f"sub {t} {a}, {b}", a, b)
        if kind is Mul:
            if dtype.lanes == 1 and (a == "1" or b == "1"):
                return b if a == "1" else a
            return self.b.pure(f"mul {t} {a}, {b}", a, b)
        sign = "s" if dtype.is_int else "u"
        name = f"llvm.{sign}{'min' if kind is Min else 'max'}.{suffix(dtype)}"
        return self.b.call(f"{t}({t}, {t})", name, f"{t} {a}, {t} {b}", a, b)

    def on_add(self, e: Add) -> str:
        dtype = e.dtype
        if not dtype.is_float:
            return self._int_binary(e)
        if dtype.code == "float" and self.frame.contracts(dtype):
            if isinstance(e.a, Mul):
                return self.frame.math(dtype).fma(self.expr(e.a.a), self.expr(e.a.b), self.expr(e.b))
            if isinstance(e.b, Mul):
                c = self.expr(e.a)
                return self.frame.math(dtype).fma(self.expr(e.b.a), self.expr(e.b.b), c)
        return self._float_binary(e, "fadd")

    def on_subtract(self, e: Sub) -> str:
        dtype = e.dtype
        if not dtype.is_float:
            return self._int_binary(e)
        if dtype.code == "float" and self.frame.contracts(dtype) and not _same_products(e.a, e.b):
            m = self.frame.math(dtype)
            if isinstance(e.a, Mul):
                return m.fma(self.expr(e.a.a), self.expr(e.a.b), m.neg(self.expr(e.b)))
            if isinstance(e.b, Mul):
                c = self.expr(e.a)
                return m.fma(m.neg(self.expr(e.b.a)), self.expr(e.b.b), c)
        return self._float_binary(e, "fsub")

    def on_multiply(self, e: Mul) -> str:
        if not e.dtype.is_float:
            return self._int_binary(e)
        return self._float_binary(e, "fmul")

    def _float_binary(self, e: BinaryOpExpr, op: str) -> str:
        a, b, dtype = self.expr(e.a), self.expr(e.b), e.dtype
        if dtype.code != "float":
            a, b = self.operands.widen(a, dtype), self.operands.widen(b, dtype)
            t = llvm_type(_F32.with_lanes(dtype.lanes))
            return self.operands.narrow(self.b.pure(f"{op} {t} {a}, {b}", a, b), dtype)
        t = llvm_type(dtype)
        return self.b.pure(f"{op} {t} {a}, {b}", a, b)

    def on_divide(self, e: BinaryOpExpr) -> str:
        dtype, kind, operation = e.dtype, type(e), BINARY[type(e)]
        if dtype.is_float:
            if kind is Div:
                return self._float_binary(e, "fdiv")
            if kind is Mod:
                return self._float_binary(e, "frem")
            raise self.frame.error("floor division and modulo take integers", e)
        a, b = self.expr(e.a), self.expr(e.b)
        if is_literal(a) and is_literal(b) and dtype.lanes == 1 and wrap_int(int(b), dtype):
            return int_literal(operation.integers(wrap_int(int(a), dtype), wrap_int(int(b), dtype)), dtype)
        t = llvm_type(dtype)
        divisor = e.b.value if isinstance(e.b, Broadcast) else e.b
        by = divisor.value if isinstance(divisor, IntImm) and divisor.value not in (0, -1) else 0
        emit: Callable[..., str] = self.b.pure if by else lambda text, *_: self.b.here(text)
        shift = by.bit_length() - 1 if by > 0 and by & (by - 1) == 0 else -1
        remainder = operation.word.endswith("mod")
        low = self.expressions.bounds(e.a)
        high = self.expressions.bounds(e.b)
        nonnegative = low is not None and low[0] >= 0 and high is not None and high[0] >= 0
        unsigned = not dtype.is_int or nonnegative
        if shift >= 0 and (unsigned or kind not in (Div, Mod)):
            if remainder:
                return emit(f"and {t} {a}, {splat(dtype, int_literal(by - 1, dtype))}", a)
            if unsigned and shift == 0:
                return a
            return emit(f"{'lshr' if unsigned else 'ashr'} {t} {a}, {splat(dtype, str(shift))}", a)
        if unsigned or kind in (Div, Mod):
            sign = "u" if unsigned else "s"
            return emit(f"{sign}{'rem' if remainder else 'div'} {t} {a}, {b}", a, b)
        zero, cond = splat(dtype, "0"), llvm_type(DataType("bool").with_lanes(dtype.lanes))
        p = self.b.pure
        r = emit(f"srem {t} {a}, {b}", a, b)
        wrong = self._sign_differs(t, cond, r, b, zero)
        if remainder:
            fixed = p(f"add {t} {r}, {b}", r, b)
            return p(f"select {cond} {wrong}, {t} {fixed}, {t} {r}", wrong, fixed, r)
        q = emit(f"sdiv {t} {a}, {b}", a, b)
        one = p(f"zext {cond} {wrong} to {t}", wrong)
        return p(f"sub {t} {q}, {one}", q, one)

    def _sign_differs(self, t: str, cond: str, r: str, b: str, zero: str) -> str:
        """Emits the test whether a remainder is not zero and has the other sign than the divisor."""
        p = self.b.pure
        some = p(f"icmp ne {t} {r}, {zero}", r)
        signs = p(f"xor {t} {r}, {b}", r, b)
        other = p(f"icmp slt {t} {signs}, {zero}", signs)
        return p(f"and {cond} {some}, {other}", some, other)

    def on_extreme(self, e: BinaryOpExpr) -> str:
        dtype = e.dtype
        if not dtype.is_float:
            return self._int_binary(e)
        a, b = self.expr(e.a), self.expr(e.b)
        wide = dtype
        if dtype.code == "bfloat":
            a, b, wide = self.operands.widen(a, dtype), self.operands.widen(b, dtype), _F32.with_lanes(dtype.lanes)
        number = _is_number(e.b)
        # Values read from registers were computed just before.
        late = isinstance(e.b, BufferLoad) and e.b.buffer.data in self.variables.registers
        if _is_number(e.a):
            a, b, number = b, a, True
        r = self.extremes.of(
            self.frame.math(wide), type(e) is Min, a, b, number, late, self.frame.target.cpu.extremes_keep_nan
        )
        return self.operands.narrow(r, dtype) if wide is not dtype else r

    def on_compare(self, e: CmpExpr) -> str:
        operation = BINARY[type(e)]
        fold, word = operation.integers, operation.word
        a, b, dtype = self.expr(e.a), self.expr(e.b), e.a.dtype
        if dtype.is_float:
            (a, wide), (b, _) = self.operands.comparable(a, dtype), self.operands.comparable(b, dtype)
            dtype = wide
            return self.b.pure(f"fcmp {'u' if word == 'ne' else 'o'}{word} {llvm_type(dtype)} {a}, {b}", a, b)
        if is_literal(a) and is_literal(b) and dtype.lanes == 1:
            return "1" if fold(wrap_int(int(a), dtype), wrap_int(int(b), dtype)) else "0"
        if dtype.is_int and dtype.lanes == 1 and (answer := self._decide(e, fold)) is not None:
            return answer
        sign = "" if word in ("eq", "ne") else "s" if dtype.is_int else "u"
        return self.b.pure(f"icmp {sign}{word} {llvm_type(dtype)} {a}, {b}", a, b)

    def _decide(self, e: CmpExpr, fold: Callable[[int, int], bool]) -> str | None:
        """The result of a comparison if the ranges of its operands decide it, or else None."""
        if type(e) in (EQ, NE):
            return None
        x, y = self.expressions.bounds(e.a), self.expressions.bounds(e.b)
        if x is None or y is None:
            return None
        answers = {fold(i, j) for i in x for j in y}
        return ("1" if answers.pop() else "0") if len(answers) == 1 else None


def _is_number(e: PrimExpr) -> bool:
    """Whether a float, or a vector of one float, is a literal other than NaN."""
    value = e.value if isinstance(e, Broadcast) else e
    return isinstance(value, FloatImm) and value.value == value.value


def _same_products(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two expressions are products of the same factors. Fused, their difference would not be 0."""
    if not isinstance(a, Mul) or not isinstance(b, Mul):
        return False
    return any([structural_equal(a.a, c) and structural_equal(a.b, d) for c, d in ((b.a, b.b), (b.b, b.a))])
