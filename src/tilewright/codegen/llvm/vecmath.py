"""Vector math: elementary functions as straight-line vector code for any number of lanes, in float32.

Infinities, denormals and NaN come out as in C. Polynomials: Cephes (Moshier, single precision) for exp, log, sin, cos
and tanh near zero; erf after the published minimax fit of N. Juffa (max 1 ulp). `pow` works in float64 inside.
"""

from __future__ import annotations

import math

from tilewright.codegen.llvm.builder import FunctionBuilder
from tilewright.codegen.llvm.types import float_const, int_literal, llvm_type, splat
from tilewright.ir import DataType

_F32, _F64, _I32, _I64 = DataType("float32"), DataType("float64"), DataType("int32"), DataType("int64")


class VectorMath:
    """Emits math on values of one floating point type (`dtype` fixes element and lanes) into a function."""

    def __init__(self, builder: FunctionBuilder, dtype: DataType, fma: bool, ldexp: bool) -> None:
        self.b, self.dtype, self.has_fma, self.has_ldexp = builder, dtype, fma, ldexp
        self.type = llvm_type(dtype)
        lanes = dtype.lanes
        self.int = DataType("int32" if dtype.bits == 32 else "int64").with_lanes(lanes)
        self.itype = llvm_type(self.int)
        self.btype = llvm_type(DataType("bool").with_lanes(lanes))
        self.suffix = (f"v{lanes}" if lanes > 1 else "") + {16: "f16", 32: "f32", 64: "f64"}[dtype.bits]

    def wide(self) -> VectorMath:
        """The same lanes in float64."""
        return VectorMath(self.b, _F64.with_lanes(self.dtype.lanes), self.has_fma, self.has_ldexp)

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

    def neg(self, a: str) -> str:
        return self.b.pure(f"fneg {self.type} {a}", a)

    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c, fused where the target can."""
        if not self.has_fma:
            return self.add(self.mul(a, b), c)
        t = self.type
        return self.b.call(f"{t}({t}, {t}, {t})", f"llvm.fma.{self.suffix}", f"{t} {a}, {t} {b}, {t} {c}", a, b, c)

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
        """`and`, `or`, `xor` of conditions."""
        return self.b.pure(f"{op} {self.btype} {a}, {b}", a, b)

    def iop(self, op: str, a: str, b: str) -> str:
        return self.b.pure(f"{op} {self.itype} {a}, {b}", a, b)

    def bits(self, a: str) -> str:
        return self.b.pure(f"bitcast {self.type} {a} to {self.itype}", a)

    def from_bits(self, a: str) -> str:
        return self.b.pure(f"bitcast {self.itype} {a} to {self.type}", a)

    def poly(self, x: str, *coefficients: float) -> str:
        """Horner's rule, the highest power first."""
        r = self.c(coefficients[0])
        for k in coefficients[1:]:
            r = self.fma(r, x, self.c(k))
        return r

    def clamp(self, x: str, low: float, high: float) -> str:
        """`x` between two constants; a NaN stays a NaN."""
        x = self.select(self.cmp("olt", self.c(high), x), self.c(high), x)
        return self.select(self.cmp("ogt", self.c(low), x), self.c(low), x)

    def scale2(self, x: str, n: str) -> str:
        """x * 2**n for an integer n within twice the exponent's range, rounded once."""
        if self.has_ldexp:
            t, i = self.type, self.itype
            isuf = self.suffix.replace("f", "i")
            return self.b.call(f"{t}({t}, {i})", f"llvm.ldexp.{self.suffix}.{isuf}", f"{t} {x}, {i} {n}", x, n)
        shift, bias = (23, 127) if self.dtype.bits == 32 else (52, 1023)
        half = self.iop("ashr", n, self.ci(1))
        for part in (half, self.iop("sub", n, half)):
            power = self.iop("shl", self.iop("add", part, self.ci(bias)), self.ci(shift))
            x = self.mul(x, self.from_bits(power))
        return x

    # --- functions of float32

    def _round_to_int(self, x: str, scale: float) -> tuple[str, str]:
        """(n as a float, n as an integer) with n = round(x * scale); adding 1.5 * 2**23 rounds without conversions."""
        magic = 12582912.0 if self.dtype.bits == 32 else 6755399441055744.0
        shifted = self.fma(x, self.c(scale), self.c(magic))
        if not self.has_fma:
            shifted = self.add(self.mul(x, self.c(scale)), self.c(magic))
        base = 0x4B400000 if self.dtype.bits == 32 else 0x4338000000000000
        return self.sub(shifted, self.c(magic)), self.iop("sub", self.bits(shifted), self.ci(base))

    def exp(self, x: str) -> str:
        x = self.clamp(x, -104.0, 88.8)
        n, ni = self._round_to_int(x, 1.4426950408889634)
        r = self.fma(n, self.c(-0.693359375), x)
        r = self.fma(n, self.c(2.12194440e-4), r)
        p = self.poly(
            r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
        )
        y = self.add(self.fma(p, self.mul(r, r), r), self.c(1.0))
        return self.scale2(y, ni)

    def exp2(self, x: str) -> str:
        x = self.clamp(x, -151.0, 129.0)
        n, ni = self._round_to_int(x, 1.0)
        r = self.sub(x, n)
        p = self.poly(
            r, 1.535336188e-4, 1.339887440e-3, 9.618437357e-3, 5.550332471e-2, 2.402264791e-1, 6.931472028e-1, 1.0
        )
        return self.scale2(p, ni)

    def _log_parts(self, x: str) -> tuple[str, str]:
        """(m - 1, exponent) with x = m * 2**exponent and m in [sqrt(1/2), sqrt(2)); denormals included."""
        tiny = self.cmp("olt", x, self.c(1.1754943508222875e-38))
        scaled = self.select(tiny, self.mul(x, self.c(8388608.0)), x)
        ix = self.iop("sub", self.bits(scaled), self.ci(0x3F3504F3))
        e = self.iop("ashr", ix, self.ci(23))
        m = self.from_bits(self.iop("add", self.iop("and", ix, self.ci(0x007FFFFF)), self.ci(0x3F3504F3)))
        ef = self.b.pure(f"sitofp {self.itype} {e} to {self.type}", e)
        ef = self.sub(ef, self.select(tiny, self.c(23.0), self.c(0.0)))
        return self.sub(m, self.c(1.0)), ef

    def _log_tail(self, f: str) -> str:
        """log(1 + f) - f + f*f/2."""
        p = self.poly(
            f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        )  # fmt: skip
        z = self.mul(f, f)
        return self.mul(self.mul(f, z), p)

    def _log_special(self, x: str, y: str) -> str:
        y = self.select(self.cmp("oeq", x, self.c(math.inf)), x, y)
        y = self.select(self.cmp("oeq", x, self.c(0.0)), self.c(-math.inf), y)
        return self.select(self.cmp("ult", x, self.c(0.0)), self.c(math.nan), y)

    def log(self, x: str) -> str:
        f, e = self._log_parts(x)
        y = self.fma(e, self.c(-2.12194440e-4), self._log_tail(f))
        y = self.fma(self.mul(f, f), self.c(-0.5), y)
        y = self.fma(e, self.c(0.693359375), self.add(f, y))
        return self._log_special(x, y)

    def _log_based(self, x: str, high: float, low: float, per_octave: float) -> str:
        """log to another base: 1/ln(base) split into high + low, exponents counting `per_octave` each."""
        f, e = self._log_parts(x)
        y = self.fma(self.mul(f, f), self.c(-0.5), self._log_tail(f))
        s = self.add(f, y)
        rest = self.add(self.sub(f, s), y)
        small = self.fma(s, self.c(low), self.mul(rest, self.c(high + low)))
        return self._log_special(x, self.fma(e, self.c(per_octave), self.fma(s, self.c(high), small)))

    def log2(self, x: str) -> str:
        return self._log_based(x, 1.44140625, 1.0 / math.log(2.0) - 1.44140625, 1.0)

    def log10(self, x: str) -> str:
        return self._log_based(x, 0.43359375, 1.0 / math.log(10.0) - 0.43359375, math.log10(2.0))

    def tanh(self, x: str) -> str:
        a = self.unary("fabs", x)
        z = self.mul(x, x)
        p = self.poly(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
        near = self.fma(self.mul(p, z), x, x)
        e = self.exp(self.add(a, a))
        far = self.sub(self.c(1.0), self.div(self.c(2.0), self.add(e, self.c(1.0))))
        return self.binary("copysign", self.select(self.cmp("olt", a, self.c(0.625)), near, far), x)

    def sigmoid(self, x: str) -> str:
        e = self.exp(self.neg(self.unary("fabs", x)))
        top = self.select(self.cmp("olt", x, self.c(0.0)), e, self.c(1.0))
        return self.div(top, self.add(self.c(1.0), e))

    def erf(self, x: str) -> str:
        t = self.unary("fabs", x)
        s = self.mul(x, x)
        near = self.poly(s, -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
        near = self.fma(near, x, x)
        t = self.select(self.cmp("olt", self.c(6.0), t), self.c(6.0), t)
        s = self.mul(t, t)
        r = self.fma(self.c(-1.72853470e-5), t, self.c(3.83197126e-4))
        u = self.fma(self.c(-3.88396438e-3), t, self.c(2.42546219e-2))
        r = self.fma(r, s, u)
        for k in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
            r = self.fma(r, t, self.c(k))
        r = self.fma(r, t, self.neg(t))
        far = self.binary("copysign", self.sub(self.c(1.0), self.exp(r)), x)
        return self.select(self.cmp("ogt", t, self.c(0.927734375)), far, near)

    def _sin_cos(self, x: str, quadrant: int) -> str:
        """sin(x + quadrant * pi/2), the argument reduced in float64; full accuracy up to |x| = 2**50."""
        w = self.wide()
        xd = self.b.pure(f"fpext {self.type} {x} to {w.type}", x)
        n, ni = w._round_to_int(xd, 0.6366197723675814)
        rd = w.fma(n, w.c(-1.5707963267948966), xd)
        rd = w.fma(n, w.c(-6.123233995736766e-17), rd)
        r = self.b.pure(f"fptrunc {w.type} {rd} to {self.type}", rd)
        q = ni if w.itype == self.itype else self.b.pure(f"trunc {w.itype} {ni} to {self.itype}", ni)
        if quadrant:
            q = self.iop("add", q, self.ci(quadrant))
        z = self.mul(r, r)
        s = self.poly(z, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
        s = self.fma(self.mul(s, z), r, r)
        k = self.poly(z, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
        k = self.fma(self.mul(k, z), z, self.fma(z, self.c(-0.5), self.c(1.0)))
        odd = self.b.pure(f"icmp ne {self.itype} {self.iop('and', q, self.ci(1))}, {self.ci(0)}", q)
        y = self.select(odd, k, s)
        sign = self.iop("shl", self.iop("and", q, self.ci(2)), self.ci(30))
        y = self.from_bits(self.iop("xor", self.bits(y), sign))
        inf = self.cmp("oeq", self.unary("fabs", x), self.c(math.inf))
        return self.select(inf, self.c(math.nan), y)

    def sin(self, x: str) -> str:
        y = self._sin_cos(x, 0)
        return self.select(self.cmp("oeq", x, self.c(0.0)), x, y)

    def cos(self, x: str) -> str:
        return self._sin_cos(x, 1)

    def tan(self, x: str) -> str:
        return self.div(self.sin(x), self.cos(x))

    def rsqrt(self, x: str) -> str:
        return self.div(self.c(1.0), self.unary("sqrt", x))

    # --- pow: float64 inside

    def _log2_wide(self, x: str) -> str:
        """log2 of a positive float64 that came from a float32, to about 40 bits."""
        ix = self.iop("sub", self.bits(x), self.ci(0x3FE6A09E667F3BCD))
        e = self.iop("ashr", ix, self.ci(52))
        m = self.from_bits(self.iop("add", self.iop("and", ix, self.ci(0xFFFFFFFFFFFFF)), self.ci(0x3FE6A09E667F3BCD)))
        ef = self.b.pure(f"sitofp {self.itype} {e} to {self.type}", e)
        f = self.div(self.sub(m, self.c(1.0)), self.add(m, self.c(1.0)))
        z = self.mul(f, f)
        p = self.poly(z, *[2.0 / (k * math.log(2.0)) for k in (15, 13, 11, 9, 7, 5, 3, 1)])
        return self.fma(p, f, ef)

    def _exp2_wide(self, x: str) -> str:
        """2**x in float64 to about 40 bits, for |x| below 1000."""
        n, ni = self._round_to_int(x, 1.0)
        r = self.sub(x, n)
        p = self.poly(r, *[math.log(2.0) ** k / math.factorial(k) for k in range(10, -1, -1)])
        power = self.iop("shl", self.iop("add", ni, self.ci(1023)), self.ci(52))
        return self.mul(p, self.from_bits(power))

    def pow(self, x: str, y: str) -> str:
        w = self.wide()
        a = self.unary("fabs", x)
        ad = self.b.pure(f"fpext {self.type} {a} to {w.type}", a)
        yd = self.b.pure(f"fpext {self.type} {y} to {w.type}", y)
        t = w.clamp(w.mul(w._log2_wide(ad), yd), -400.0, 400.0)
        rd = w._exp2_wide(t)
        r = self.b.pure(f"fptrunc {w.type} {rd} to {self.type}", rd)
        zero, one, inf = self.c(0.0), self.c(1.0), self.c(math.inf)
        # 0 and infinity as bases, infinity as the exponent.
        up = self.cmp("ogt", y, zero)
        r = self.select(self.cmp("oeq", a, zero), self.select(up, zero, inf), r)
        r = self.select(self.cmp("oeq", a, inf), self.select(up, inf, zero), r)
        ay = self.unary("fabs", y)
        big = self.both("xor", up, self.cmp("olt", a, one))
        r = self.select(self.cmp("oeq", ay, inf), self.select(big, inf, zero), r)
        r = self.select(self.cmp("uno", x, y), self.c(math.nan), r)
        # The sign for negative bases: odd integers keep it, other numbers have no power.
        whole = self.cmp("oeq", self.unary("trunc", y), y)
        half = self.mul(y, self.c(0.5))
        odd = self.both("and", whole, self.cmp("one", self.unary("trunc", half), half))
        negative = self.b.pure(f"icmp slt {self.itype} {self.bits(x)}, {self.ci(0)}", self.bits(x))
        r = self.select(self.both("and", odd, negative), self.neg(r), r)
        bad = self.both("and", self.cmp("olt", x, zero), self.cmp("one", x, self.c(-math.inf)))
        bad = self.both(
            "and", bad, self.both("and", self.cmp("one", self.unary("trunc", y), y), self.cmp("one", ay, inf))
        )
        r = self.select(bad, self.c(math.nan), r)
        certain = self.both("or", self.cmp("oeq", y, zero), self.cmp("oeq", x, one))
        minus_one = self.both("and", self.cmp("oeq", x, self.c(-1.0)), self.cmp("oeq", ay, inf))
        return self.select(self.both("or", certain, minus_one), one, r)


VECTOR_FUNCTIONS = {
    name: getattr(VectorMath, name)
    for name in ("exp", "exp2", "log", "log2", "log10", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "rsqrt")
}
"""Functions of one float32 argument that are emitted as vector code."""

INTRINSICS = {
    "sqrt": "sqrt",
    "fabs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "roundeven",
    "nearbyint": "roundeven",
    "rint": "roundeven",
}
"""Functions of one argument that LLVM expands without a library call on every target we tune for."""

LIBM = dict.fromkeys(
    [
        "exp",
        "exp2",
        "exp10",
        "log",
        "log2",
        "log10",
        "log1p",
        "expm1",
        "tan",
        "sin",
        "cos",
        "sinh",
        "cosh",
        "tanh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
        "erf",
    ],
    1,
) | dict.fromkeys(("atan2", "hypot", "nextafter", "pow", "fmod"), 2)
"""Functions that fall back to the C library, one lane at a time, and how many arguments they take."""
