"""Integer arithmetic on linear forms: floor division and remainder, products, minima, and the merging of splits.

The results of split, fuse and tile are sums of `(x % u) // l` terms. Three rules simplify them:
    (x % u) // l * l + x % l          -> x % u                         (merge)
    (g*a + b) // (g*c), 0 <= b < g    -> a // c                        (drop the small part)
    (x // l) % c                      -> x % (l*c) // l                (one form for each split)
"""

from __future__ import annotations

from functools import reduce
from math import gcd, inf, prod

from tilewright.arith.const_bounds import Bounds
from tilewright.arith.linear import (
    MAXIMUM,
    MINIMUM,
    ONE,
    PRODUCT,
    QUOTIENT,
    REMAINDER,
    SPLIT,
    ZERO,
    Atom,
    Lin,
    combine,
    constant,
    content,
    divide_exactly,
    scale,
    shift,
)

_LONGEST_PRODUCT = 64


def _weight(a: Lin) -> int:
    """The number of summands of the form."""
    return len(a.terms) + (a.const != 0)


def _never_positive(a: Lin) -> bool:
    """Whether the constant is not positive and all coefficients are negative."""
    return a.const <= 0 and all([k < 0 for k in a.terms.values()])


def _spread(a: Lin) -> int:
    """The number of summands, including those inside products."""
    return (a.const != 0) + sum([sum(map(_weight, t.args)) if t.kind == PRODUCT else 1 for t in a.terms])


class Integers(Bounds):
    """Operations of index arithmetic, on forms."""

    def prove_nonpositive(self, d: Lin) -> bool:
        raise NotImplementedError  # Facts implements it with more than constant bounds

    # Sums

    def merge(self, a: Lin) -> Lin:
        """The gathered form. Sums are moved into minima and maxima if that leaves fewer terms."""
        a = self.gather(a)
        for t, k in a.terms.items():
            if t.kind in (MINIMUM, MAXIMUM) and (k < 0 or a.const or len(a.terms) > 1):
                return self._merge_extremes(a)
        return a

    def gather(self, a: Lin) -> Lin:
        """The form with splits of one source merged, and products expanded if that cancels terms."""
        splits = products = 0
        for t in a.terms:
            kind = t.kind
            if kind == SPLIT:
                splits += 1
            elif kind in (PRODUCT, REMAINDER):
                products += 1
        if splits and len(a.terms) > 1:
            a = self._merge_splits(a)
        if products and len(a.terms) > 1:
            a = self._merge_products(a)
        return a

    def _merge_extremes(self, a: Lin) -> Lin:
        """min(x, y) - x -> min(y - x, 0); min(x - y, 0) + y -> min(x, y); min(x, y) + max(x, y) -> x + y."""
        for t, k in a.terms.items():
            if t.kind not in (MINIMUM, MAXIMUM):
                continue
            dual = self._atoms.get(
                (
                    MAXIMUM if t.kind == MINIMUM else MINIMUM,
                    *sorted([id(x) for x in t.args]),
                )
            )
            if dual is not None and len(t.args) == 2 and a.terms.get(dual) == k:
                rest = Lin(
                    {s: c for s, c in a.terms.items() if s is not t and s is not dual},
                    a.const,
                )
                return self.merge(combine(combine(rest, t.args[0], k), t.args[1], k))
            inside = sum([_weight(x) for x in t.args])
            parts = [Lin({s: c // k}, 0) for s, c in a.terms.items() if s is not t and c % k == 0]
            if a.const and a.const % k == 0:
                parts.append(constant(a.const // k))
            for part in parts if not self.of_data(a) else ():
                moved = [self.gather(combine(x, part)) for x in t.args]
                if sum([_weight(x) for x in moved]) <= inside:
                    rest = combine(combine(a, Lin({t: k}, 0), -1), part, -k)
                    pick = self.minimum if t.kind == MINIMUM else self.maximum
                    return self.merge(combine(rest, reduce(pick, moved), k))
        return self._turned(a)

    def _turned(self, a: Lin) -> Lin:
        """-min(y - x, 0) -> max(x - y, 0): a negative extreme whose operands are no less simple when negated."""
        for t, k in a.terms.items():
            if k < 0 and t.kind in (MINIMUM, MAXIMUM):
                signs = [c > 0 for x in t.args for c in x.terms.values()]
                if 2 * sum(signs) <= len(signs):
                    pick = self.maximum if t.kind == MINIMUM else self.minimum
                    turned = reduce(pick, [scale(x, -1) for x in t.args])
                    rest = Lin({s: c for s, c in a.terms.items() if s is not t}, a.const)
                    return self.merge(combine(rest, turned, -k))
        return a

    def _merge_splits(self, a: Lin) -> Lin:
        found: Lin | None = a
        while found is not None and len(found.terms) > 1:
            a, found = found, self._merge_one(found)
        return found if found is not None else a

    def _merge_one(self, a: Lin) -> Lin | None:
        """The form after one merge; None if nothing can be merged."""
        splits = [(t, k) for t, k in a.terms.items() if t.kind == SPLIT]
        for t, k in splits:
            source, lower, upper = t.args
            if upper and upper % lower:
                continue
            for p, kp in splits:
                if lower == 2 and not upper and k == kp:
                    half = self._half_joined(source, p)
                    if half is not None:
                        return self._exchange(a, t, k, p, kp, scale(half, k))
                if p is t or p.args[0] is not source:
                    continue
                low = p.args[1]
                if lower <= low or lower % low:
                    continue
                # source % lower // low * kp, and the part above it
                if p.args[2] == lower and k == kp * (lower // low):
                    return self._exchange(a, t, k, p, kp, scale(self.split(source, low, upper), kp))
                # source % upper // low, minus its part from `lower` up
                if p.args[2] == upper and k == -kp * (lower // low):
                    return self._exchange(a, t, k, p, kp, scale(self.split(source, low, lower), kp))
            if upper == 0 and k % lower == 0:
                # source - source // lower * lower
                times = -(k // lower)
                for s, c in source.terms.items():
                    have = a.terms.get(s, 0)
                    if have == 0 or (have > 0) != (c * times > 0) or abs(have) < abs(c * times):
                        break
                else:
                    rest = combine(combine(a, source, -times), Lin({t: k}, 0), -1)
                    return combine(rest, self.split(source, 1, lower), times)
        return None

    def _half_joined(self, source: Lin, other: Atom) -> Lin | None:
        """x // 2 + (x + 1) // 2 -> x, and x // 2 + x % 2 -> (x + 1) // 2."""
        if other.args[1:] == (2, 0) and other.args[0] is self.intern(shift(source, 1)):
            return source
        if other.args[1:] == (1, 2) and other.args[0] is source and not self.of_data(source):
            return self.floordiv(shift(source, 1), 2)
        return None

    def _exchange(self, a: Lin, t: Atom, k: int, p: Atom, kp: int, new: Lin) -> Lin:
        # The merged term replaces the first of the two, which keeps the user's order of terms.
        terms: dict[Atom, int] = {}
        placed = False
        for s, c in a.terms.items():
            if s is t or s is p:
                if not placed:
                    placed = True
                    for n, cn in new.terms.items():
                        terms[n] = terms.get(n, 0) + cn
            else:
                terms[s] = terms.get(s, 0) + c
        return Lin({s: c for s, c in terms.items() if c}, a.const + new.const)

    def _merge_products(self, a: Lin) -> Lin:
        joined = self._join_remainder(a)
        if joined is not None:
            return joined
        if any([len(f.terms) > 1 or f.const for t in a.terms if t.kind == PRODUCT for f in t.args]):
            expanded = self.expand(a)
            expanded = self._join_remainder(expanded) or expanded
            if _spread(expanded) < _spread(a):
                return expanded
        return a

    def _join_remainder(self, a: Lin) -> Lin | None:
        """x // D * D + x % D -> x for a divisor D that is not a constant."""
        for t, k in a.terms.items():
            if t.kind == REMAINDER:
                whole = self.multiply(self._symbolic(QUOTIENT, t.args[0], t.args[1]), t.args[1])
                if whole.terms and all([a.terms.get(s, 0) == c * k for s, c in whole.terms.items()]):
                    rest = combine(combine(a, whole, -k), Lin({t: k}, 0), -1)
                    return self.gather(combine(rest, t.args[0], k))
        return None

    # Products

    def multiply(self, a: Lin, b: Lin) -> Lin:
        if not a.terms:
            return scale(b, a.const)
        if not b.terms:
            return scale(a, b.const)
        ka, fa = self._factors(a)
        kb, fb = self._factors(b)
        return (
            Lin({self.atom(PRODUCT, *fa, *fb): 1}, 0)
            if ka * kb == 1
            else Lin({self.atom(PRODUCT, *fa, *fb): ka * kb}, 0)
        )

    def _factors(self, a: Lin) -> tuple[int, tuple[Lin, ...]]:
        """The form as a constant times a product of interned forms."""
        g = content(a)
        if g > 1:
            a = divide_exactly(a, g)
        if len(a.terms) == 1 and a.const == 0:
            ((t, k),) = a.terms.items()
            if t.kind == PRODUCT:
                return g * k, t.args
            if k == -1:
                return -g, (self.intern(Lin({t: 1}, 0)),)
        return g, (self.intern(a),)

    def expand(self, a: Lin) -> Lin:
        """The form with short products of sums multiplied out."""
        out = constant(a.const)
        for t, k in a.terms.items():
            if t.kind == PRODUCT and 1 < prod([_weight(f) for f in t.args]) <= _LONGEST_PRODUCT:
                product = self.expand(t.args[0])
                for f in t.args[1:]:
                    product = self._distribute(product, self.expand(f))
                out = combine(out, product, k)
            else:
                out = combine(out, Lin({t: k}, 0))
        return out

    def _distribute(self, a: Lin, b: Lin) -> Lin:
        out = constant(a.const * b.const)
        for t, k in a.terms.items():
            if b.const:
                out = combine(out, Lin({t: k * b.const}, 0))
            for s, c in b.terms.items():
                out = combine(out, self.multiply(Lin({t: 1}, 0), Lin({s: 1}, 0)), k * c)
        if a.const:
            out = combine(out, Lin(b.terms, 0), a.const)
        return out

    # Division by a constant

    def floordiv(self, a: Lin, c: int) -> Lin:
        """a // c for a constant c != 0."""
        if c < 0:
            a, c = scale(a, -1), -c
        if c == 1:
            return a
        whole: dict[Atom, int] = {}
        rest: dict[Atom, int] = {}
        for t, k in a.terms.items():
            if k % c == 0:
                whole[t] = k // c
            else:
                rest[t] = k
        q, r = divmod(a.const, c)
        if not rest:
            return Lin(whole, q)
        part = self._floordiv_rest(Lin(rest, r), c)
        return self.merge(combine(Lin(whole, q), part)) if whole else shift(part, q)

    def _floordiv_rest(self, a: Lin, c: int) -> Lin:
        low, high = self.bound(a)
        if low != -inf and high != inf and low // c == high // c:
            return constant(low // c)
        unfolded = self._unfold(a, c)
        if unfolded is not None:
            return self.floordiv(unfolded, c)
        reduced = self._drop_small_part(a, c)
        if reduced is not None:
            g, big, _ = reduced
            return self.floordiv(big, c // g)
        if len(a.terms) == 1:
            ((t, k),) = a.terms.items()
            if k == 1 and t.kind == SPLIT:
                source, lower, upper = t.args
                if upper == 0:
                    return self.floordiv(shift(source, a.const * lower), lower * c)
                if a.const == 0:
                    return Lin({self.atom(SPLIT, source, lower * c, upper): 1}, 0)
        return Lin({self.atom(SPLIT, self.intern(a), c, 0): 1}, 0)

    def _unfold(self, a: Lin, c: int) -> Lin | None:
        """x - x % u as x // u * u, if c divides u."""
        for t, k in a.terms.items():
            if t.kind == SPLIT and t.args[1] == 1 and t.args[2] and t.args[2] * k % c == 0 and len(a.terms) > 1:
                source, _, upper = t.args
                if all([a.terms.get(s) == -k * v for s, v in source.terms.items()]):
                    rest = combine(combine(a, Lin({t: k}, 0), -1), source, k)
                    return combine(rest, self.floordiv(source, upper), -k * upper)
        return None

    def _drop_small_part(self, a: Lin, c: int) -> tuple[int, Lin, Lin] | None:
        """(g, big, small) with a = g * big + small, 0 <= small < g, g | c, g > 1; None if there is no such g."""
        tried = 0
        for g in sorted({gcd(k, c) for k in a.terms.values()}, reverse=True):
            if g == 1 or g == tried:
                continue
            tried = g
            big: dict[Atom, int] = {}
            small: dict[Atom, int] = {}
            for t, k in a.terms.items():
                if k % g:
                    small[t] = k
                else:
                    big[t] = k // g
            rest = Lin(small, a.const % g)
            if small:
                low, high = self.bound(rest)
                if low == -inf or high == inf or low // g != high // g:
                    continue
                m = int(low // g)
                if m:
                    rest = shift(rest, -m * g)
                return g, Lin(big, a.const // g + m), rest
            return g, Lin(big, a.const // g), rest
        return None

    def floormod(self, a: Lin, c: int) -> Lin:
        """a % c for a constant c != 0."""
        if c < 0:
            return scale(self.floormod(scale(a, -1), -c), -1)
        if c == 1:
            return ZERO
        # Coefficients are not reduced modulo c: a // c and a % c must keep a common source, so that they can merge again.
        terms = {t: k for t, k in a.terms.items() if k % c}
        r = a.const % c
        if len(terms) == 1:
            ((t, k),) = terms.items()
            if t.kind == SPLIT:
                source, lower, upper = t.args
                if upper and upper % lower == 0 and k * (upper // lower) % c == 0:
                    # (x % u) // l differs from x // l by a multiple of u // l, which vanishes modulo c
                    return self.floormod(self.merge(shift(scale(self.floordiv(source, lower), k), r)), c)
        if not terms:
            return constant(r)
        return self._floormod_rest(Lin(terms, r), c)

    def _floormod_rest(self, a: Lin, c: int) -> Lin:
        low, high = self.bound(a)
        if low != -inf and high != inf and low // c == high // c:
            return shift(a, -c * int(low // c))
        coeff, base = self.modular(a)
        if coeff % c == 0:
            return constant(base % c)
        unfolded = self._unfold(a, c)
        if unfolded is not None:
            return self.floormod(unfolded, c)
        reduced = self._drop_small_part(a, c)
        if reduced is not None:
            g, big, small = reduced
            return self.merge(combine(scale(self.floormod(big, c // g), g), small))
        if len(a.terms) == 1:
            ((t, k),) = a.terms.items()
            if k == 1 and t.kind == SPLIT and t.args[2] == 0:
                source, lower, _ = t.args
                return self.split(shift(source, a.const * lower), lower, lower * c)
        return Lin({self.atom(SPLIT, self.intern(a), 1, c): 1}, 0)

    def split(self, source: Lin, lower: int, upper: int) -> Lin:
        """(source % upper) // lower; upper 0 stands for no remainder."""
        if upper:
            source = self.floormod(source, upper)
        return self.floordiv(source, lower)

    # Division by a symbol

    def quotient(self, a: Lin, b: Lin) -> Lin:
        """a // b for any b. If b may be 0, the result for b = 0 is arbitrary."""
        if not b.terms:
            return self.floordiv(a, b.const) if b.const else self._symbolic(QUOTIENT, a, b)
        if not a.terms and a.const == 0:
            return ZERO
        if _never_positive(b):
            a, b = scale(a, -1), scale(b, -1)
        whole, rest = self._parts_divisible(a, b)
        if not rest.terms and rest.const == 0:
            return whole
        if self._within(rest, b):
            return whole
        smaller = self._cancel_common(rest, b)
        if smaller is not None:
            return self.merge(combine(whole, self.quotient(*smaller)))
        return combine(whole, self._symbolic(QUOTIENT, rest, b))

    def remainder(self, a: Lin, b: Lin) -> Lin:
        """a % b for any b. If b may be 0, the result for b = 0 is arbitrary."""
        if not b.terms:
            return self.floormod(a, b.const) if b.const else self._symbolic(REMAINDER, a, b)
        if _never_positive(b):
            return scale(self.remainder(scale(a, -1), scale(b, -1)), -1)
        _, rest = self._parts_divisible(a, b)
        if not rest.terms and rest.const == 0:
            return ZERO
        if self._within(rest, b):
            return rest
        return self._symbolic(REMAINDER, rest, b)

    def _symbolic(self, kind: int, a: Lin, b: Lin) -> Lin:
        return Lin({self.atom(kind, self.intern(a), self.intern(b)): 1}, 0)

    def _within(self, a: Lin, b: Lin) -> bool:
        """Whether 0 <= a < b is certain."""
        return self.prove_nonpositive(scale(a, -1)) and self.prove_nonpositive(combine(shift(a, 1), b, -1))

    def _parts_divisible(self, a: Lin, b: Lin) -> tuple[Lin, Lin]:
        """(q, rest) with a = q * b + rest, where q has the terms of a that are multiples of b."""
        kb, fb = self._factors(b)
        if len(b.terms) > 1 or b.const:
            ka = self._multiple_of(a, b)
            if ka:
                return constant(ka), ZERO
        whole, rest = ZERO, {}
        for t, k in a.terms.items():
            q = self._divide_term(t, k, kb, fb)
            if q is None:
                rest[t] = k
            else:
                whole = combine(whole, q)
        return whole, Lin(rest, a.const)

    def _multiple_of(self, a: Lin, b: Lin) -> int:
        """k with a = k * b; 0 if there is no such k."""
        if len(a.terms) != len(b.terms):
            return 0
        t, c = next(iter(b.terms.items()))
        k = a.terms.get(t, 0) // c
        return k if k and a.const == b.const * k and all([a.terms.get(s) == v * k for s, v in b.terms.items()]) else 0

    def _divide_term(self, t: Atom, k: int, kb: int, fb: tuple[Lin, ...]) -> Lin | None:
        if k % kb:
            return None
        have = list(t.args) if t.kind == PRODUCT else [self.intern(Lin({t: 1}, 0))]
        for f in fb:
            for i, x in enumerate(have):
                if x is f:
                    del have[i]
                    break
            else:
                return None
        return scale(self._product(have), k // kb)

    def _product(self, factors: list[Lin]) -> Lin:
        if not factors:
            return ONE
        return factors[0] if len(factors) == 1 else Lin({self.atom(PRODUCT, *factors): 1}, 0)

    def _cancel_common(self, a: Lin, b: Lin) -> tuple[Lin, Lin] | None:
        """(a', b') with a // b = a' // b', for a positive factor of b that divides all of a except a small part."""
        kb, fb = self._factors(b)
        if len(fb) == 1 and kb == 1:
            return None
        for i, f in enumerate(fb):
            if not self.prove_nonpositive(shift(scale(f, -1), 1)):
                continue
            whole, rest = self._parts_divisible(a, f)
            if whole.terms and ((not rest.terms and rest.const == 0) or self._within(rest, f)):
                return whole, scale(self._product([x for j, x in enumerate(fb) if j != i]), kb)
        return None

    # Minima and maxima

    def minimum(self, a: Lin, b: Lin) -> Lin:
        return self._extreme(MINIMUM, a, b)

    def maximum(self, a: Lin, b: Lin) -> Lin:
        return self._extreme(MAXIMUM, a, b)

    def _wins(self, kind: int, a: Lin, b: Lin) -> bool:
        """Whether a is certainly the minimum (or maximum) of the two."""
        return self.prove_nonpositive(combine(a, b, -1) if kind == MINIMUM else combine(b, a, -1))

    def _extreme(self, kind: int, a: Lin, b: Lin) -> Lin:
        if self._wins(kind, a, b):
            return a
        if self._wins(kind, b, a):
            return b
        dual = MAXIMUM if kind == MINIMUM else MINIMUM
        common = {t: k for t, k in a.terms.items() if b.terms.get(t) == k}
        both = Lin(common, a.const if a.const == b.const else 0)
        if a.terms and b.terms and a.const and b.const and not both.const:
            both = Lin(common, min(a.const, b.const, key=abs))
        if both.terms or both.const:
            return self.merge(
                combine(
                    self._extreme(kind, combine(a, both, -1), combine(b, both, -1)),
                    both,
                )
            )
        g = gcd(content(a), content(b))
        if g > 1:
            return scale(self._extreme(kind, divide_exactly(a, g), divide_exactly(b, g)), g)
        if _never_positive(a) and _never_positive(b):
            return scale(self._extreme(dual, scale(a, -1), scale(b, -1)), -1)
        shared = self._shared_factor(a, b)
        if shared is not None:
            factor, x, y = shared
            return self.multiply(factor, self._extreme(kind, x, y))
        operands = list(self._operands(kind, a))
        for x in self._operands(kind, b):
            if any([o is x or self._wins(kind, o, x) for o in operands]):
                continue
            operands = [o for o in operands if not self._wins(kind, x, o)]
            operands.append(x)
        operands = self._absorb(kind, dual, operands)
        if len(operands) == 1:
            return operands[0]
        # Nested to the left with constants last, as `min(min(x, y), 5)`.
        operands.sort(key=lambda x: not x.terms)
        return Lin({self.atom(kind, *operands): 1}, 0)

    def _shared_factor(self, a: Lin, b: Lin) -> tuple[Lin, Lin, Lin] | None:
        """(f, x, y) with a = f * x, b = f * y and a non-negative factor f."""
        if a.const or b.const or len(a.terms) != 1 or len(b.terms) != 1:
            return None
        ((t, k),), ((s, c),) = a.terms.items(), b.terms.items()
        if t.kind != PRODUCT and s.kind != PRODUCT:
            return None
        for f in t.args if t.kind == PRODUCT else (self.intern(Lin({t: 1}, 0)),):
            x, y = self._divide_term(t, k, 1, (f,)), self._divide_term(s, c, 1, (f,))
            if x is not None and y is not None and self.bound(f)[0] >= 0:
                return f, x, y
        return None

    def _operands(self, kind: int, a: Lin) -> tuple[Lin, ...]:
        if len(a.terms) == 1 and a.const == 0:
            ((t, k),) = a.terms.items()
            if k == 1 and t.kind == kind:
                return t.args
        return (self.intern(a),)

    def _absorb(self, kind: int, dual: int, operands: list[Lin]) -> list[Lin]:
        """min(max(x, y), x) -> x."""
        plain = {id(x) for x in operands}
        kept = []
        for x in operands:
            inner = self._operands(dual, x)
            if len(inner) > 1 and any([id(y) in plain for y in inner]):
                continue
            kept.append(x)
        return kept or operands
