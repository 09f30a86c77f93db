"""Merging of conditions on one linear form: `x < 5 and x < 7`, `x == 1 and x != 2`, `x < y or x == y`, ...

All comparisons of forms with the same terms (up to sign and constant) bound one quantity, the direction. Under `and`
they form an interval with holes; under `or` their negations do.
"""

from __future__ import annotations

from math import gcd, inf
from typing import TYPE_CHECKING, Any

from tilewright.arith.const_bounds import Modular, crt
from tilewright.arith.linear import SPLIT, Atom, Lin, scale, shift

if TYPE_CHECKING:
    from tilewright.arith.simplifier.logic import Logic
    from tilewright.ir import PrimExpr

NONPOSITIVE, ZERO_FORM, NONZERO = "<=0", "==0", "!=0"
BELOW, ABOVE, EQUAL, UNLIKE = range(4)

_NEGATED = {BELOW: ABOVE, ABOVE: BELOW, EQUAL: UNLIKE, UNLIKE: EQUAL}


class _Direction:
    """An interval with holes, and the conditions that define it."""

    def __init__(self, terms: dict[Atom, int], dtype: str) -> None:
        self.form, self.dtype = Lin(terms, 0), dtype
        self.low: Any = -inf
        self.high: Any = inf
        self.holes: set[int] = set()
        self.members: dict[tuple[int, int], PrimExpr] = {}
        self.places: list[int] = []

    def add(self, place: int, kind: int, value: int, node: PrimExpr) -> None:
        self.places.append(place)
        self.members.setdefault((kind, value), node)
        if kind in (BELOW, EQUAL):
            self.high = min(self.high, value)
        if kind in (ABOVE, EQUAL):
            self.low = max(self.low, value)
        if kind == UNLIKE:
            self.holes.add(value)

    def settled(self) -> list[tuple[int, int]] | None:
        """The smallest equivalent set of bounds; None if they contradict each other."""
        while self.low in self.holes:
            self.low += 1
        while self.high in self.holes:
            self.high -= 1
        if self.low > self.high:
            return None
        if self.low == self.high:
            return [(EQUAL, self.low)]
        ends = [(kind, v) for kind, v in ((ABOVE, self.low), (BELOW, self.high)) if v not in (inf, -inf)]
        return [
            *ends,
            *[(UNLIKE, v) for v in sorted(self.holes) if self.low < v < self.high],
        ]


def combine(logic: Logic, conditions: list[PrimExpr], conjunction: bool) -> list[PrimExpr] | None:
    """The conditions, merged by direction; None if they contradict each other (or, under `or`, cover all values)."""
    found: dict[Any, _Direction] = {}
    repeated = False
    for place, c in enumerate(conditions):
        form = logic._form_of.get(id(c))
        if form is None:
            continue
        kind, d, dtype = form
        sign = 1 if min(d.terms.items(), key=lambda item: id(item[0]))[1] > 0 else -1
        terms = d.terms if sign > 0 else {t: -k for t, k in d.terms.items()}
        key = (frozenset(terms.items()), dtype)
        direction = found.get(key)
        if direction is None:
            direction = found[key] = _Direction(terms, dtype)
        else:
            repeated = True
        value = -d.const * sign
        side = {ZERO_FORM: EQUAL, NONZERO: UNLIKE}.get(kind, BELOW if sign > 0 else ABOVE)
        if not conjunction:
            value += (side == BELOW) - (side == ABOVE)
            side = _NEGATED[side]
        direction.add(place, side, value, c)
    out: list[PrimExpr | None] = list(conditions)
    for direction in found.values() if repeated else ():
        if len(direction.places) < 2:
            continue
        settled = direction.settled()
        if settled is None:
            return None
        if len(settled) == len(direction.places):
            continue
        nodes = [
            direction.members[b] if b in direction.members else _node(logic, direction, b, conjunction) for b in settled
        ]
        for place in direction.places:
            out[place] = nodes.pop(0) if nodes else None
    kept = [c for c in out if c is not None]
    return _remainders(logic, kept) if conjunction else kept


def _node(logic: Logic, direction: _Direction, bound: tuple[int, int], conjunction: bool) -> PrimExpr:
    kind, value = bound
    if not conjunction:
        value += (kind == BELOW) - (kind == ABOVE)
        kind = _NEGATED[kind]
    d = shift(direction.form, -value)
    if kind in (EQUAL, UNLIKE):
        node = logic.zero(d, direction.dtype)
        return node if kind == EQUAL else logic.negate(node)
    return logic.nonpositive(d if kind == BELOW else scale(d, -1), direction.dtype)


def _remainders(logic: Logic, conditions: list[PrimExpr]) -> list[PrimExpr] | None:
    """x % 4 == 0 && x % 2 == 0 -> x % 4 == 0; None for a contradiction."""
    known: dict[int, list[tuple[Modular, int]]] = {}
    dropped: set[int] = set()
    for place, c in enumerate(conditions):
        form = logic._form_of.get(id(c))
        if form is None or form[0] != ZERO_FORM or len(form[1].terms) != 1:
            continue
        ((t, k),) = form[1].terms.items()
        if t.kind != SPLIT or t.args[1] != 1 or not t.args[2] or abs(k) != 1:
            continue
        here: Modular = (t.args[2], -form[1].const * k % t.args[2])
        for other, at in known.setdefault(id(t.args[0]), []):
            if crt(here, other) is None:
                return None
            if at not in dropped and other[0] % here[0] == 0:
                dropped.add(place)
            elif here[0] % other[0] == 0 and gcd(here[0], other[0]) == other[0]:
                dropped.add(at)
        known[id(t.args[0])].append((here, place))
    return [c for i, c in enumerate(conditions) if i not in dropped] if dropped else conditions
