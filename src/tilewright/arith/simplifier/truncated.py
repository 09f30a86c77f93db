"""Simplification of division that rounds towards zero.

For operands that are not negative it equals floor division. A remaining division stays a `Div` or `Mod` node,
so that a requested truncation, such as in the lowering of floor division, is kept.
"""

from __future__ import annotations

from math import gcd

from tilewright.arith.linear import (
    LEAF,
    SPLIT,
    ZERO,
    Atom,
    Lin,
    combine,
    constant,
    content,
    divide_exactly,
    scale,
)
from tilewright.arith.simplifier.logic import Logic
from tilewright.tir.expr import Div, Mod


class Truncation(Logic):
    """Quotients and remainders that round towards zero, on forms."""

    def __init__(self) -> None:
        super().__init__()
        self._truncated: dict[Atom, tuple[type, Lin, Lin]] = {}

    def truncated(self, kind: type, a: Lin, b: Lin, dtype: str) -> Lin:
        """The quotient (kind Div) or remainder (Mod) of a and b."""
        if not b.terms and b.const:
            c = abs(b.const)
            out = self._by_constant(kind, a, c, dtype)
            return scale(out, -1) if kind is Div and b.const < 0 else out
        if b.terms:
            whole, rest = self._parts_divisible(a, b)
            if not rest.terms and rest.const == 0:
                return ZERO if kind is Mod else whole
            if self.prove_nonpositive(scale(a, -1)) and self.prove_nonpositive(combine(constant(1), b, -1)):
                return self._written(
                    kind,
                    self.quotient(a, b) if kind is Div else self.remainder(a, b),
                    a,
                    b,
                    dtype,
                )
        return self._leaf(kind, a, b, dtype)

    def _by_constant(self, kind: type, a: Lin, c: int, dtype: str) -> Lin:
        if c == 1:
            return a if kind is Div else ZERO
        if not a.terms:
            q = abs(a.const) // c * (1 if a.const >= 0 else -1)
            return constant(q if kind is Div else a.const - q * c)
        g = gcd(content(a), c)
        if g > 1:
            out = self._by_constant(kind, divide_exactly(a, g), c // g, dtype)
            return out if kind is Div else scale(out, g)
        low, high = self.bound(a)
        if low > -c and high < c:
            return ZERO if kind is Div else a
        if low >= 0:
            return self._written(
                kind,
                self.floordiv(a, c) if kind is Div else self.floormod(a, c),
                a,
                constant(c),
                dtype,
            )
        if high <= 0:
            return scale(self._by_constant(kind, scale(a, -1), c, dtype), -1)
        if kind is Mod:
            coeff, base = self.modular(a)
            if coeff % c == 0 and base % c == 0:
                return ZERO
        if len(a.terms) == 1 and not a.const:
            ((t, k),) = a.terms.items()
            inner = self._truncated.get(t)
            if inner is not None and k == 1 and inner[0] is kind and not inner[2].terms:
                if kind is Div:
                    return self._by_constant(Div, inner[1], inner[2].const * c, dtype)
                if inner[2].const % c == 0:
                    return self._by_constant(Mod, inner[1], c, dtype)
        return self._leaf(kind, a, constant(c), dtype)

    def _written(self, kind: type, out: Lin, a: Lin, b: Lin, dtype: str) -> Lin:
        """The result by floor division, with its remaining division written as a truncating one."""
        new = [t for t in out.terms if t.kind != LEAF and t not in a.terms]
        if not new:
            return out
        if len(new) == 1 and new[0].kind == SPLIT and not b.terms:
            t = new[0]
            source, lower, upper = t.args
            if self.bound(source)[0] >= 0:
                inner = source
                if upper:
                    inner = self._leaf(Mod, source, constant(upper), dtype)
                if lower > 1:
                    inner = self._leaf(Div, inner, constant(lower), dtype)
                rest = Lin({s: k for s, k in out.terms.items() if s is not t}, out.const)
                return self.merge(combine(rest, inner, out.terms[t]))
        return self._leaf(kind, a, b, dtype)

    def _leaf(self, kind: type, a: Lin, b: Lin, dtype: str) -> Lin:
        x, y = self.emit(a, dtype), self.emit(b, dtype)
        t = self.leaf(self.keep((kind, id(x), id(y)), lambda: kind(x, y)))
        self._truncated[t] = kind, self.intern(a), b
        return Lin({t: 1}, 0)

    def gather(self, a: Lin) -> Lin:
        if self._truncated and len(a.terms) > 1:
            for t, k in a.terms.items():
                found = self._truncated.get(t)
                if found is not None and found[0] is Mod and not found[2].terms:
                    for s, c in a.terms.items():
                        other = self._truncated.get(s)
                        if other is not None and other[:2] == (Div, found[1]) and c == k * found[2].const:
                            if other[2].const == found[2].const and not other[2].terms:
                                rest = Lin(
                                    {r: v for r, v in a.terms.items() if r is not s and r is not t},
                                    a.const,
                                )
                                return self.gather(combine(rest, found[1], k))
        return super().gather(a)
