"""Minima and maxima of floats, which are NaN where either operand is."""

from __future__ import annotations

import math
from typing import NamedTuple

from tilewright.codegen.llvm.builder import Scope
from tilewright.codegen.llvm.lanes import Lanes


class _Step(NamedTuple):
    """What an extreme was made of: `fast`, which is right unless an operand tested is NaN, and NaN where the first of its chain was; the
    tests so far (""), an operand that waits for another to share its test with (""), and the scope in which all that is known."""

    fast: str
    sound: str
    alone: str
    scope: Scope | None


class Extremes:
    """Emits the minima and maxima of a function.

    Processors whose instructions drop NaN take two or three for what others do in one. So a chain or tree of them goes on with the
    fast instruction, whose operands are tested beside it, two at a time; only what is read of its results is chosen by the tests.
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
        first, second = self._step(m, a) or _Step(a, "", "", None), self._step(m, b)
        if late and not second and m.dtype.bits >= 32:
            # A test would come late too. In one of both orders NaN stays, whatever bits join its own; without it both have one result.
            one, other = m.select(m.cmp(order, b, a), b, a), m.select(m.cmp(order, a, b), a, b)
            return m.from_bits(m.iop("or", m.bits(one), m.bits(other)))
        beyond = second.fast if second else b
        fast = m.select(m.cmp(order, beyond, first.fast), beyond, first.fast)
        sound, alone = first.sound, first.alone
        for tested in (second.alone, second.fast) if second else (b,):
            if tested and alone:
                sound, alone = _both(m, sound, m.cmp("ord", alone, tested)), ""
            else:
                alone = alone or tested
        sound = _both(m, sound, second.sound if second else "")
        whole = _both(m, sound, m.cmp("ord", alone, alone) if alone else "")
        result = m.select(whole, fast, m.c(math.nan) if sound else alone)
        self.steps[result] = _Step(fast, sound, alone, m.b.scopes[m.b.level_of[result]])
        return result

    def _step(self, m: Lanes, value: str) -> _Step | None:
        """How a value was made, unless that happened in a loop that has ended."""
        found = self.steps.get(value)
        return found if found and found.scope in m.b.scopes else None


def _both(m: Lanes, a: str, b: str) -> str:
    """Two conditions, of which either may be "" for none."""
    return m.both("and", a, b) if a and b else a or b
