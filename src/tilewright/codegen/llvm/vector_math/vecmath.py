"""Vector math: elementary functions of float32 as straight-line vector code for any number of lanes.

Errors are below 1 unit in the last place for all arguments (`make test-vecmath` tries every one). Infinities, denormals, NaN and
signs of zero are handled as in C. Functions in which kernels spend much time are here, in float32 with fused multiply-adds; the others
are computed in float64 (`widemath`). Polynomials: for exp2 and log those of Cephes (Moshier, single precision); for exp and erf minimax
fits, whose coefficients were rounded one after the other, each time fitting the remaining ones again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.codegen.llvm.vector_math.lanes import Lanes
from tilewright.codegen.llvm.vector_math.pieces import pieces
from tilewright.codegen.llvm.vector_math.widemath import FAR, WideMath
from tilewright.ir import DataType
from tilewright.tir.op import ACTIVATIONS

_F64 = DataType("float64")
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_ASIN = (
    0.16666659712791443,
    0.07500521838665009,
    0.04451335221529007,
    0.0318395234644413,
    0.01431217323988676,
    0.03770212084054947,
)
"""Polynomial of (asin(x) / x - 1) / x**2 in x**2, for x up to 1 / 2, the lowest power first. Its error is 2**-31 of asin(x)."""
_HALF_PI_LOW = 4.371139e-08
"""What pi / 2 as a float32 is more than pi / 2."""
_EXP = (
    0.00019739438721444458,
    0.0013935081660747528,
    0.008333571255207062,
    0.041666463017463684,
    0.1666666567325592,
    0.5,
)
"""Polynomial of (exp(r) - 1 - r) / r**2 for |r| up to log(2) / 2. Its error is 2**-33 of exp(r)."""
_EXP2 = (
    0.0001532926398795098,
    0.0013390969252213836,
    0.00961849931627512,
    0.05550359562039375,
    0.24022647738456726,
    0.6931471824645996,
    1.0,
)
"""Polynomial of 2**r for |r| up to 1 / 2. Its relative error is 2**-28."""


class VectorMath(Lanes):
    """Emits elementary functions of values of one floating point type."""

    def wide(self) -> WideMath:
        """The emitter for the same lanes in float64."""
        return WideMath(self.b, _F64.with_lanes(self.dtype.lanes), self.has_fma, self.has_ldexp)

    def widen(self, x: str) -> str:
        return self.b.pure(f"fpext {self.type} {x} to {self.wide().type}", x)

    def narrow(self, x: str) -> str:
        return self.b.pure(f"fptrunc {self.wide().type} {x} to {self.type}", x)

    def in_float64(self, name: str, *args: str) -> str:
        """The result of a function of `WideMath`, rounded once."""
        w = self.wide()
        return self.narrow(getattr(w, name)(*[self.widen(a) for a in args]))

    # --- exponentials

    def _exp_reduced(self, x: str) -> tuple[str, str, str, str]:
        """(n, n as an integer, x - n * log(2), x - n * (the high part of log(2)))."""
        n, ni = self.round_to_int(x, 1.4426950408889634)
        whole = self.fma(n, self.c(-_LN2_HIGH), x)  # exact
        return n, ni, self.fma(n, self.c(-_LN2_LOW), whole), whole

    def _exp_parts(self, x: str) -> tuple[str, str, str]:
        """(n, n as an integer, q) with exp(x) = 2**n * (1 + q), q in [-0.3, 0.42]."""
        n, ni, r, _ = self._exp_reduced(x)
        return n, ni, self.fma(self.poly(r, *_EXP), self.mul(r, r), r)

    def _exact_exp_parts(self, x: str) -> tuple[str, str, str]:
        """`_exp_parts`, with the rounding error of q in place of n as a float."""
        n, ni, r, whole = self._exp_reduced(x)
        square = self.mul(self.poly(r, *_EXP), self.mul(r, r))
        q = self.add(r, square)
        lost = self.fma(n, self.c(-_LN2_LOW), self.sub(whole, r))
        return ni, q, self.add(self.sub(square, self.sub(q, r)), lost)

    def _without(self, gone: str, x: str) -> str:
        """x, and 0 in the lanes of a condition: where a result is 0, since it is below all denormals. It is not computed there, because
        CPUs of Intel take over 100 cycles for an instruction whose result is too small."""
        return self.select(gone, self.c(0.0), x)

    def exp(self, x: str) -> str:
        gone = self.cmp("olt", x, self.c(-104.0))
        n, ni, r, _ = self._exp_reduced(self._without(gone, self.at_most(x, 88.8)))
        return self._without(gone, self.scale2(self.poly(r, *_EXP, 1.0, 1.0), n, ni))

    def exp2(self, x: str) -> str:
        gone = self.cmp("olt", x, self.c(-150.5))
        x = self._without(gone, self.at_most(x, 129.0))
        n, ni = self.round_to_int(x, 1.0)
        r = self.sub(x, n)
        p = self.poly(
            r, 1.535336188e-4, 1.339887440e-3, 9.618437357e-3, 5.550332471e-2, 2.402264791e-1, 6.931472028e-1, 1.0
        )
        return self._without(gone, self.scale2(p, n, ni))

    def quotient(self, top: str, top_low: str, bottom: str, bottom_low: str) -> tuple[str, str]:
        """((top + top_low) / (bottom + bottom_low) rounded once, approximately 1 / bottom)."""
        inverse = self.reciprocal(bottom)
        q = self.mul(top, inverse)
        rest = self.add(self.fma(self.neg(q), bottom, top), self.fma(self.neg(q), bottom_low, top_low))
        return self.fma(rest, inverse, q), inverse

    def tanh(self, x: str) -> str:
        """tanh(x) with a = |x|: (exp(2a) - 1) / (exp(2a) + 1), with the rounding errors of both parts. AVX-512 looks polynomials up."""
        if self.has_avx512 and self.dtype.lanes >= 16:
            table = pieces(math.tanh, 2.0**-4, 9.02)
            return self.in_pieces(table, x) if self.dtype.lanes == 16 else self.by_vectors("tanh", x)
        one = self.c(1.0)
        a = self.clamp(self.abs(x), 0.0, 10.0)
        n, q, lost = self._exact_exp_parts(self.add(a, a))
        s = self.power_of_two(n)
        parts: list[str] = []
        for start in (self.sub(s, one), self.add(s, one)):
            whole = self.fma(s, q, start)
            parts += [whole, self.fma(s, lost, self.fma(s, q, self.sub(start, whole)))]
        y, inverse = self.quotient(*parts)
        # 2**n - 1 is exact as long as it fits.
        y = self.select(self.cmp("ogt", a, self.c(8.0)), self.fma(self.c(-2.0), inverse, one), y)
        return self.binary("copysign", y, x)

    def sigmoid(self, x: str) -> str:
        one = self.c(1.0)
        gone = self.cmp("ogt", self.abs(x), self.c(104.0))
        n, ni, q = self._exp_parts(self._without(gone, self.neg(self.abs(x))))
        y = self.add(one, q)
        e = self._without(gone, self.scale2(y, n, ni))
        low = self.scale2(self.sub(q, self.sub(y, one)), n, ni)
        bottom = self.add(one, e)
        bottom_low = self.add(self.sub(e, self.sub(bottom, one)), low)
        falling = self.cmp("olt", x, self.c(0.0))
        top, top_low = self.select(falling, e, one), self.select(falling, low, self.c(0.0))
        return self.quotient(top, top_low, bottom, bottom_low)[0]

    def erf(self, x: str) -> str:
        one = self.c(1.0)
        t = self.abs(x)
        z = self.mul(x, x)
        p = self.poly(
            z, 7.907654799055308e-05, -0.0008032448822632432, 0.005191225558519363, -0.026855405420064926,
            0.11283622682094574, -0.3761262893676758,
        )  # fmt: skip
        lost = self.mul(p, self.fma(x, x, self.neg(z)))
        # erf(x) / x - 1 for |x| up to 0.9; error 2**-30.
        near = self.fma(p, z, self.add(lost, self.c(0.12837916612625122)))
        near = self.fma(near, x, x)
        far = self.clamp(t, 0.0, 4.2)
        r = self.poly(
            far, -1.0369190022174735e-05, 0.00031414139084517956, -0.0036070989444851875, 0.023686988279223442,
            -0.10614940524101257, -0.6352043747901917, -0.12863539159297943,
        )  # fmt: skip
        r = self.fma(r, far, self.neg(far))  # log(erfc(t)) on [0.89, 4.2]; error 2**-30 of erfc
        _, n, q = self._exp_parts(r)
        s = self.power_of_two(n)
        far = self.binary("copysign", self.fma(self.neg(s), q, self.sub(one, s)), x)
        return self.select(self.cmp("ogt", t, self.c(0.9)), far, near)

    # --- activations, which may lose precision where they are close to 0

    def _power_of_two_parts(self, a: str, b: str, less: int = 0) -> tuple[str, str]:
        """(n - less in the low bits of a float, p) with 2**(a * b) = 2**n * p, to 2**-28. p is 1 if the product is 0."""
        magic = self.c(12582912.0 - less)
        shifted = self.fma(a, b, magic)
        n = self.sub(shifted, magic)
        return shifted, self.poly(self.less(a, b, n), *_EXP2)

    def one_plus_erf(self, x: str) -> str:
        """1 + erf(x): 2**r or 2 - 2**r, where 2**r is erfc(|x|). Its error is below 1.2e-7 (an ulp of 1)."""
        end = 4.2  # erfc is 3e-9 there
        t = self.abs(x)
        far = self.cmp("ogt", t, self.c(end))
        t = self.select(self.cmp("olt", self.c(end), t), self.c(end), t)
        r = self.poly(
            t, 1.0076064427266829e-05, -0.0001393135025864467, 0.0007990218000486493, -0.002182330470532179,
            -1.2667729606619105e-05, 0.02778228372335434, -0.14832617342472076, -0.9184402227401733, -1.627907395362854,
        )  # fmt: skip
        n, p = self._power_of_two_parts(r, t)
        low = self.select(far, self.c(0.0), self.mul(p, self.power_of_rounded(n)))
        return self.select(self.cmp("olt", x, self.c(0.0)), low, self.sub(self.c(2.0), low))

    def gelu(self, x: str) -> str:
        """x * (1 + erf(x / sqrt(2))) / 2, as max(x, 0) - |x| * 2**r / 2, where 2**r is erfc(|x| / sqrt(2)). Its relative error is 2**-22
        for x from -4 on; below -8 the result is close to 0."""
        zero, end = self.c(0.0), self.c(8.0)
        t = self.abs(x)
        t = self.select(self.cmp("olt", end, t), end, t)
        r = self.poly(
            t, -4.327966607320377e-08, 1.1406522162360488e-06, -1.3203422895458061e-05, 8.569925557821989e-05,
            -0.0003007627965416759, 2.5704572180984542e-05, 0.006932997144758701, -0.052440986037254333,
            -0.4592187702655792, -1.1511045694351196,
        )  # fmt: skip
        n, p = self._power_of_two_parts(r, t, 1)
        positive = self.sub(x, self.select(self.cmp("olt", x, zero), x, zero))  # NaN for minus infinity
        return self.fma(self.neg(t), self.times_power(p, n), positive)

    def one_plus_tanh(self, x: str) -> str:
        """1 + tanh(x) = 2 / (1 + exp(-2x)). Its largest measured error is 1.8e-7 (1.5 ulp of 1)."""
        n, p = self._power_of_two_parts(self.clamp(x, -43.0, 11.0), self.c(-2.8853900817779268))
        bottom = self.fma(p, self.power_of_rounded(n), self.c(1.0))
        inverse = self.reciprocal(bottom)
        if not self.has_avx512:
            return self.add(inverse, inverse)
        twice = self.add(inverse, inverse)
        return self.fma(self.fma(self.neg(bottom), inverse, self.c(1.0)), twice, twice)

    def silu(self, x: str) -> str:
        """x * sigmoid(x), as x / (1 + 2**(-x / log(2))). Its error is 2 ulp from -88.7 on; below that the result is 0."""
        y = self.clamp(x, -89.0, 87.0)  # exp(-87) is nothing beside 1, but no denormal
        n, ni = self.round_to_int(y, -1.4426950216293335)
        r = self.less(y, self.c(-1.4426950216293335), n)
        r = self.fma(y, self.c(-1.925963033500011e-08), r)
        return self.div(x, self.add(self.c(1.0), self.scale2(self.poly(r, *_EXP2), n, ni)))

    # --- logarithms

    def log(self, x: str) -> str:
        tiny = self.cmp("olt", x, self.c(1.1754943508222875e-38))
        scaled = self.select(tiny, self.mul(x, self.c(8388608.0)), x)
        ix = self.iop("sub", self.bits(scaled), self.ci(0x3F3504F3))
        e = self.from_int(self.iop("ashr", ix, self.ci(23)))
        e = self.sub(e, self.select(tiny, self.c(23.0), self.c(0.0)))
        m = self.from_bits(self.iop("add", self.iop("and", ix, self.ci(0x007FFFFF)), self.ci(0x3F3504F3)))
        f = self.sub(m, self.c(1.0))
        p = self.poly(
            f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        )  # fmt: skip
        z = self.mul(f, f)
        y = self.fma(e, self.c(_LN2_LOW), self.mul(self.mul(f, z), p))
        y = self.fma(z, self.c(-0.5), y)
        y = self.fma(e, self.c(_LN2_HIGH), self.add(f, y))
        y = self.select(self.cmp("oeq", x, self.c(math.inf)), x, y)
        y = self.select(self.cmp("oeq", x, self.c(0.0)), self.c(-math.inf), y)
        return self.select(self.cmp("ult", x, self.c(0.0)), self.c(math.nan), y)

    # --- angles

    def _turn(self, x: str, turn: str) -> tuple[str, str]:
        """x minus multiples of an angle. turn: the method of `WideMath` for it. The table is read only if a lane needs it."""
        w, b = self.wide(), self.b
        wide = self.widen(x)
        near = getattr(w, turn)(wide)
        large = w.cmp("oge", w.abs(wide), w.c(2.0**FAR))
        arm = b.push(b.label("far"))
        # The freeze keeps the code that depends on it inside this branch.
        r, n = getattr(w, turn)(*w.far(b.here(f"freeze {w.type} {wide}")))
        r = w.select(large, r, near[0])
        n = b.pure(f"select {w.btype} {large}, {w.itype} {n}, {w.itype} {near[1]}", n)
        b.pop()
        join, before = b.label("join"), b.scopes[-1].label
        names = [b.name(), b.name()]
        phis = [
            f"{name} = phi {t} [ {mine}, %{arm.label} ], [ {other}, %{before} ]"
            for name, t, mine, other in zip(names, (w.type, w.itype), (r, n), near, strict=True)
        ]
        b.branch(w.any(large), arm, None, join, phis)
        return b.define_here(names[0]), b.define_here(names[1])

    def atan(self, x: str) -> str:
        """In pieces up to 13, from there pi / 2 - atan(1 / x); in float64 where there are no tables in registers."""
        lanes = self.dtype.lanes
        if not self.has_avx512 or lanes < 16:
            return self.in_float64("atan", x)
        if lanes > 16:
            return self.by_vectors("atan", x)
        near = self.in_pieces(pieces(math.atan, 2.0**-4, 13.0), x)
        a = self.at_most(self.abs(x), 1e30)
        inverse = self.reciprocal(a)
        t = self.fma(self.fma(self.neg(a), inverse, self.c(1.0)), inverse, inverse)
        z = self.mul(t, t)
        y = self.fma(self.mul(t, z), self.poly(z, 0.2, -1 / 3), t)
        y = self.sub(self.c(math.pi / 2), self.add(y, self.c(_HALF_PI_LOW)))
        return self.select(self.cmp("ogt", a, self.c(13.0)), self.binary("copysign", y, x), near)

    def asin(self, x: str) -> str:
        """a + a**3 * P(a**2) with a = |x| up to 1 / 2; from there pi / 2 - 2 * asin(sqrt((1 - a) / 2)), with the rounding errors of
        the root and of the difference."""
        a, one = self.abs(x), self.c(1.0)
        steep = self.cmp("ogt", a, self.c(0.5))
        z = self.select(steep, self.mul(self.sub(one, a), self.c(0.5)), self.mul(a, a))
        s = self.sqrt(z)
        p = self.mul(z, self.poly(z, *reversed(_ASIN)))
        least = self.select(self.cmp("olt", s, self.c(1e-20)), self.c(1e-20), s)
        lost = self.mul(self.fma(self.neg(s), s, z), self.mul(self.c(0.5), self.reciprocal(least)))
        twice, quarter = self.add(s, s), self.c(math.pi / 2)
        high = self.sub(quarter, twice)
        rest = self.sub(self.sub(self.sub(quarter, high), twice), self.c(_HALF_PI_LOW))
        far = self.add(high, self.fma(self.c(-2.0), self.fma(s, p, lost), rest))
        return self.binary("copysign", self.select(steep, far, self.fma(a, p, a)), x)

    def _angle_function(self, x: str, turn: str, function: str) -> str:
        y = self.narrow(getattr(self.wide(), function)(*self._turn(x, turn)))
        return self.select(self.cmp("oeq", self.abs(x), self.c(math.inf)), self.c(math.nan), y)

    def sin(self, x: str) -> str:
        y = self._angle_function(x, "half_turns", "sin_of_turned")
        return self.select(self.cmp("oeq", x, self.c(0.0)), x, y)

    def cos(self, x: str) -> str:
        return self._angle_function(x, "odd_quarters", "sin_of_turned")

    def tan(self, x: str) -> str:
        y = self._angle_function(x, "quarters", "tan_of_turned")
        return self.select(self.cmp("oeq", x, self.c(0.0)), x, y)

    # --- powers

    def rsqrt(self, x: str) -> str:
        y = self.div(self.c(1.0), self.sqrt(x))
        # One step of Newton's method for the errors of both roundings.
        t = self.mul(x, y)
        low = self.fma(x, y, self.neg(t))
        rest = self.fma(self.neg(low), y, self.fma(self.neg(t), y, self.c(1.0)))
        better = self.fma(self.mul(y, self.c(0.5)), rest, y)
        return self.select(self.cmp("uno", better, better), y, better)

    def pow(self, x: str, y: str) -> str:
        a = self.abs(x)
        r = self.in_float64("power_of_positive", a, y)
        zero, one, inf = self.c(0.0), self.c(1.0), self.c(math.inf)
        # Bases 0 and infinity, and the exponent infinity.
        up = self.cmp("ogt", y, zero)
        r = self.select(self.cmp("oeq", a, zero), self.select(up, zero, inf), r)
        r = self.select(self.cmp("oeq", a, inf), self.select(up, inf, zero), r)
        ay = self.unary("fabs", y)
        big = self.both("xor", up, self.cmp("olt", a, one))
        r = self.select(self.cmp("oeq", ay, inf), self.select(big, inf, zero), r)
        r = self.select(self.cmp("uno", x, y), self.c(math.nan), r)
        # Negative bases: odd integers keep the sign; for exponents that are not integers the power is NaN.
        whole = self.cmp("oeq", self.unary("trunc", y), y)
        half = self.mul(y, self.c(0.5))
        odd = self.both("and", whole, self.cmp("one", self.unary("trunc", half), half))
        r = self.select(self.both("and", odd, self.is_negative(x)), self.neg(r), r)
        bad = self.both("and", self.cmp("olt", x, zero), self.cmp("one", x, self.c(-math.inf)))
        bad = self.both(
            "and", bad, self.both("and", self.cmp("one", self.unary("trunc", y), y), self.cmp("one", ay, inf))
        )
        r = self.select(bad, self.c(math.nan), r)
        certain = self.both("or", self.cmp("oeq", y, zero), self.cmp("oeq", x, one))
        minus_one = self.both("and", self.cmp("oeq", x, self.c(-1.0)), self.cmp("oeq", ay, inf))
        return self.select(self.both("or", certain, minus_one), one, r)


def _chosen(name: str) -> Callable[..., str]:
    """The emitter of a function: in float32 if it exists and multiply-adds are fused, on which its error bound rests; else in float64."""
    narrow: Callable[..., str] | None = getattr(VectorMath, name, None)

    def emit(m: VectorMath, *args: str) -> str:
        if narrow is not None and (m.has_fma or not hasattr(WideMath, name)):
            return narrow(m, *args)
        return m.in_float64(name, *args)

    return emit


VECTOR_FUNCTIONS: dict[str, Callable[..., str]] = {
    name: _chosen(name)
    for name in (
        "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sigmoid", "erf",
        "sin", "cos", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "rsqrt", "atan2", "hypot", "pow",
        *ACTIVATIONS,
    )
}  # fmt: skip
"""Functions of float32 arguments that are emitted as vector code -> their emitters."""

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
"""Functions of one argument that LLVM expands without a library call on the supported CPUs."""

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
        "erfc",
    ],
    1,
) | dict.fromkeys(("atan2", "hypot", "nextafter", "pow", "fmod"), 2)
"""Functions that call the C library for each lane -> their number of arguments."""
