"""Minima and maxima of floats, which are NaN if either operand is."""

from __future__ import annotations

import math
from typing import NamedTuple

from tilewright.codegen.llvm.functions.builder import Scope
from tilewright.codegen.llvm.vector_math.lanes import Lanes


class _Step(NamedTuple):
    """How a minimum (`least`) or maximum was computed. base: the extreme of all operands except `waiting`, or NaN if one of them was.
    waiting: an operand that can share its test for NaN with the next one. scope: where these values are known."""

    least: bool
    base: str
    waiting: str
    scope: Scope | None


class Extremes:
    """Emits the minima and maxima of a function.

    Processors whose instructions drop NaN need two or three instructions for an extreme instead of one. So a chain or tree of extremes
    takes two operands at a time, with one test for both. The outcome of a test goes into the result at once, since tiles have more rows
    than processors have mask registers.
    """

    def __init__(self) -> None:
        self.steps: dict[str, _Step] = {}

    def of(self, m: Lanes, least: bool, a: str, b: str, number: bool, late: bool, native: bool) -> str:
        """The smaller or the larger of a and b. number: b is never NaN; late: b is known no sooner than a; native: the target has
        instructions that return NaN if an operand is NaN."""
        neutral = m.c(math.inf if least else -math.inf)
        if neutral in (a, b):
            return b if a == neutral else a
        if native:
            return m.binary("minimum" if least else "maximum", a, b)
        order = "olt" if least else "ogt"
        if number:
            # On x86 this is one instruction. Its result is a if either operand is NaN, so a needs no test.
            return m.select(m.cmp(order, b, a), b, a)
        first, second = self._step(m, least, a) or _Step(least, a, "", None), self._step(m, least, b)
        if late and not second and m.dtype.bits >= 32:
            # A test would be late too. With a NaN one of both orders returns it, and `or` keeps it NaN; otherwise both orders agree.
            one, other = m.select(m.cmp(order, b, a), b, a), m.select(m.cmp(order, a, b), a, b)
            return m.from_bits(m.iop("or", m.bits(one), m.bits(other)))
        # Each of these instructions returns the second operand if that is NaN.
        base, waiting = (
            first.base,
            [v for v in (first.waiting, *((second.base, second.waiting) if second else (b,))) if v],
        )
        if len(waiting) > 1:
            x, y, *waiting = waiting
            beyond = m.select(m.cmp(order, x, y), x, y)
            fast = m.select(m.cmp(order, beyond, base), beyond, base)
            base = m.select(m.cmp("ord", x, y), fast, m.c(math.nan))
        result = base
        for x in waiting:
            fast = m.select(m.cmp(order, x, base), x, base)
            result = m.select(m.cmp("ord", x, x), fast, x)
        self.steps[result] = _Step(least, base, waiting[0] if waiting else "", m.b.scopes[m.b.level_of[result]])
        return result

    def _step(self, m: Lanes, least: bool, value: str) -> _Step | None:
        """The step that computed a value, if it was the same kind of extreme in a scope that is still open; or else None."""
        found = self.steps.get(value)
        return found if found and found.least == least and found.scope in m.b.scopes else None
