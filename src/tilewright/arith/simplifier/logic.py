"""Facts, proofs, comparisons and boolean connectives.

Every ordering comparison of index integers has one form, `d <= 0`, where d is a linear form divided by the greatest
common divisor of its coefficients. Equalities have the form `d == 0`. Facts (`constraint_scope`, symbolic ranges)
have the same form. A goal is proved by adding facts to it until its constant bound decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd, inf
from typing import Any

from tilewright.arith.linear import (
    LEAF,
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    SPLIT,
    Atom,
    Lin,
    OutOfRange,
    combine,
    constant,
    mentions,
    scale,
    shift,
)
from tilewright.arith.simplifier import directions
from tilewright.arith.simplifier.directions import NONPOSITIVE, NONZERO, ZERO_FORM
from tilewright.arith.simplifier.proofs import Proofs
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import any_node
from tilewright.tir.expr import EQ, LE, LT, NE, And, Call, Not, Or

TRUE = IntImm("bool", 1)
FALSE = IntImm("bool", 0)


_MOST_CLAUSES = 32
_MOST_OPERANDS = 4


def boolean(value: bool) -> PrimExpr:
    return TRUE if value else FALSE


class Logic(Proofs):
    """Comparisons as forms, known facts, and proofs from facts."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, PrimExpr] = {}
        self._conditions: dict[tuple[str, int], PrimExpr] = {}
        self._form_of: dict[int, tuple[str, Lin, str]] = {}
        self._nodes: dict[tuple[Any, ...], PrimExpr] = {}
        self._negated: dict[int, PrimExpr] = {}

    def assume(self, condition: PrimExpr) -> None:
        """Adds a simplified condition as a fact."""
        if isinstance(condition, And):
            self.assume(condition.a)
            self.assume(condition.b)
            return
        self.known[id(condition)] = TRUE
        negated = self.negate(condition)
        self.known[id(negated)] = FALSE
        if isinstance(condition, Not) and isinstance(condition.a, Or):
            self.assume(self.negate(condition.a.a))
            self.assume(self.negate(condition.a.b))
            return
        form = self._form_of.get(id(condition))
        if form is None:
            return
        kind, d, _ = form
        if kind == NONPOSITIVE:
            self.assume_nonpositive(d)
        elif kind == ZERO_FORM:
            self.assume_nonpositive(d)
            self.assume_nonpositive(scale(d, -1))
            for t, k in d.terms.items():
                # x % u == r determines the modular set of x, whatever else is known.
                if t.kind == SPLIT and abs(k) == 1 and len(d.terms) == 1 and t.args[1] == 1 and t.args[2]:
                    self._assume_remainder(t.args[0], t.args[2], -d.const * k)
        elif kind == NONZERO and len(d.terms) == 1:
            ((t, k),) = d.terms.items()
            low, high = self.atom_bound(t)
            if -d.const % k == 0:
                value = -d.const // k
                if value == low:
                    self._narrow(t, low + 1, inf)
                elif value == high:
                    self._narrow(t, -inf, high - 1)

    def _assume_remainder(self, source: Lin, modulus: int, value: int) -> None:
        if len(source.terms) == 1:
            ((s, c),) = source.terms.items()
            g = gcd(c, modulus)
            if (value - source.const) % g == 0:
                m = modulus // g
                inverse = pow(c // g, -1, m) if m > 1 else 0
                self.assume_modular(s, (m, (value - source.const) // g * inverse % m))

    def pinned(self, condition: PrimExpr) -> Atom | None:
        """The variable for which a simplified condition gives a constant value."""
        form = self._form_of.get(id(condition))
        if form is None or form[0] != ZERO_FORM or len(form[1].terms) != 1:
            return None
        t = next(iter(form[1].terms))
        return t if t.kind == LEAF else None

    def speaks_of(self, condition: PrimExpr, t: Atom) -> bool:
        """Whether a condition contains the variable."""
        form = self._form_of.get(id(condition))
        if form is not None:
            return any([mentions(s, {id(t.leaf)}) for s in form[1].terms])
        return any_node(condition, lambda x: x is t.leaf)

    def orderings_of(self, condition: PrimExpr) -> list[Lin]:
        """The forms d with d <= 0 that a simplified condition states; [] for other conditions."""
        form = self._form_of.get(id(condition))
        if form is None or form[0] == NONZERO:
            return []
        return [form[1]] if form[0] == NONPOSITIVE else [form[1], scale(form[1], -1)]

    # Comparisons

    def less_equal(self, a: Lin, b: Lin, dtype: str, strict: bool = False) -> PrimExpr:
        """The simplified condition a <= b, or a < b when strict."""
        d = self.merge(combine(a, b, -1))
        return self.nonpositive(shift(d, 1) if strict else d, dtype, strict)

    def nonpositive(self, d: Lin, dtype: str, strict: bool = False) -> PrimExpr:
        """The simplified condition d <= 0. `strict`: it is written as a strict comparison."""
        if self.prove_nonpositive(d):
            return TRUE
        if self.prove_nonpositive(shift(scale(d, -1), 1)):
            return FALSE
        d = self._reduce(d)
        low, high = self.bound(d)
        if high <= 0 or low > 0:
            return boolean(high <= 0)
        if any([t.kind in (SPLIT, MINIMUM, MAXIMUM) for t in d.terms]):
            simpler = self._ordering_of_parts(d, dtype, strict)
            if simpler is not None:
                return simpler
        d = self.intern(d)
        key = (NONPOSITIVE + dtype, id(d))
        node = self._conditions.get(key)
        if node is None:
            node = self._write_ordering(d, dtype, strict)
            self._conditions[key] = node
            self._form_of[id(node)] = (NONPOSITIVE, d, dtype)
        return self.known.get(id(node), node)

    def _ordering_of_parts(self, d: Lin, dtype: str, strict: bool) -> PrimExpr | None:
        """x // l <= c as a bound of x; a comparison of a minimum or maximum as comparisons of its operands."""
        if len(d.terms) == 1:
            ((t, k),) = d.terms.items()
            if t.kind == SPLIT and not t.args[2]:
                source, lower, _ = t.args
                last = -d.const * lower + lower - 1
                return self.nonpositive(
                    shift(source, -last) if k > 0 else shift(scale(source, -1), d.const * lower),
                    dtype,
                    strict,
                )
        extremes = [t for t in d.terms if t.kind in (MINIMUM, MAXIMUM)]
        if len(extremes) != 1 or len(extremes[0].args) > _MOST_OPERANDS:
            return None
        if len(d.terms) > 2 and self.of_data(d):
            return None
        t = extremes[0]
        goals = [self.gather(self._with(d, t, x)) for x in t.args]
        every = (t.kind == MAXIMUM) == (d.terms[t] > 0)
        if len(d.terms) > 1 and not every:
            # Alternatives pay off only if some of them are decided.
            sides = [self.prove_nonpositive(shift(scale(g, -1), 1)) for g in goals]
            if sum(sides) < len(goals) - 1:
                return None
        parts = [self.nonpositive(g, dtype, strict) for g in goals]
        return self.conjunction(parts) if every else self.disjunction(parts)

    def _reduce(self, d: Lin) -> Lin:
        """d <= 0 divided by the coefficients' common divisor, without parts that are too small to matter."""
        g = 0
        for k in d.terms.values():
            g = gcd(g, k)
        if g > 1:
            d = Lin({t: k // g for t, k in d.terms.items()}, -(-d.const // g))
        for g in sorted({abs(k) for k in d.terms.values()}, reverse=True):
            if g == 1:
                break
            small = Lin({t: k for t, k in d.terms.items() if k % g}, d.const)
            low, high = self.bound(small)
            if low != -inf and high != inf and -(-low // g) == -(-high // g):
                return self._reduce(
                    Lin(
                        {t: k // g for t, k in d.terms.items() if k % g == 0},
                        -int(-low // g),
                    )
                )
        return d

    def _sides(self, d: Lin) -> tuple[Lin, Lin]:
        left = {t: k for t, k in d.terms.items() if k > 0}
        right = {t: -k for t, k in d.terms.items() if k < 0}
        return Lin(left, 0), Lin(right, 0)

    def _write_ordering(self, d: Lin, dtype: str, strict: bool) -> PrimExpr:
        left, right = self._sides(d)
        c = d.const
        if left.terms and right.terms:
            strict = c == 1 or (strict and c != 0)
        if strict:
            c -= 1
        left, right = (shift(left, c), right) if (c > 0 and left.terms) or not left.terms else (left, shift(right, -c))
        return (LT if strict else LE)(self.emit(left, dtype), self.emit(right, dtype))

    def equal(self, a: Lin, b: Lin, dtype: str) -> PrimExpr:
        """The simplified condition a == b."""
        return self.zero(self.merge(combine(a, b, -1)), dtype)

    def zero(self, d: Lin, dtype: str) -> PrimExpr:
        """The simplified condition d == 0."""
        if not d.terms:
            return boolean(d.const == 0)
        low, high = self.bound(d)
        if low > 0 or high < 0:
            return FALSE
        if low == high == 0:
            return TRUE
        coeff, base = self.modular(d)
        if (base % coeff if coeff else base) != 0:
            return FALSE
        if any([t.kind == PRODUCT for t in d.terms]):
            expanded = self.merge(self.expand(d))
            if not expanded.terms:
                return boolean(expanded.const == 0)
        if self.facts or self.own_facts:
            above, below = (
                self.prove_nonpositive(d),
                self.prove_nonpositive(scale(d, -1)),
            )
            if above and below:
                return TRUE
            if self.prove_nonpositive(shift(d, 1)) or self.prove_nonpositive(shift(scale(d, -1), 1)):
                return FALSE
        g = 0
        for k in d.terms.values():
            g = gcd(g, k)
        if d.const % g:
            return FALSE
        if next(iter(d.terms.values())) < 0:
            g = -g
        if g != 1:
            d = Lin({t: k // g for t, k in d.terms.items()}, d.const // g)
        parts = self._zero_parts(d)
        if parts is not None:
            return self.conjunction([self.zero(x, dtype) for x in parts])
        chosen = self._operand_chosen(d)
        if chosen is not None:
            return self.conjunction([self.nonpositive(x, dtype) for x in chosen])
        d = self.intern(d)
        key = (ZERO_FORM + dtype, id(d))
        node = self._conditions.get(key)
        if node is None:
            left, right = self._sides(d)
            c = d.const
            left, right = (left, shift(right, -c)) if c < 0 or not right.terms else (shift(left, c), right)
            node = EQ(self.emit(left, dtype), self.emit(right, dtype))
            self._conditions[key] = node
            self._form_of[id(node)] = (ZERO_FORM, d, dtype)
        return self.known.get(id(node), node)

    def _zero_parts(self, d: Lin) -> tuple[Lin, Lin] | None:
        """(A, B): g*A + B == 0 with |B| < g implies A == 0 and B == 0; None for other forms."""
        for g in sorted({abs(k) for k in d.terms.values()}, reverse=True):
            if g == 1:
                return None
            small = {t: k for t, k in d.terms.items() if k % g}
            if not small:
                continue
            for c in {d.const % g, d.const % g - g}:
                part = Lin(small, c)
                low, high = self.bound(part)
                if -g < low and high < g:
                    return Lin(
                        {t: k // g for t, k in d.terms.items() if k % g == 0},
                        (d.const - c) // g,
                    ), part
        return None

    def _operand_chosen(self, d: Lin) -> list[Lin] | None:
        """max(x, y) == x means y <= x: the forms that must not be positive; None for other forms."""
        for t, k in d.terms.items():
            if t.kind in (MINIMUM, MAXIMUM) and abs(k) == 1:
                rests = [self.gather(self._with(d, t, x)) for x in t.args]
                for i, rest in enumerate(rests):
                    if not rest.terms and rest.const == 0:
                        sign = k if t.kind == MAXIMUM else -k
                        return [scale(r, sign) for j, r in enumerate(rests) if j != i]
        return None

    # Connectives

    def negate(self, a: PrimExpr) -> PrimExpr:
        """The simplified negation of a simplified condition."""
        if isinstance(a, IntImm):
            return boolean(not a.value)
        if isinstance(a, Not):
            return a.a
        form = self._form_of.get(id(a))
        if form is not None:
            kind, d, dtype = form
            if kind == NONPOSITIVE:
                try:
                    return self.nonpositive(shift(scale(d, -1), 1), dtype, strict=isinstance(a, LE))
                except OutOfRange:
                    return self.keep((Not, id(a)), lambda: Not(a))
            if kind == NONZERO:
                return self.zero(d, dtype)
            node = self.keep((NE, id(a)), lambda: NE(a.a, a.b))  # type: ignore[attr-defined]
            self._form_of[id(node)] = (NONZERO, d, dtype)
            return self.known.get(id(node), node)
        if isinstance(a, (And, Or)):
            found = self._negated.get(id(a))
            if found is None:
                parts: list[PrimExpr] = []
                self._flatten(type(a), (a,), parts)
                opposites = [self.negate(p) for p in parts]
                found = self.disjunction(opposites) if isinstance(a, And) else self.conjunction(opposites)
                self._negated[id(a)] = found
            return found
        return self.keep((Not, id(a)), lambda: Not(a))

    def keep(self, key: tuple[Any, ...], make: Any) -> PrimExpr:
        """The one node for `key`."""
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = make()
        return self.known.get(id(node), node)

    def conjunction(self, conditions: list[PrimExpr]) -> PrimExpr:
        """The simplified `and` of simplified conditions."""
        return self._connect(And, FALSE, TRUE, conditions)

    def disjunction(self, conditions: list[PrimExpr]) -> PrimExpr:
        """The simplified `or` of simplified conditions."""
        return self._connect(Or, TRUE, FALSE, conditions)

    def _connect(
        self,
        op: type[And | Or],
        absorbing: PrimExpr,
        neutral: PrimExpr,
        conditions: list[PrimExpr],
    ) -> PrimExpr:
        flat: list[PrimExpr] = []
        self._flatten(op, conditions, flat)
        kept: list[PrimExpr] = []
        ids: set[int] = set()
        for c in flat:
            if c is neutral or id(c) in ids:
                continue
            if c is absorbing:
                return absorbing
            if not isinstance(c, (And, Or)) and id(self.negate(c)) in ids:
                return absorbing
            ids.add(id(c))
            kept.append(c)
        if len(kept) > 1:
            together = directions.combine(self, kept, op is And)
            if together is None:
                return absorbing
            kept = self._without_likely(self._absorbed(op, together))
        if not kept:
            return neutral
        out = kept[0]
        for c in kept[1:]:
            left, right = out, c
            out = self.keep(
                (op, id(left), id(right)),
                lambda left=left, right=right: op(left, right),
            )
        return out

    def _absorbed(self, op: type[And | Or], kept: list[PrimExpr]) -> list[PrimExpr]:
        """a && (a || b) -> a, a && (!a || b) -> a && b, and their duals."""
        dual = Or if op is And else And
        if not any([type(c) is dual for c in kept]):
            return kept
        ids = {id(c) for c in kept if type(c) is not dual}
        opposites = {id(self.negate(c)) for c in kept if type(c) is not dual}
        out: list[PrimExpr] = []
        for c in kept:
            if type(c) is dual:
                parts: list[PrimExpr] = []
                self._flatten(dual, (c,), parts)
                if any([id(p) in ids for p in parts]):
                    continue
                left = [p for p in parts if id(p) not in opposites]
                if len(left) < len(parts):
                    c = self._connect(dual, *((TRUE, FALSE) if dual is Or else (FALSE, TRUE)), left)
                    if c is FALSE or c is TRUE:
                        return [c]
            out.append(c)
        return out

    def _without_likely(self, kept: list[PrimExpr]) -> list[PrimExpr]:
        """likely(a) && a -> likely(a); the same for `or`."""
        inside = {id(c.args[0]) for c in kept if isinstance(c, Call) and getattr(c.op, "name", "") == "tir.likely"}
        return [c for c in kept if id(c) not in inside] if inside else kept

    def and_of_ors(self, condition: PrimExpr) -> PrimExpr:
        """A simplified condition as a conjunction of disjunctions; unchanged if that would be too long."""
        clauses = self._clauses(condition)
        return condition if clauses is None else self.conjunction([self.disjunction(c) for c in clauses])

    def _clauses(self, condition: PrimExpr) -> list[list[PrimExpr]] | None:
        if not isinstance(condition, (And, Or)):
            return [[condition]]
        a, b = self._clauses(condition.a), self._clauses(condition.b)
        if a is None or b is None:
            return None
        if isinstance(condition, And):
            return [*a, *b]
        return [[*x, *y] for x in a for y in b] if len(a) * len(b) <= _MOST_CLAUSES else None

    def _flatten(self, op: type[And | Or], conditions: Iterable[PrimExpr], out: list[PrimExpr]) -> None:
        stack = list(conditions)[::-1]
        while stack:
            c = stack.pop()
            c = self.known.get(id(c), c)
            if type(c) is op:
                stack += (c.b, c.a)
            else:
                out.append(boolean(bool(c.value)) if isinstance(c, IntImm) else c)


__all__ = ["FALSE", "TRUE", "Logic", "boolean", "constant"]
