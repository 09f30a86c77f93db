"""LLVM IR text of operations on the bits of integers, and of products of fixed-point numbers."""

from __future__ import annotations

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import int_literal, is_literal, llvm_type, splat, suffix
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.ir import DataType, IntImm
from tilewright.tir import Broadcast, Call
from tilewright.tir.scalars import BITWISE, wrap_int


class Bits:
    """Emits operations on bits."""

    def __init__(self, frame: Frame, operands: Operands, expressions: ExprEmitter) -> None:
        self.operands, self.b, self.expr = operands, frame.b, expressions.expr
        self.helium = frame.target.cpu.helium

    def on_bitwise(self, e: Call) -> str:
        operation, dtype = BITWISE[e.intrinsic], e.dtype
        a, b = map(self.expr, e.args)
        # LLVM does not define shifts beyond the width of the type.
        if (
            is_literal(a)
            and is_literal(b)
            and dtype.lanes == 1
            and (operation.word[0] != "s" or 0 <= int(b) < dtype.bits)
        ):
            return int_literal(operation.integers(wrap_int(int(a), dtype), wrap_int(int(b), dtype)), dtype)
        op = ("ashr" if dtype.is_int else "lshr") if operation.word == "shr" else operation.word
        return self.b.pure(f"{op} {llvm_type(dtype)} {a}, {b}", a, b)

    on_shift = on_bitwise

    def on_bitwise_not(self, e: Call) -> str:
        a = self.expr(e.args[0])
        return self.b.pure(f"xor {llvm_type(e.dtype)} {a}, {splat(e.dtype, '-1')}", a)

    def on_popcount(self, e: Call) -> str:
        a, t = self.expr(e.args[0]), llvm_type(e.args[0].dtype)
        r = self.b.call(f"{t}({t})", f"llvm.ctpop.{suffix(e.args[0].dtype)}", f"{t} {a}", a)
        return self.operands.convert(r, e.args[0].dtype, e.dtype)

    def on_clz(self, e: Call) -> str:
        a, t = self.expr(e.args[0]), llvm_type(e.args[0].dtype)
        name = f"llvm.ctlz.{suffix(e.args[0].dtype)}"
        return self.operands.convert(self.b.call(f"{t}({t}, i1)", name, f"{t} {a}, i1 0", a), e.args[0].dtype, e.dtype)

    def on_reinterpret(self, e: Call) -> str:
        a, source = self.expr(e.args[0]), e.args[0].dtype
        s, t = llvm_type(source), llvm_type(e.dtype)
        if s == t:
            return a
        if "ptr" in (s, t):
            return self.b.pure(f"{'ptrtoint' if s == 'ptr' else 'inttoptr'} {s} {a} to {t}", a)
        return self.b.pure(f"bitcast {s} {a} to {t}", a)

    def on_large_uint(self, e: Call) -> str:
        low, high = e.args
        assert isinstance(low, IntImm) and isinstance(high, IntImm)
        return int_literal((high.value << 32) | low.value, e.dtype)

    def on_q_multiply_shift(self, e: Call) -> str:
        """round(x * y * 2**-s / 2**q) in 64 bits; ties are rounded up, as in classic TVM."""
        x, y = map(self.expr, e.args[:2])
        q, shift = e.args[2], e.args[3]
        lanes = e.dtype.lanes
        places = [a.value if type(a) is Broadcast else a for a in (q, shift)]
        known = [a.value if isinstance(a, IntImm) else None for a in places]
        words = e.dtype.is_int and e.dtype.bits == e.args[1].dtype.bits == 32
        if self.helium and lanes == 4 and words and known in ([31, 0], [32, 0]):
            # One instruction. It saturates the product of the two lowest numbers, which has no 31 bits.
            name, more = ("vqrdmulh", "") if known[0] == 31 else ("vrmulh", ", i32 0")
            t = llvm_type(e.dtype)
            signature = f"{t}({t}, {t}{', i32' if more else ''})"
            return self.b.call(signature, f"llvm.arm.mve.{name}.v4i32", f"{t} {x}, {t} {y}{more}", x, y)
        if known == [31, 0] and lanes % 2 == 0 and words:
            return self._fraction_product(x, y, e.dtype)
        i64 = DataType("int64").with_lanes(lanes)
        t64, p = llvm_type(i64), self.b.pure
        if known[0] is not None and known in ([31, 0], [32, 0]):
            wide = [self.operands.convert(v, t, i64) for v, t in ((x, e.dtype), (y, e.args[1].dtype))]
            product = p(f"mul {t64} {wide[0]}, {wide[1]}", *wide)
            rounded = p(f"add {t64} {product}, {splat(i64, str(1 << known[0] - 1))}", product)
            return self.operands.convert(p(f"ashr {t64} {rounded}, {splat(i64, str(known[0]))}", rounded), i64, e.dtype)
        wide_x, wide_y = self.operands.convert(x, e.dtype, i64), self.operands.convert(y, e.args[1].dtype, i64)
        q_wide, s_wide = (
            self.operands.convert(self.expr(q), q.dtype, i64),
            self.operands.convert(self.expr(shift), shift.dtype, i64),
        )
        zero = splat(i64, "0")
        negated = p(f"sub {t64} {zero}, {s_wide}", s_wide)
        left = self.b.call(
            f"{t64}({t64}, {t64})", f"llvm.smax.{suffix(i64)}", f"{t64} {negated}, {t64} {zero}", negated
        )
        right = self.b.call(f"{t64}({t64}, {t64})", f"llvm.smax.{suffix(i64)}", f"{t64} {s_wide}, {t64} {zero}", s_wide)
        product = p(f"mul {t64} {wide_x}, {wide_y}", wide_x, wide_y)
        product = p(f"shl {t64} {product}, {left}", product, left)
        total = p(f"add {t64} {q_wide}, {right}", q_wide, right)
        less = p(f"sub {t64} {total}, {splat(i64, '1')}", total)
        half = p(f"shl {t64} {splat(i64, '1')}, {less}", less)
        rounded = p(f"add {t64} {product}, {half}", product, half)
        return self.operands.convert(p(f"ashr {t64} {rounded}, {total}", rounded, total), i64, e.dtype)

    def _fraction_product(self, x: str, y: str, dtype: DataType) -> str:
        """round(x * y / 2**31) of int32 vectors; ties are rounded up. Even and odd lanes are multiplied separately and stay in their lanes,
        since processors have instructions for such products of 32 into 64 bits. So no vector is widened or narrowed."""
        half = DataType("int64").with_lanes(dtype.lanes // 2)
        t, t64, p = llvm_type(dtype), llvm_type(half), self.b.pure
        up = splat(half, "32")

        def lanes(v: str) -> tuple[str, str]:
            pairs = p(f"bitcast {t} {v} to {t64}", v)
            left = p(f"shl {t64} {pairs}, {up}", pairs)
            return p(f"ashr {t64} {left}, {up}", left), p(f"ashr {t64} {pairs}, {up}", pairs)

        def rounded(a: str, b: str, move: str, by: str) -> str:
            product = p(f"mul {t64} {a}, {b}", a, b)
            product = p(f"add {t64} {product}, {splat(half, str(1 << 30))}", product)
            product = p(f"{move} {t64} {product}, {splat(half, by)}", product)
            return p(f"bitcast {t64} {product} to {t}", product)

        (x_even, x_odd), (y_even, y_odd) = lanes(x), lanes(y)
        even, odd = rounded(x_even, y_even, "lshr", "31"), rounded(x_odd, y_odd, "shl", "1")
        order = ", ".join([f"i32 {k + dtype.lanes * (k % 2)}" for k in range(dtype.lanes)])
        return p(f"shufflevector {t} {even}, {t} {odd}, <{dtype.lanes} x i32> <{order}>", even, odd)
