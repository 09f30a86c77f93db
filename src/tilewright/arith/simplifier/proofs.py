"""Proofs of d <= 0 from constant bounds, facts, and the definitions of quotients, remainders, minima and maxima.

Facts are added to a multiple of the goal until its constant bound decides. Facts are forms f with f <= 0: conditions
that hold, ends of symbolic ranges, and for the atoms of the goal
    x // l          l * q <= x <= l * q + l - 1
    x // b, b > 0   b * q <= x <= b * q + b - 1
    x % b, b > 0    r <= b - 1, and r <= x if x >= 0
    min(x, ...)     m <= x
    max(x, ...)     x <= m
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd, inf
from typing import Any

from tilewright.arith.const_bounds import Modular, crt
from tilewright.arith.linear import (
    LEAF,
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    QUOTIENT,
    REMAINDER,
    SPLIT,
    Atom,
    Lin,
    combine,
    scale,
    shift,
)
from tilewright.arith.simplifier.integers import Integers

_DEPTH = 3
_MOST_STEPS = 80


class Proofs(Integers):
    """Facts, and goals proved from them."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[Atom, list[Lin]] = {}
        self.own_facts: dict[Atom, list[Lin]] = {}
        self._proved: dict[Any, bool] = {}
        self._implied: dict[Atom, tuple[Lin, ...]] = {}
        self._steps = 0

    def prove_nonpositive(self, d: Lin) -> bool:
        """Whether d <= 0 follows from bounds and facts."""
        if self.bound(d)[1] <= 0:
            return True
        if not d.terms:
            return False
        if not (self.facts or self.own_facts) and not any([t.kind != LEAF for t in d.terms]):
            return False
        key = (frozenset(d.terms.items()), d.const)
        found = self._proved.get(key)
        if found is None:
            # A goal that occurs again in its own proof does not count as proved.
            self._proved[key] = False
            outer, self._steps = self._steps, 0
            found = self._proved[key] = self._decide_goal(d)
            self._steps = outer
        return found

    def _decide_goal(self, d: Lin) -> bool:
        if any([t.kind == PRODUCT for t in d.terms]):
            d = self.expand(d)
            if self.bound(d)[1] <= 0:
                return True
        return self._prove(d, _DEPTH, set())

    def _prove(self, d: Lin, depth: int, seen: set[Any]) -> bool:
        """With m * d = rest + n * fact, m, n > 0 and fact <= 0: d <= 0 if rest <= m - 1."""
        linked: set[Atom] | None = None
        for t, k in d.terms.items():
            if t.kind == (MAXIMUM if k > 0 else MINIMUM):
                if depth and all([self._holds(self._with(d, t, x), depth - 1, seen) for x in t.args]):
                    return True
                continue
            facts: Iterable[Lin] = self._facts_about(t)
            if t.kind != LEAF:
                if linked is None:
                    linked = self._linked(d)
                facts = [*facts, *self._about(t, linked)]
            for fact in facts:
                c = fact.terms.get(t, 0)
                if c == 0 or (c > 0) != (k > 0):
                    continue
                g = gcd(c, k)
                m = abs(c) // g
                rest = combine(shift(scale(d, m), 1 - m), fact, -(abs(k) // g))
                if self._holds(rest, depth - 1, seen):
                    return True
                if m == 1 and abs(k) > g and t.kind in (MINIMUM, MAXIMUM):
                    # min(x, y) * 2 <= x + y takes one step for each operand.
                    if self._holds(combine(d, fact, -1), depth - 1, seen):
                        return True
        return self._product_below(d)

    def _holds(self, rest: Lin, depth: int, seen: set[Any]) -> bool:
        rest = self.gather(rest)
        if self.bound(rest)[1] <= 0:
            return True
        if depth <= 0 or not rest.terms or self._steps >= _MOST_STEPS:
            return False
        key = (frozenset(rest.terms.items()), rest.const)
        if key in seen:
            return False
        seen.add(key)
        self._steps += 1
        return self._prove(rest, depth, seen)

    def _with(self, d: Lin, t: Atom, x: Lin) -> Lin:
        """d with x in place of the atom."""
        k = d.terms[t]
        return combine(Lin({s: c for s, c in d.terms.items() if s is not t}, d.const), x, k)

    def _linked(self, d: Lin) -> set[Atom]:
        """The atoms of the goal, and inner atoms that occur more than once: facts could cancel these."""
        met: set[Atom] = set(d.terms)
        twice: set[Atom] = set(d.terms)
        for t in d.terms:
            for f in t.args:
                if isinstance(f, Lin):
                    for s in f.terms:
                        (twice if s in met else met).add(s)
                        if s.kind != LEAF:
                            for g in s.args:
                                if isinstance(g, Lin):
                                    for r in g.terms:
                                        (twice if r in met else met).add(r)
        return twice

    def _about(self, t: Atom, linked: set[Atom]) -> Iterator[Lin]:
        """The facts from an atom's definition that may help."""
        found = self._implied.get(t)
        if found is None:
            found = self._implied[t] = tuple(self._definition(t))
        for fact in found:
            if any([s is not t and s in linked for s in fact.terms]) or not any([s is not t for s in fact.terms]):
                yield fact

    def _definition(self, t: Atom) -> Iterator[Lin]:
        kind, args = t.kind, t.args
        here = Lin({t: 1}, 0)
        if kind == SPLIT:
            source, lower, upper = args
            if not upper:
                yield combine(scale(here, lower), source, -1)
                yield shift(combine(source, here, -lower), 1 - lower)
            elif self.bound(source)[0] >= 0:
                yield combine(scale(here, lower), source, -1)
        elif kind == MINIMUM:
            for x in args:
                yield combine(here, x, -1)
        elif kind == MAXIMUM:
            for x in args:
                yield combine(x, here, -1)
        elif kind == REMAINDER:
            if self.bound(args[1])[0] > 0:
                yield shift(combine(here, args[1], -1), 1)
                if self.bound(args[0])[0] >= 0:
                    yield combine(here, args[0], -1)
        elif kind == PRODUCT:
            for i, f in enumerate(args):
                q = next(iter(f.terms)) if len(f.terms) == 1 and not f.const else None
                if q is None or q.kind != QUOTIENT or f.terms[q] != 1:
                    continue
                source, divisor = q.args
                others = self.intern(self._product([x for j, x in enumerate(args) if j != i]))
                if others is divisor and self.bound(divisor)[0] > 0:
                    yield combine(here, source, -1)
                    yield shift(combine(combine(source, here, -1), divisor, -1), 1)

    def _product_below(self, d: Lin) -> bool:
        """A product of two factors is at least a weighted sum of the factors, with each one's minimum as the weight of the other."""
        for t, k in d.terms.items():
            if t.kind != PRODUCT or k >= 0 or len(t.args) != 2:
                continue
            a, b = t.args
            if len(a.terms) != 1 or len(b.terms) != 1 or a.const or b.const:
                continue
            low, other = self.bound(a)[0], self.bound(b)[0]
            if low <= 0 or other <= 0 or low == inf or other == inf:
                continue
            # low * d, which splits the product into a part for each factor.
            least: int = int(low)
            share = min(max(d.terms.get(next(iter(b.terms)), 0), 0), -k * least)
            mixed = combine(scale(b, share * least), scale(a, (-k * least - share) * int(other)))
            others = Lin({s: c for s, c in d.terms.items() if s is not t}, d.const)
            rest = combine(shift(scale(others, least), 1 - least), mixed, -1)
            if self.bound(rest)[1] <= 0:
                return True
        return False

    def _facts_about(self, t: Atom) -> Iterable[Lin]:
        yield from self.own_facts.get(t, ())
        yield from self.facts.get(t, ())
        if t.kind == PRODUCT:
            for i, f in enumerate(t.args):
                if len(f.terms) != 1 or f.const:
                    continue
                s = next(iter(f.terms))
                facts = (*self.own_facts.get(s, ()), *self.facts.get(s, ()))
                if facts:
                    others = self._product([x for j, x in enumerate(t.args) if j != i])
                    if self.bound(others)[0] >= 0:
                        for fact in facts:
                            yield self.expand(self._distribute(fact, others))

    # Facts

    def forget(self) -> None:
        """Clears cached results after a change of the facts about a variable."""
        self._bound_memo = {}
        self._mod_memo = {}
        self._proved = {}
        self._implied = {}

    def assume_nonpositive(self, d: Lin) -> None:
        """Adds d <= 0 as a fact."""
        if len(d.terms) == 1:
            ((t, k),) = d.terms.items()
            if k > 0:
                self._narrow(t, -inf, -d.const // k)
            else:
                self._narrow(t, -(-d.const // -k), inf)
            return
        if not d.terms:
            return
        for t, k in list(d.terms.items()):
            rest = self.bound(Lin({s: c for s, c in d.terms.items() if s is not t}, d.const))[0]
            if rest != -inf:
                if k > 0:
                    self._narrow(t, -inf, -rest // k)
                else:
                    self._narrow(t, -(-rest // -k), inf)
            self.facts[t] = [*self.facts.get(t, ()), d]
        self.forget()

    def _narrow(self, t: Atom, low: Any, high: Any) -> None:
        old = self.refined.get(t, (-inf, inf))
        current = self.atom_bound(t)
        if low <= current[0] and high >= current[1]:
            return
        self.refined[t] = max(low, old[0]), min(high, old[1])
        self.forget()
        if t.kind == SPLIT and t.args[2] == 0:
            source, lower, _ = t.args
            if high != inf:
                self.assume_nonpositive(shift(source, -(high * lower + lower - 1)))
            if low != -inf:
                self.assume_nonpositive(shift(scale(source, -1), low * lower))

    def assume_modular(self, t: Atom, found: Modular) -> None:
        old = self.refined_mod.get(t)
        self.refined_mod[t] = (crt(old, found) or found) if old else found
        self.forget()
