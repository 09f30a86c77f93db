"""Minima and maxima of floats, which are NaN where either operand is."""

from __future__ import annotations

import math
from typing import NamedTuple

from tilewright.codegen.llvm.functions.builder import Scope
from tilewright.codegen.llvm.vector_math.lanes import Lanes


class _Step(NamedTuple):
    """What a minimum (`least`) or maximum was made of: `base`, NaN where anything before was, one operand that waits for another of
    the same kind to share its test with, and the scope in which that is known."""

    least: bool
    base: str
    waiting: str
    scope: Scope | None


class Extremes:
    """Emits the minima and maxima of a function.

    Processors whose instructions drop NaN take two or three for what others do in one. So a chain or tree of them takes its operands
    two at a time: one test tells of both, and what it tells goes into the result at once, since masks are fewer than tiles are high.
    """

    def __init__(self) -> None:
        self.steps: dict[str, _Step] = {}

    def of(self, m: Lanes, least: bool, a: str, b: str, number: bool, late: bool, native: bool) -> str:
        """The smaller or the larger of a and b. number: b never is NaN; late: b is known no sooner than a; native: the target has
        instructions that keep NaN."""
        neutral = m.c(math.inf if least else -math.inf)
        if neutral in (a, b):
            return b if a == neutral else a
        if native:
            return m.binary("minimum" if least else "maximum", a, b)
        order = "olt" if least else "ogt"
        if number:
            # x86 has one instruction of this form, whose result is a where either is NaN; so a is never tested.
            return m.select(m.cmp(order, b, a), b, a)
        first, second = self._step(m, least, a) or _Step(least, a, "", None), self._step(m, least, b)
        if late and not second and m.dtype.bits >= 32:
            # A test would come late too. In one of both orders NaN stays, whatever bits join its own; without it both have one result.
            one, other = m.select(m.cmp(order, b, a), b, a), m.select(m.cmp(order, a, b), a, b)
            return m.from_bits(m.iop("or", m.bits(one), m.bits(other)))
        # Of each of these instructions the second operand's NaN stays.
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
        """How a value was made, if by the same kind of extreme, unless that happened in a loop that has ended."""
        found = self.steps.get(value)
        return found if found and found.least == least and found.scope in m.b.scopes else None
