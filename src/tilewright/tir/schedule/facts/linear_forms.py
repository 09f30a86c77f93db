"""Index arithmetic of the primitives: linear forms over loop variables, bounds of them, and their division.

Primitives need three results for an index: the region that it covers while some loops run, whether a binding is a
one-to-one mixed-radix number of the loops, and its canonical text. Linear forms give all three in microseconds, without
the general simplifier.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

from tilewright.arith import Analyzer
from tilewright.arith.linear import (
    LEAF,
    MAXIMUM,
    MINIMUM,
    ONE,
    PRODUCT,
    SPLIT,
    ZERO,
    Atom,
    Lin,
    Tables,
    combine,
    constant,
    scale,
    shift,
)
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.tir import Add, Cast, FloorDiv, FloorMod, Max, Min, Mul, Sub, Var
from tilewright.tir.stmt_functor import used_vars

__all__ = ["ONE", "ZERO", "Bounds", "Forms", "Lin", "combine", "constant", "is_const", "scale", "shift"]

Env = Mapping[Var, Lin]
Bounds = tuple[Lin, Lin]
"""Smallest and largest value (both inclusive)."""


def is_const(form: Lin) -> bool:
    return not form.terms


_NOTHING: Env = {}


class _Ranges(dict[Var, tuple[int, int]]):
    """Bounds of variables. When the bounds of a variable change, forms that were made with it are dropped."""

    def __init__(self, tables: Tables, *memos: dict[Any, Any]) -> None:
        super().__init__()
        self._tables, self._memos = tables, memos

    def __setitem__(self, var: Var, bounds: tuple[int, int]) -> None:
        if self._tables.knows(var) and self.get(var) != bounds:
            for memo in self._memos:
                memo.clear()
        super().__setitem__(var, bounds)


def standing(a: Lin) -> tuple[Any, ...]:
    """A key for sorting forms: constants last, then by atoms and the names in them."""
    return not a.terms, sorted([(_standing(t), k) for t, k in a.terms.items()]), a.const


def _standing(t: Atom) -> tuple[Any, ...]:
    # Atoms share parts, so each is visited once.
    if t.order is None:
        if t.kind == LEAF:
            t.order = t.kind, t.leaf.name if isinstance(t.leaf, Var) else "", ()
        else:
            t.order = t.kind, "", tuple([standing(x) if isinstance(x, Lin) else (x,) for x in t.args])
    return t.order


class Forms:
    """Linear forms of one schedule. `ranges` holds the constant bounds of every loop and block variable known so far."""

    def __init__(self) -> None:
        self.tables = Tables()
        self._memo: dict[int, tuple[PrimExpr, Lin]] = {}
        self._atom_ranges: dict[Atom, tuple[int | None, int | None]] = {}
        """Atom that is not a leaf -> its bounds. Atoms share parts, so each is analysed once."""
        self.facts: dict[Any, tuple[Any, Any]] = {}
        """What was found out about blocks at their places (facts/places.py)."""
        self.ranges: dict[Var, tuple[int, int]] = _Ranges(self.tables, self._memo, self._atom_ranges, self.facts)
        self._proofs: dict[Any, bool] = {}

    # ---- from expressions and back

    def of(self, e: PrimExpr, env: Env | None = None) -> Lin:
        """The form of an integer expression, variables of `env` replaced by their forms."""
        if env:
            convert = _CONVERT.get(type(e))
            form: Lin = self._leaf(e, env) if convert is None else convert(self, e, env)
            return form
        known = self._memo.get(id(e))
        if known is not None:
            return known[1]
        convert = _CONVERT.get(type(e))
        form = self._leaf(e, _NOTHING) if convert is None else convert(self, e, _NOTHING)
        self._memo[id(e)] = e, form
        return form

    def var(self, v: Var) -> Lin:
        return Lin({self.tables.leaf(v): 1}, 0)

    def emit(self, form: Lin, dtype: str = "int32") -> PrimExpr:
        return self.tables.emit(form, dtype)

    def simplify(self, e: PrimExpr) -> PrimExpr:
        """An index in canonical form; other expressions are returned unchanged."""
        return self.emit(self.of(e), e.dtype) if e.dtype.is_int and e.dtype.lanes == 1 and e.dtype.bits >= 32 else e

    def _leaf(self, e: PrimExpr, env: Env) -> Lin:
        if env:
            from tilewright.tir.stmt_functor import substitute

            e = substitute(e, {v: self.emit(f, v.dtype) for v, f in env.items()})
        return Lin({self.tables.leaf(e): 1}, 0)

    # ---- division

    def div(self, a: Lin, c: int) -> Lin:
        """floor(a / c) for c > 0."""
        if c == 1:
            return a
        whole = {t: k // c for t, k in a.terms.items() if k % c == 0}
        rest = Lin({t: k for t, k in a.terms.items() if k % c}, a.const % c)
        out = Lin(whole, a.const // c)
        if not rest.terms:
            return out
        low, high = self.const_bounds(rest)
        if low is not None and high is not None and low // c == high // c:
            return shift(out, low // c)
        g = c
        for k in rest.terms.values():
            g = gcd(g, k)
        if g > 1:
            rest = Lin({t: k // g for t, k in rest.terms.items()}, rest.const // g)
            c //= g
            if c == 1:
                return combine(out, rest)
        digits = self._low_digits(rest, c)
        if digits is not None:
            high_part, _, d = digits
            return combine(out, self.div(high_part, c // d))
        single = self._single(rest)
        if single is not None:
            f, lower, upper = single
            return combine(out, self._split(f, lower * c, upper))
        return combine(out, self._split(rest, c, 0))

    def mod(self, a: Lin, c: int) -> Lin:
        """a - c * floor(a / c) for c > 0."""
        if c == 1:
            return ZERO
        reduced = Lin({t: k % c for t, k in a.terms.items() if k % c}, a.const % c)
        if not reduced.terms:
            return reduced
        low, high = self.const_bounds(reduced)
        if low is not None and high is not None and low // c == high // c:
            return shift(reduced, -(low // c) * c)
        # Coefficients are not reduced, so that a // c and a % c have a common source, whose digits they are.
        rest = Lin({t: k for t, k in a.terms.items() if k % c}, a.const % c)
        g = c
        for k in rest.terms.values():
            g = gcd(g, k)
        if g > 1:
            inner = Lin({t: k // g for t, k in rest.terms.items()}, rest.const // g)
            return shift(scale(self.mod(inner, c // g), g), rest.const % g)
        digits = self._low_digits(rest, c)
        if digits is not None:
            high_part, low_part, d = digits
            return combine(scale(self.mod(high_part, c // d), d), low_part)
        single = self._single(rest)
        if single is not None:
            f, lower, upper = single
            if upper == 0 or upper % (lower * c) == 0:
                return self._split(f, lower, lower * c)
        return self._split(rest, 1, c)

    def _low_digits(self, a: Lin, c: int) -> tuple[Lin, Lin, int] | None:
        """(h, l, d) with a == d * h + l and 0 <= l < d, where d divides c: digits below d do not affect a division by
        c.
        """
        for d in sorted({gcd(k, c) for k in a.terms.values()} - {1, c}, reverse=True):
            low_part = Lin({t: k for t, k in a.terms.items() if k % d}, a.const % d)
            low, high = self.const_bounds(low_part)
            if low is not None and high is not None and low >= 0 and high < d:
                return Lin({t: k // d for t, k in a.terms.items() if k % d == 0}, a.const // d), low_part, d
        return None

    def _single(self, a: Lin) -> tuple[Lin, int, int] | None:
        """(f, l, u) if the form is the single atom (f % u) // l."""
        if a.const == 0 and len(a.terms) == 1:
            ((t, k),) = a.terms.items()
            if k == 1 and t.kind == SPLIT:
                return t.args[0], t.args[1], t.args[2]
        return None

    def _split(self, f: Lin, lower: int, upper: int) -> Lin:
        low, high = self.const_bounds(f)
        if low is not None and high is not None and low >= 0:
            if upper and high < upper:
                upper = 0
            if high // lower == 0 or (upper and upper <= lower):
                return ZERO
        if lower == 1 and upper == 0:
            return f
        return Lin({self.tables.atom(SPLIT, self.tables.intern(f), lower, upper): 1}, 0)

    def merge_digits(self, a: Lin) -> Lin:
        """k * l * (f // l) + k * (f % l) becomes k * f, for all adjacent digits of one number."""
        if sum([t.kind == SPLIT for t in a.terms]) < 2:
            return a
        changed = True
        while changed:
            changed = False
            splits = [(t, k) for t, k in a.terms.items() if t.kind == SPLIT]
            for t, k in splits:
                f, lower, upper = t.args
                for t2, k2 in splits:
                    if t2 is not t and t2.args[0] is f and t2.args[2] == lower and k2 * lower == k * t2.args[1]:
                        terms = {x: c for x, c in a.terms.items() if x is not t and x is not t2}
                        a = combine(Lin(terms, a.const), self._split(f, t2.args[1], upper), k2)
                        changed = True
                        break
                if changed:
                    break
        return a

    # ---- bounds

    def const_bounds(self, a: Lin) -> tuple[int | None, int | None]:
        """The smallest and the largest value over the known ranges; None without a bound."""
        low: int | None = a.const
        high: int | None = a.const
        for t, k in a.terms.items():
            tl, th = self._atom_range(t)
            if k < 0:
                tl, th = th, tl
            low = None if low is None or tl is None else low + k * tl
            high = None if high is None or th is None else high + k * th
        return low, high

    def _atom_range(self, t: Atom) -> tuple[int | None, int | None]:
        if t.kind == LEAF:
            leaf: Any = t.leaf
            found = self.ranges.get(leaf)
            return (None, None) if found is None else found
        known = self._atom_ranges.get(t)
        if known is None:
            known = self._atom_ranges[t] = self._range_of(t)
        return known

    def _range_of(self, t: Atom) -> tuple[int | None, int | None]:
        if t.kind == SPLIT:
            f, lower, upper = t.args
            low, high = self.const_bounds(f)
            if upper and (low is None or high is None or low < 0 or high >= upper):
                return 0, (upper - 1) // lower
            return None if low is None else low // lower, None if high is None else high // lower
        if t.kind in (MINIMUM, MAXIMUM):
            (al, ah), (bl, bh) = self.const_bounds(t.args[0]), self.const_bounds(t.args[1])
            pick = min if t.kind == MINIMUM else max
            known_low = [x for x in (al, bl) if x is not None]
            known_high = [x for x in (ah, bh) if x is not None]
            if t.kind == MINIMUM:
                return (pick(known_low) if len(known_low) == 2 else None), (min(known_high) if known_high else None)
            return (max(known_low) if known_low else None), (pick(known_high) if len(known_high) == 2 else None)
        return None, None

    def bounds(self, a: Lin, relaxed: Mapping[Var, Bounds]) -> Bounds | None:
        """Bounds of the form while the `relaxed` variables run, in terms of the other variables; None if there are
        none.
        """
        low = high = constant(a.const)
        for t, k in a.terms.items():
            b = self._atom_bounds(t, relaxed)
            if b is None:
                return None
            tl, th = b if k > 0 else (b[1], b[0])
            low, high = combine(low, tl, k), combine(high, th, k)
        return self.merge_digits(low), self.merge_digits(high)

    def _atom_bounds(self, t: Atom, relaxed: Mapping[Var, Bounds]) -> Bounds | None:
        if t.kind == LEAF:
            if t.leaf in relaxed:
                return relaxed[t.leaf]  # type: ignore[index]
            if isinstance(t.leaf, Var) or not uses(t.leaf, relaxed):
                single = Lin({t: 1}, 0)
                return single, single
            return None
        if t.kind == SPLIT:
            f, lower, upper = t.args
            inner = self.bounds(f, relaxed)
            if inner is None:
                return None if not upper else (ZERO, constant((upper - 1) // lower))
            if same(inner[0], f) and same(inner[1], f):
                single = Lin({t: 1}, 0)
                return single, single
            if upper:
                if not same(self.div(inner[0], upper), self.div(inner[1], upper)):
                    return ZERO, constant((upper - 1) // lower)
                return self.div(self.mod(inner[0], upper), lower), self.div(self.mod(inner[1], upper), lower)
            return self.div(inner[0], lower), self.div(inner[1], lower)
        if t.kind in (MINIMUM, MAXIMUM):
            x, y = self.bounds(t.args[0], relaxed), self.bounds(t.args[1], relaxed)
            if x is None or y is None:
                return None
            pick = self.minimum if t.kind == MINIMUM else self.maximum
            return pick(x[0], y[0]), pick(x[1], y[1])
        for arg in t.args:
            b = self.bounds(arg, relaxed)
            if b is None or not same(b[0], arg) or not same(b[1], arg):
                return None
        single = Lin({t: 1}, 0)
        return single, single

    def minimum(self, a: Lin, b: Lin) -> Lin:
        low, high = self.const_bounds(combine(a, b, -1))
        if high is not None and high <= 0:
            return a
        if low is not None and low >= 0:
            return b
        return self.tables.single(self.tables.atom(MINIMUM, *self.ordered(a, b)))

    def maximum(self, a: Lin, b: Lin) -> Lin:
        low, high = self.const_bounds(combine(a, b, -1))
        if low is not None and low >= 0:
            return a
        if high is not None and high <= 0:
            return b
        return self.tables.single(self.tables.atom(MAXIMUM, *self.ordered(a, b)))

    def ordered(self, a: Lin, b: Lin) -> tuple[Lin, Lin]:
        """Two forms in an order that does not depend on which was seen first. Replays must give the same program."""
        first, second = (b, a) if standing(b) < standing(a) else (a, b)
        return self.tables.intern(first), self.tables.intern(second)

    def count(self, bounds: Bounds) -> Lin:
        """The number of integers between two bounds. A minimum or maximum in a bound becomes one of the numbers."""
        low, high = bounds
        for end, kind in ((high, MINIMUM), (low, MAXIMUM)):
            if len(end.terms) == 1:
                ((t, factor),) = end.terms.items()
                if t.kind == kind and factor == 1:
                    ends = [shift(arg, end.const) for arg in t.args]
                    a, b = [self.count((low, e) if end is high else (e, high)) for e in ends]
                    return self.minimum(a, b)
        return self.merge_digits(shift(combine(high, low, -1), 1))

    def nonneg(self, a: Lin) -> bool:
        """Whether the form is provably never negative."""
        low, high = self.const_bounds(a)
        if low is not None:
            return low >= 0
        return False if high is not None and high < 0 else self._proved(a)

    def _proved(self, a: Lin) -> bool:
        """The result of the general analysis for a form with symbolic sizes."""
        key = (frozenset(a.terms.items()), a.const)
        known = self._proofs.get(key)
        if known is None:
            analyzer = Analyzer()
            for v in self.leaves(a):
                bounds = self.ranges.get(v)
                if bounds is not None and None not in bounds:
                    extent = IntImm(v.dtype, max(bounds[1] - bounds[0] + 1, 1))
                    analyzer.bind(v, Range.from_min_extent(IntImm(v.dtype, bounds[0]), extent))
            known = self._proofs[key] = bool(analyzer.can_prove(self.emit(a) >= 0))
        return known

    def inside(self, iters: Any, index: Lin, dim: PrimExpr) -> bool:
        """Whether an index stays within a dimension while the iteration variables run over their domains."""
        relaxed = {}
        for iv in iters:
            low = self.of(iv.dom.min)
            relaxed[iv.var] = (low, shift(combine(low, self.of(iv.dom.extent)), -1))
        bounds = self.bounds(index, relaxed)
        return (
            bounds is not None
            and self.nonneg(bounds[0])
            and self.nonneg(combine(shift(self.of(dim), -1), bounds[1], -1))
        )

    def leaves(self, a: Lin) -> set[Any]:
        """The variables on which the form depends, and its opaque expressions."""
        out: set[Any] = set()
        for t in a.terms:
            if t.kind == LEAF:
                out.add(t.leaf)
                if not isinstance(t.leaf, Var):
                    out |= used_vars(t.leaf).keys()
            else:
                for arg in t.args:
                    if isinstance(arg, Lin):
                        out |= self.leaves(arg)
        return out


def same(a: Lin, b: Lin) -> bool:
    return a is b or (a.const == b.const and a.terms == b.terms)


def uses(e: Any, variables: Mapping[Var, tuple[Lin, ...]]) -> bool:
    """Whether a variable of `variables` occurs in the expression."""
    return not used_vars(e).keys().isdisjoint(variables)


def _imm(f: Forms, e: IntImm, env: Env) -> Lin:
    return constant(e.value)


def _var(f: Forms, e: Var, env: Env) -> Lin:
    found = env.get(e)
    return f.var(e) if found is None else found


def _add(f: Forms, e: Add, env: Env) -> Lin:
    return f.merge_digits(combine(f.of(e.a, env), f.of(e.b, env)))


def _sub(f: Forms, e: Sub, env: Env) -> Lin:
    return f.merge_digits(combine(f.of(e.a, env), f.of(e.b, env), -1))


def _mul(f: Forms, e: Mul, env: Env) -> Lin:
    a, b = f.of(e.a, env), f.of(e.b, env)
    if is_const(b):
        return scale(a, b.const)
    if is_const(a):
        return scale(b, a.const)
    return f.tables.single(f.tables.atom(PRODUCT, *f.ordered(a, b)))


def _div(f: Forms, e: FloorDiv, env: Env) -> Lin:
    b = f.of(e.b, env)
    if is_const(b) and b.const > 0:
        return f.div(f.of(e.a, env), b.const)
    return f._leaf(e, env)


def _mod(f: Forms, e: FloorMod, env: Env) -> Lin:
    b = f.of(e.b, env)
    if is_const(b) and b.const > 0:
        return f.mod(f.of(e.a, env), b.const)
    return f._leaf(e, env)


def _min(f: Forms, e: Min, env: Env) -> Lin:
    return f.minimum(f.of(e.a, env), f.of(e.b, env))


def _max(f: Forms, e: Max, env: Env) -> Lin:
    return f.maximum(f.of(e.a, env), f.of(e.b, env))


def _cast(f: Forms, e: Cast, env: Env) -> Lin:
    if (
        e.dtype.is_int
        and e.value.dtype.is_int
        and e.dtype.bits >= e.value.dtype.bits >= 32
        and isinstance(e.value, IntImm)
    ):
        return constant(e.value.value)
    return f._leaf(e, env)


_CONVERT: dict[type, Any] = {
    IntImm: _imm,
    Var: _var,
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    FloorDiv: _div,
    FloorMod: _mod,
    Min: _min,
    Max: _max,
    Cast: _cast,
}
