"""Single instructions on lanes of one floating point type, of which functions of vector math consist."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.llvm.expressions.types import float_const, int_literal, llvm_type, splat
from tilewright.codegen.llvm.functions.builder import FunctionBuilder
from tilewright.codegen.llvm.vector_math.pieces import SHIFT, Pieces
from tilewright.ir import DataType


class Lanes:
    """Emits instructions on values of one floating point type. dtype: the type, with its lanes."""

    def __init__(self, builder: FunctionBuilder, dtype: DataType, fma: bool, ldexp: bool) -> None:
        self.b, self.dtype, self.has_fma, self.has_ldexp = builder, dtype, fma, ldexp
        self.type = llvm_type(dtype)
        lanes = dtype.lanes
        self.int = DataType("int32" if dtype.bits == 32 else "int64").with_lanes(lanes)
        self.itype = llvm_type(self.int)
        self.btype = llvm_type(DataType("bool").with_lanes(lanes))
        self.suffix = (f"v{lanes}" if lanes > 1 else "") + {16: "f16", 32: "f32", 64: "f64"}[dtype.bits]

    # --- single instructions

    def c(self, value: float) -> str:
        return splat(self.dtype, float_const(self.dtype, value))

    def ci(self, value: int) -> str:
        return splat(self.int, int_literal(value, self.int))

    def add(self, a: str, b: str) -> str:
        return self.b.pure(f"fadd {self.type} {a}, {b}", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.b.pure(f"fsub {self.type} {a}, {b}", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.b.pure(f"fmul {self.type} {a}, {b}", a, b)

    def div(self, a: str, b: str) -> str:
        return self.b.pure(f"fdiv {self.type} {a}, {b}", a, b)

    def sqrt(self, a: str) -> str:
        return self.unary("sqrt", a)

    def abs(self, a: str) -> str:
        return self.unary("fabs", a)

    def neg(self, a: str) -> str:
        return self.b.pure(f"fneg {self.type} {a}", a)

    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c, fused if the target has an instruction for it."""
        if not self.has_fma:
            return self.add(self.mul(a, b), c)
        t = self.type
        return self.b.call(f"{t}({t}, {t}, {t})", f"llvm.fma.{self.suffix}", f"{t} {a}, {t} {b}, {t} {c}", a, b, c)

    def less(self, a: str, b: str, n: str) -> str:
        """a * b - n for an integer n near the product, rounded once or twice."""
        if self.has_fma:
            return self.fma(a, b, self.neg(n))
        # The product of the upper halves is exact, and so is its difference from n.
        high, other = self.upper_half(a), self.upper_half(b)
        rest = self.add(self.mul(high, self.sub(b, other)), self.mul(self.sub(a, high), b))
        return self.add(self.sub(self.mul(high, other), n), rest)

    def upper_half(self, x: str) -> str:
        """The number with the upper half of the digits of a float32."""
        return self.from_bits(self.iop("and", self.bits(x), self.ci(-1 << 12)))

    def unary(self, name: str, a: str) -> str:
        """An LLVM intrinsic of one argument, such as fabs or floor."""
        return self.b.call(f"{self.type}({self.type})", f"llvm.{name}.{self.suffix}", f"{self.type} {a}", a)

    def binary(self, name: str, a: str, b: str) -> str:
        t = self.type
        return self.b.call(f"{t}({t}, {t})", f"llvm.{name}.{self.suffix}", f"{t} {a}, {t} {b}", a, b)

    def cmp(self, kind: str, a: str, b: str) -> str:
        return self.b.pure(f"fcmp {kind} {self.type} {a}, {b}", a, b)

    def select(self, cond: str, a: str, b: str) -> str:
        return self.b.pure(f"select {self.btype} {cond}, {self.type} {a}, {self.type} {b}", cond, a, b)

    def both(self, op: str, a: str, b: str) -> str:
        """The operation `and`, `or` or `xor` on two conditions."""
        return self.b.pure(f"{op} {self.btype} {a}, {b}", a, b)

    def iop(self, op: str, a: str, b: str) -> str:
        return self.b.pure(f"{op} {self.itype} {a}, {b}", a, b)

    def bits(self, a: str) -> str:
        return self.b.pure(f"bitcast {self.type} {a} to {self.itype}", a)

    def from_bits(self, a: str) -> str:
        return self.b.pure(f"bitcast {self.itype} {a} to {self.type}", a)

    def poly(self, x: str, *coefficients: float) -> str:
        """A polynomial of x by Horner's rule. coefficients: the highest power first."""
        r = self.c(coefficients[0])
        for k in coefficients[1:]:
            r = self.fma(r, x, self.c(k))
        return r

    def clamp(self, x: str, low: float, high: float) -> str:
        """x clamped to two constants. A NaN stays NaN."""
        x = self.at_most(x, high)
        return self.select(self.cmp("ogt", self.c(low), x), self.c(low), x)

    def at_most(self, x: str, high: float) -> str:
        """x, or a constant where that is less. A NaN stays NaN."""
        return self.select(self.cmp("olt", self.c(high), x), self.c(high), x)

    @property
    def has_avx512(self) -> bool:
        """Whether AVX-512 has special instructions for these values: whole vectors of float32, one or several."""
        lanes = self.dtype.lanes
        return self.has_ldexp and self.dtype.bits == 32 and lanes in (4, 8, 16, 32, 64)

    def by_vectors(self, name: str, *args: str) -> str:
        """A method for one vector, applied to each of several vectors."""
        one = type(self)(self.b, self.dtype.with_lanes(16), self.has_fma, self.has_ldexp)

        def joined(a: str, b: str, lanes: int) -> str:
            t, mask = llvm_type(self.dtype.with_lanes(lanes)), ", ".join([f"i32 {k}" for k in range(2 * lanes)])
            return self.b.pure(f"shufflevector {t} {a}, {t} {b}, <{2 * lanes} x i32> <{mask}>", a, b)

        parts = []
        for first in range(0, self.dtype.lanes, 16):
            mask = ", ".join([f"i32 {first + k}" for k in range(16)])
            each = [
                self.b.pure(f"shufflevector {self.type} {a}, {self.type} poison, <16 x i32> <{mask}>", a) for a in args
            ]
            parts.append(getattr(one, name)(*each))
        lanes = 16
        while len(parts) > 1:
            parts = [joined(a, b, lanes) for a, b in zip(parts[::2], parts[1::2], strict=True)]
            lanes *= 2
        return str(parts[0])

    def scale2(self, x: str, n: str, ni: str) -> str:
        """x * 2**n, rounded once, for an integer n within twice the range of the exponent. ni: n as an integer operand."""
        t, i = self.type, self.itype
        if self.has_avx512 and self.dtype.lanes > 16:
            return self.by_vectors("scaled", x, n)
        if self.has_avx512:
            return self.scaled(x, n)
        if self.has_ldexp:
            isuf = self.suffix.replace("f", "i")
            return self.b.call(f"{t}({t}, {i})", f"llvm.ldexp.{self.suffix}.{isuf}", f"{t} {x}, {i} {ni}", x, ni)
        half = self.iop("ashr", ni, self.ci(1))
        for part in (half, self.iop("sub", ni, half)):
            x = self.mul(x, self.power_of_two(part))
        return x

    def scaled(self, x: str, n: str) -> str:
        """x * 2**n by AVX-512's instruction."""
        t, lanes = self.type, self.dtype.lanes
        mask, rounding = f"i{max(8, lanes)}", ", i32 4" if lanes == 16 else ""
        name, kind = f"llvm.x86.avx512.mask.scalef.ps.{lanes * 32}", rounding and ", i32"
        args = f"{t} {x}, {t} {n}, {t} {x}, {mask} -1{rounding}"
        return self.b.call(f"{t}({t}, {t}, {t}, {mask}{kind})", name, args, x, n)

    def reciprocal(self, x: str) -> str:
        """1 / x of a normal number, to at least 14 bits."""
        t, mask, lanes = self.type, f"i{max(8, self.dtype.lanes)}", self.dtype.lanes
        if not self.has_avx512:
            return self.div(self.c(1.0), x)
        if lanes > 16:
            return self.by_vectors("reciprocal", x)
        return self.b.call(
            f"{t}({t}, {t}, {mask})", f"llvm.x86.avx512.rcp14.ps.{lanes * 32}", f"{t} {x}, {t} {x}, {mask} -1", x
        )

    def round_to_int(self, x: str, scale: float) -> tuple[str, str]:
        """(n as a float, n as an integer) with n = round(x * scale); adding 1.5 * 2**23 rounds without conversions."""
        magic = 12582912.0 if self.dtype.bits == 32 else 6755399441055744.0
        shifted = self.fma(x, self.c(scale), self.c(magic))
        if not self.has_fma:
            shifted = self.add(self.mul(x, self.c(scale)), self.c(magic))
        base = 0x4B400000 if self.dtype.bits == 32 else 0x4338000000000000
        return self.sub(shifted, self.c(magic)), self.iop("sub", self.bits(shifted), self.ci(base))

    def from_int(self, n: str) -> str:
        """A small integer as a float. For float64 it reverses `round_to_int`, since few CPUs convert vectors of int64."""
        if self.dtype.bits == 64:
            magic = self.from_bits(self.iop("add", n, self.ci(0x4338000000000000)))
            return self.sub(magic, self.c(6755399441055744.0))
        return self.b.pure(f"sitofp {self.itype} {n} to {self.type}", n)

    def is_negative(self, x: str) -> str:
        """Whether the sign bit is set."""
        return self.b.pure(f"icmp slt {self.itype} {self.bits(x)}, {self.ci(0)}", self.bits(x))

    def power_of_two(self, n: str) -> str:
        """2**n for an integer n, if it is a normal number."""
        shift, bias = (23, 127) if self.dtype.bits == 32 else (52, 1023)
        return self.from_bits(self.iop("shl", self.iop("add", n, self.ci(bias)), self.ci(shift)))

    def power_of_rounded(self, n: str) -> str:
        """2**n, if it is a normal number. n is in the low bits of a float, 1.5 * 2**23 + n."""
        return self.from_bits(self.iop("add", self.iop("shl", self.bits(n), self.ci(23)), self.ci(127 << 23)))

    def times_power(self, x: str, n: str) -> str:
        """x * 2**n, if x and the product are normal numbers, for n as in `power_of_rounded`. For NaN the result may be any number."""
        return self.from_bits(self.iop("add", self.bits(x), self.iop("shl", self.bits(n), self.ci(23))))

    def lookup(self, name: str, table: Sequence[float], at: str) -> str:
        """Elements of a table of constants. at: their numbers, which must be in bounds; name: the symbol of the table."""
        element, lanes = self.dtype.element, self.dtype.lanes
        one = llvm_type(element)
        values = ", ".join(f"{one} {float_const(element, v)}" for v in table)
        self.b.declare.setdefault(name, f"@{name} = private unnamed_addr constant [{len(table)} x {one}] [{values}]")
        i = self.itype
        places = self.b.pure(f"getelementptr {one}, ptr @{name}, {i} {at}", at)
        size = element.bits // 8
        if lanes == 1:
            return self.b.pure(f"load {one}, ptr {places}, align {size}", places)
        t, mask = self.type, f"<{lanes} x i1> splat (i1 true)"
        return self.b.call(
            f"{t}(<{lanes} x ptr>, i32, <{lanes} x i1>, {t})", f"llvm.masked.gather.{self.suffix}.v{lanes}p0",
            f"<{lanes} x ptr> {places}, i32 {size}, {mask}, {t} poison", places,
        )  # fmt: skip

    def in_pieces(self, p: Pieces, x: str) -> str:
        """An odd function of 16 numbers, whose tables are held in registers."""
        a = self.at_most(self.abs(x), p.above)
        least = self.select(self.cmp("ogt", a, self.c(p.below)), a, self.c(p.below))
        number = self.iop("lshr", self.bits(least), self.ci(SHIFT))
        d = self.sub(a, self._entry(p.centres, number))
        constant, *others = [self._entry(table, number) for table in p.coefficients]
        y = others.pop()
        for coefficient in reversed(others):
            y = self.fma(y, d, coefficient)
        constant = self.select(self.cmp("olt", a, self.c(p.low)), a, constant)
        return self.binary("copysign", self.fma(y, d, constant), x)

    def _entry(self, table: Sequence[float], number: str) -> str:
        """Elements of a table of 32 numbers in two registers, by the lowest five bits of `number`."""
        t, i = self.type, self.itype
        halves = [
            ", ".join([f"float {float_const(self.dtype.element, v)}" for v in table[k : k + 16]]) for k in (0, 16)
        ]
        args = f"{t} <{halves[0]}>, {i} {number}, {t} <{halves[1]}>"
        return self.b.call(f"{t}({t}, {i}, {t})", "llvm.x86.avx512.vpermi2var.ps.512", args, number)

    def any(self, cond: str) -> str:
        """Whether a condition holds in any lane."""
        lanes = self.dtype.lanes
        if lanes == 1:
            return cond
        return self.b.call(f"i1(<{lanes} x i1>)", f"llvm.vector.reduce.or.v{lanes}i1", f"<{lanes} x i1> {cond}", cond)
