"""Indices as sums of multiples of digits of loop variables, and how many values such sums have.

A digit is a loop variable, or a part of one: where a program divides a variable, as it does after loops were fused, its quotient and its
remainder are digits of their own. Expressions that are no such sums become a digit whose range is that of the expression.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tilewright.ir import IntImm
from tilewright.tir.expr import (
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Ramp,
    Select,
    Sub,
    Var,
)

MOST_BITS = 1 << 20
"""The longest set of values that is enumerated. Of longer ones with gaps, the number of values is bounded instead."""


class Digit:
    """A number from 0 to extent - 1 that the loop at a depth counts; `parts` once it is divided, the lower one first. That of a remainder
    knows its quotient: it is rest - divisor * quotient, where whole is (quotient, divisor, rest)."""

    __slots__ = ("depth", "extent", "parts", "whole")

    def __init__(self, depth: int, extent: int) -> None:
        self.depth, self.extent = depth, extent
        self.parts: tuple[Digit, int, Digit] | None = None
        self.whole: tuple[Digit, int, Linear] | None = None


Terms = dict[Digit, int]
Linear = tuple[int, Terms]
"""A constant, and the factor of each digit."""

_NOTHING: Terms = {}


class Indices:
    """Reads index expressions. values: what the variables in scope stand for. lanes: the digits of vectors' lanes, by their number."""

    def __init__(self) -> None:
        self.values: dict[Var, Linear] = {}
        self.lanes: dict[int, Digit] = {}
        self.lane_depth = 0
        self._quotients: dict[object, tuple[Linear, Linear]] = {}

    def read(self, e: Any) -> Linear:
        """The sum that an expression is. Variables without a value, such as parameters, count as 0."""
        kind = type(e)
        if kind is IntImm:
            return e.value, _NOTHING
        if kind is Add:
            return _added(self.read(e.a), self.read(e.b), 1)
        if kind is Mul:
            a, b = self.read(e.a), self.read(e.b)
            if not b[1]:
                return a[0] * b[0], {d: f * b[0] for d, f in a[1].items()}
            if not a[1]:
                return a[0] * b[0], {d: f * a[0] for d, f in b[1].items()}
            return self._opaque((a, b), None)
        if kind is Sub:
            return _added(self.read(e.a), self.read(e.b), -1)
        if isinstance(e, Var):
            found = self.values.get(e)
            return found if found is not None else (0, _NOTHING)
        if kind in (FloorDiv, FloorMod, Div, Mod):
            divisor = self.read(e.b)
            if divisor[1] or divisor[0] <= 0:
                return self._opaque((self.read(e.a), divisor), None)
            return self._divided(self.read(e.a), divisor[0])[kind in (FloorMod, Mod)]
        if kind is Cast:
            return self.read(e.value)
        if kind in (Min, Max):
            a, b = self.read(e.a), self.read(e.b)
            return b if b[1] and not a[1] else a
        if kind is Ramp:
            digit = self.lanes.get(e.lanes)
            if digit is None:
                digit = self.lanes[e.lanes] = Digit(self.lane_depth, e.lanes)
            base, stride = self.read(e.base), self.read(e.stride)
            return _added(base, (0, {digit: stride[0]}), 1)
        if kind is Broadcast:
            return self.read(e.value)
        if kind is Select:
            return self.read(e.true_value)
        if kind is Call and getattr(e.op, "name", "") == "tir.if_then_else":
            return self.read(e.args[1])
        if kind is BufferLoad:
            return self._opaque([self.read(i) for i in e.indices], None)
        return self._opaque([], None)

    def range(self, e: Any) -> tuple[int, int]:
        """The least and the largest value of an expression, as far as they are known."""
        if type(e) is IntImm:
            return e.value, e.value
        if type(e) in (Min, Max):
            (a, b), (c, d) = self.range(e.a), self.range(e.b)
            return (min(a, c), min(b, d)) if type(e) is Min else (max(a, c), max(b, d))
        return range_of(self.read(e))

    def _divided(self, e: Linear, divisor: int) -> tuple[Linear, Linear]:
        """Quotient and remainder."""
        if divisor == 1:
            return e, (0, _NOTHING)
        constant, terms = resolved(e)
        if len(terms) == 1:
            # The usual case, a loop that was fused, is divided even where its values below the divisor are not all of it.
            ((digit, factor),) = terms.items()
            _divide(digit, factor, divisor)
            constant, terms = resolved((constant, terms))
        elif range_of((constant % divisor, {d: f for d, f in terms.items() if f % divisor}))[1] >= divisor:
            for digit, factor in terms.items():
                if factor % divisor:
                    _divide(digit, factor, divisor)
            constant, terms = resolved((constant, terms))
        high = {d: f // divisor for d, f in terms.items() if f % divisor == 0}
        low = {d: f for d, f in terms.items() if f % divisor}
        rest = constant % divisor, low
        least, most = range_of(rest)
        if least >= 0 and most < divisor:
            return (constant // divisor, high), rest
        key = frozenset(low.items()), rest[0], divisor
        known = self._quotients.get(key)
        if known is None:
            first = least // divisor
            quotient = self._opaque([rest], most // divisor - first + 1)
            remainder = self._opaque([rest], min(divisor, most - least + 1))
            ((digit, _),) = remainder[1].items()
            (quotient_digit,) = quotient[1]
            digit.whole = quotient_digit, divisor, (rest[0] - divisor * first, low)
            known = self._quotients[key] = (first, quotient[1]), remainder
        return _added((constant // divisor, high), known[0], 1), known[1]

    def _opaque(self, operands: list[Linear] | tuple[Linear, ...], extent: int | None) -> Linear:
        """A digit for an expression that is no sum, by the innermost loop that it depends on."""
        digits = {d for _, terms in (resolved(o) for o in operands) for d in terms}
        if not digits:
            return 0, _NOTHING
        count = 1
        for d in digits:
            count *= d.extent
        return 0, {Digit(max([d.depth for d in digits]), min(count, extent or count)): 1}


def _divide(digit: Digit, factor: int, divisor: int) -> None:
    """Divides a digit so that a multiple of it can be divided, if it can be."""
    if factor <= 0 or divisor % factor:
        return
    point = divisor // factor
    if 1 < point < digit.extent and digit.extent % point == 0 and digit.parts is None:
        digit.parts = Digit(digit.depth, point), point, Digit(digit.depth, digit.extent // point)


def _added(a: Linear, b: Linear, sign: int) -> Linear:
    if not b[1]:
        return a[0] + sign * b[0], a[1]
    if not a[1] and sign == 1:
        return a[0] + b[0], b[1]
    terms = dict(a[1])
    for digit, factor in b[1].items():
        terms[digit] = terms.get(digit, 0) + sign * factor
    return a[0] + sign * b[0], terms


def resolved(e: Linear) -> Linear:
    """The sum in digits that are not divided; without those that are always 0 or whose factor is 0."""
    for digit, factor in e[1].items():
        if digit.parts is not None or not factor or digit.extent == 1:
            break
    else:
        return e
    terms: Terms = {}
    for digit, factor in e[1].items():
        if digit.parts is not None:
            low, point, high = digit.parts
            for d, f in resolved((0, {low: factor, high: factor * point}))[1].items():
                terms[d] = terms.get(d, 0) + f
        elif digit.extent > 1:
            terms[digit] = terms.get(digit, 0) + factor
    return e[0], {d: f for d, f in terms.items() if f}


def rejoined(e: Linear) -> Linear:
    """The sum, in which a quotient and its remainder are what was divided, where both are there."""
    constant, terms = e
    for digit, factor in e[1].items():
        if digit.whole is not None and digit.whole[0] in e[1]:
            quotient, divisor, rest = digit.whole
            kept = {d: f for d, f in terms.items() if d is not digit}
            constant, terms = _added(
                (constant, kept), (factor * rest[0], {d: factor * f for d, f in rest[1].items()}), 1
            )
            constant, terms = _added((constant, terms), (0, {quotient: -factor * divisor}), 1)
    return resolved((constant, terms))


def range_of(e: Linear) -> tuple[int, int]:
    """The least and the largest value of a sum."""
    least = most = e[0]
    for digit, factor in e[1].items():
        if factor > 0:
            most += factor * (digit.extent - 1)
        else:
            least += factor * (digit.extent - 1)
    return least, most


@lru_cache(maxsize=1 << 16)
def distinct(terms: tuple[tuple[int, int], ...], shifts: tuple[int, ...] = (0,)) -> tuple[int, int, int]:
    """How many values a sum has, the distance of the first and the last, and that of neighbours: all are at this distance if span is (count
    - 1) * distance, else it is the least.

    terms: (factor, extent) of each digit, factors positive and in rising order. shifts: constants, of which each gives a sum; the values
    are those of all of them.
    """
    if len(shifts) == 1:
        count, span, step = 1, 0, 0
        for factor, extent in terms:
            if factor > span:
                # The values are repeated beside each other.
                dense = span == 0 or (count - 1) * step == span
                aligned = dense and factor == span + step
                count *= extent
                span += factor * (extent - 1)
                if step == 0:
                    step = factor
                elif not aligned:
                    step = min(step, factor)
            elif (count - 1) * step == span and factor % step == 0:
                span += factor * (extent - 1)
                count = span // step + 1
            else:
                break
        else:
            return count, span, step
    span = sum([factor * (extent - 1) for factor, extent in terms])
    least = min(shifts)
    span += max(shifts) - least
    steps = [factor for factor, _ in terms] + [s - least for s in shifts if s > least]
    step = min(steps, default=0)
    if span >= MOST_BITS:
        product = len(set(shifts))
        for _, extent in terms:
            product *= extent
        return min(product, span // max(step, 1) + 1), span, step
    values = 1
    for factor, extent in terms:
        values = _repeated(values, factor, extent)
    found = 0
    for shift in set(shifts):
        found |= values << (shift - least)
    count = found.bit_count()
    even = (count - 1) * step == span and found == _repeated(1, step, count)
    return count, span, step if even else 1


def _repeated(values: int, factor: int, extent: int) -> int:
    """The set of values, as bits, plus 0, factor, ..., (extent - 1) * factor."""
    done = 1
    while done < extent:
        more = min(done, extent - done)
        values |= values << (factor * more)
        done += more
    return values
