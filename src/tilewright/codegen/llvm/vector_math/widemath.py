"""Elementary functions of float32 numbers, computed in float64 to about 40 bits, so that the only error is the rounding at the end.

They are used for functions in which kernels rarely spend much time, and for all functions if multiply-adds are not fused. The
polynomials are Chebyshev fits (mpmath's chebyfit), each with its error.
"""

from __future__ import annotations

import math

from tilewright.codegen.llvm.vector_math.lanes import Lanes

LN2 = math.log(2.0)
PI_2 = (1.5707963267948966, 6.123233995736766e-17)
PI_2_UNFUSED = (1.5707963109016418, 1.5893254712295857e-08, 6.123233995736766e-17)
"""pi / 2 in parts: of 53 bits (PI_2), and of 25, 25 and 53 bits. Products of the parts of 25 bits with integers of 28 bits are exact."""


class WideMath(Lanes):
    """Emits functions of float64 values that were float32, and whose results are rounded to float32."""

    def _exp_parts(self, x: str) -> tuple[str, str]:
        """(2**n, q) with exp(x) = 2**n * (1 + q) and q in [-0.3, 0.42], for |x| up to 700."""
        n, ni = self.round_to_int(x, 1.0 / LN2)
        r = self.fma(n, self.c(-0.6931471803691238), x)
        r = self.fma(n, self.c(-1.9082149292705877e-10), r)
        p = self.poly(
            r, 2.761379764561564e-07, 2.7625104515531025e-06, 2.4801536405296596e-05, 0.0001984120875246986,
            0.001388888890587323, 0.00833333335371942, 0.041666666666651364, 0.166666666666483, 0.5,
        )  # fmt: skip  # (exp(r) - 1 - r) / r**2, 2**-47
        return self.power_of_two(ni), self.fma(self.mul(r, r), p, r)

    def exp(self, x: str) -> str:
        s, q = self._exp_parts(self.clamp(x, -700.0, 700.0))
        return self.fma(s, q, s)

    def expm1(self, x: str) -> str:
        s, q = self._exp_parts(self.clamp(x, -700.0, 700.0))
        y = self.fma(s, q, self.sub(s, self.c(1.0)))
        return self.select(self.cmp("oeq", x, self.c(0.0)), x, y)

    def exp2(self, x: str) -> str:
        return self.exp(self.mul(x, self.c(LN2)))

    def exp10(self, x: str) -> str:
        return self.exp(self.mul(x, self.c(math.log(10.0))))

    def sinh(self, x: str) -> str:
        e = self.expm1(self.abs(x))
        y = self.mul(self.add(e, self.div(e, self.add(e, self.c(1.0)))), self.c(0.5))
        return self.binary("copysign", y, x)

    def cosh(self, x: str) -> str:
        e = self.exp(self.abs(x))
        return self.mul(self.add(e, self.div(self.c(1.0), e)), self.c(0.5))

    def tanh(self, x: str) -> str:
        a = self.clamp(self.abs(x), 0.0, 20.0)
        e = self.expm1(self.add(a, a))
        return self.binary("copysign", self.div(e, self.add(e, self.c(2.0))), x)

    def sigmoid(self, x: str) -> str:
        one = self.c(1.0)
        return self.div(one, self.add(one, self.exp(self.neg(x))))

    # --- logarithms

    def _log_parts(self, x: str) -> tuple[str, str]:
        """(log(m), e) with x = m * 2**e and m in [sqrt(1/2), sqrt(2)), for positive normal numbers."""
        ix = self.iop("sub", self.bits(x), self.ci(0x3FE6A09E667F3BCD))
        e = self.iop("ashr", ix, self.ci(52))
        m = self.from_bits(self.iop("add", self.iop("and", ix, self.ci(0xFFFFFFFFFFFFF)), self.ci(0x3FE6A09E667F3BCD)))
        one = self.c(1.0)
        f = self.div(self.sub(m, one), self.add(m, one))
        p = self.poly(
            self.mul(f, f), 0.16837699024690378, 0.18121931275171953, 0.22223434642576478, 0.2857141601980294,
            0.4000000006174961, 0.666666666665529, 2.0,
        )  # fmt: skip  # log((1 + f) / (1 - f)) / f in f**2, 2**-51
        return self.mul(p, f), self.from_int(e)

    def _log_special(self, x: str, y: str) -> str:
        y = self.select(self.cmp("oeq", x, self.c(math.inf)), x, y)
        y = self.select(self.cmp("oeq", x, self.c(0.0)), self.c(-math.inf), y)
        return self.select(self.cmp("ult", x, self.c(0.0)), self.c(math.nan), y)

    def log(self, x: str) -> str:
        f, e = self._log_parts(x)
        return self._log_special(x, self.fma(e, self.c(LN2), f))

    def log2(self, x: str) -> str:
        f, e = self._log_parts(x)
        return self._log_special(x, self.fma(f, self.c(1.0 / LN2), e))

    def log10(self, x: str) -> str:
        f, e = self._log_parts(x)
        return self._log_special(x, self.fma(e, self.c(math.log10(2.0)), self.mul(f, self.c(1.0 / math.log(10.0)))))

    def log1p(self, x: str) -> str:
        u = self.add(x, self.c(1.0))
        # The rounding error of 1 + x matters for small x.
        lost = self.div(self.sub(x, self.sub(u, self.c(1.0))), u)
        y = self.add(self.log(u), self.select(self.cmp("olt", x, self.c(1.0)), lost, self.c(0.0)))
        y = self.select(self.cmp("oeq", x, self.c(-1.0)), self.c(-math.inf), y)
        return self.select(self.cmp("oeq", x, self.c(0.0)), x, y)

    def asinh(self, x: str) -> str:
        a = self.abs(x)
        z = self.mul(a, a)
        root = self.add(self.sqrt(self.add(z, self.c(1.0))), self.c(1.0))
        y = self.log1p(self.add(a, self.div(z, root)))
        y = self.select(self.cmp("oeq", a, self.c(math.inf)), a, y)
        return self.binary("copysign", y, x)

    def acosh(self, x: str) -> str:
        t = self.sub(x, self.c(1.0))
        y = self.log1p(self.add(t, self.sqrt(self.mul(t, self.add(t, self.c(2.0))))))
        return self.select(self.cmp("ult", x, self.c(1.0)), self.c(math.nan), y)

    def atanh(self, x: str) -> str:
        a = self.abs(x)
        y = self.log1p(self.div(self.add(a, a), self.sub(self.c(1.0), a)))
        y = self.select(self.cmp("ugt", a, self.c(1.0)), self.c(math.nan), y)
        return self.binary("copysign", self.mul(y, self.c(0.5)), x)

    # --- angles

    def _angle(self, y: str, x: str) -> str:
        """The angle of the point (x, y), by one division. Both must be at least 0, and one above 0."""
        steep = self.cmp("ogt", y, self.mul(x, self.c(2.414213562373095)))
        middle = self.cmp("ogt", y, self.mul(x, self.c(0.4142135623730951)))
        top = self.select(steep, self.neg(x), self.select(middle, self.sub(y, x), y))
        bottom = self.select(steep, y, self.select(middle, self.add(y, x), x))
        base = self.select(steep, self.c(PI_2[0]), self.select(middle, self.c(PI_2[0] / 2), self.c(0.0)))
        t = self.div(top, bottom)
        p = self.poly(
            self.mul(t, t), -0.025315752916357237, 0.050247090184881035, -0.06505966850780683, 0.07673532799871223,
            -0.09089529707761589, 0.11111048839980395, -0.1428571266125891, 0.19999999978386104, -0.33333333333221393, 1.0,
        )  # fmt: skip  # atan(t) / t in t**2, 2**-50
        return self.fma(p, t, base)

    def atan(self, x: str) -> str:
        return self.binary("copysign", self._angle(self.abs(x), self.c(1.0)), x)

    def asin(self, x: str) -> str:
        a, one = self.abs(x), self.c(1.0)
        other = self.sqrt(self.mul(self.sub(one, a), self.add(one, a)))
        return self.binary("copysign", self._angle(a, other), x)

    def acos(self, x: str) -> str:
        one = self.c(1.0)
        half = self._angle(self.sqrt(self.sub(one, x)), self.sqrt(self.add(one, x)))
        return self.add(half, half)

    def atan2(self, y: str, x: str) -> str:
        a, b, zero = self.abs(y), self.abs(x), self.c(0.0)
        # For two infinities the angle is pi / 4.
        inf = self.c(math.inf)
        both = self.both("and", self.cmp("oeq", a, inf), self.cmp("oeq", b, inf))
        a, b = self.select(both, self.c(1.0), a), self.select(both, self.c(1.0), b)
        none = self.both("and", self.cmp("oeq", a, zero), self.cmp("oeq", b, zero))
        r = self._angle(a, self.select(none, self.c(1.0), b))
        r = self.select(self.is_negative(x), self.sub(self.c(2 * PI_2[0]), r), r)
        return self.binary("copysign", r, y)

    def far(self, x: str) -> tuple[str, str]:
        """(a, b) with a + b = x modulo 2 * pi and a below 2**26, for a float32 number x of at least 2**28. x is an integer of 24 bits
        times a power of two. A table holds the powers modulo 2 * pi in three parts; the products of the integer with the first two are
        exact."""
        i = self.itype
        e = self.iop("and", self.iop("lshr", self.bits(x), self.ci(52)), self.ci(0x7FF))
        at = self.iop("sub", e, self.ci(1023 + FAR))
        inside = self.b.pure(f"icmp ult {i} {at}, {self.ci(128 - FAR)}", at)
        at = self.b.pure(f"select {self.btype} {inside}, {i} {at}, {i} {self.ci(0)}", inside, at)
        fraction = self.iop("and", self.bits(x), self.ci(~(0x7FF << 52)))
        integer = self.from_bits(self.iop("or", fraction, self.ci((1023 + 23) << 52)))
        high, middle, low = (self.lookup(f"tilewright.turns.{k}", TURNS[k], at) for k in range(3))
        return self.mul(integer, high), self.fma(integer, middle, self.mul(integer, low))

    def _less(self, n: str, step: float, x: str, rest: str | None) -> str:
        """x + rest - n * step * pi/2. The products with all parts of pi except the last are exact, if n has at most 28 bits."""
        *parts, last = [p * step for p in (PI_2 if self.has_fma else PI_2_UNFUSED)]
        for part in parts:
            x = self.fma(n, self.c(-part), x)
        if rest is None:
            return self.fma(n, self.c(-last), x)
        return self.add(x, self.fma(n, self.c(-last), rest))

    def quarters(self, x: str, rest: str | None = None) -> tuple[str, str]:
        """(r, n) with x + rest = n * pi/2 + r, |r| at most pi/4."""
        n, ni = self.round_to_int(x, 1.0 / PI_2[0])
        return self._less(n, 1.0, x, rest), ni

    def half_turns(self, x: str, rest: str | None = None) -> tuple[str, str]:
        """(r, n) with x + rest = n * pi + r, |r| at most pi/2: sin(x) is (-1)**n sin(r)."""
        n, ni = self.round_to_int(x, 0.5 / PI_2[0])
        return self._less(n, 2.0, x, rest), ni

    def odd_quarters(self, x: str, rest: str | None = None) -> tuple[str, str]:
        """(r, n) with x + rest = (n - 1/2) * pi + r, |r| at most pi/2: cos(x) is (-1)**n sin(r)."""
        n, ni = self.round_to_int(self.fma(x, self.c(0.5 / PI_2[0]), self.c(0.5)), 1.0)
        return self._less(self.sub(n, self.c(0.5)), 2.0, x, rest), ni

    def sin_of_turned(self, r: str, n: str) -> str:
        p = self.poly(
            self.mul(r, r), -2.3889104032675583e-08, 2.752526349541792e-06, -0.00019840861058037127, 0.008333330973271878,
            -0.16666666616790812, 0.9999999999829089,
        )  # fmt: skip  # sin(r) / r in r**2 up to pi/2, 2**-35
        return self.from_bits(self.iop("xor", self.bits(self.mul(p, r)), self.iop("shl", n, self.ci(63))))

    def tan_of_turned(self, r: str, n: str) -> str:
        z = self.mul(r, r)
        s = self.poly(
            z, -2.4756535078473207e-08, 2.75552715645044e-06, -0.00019841263296812382, 0.008333333323875107,
            -0.16666666666616664, 1.0,
        )  # fmt: skip  # sin(r) / r in r**2 up to pi/4, 2**-47
        s = self.mul(s, r)
        c = self.poly(
            z, 2.0630434633265193e-09, -2.7555233549848636e-07, 2.4801578536449347e-05, -0.0013888888869972573,
            0.04166666666647223, -0.4999999999999925, 1.0,
        )  # fmt: skip  # cos(r) in r**2 up to pi/4, 2**-54
        odd_bit = self.iop("and", n, self.ci(1))
        odd = self.b.pure(f"icmp ne {self.itype} {odd_bit}, {self.ci(0)}", odd_bit)
        return self.div(self.select(odd, self.neg(c), s), self.select(odd, s, c))

    # --- others

    def erf(self, x: str) -> str:
        a = self.abs(x)
        near = self.poly(
            self.mul(x, x), -1.0469110332151208e-07, 1.5306373163641084e-06, -1.4795031400662045e-05,
            0.00012046261269779797, -0.0008547933736519633, 0.0052239671935439, -0.026866169050599326,
            0.11283791658548713, -0.37612638902808615, 1.128379167095494,
        )  # fmt: skip  # erf(x) / x in x**2, 2**-45
        t = self.clamp(a, 1.0, 4.1)
        far = self.poly(
            t, -4.1688447541554304e-09, 1.4303578442048195e-07, -2.2266565875521414e-06, 2.0651278945266516e-05,
            -0.0001247889780714333, 0.0004901102112457717, -0.0010140345004357586, -0.0013116491587195757,
            0.021208848277710485, -0.10465637203240144, -0.6355131158700167, -1.1287626938224686, 5.962253436060167e-05,
        )  # fmt: skip  # log(erfc(t)) on [1, 4.1], 2**-33
        s, q = self._exp_parts(far)
        far = self.sub(self.c(1.0), self.fma(s, q, s))
        far = self.binary("copysign", self.select(self.cmp("uno", a, a), a, far), x)
        return self.select(self.cmp("olt", a, self.c(1.0)), self.mul(near, x), far)

    def rsqrt(self, x: str) -> str:
        return self.div(self.c(1.0), self.sqrt(x))

    def hypot(self, x: str, y: str) -> str:
        r = self.sqrt(self.fma(x, x, self.mul(y, y)))
        inf = self.c(math.inf)
        infinite = self.both("or", self.cmp("oeq", self.abs(x), inf), self.cmp("oeq", self.abs(y), inf))
        return self.select(infinite, inf, r)

    def power_of_positive(self, x: str, y: str) -> str:
        """x**y for a finite x > 0 and a finite y. Results beyond the range of float32 need only round to 0 or infinity."""
        f, e = self._log_parts(x)
        t = self.mul(self.fma(e, self.c(LN2), f), y)
        s, q = self._exp_parts(self.clamp(t, -300.0, 300.0))
        return self.fma(s, q, s)


FAR = 28
"""Numbers from this power of two on are reduced modulo 2 * pi by a table."""


def _arctan_of_inverse(n: int, places: int) -> int:
    """arctan(1 / n) * 2**places."""
    total, power, k = 0, (1 << places) // n, 0
    while power:
        total += (-power if k & 1 else power) // (2 * k + 1)
        power //= n * n
        k += 1
    return total


def _turns() -> tuple[tuple[float, ...], ...]:
    """2**(e - 23) modulo 2 * pi for e from FAR to 127, in parts of 29, 29 and 53 bits each."""
    places = 340
    turn = 8 * (4 * _arctan_of_inverse(5, places) - _arctan_of_inverse(239, places))  # Machin's formula
    parts: list[list[float]] = []
    for e in range(FAR, 128):
        rest = (1 << (places + e - 23)) % turn
        if rest > turn // 2:
            rest -= turn
        parts.append([])
        for bits in (27, 55):
            unit = places - bits
            head = (rest + (1 << (unit - 1))) >> unit
            rest -= head << unit
            parts[-1].append(math.ldexp(head, -bits))
        parts[-1].append(rest / (1 << places))
    return tuple(zip(*parts, strict=True))


TURNS = _turns()
