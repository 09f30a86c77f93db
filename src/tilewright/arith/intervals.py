"""Sets of integers as symbolic intervals.

An interval is a pair of linear forms; None stands for no end. A variable of the domain map is replaced by the lower
or upper end of its set, depending on the sign of its coefficient. Every other variable is a symbol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, ClassVar, Protocol

from tilewright.arith.linear import (
    LEAF,
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    QUOTIENT,
    REMAINDER,
    SPLIT,
    ZERO,
    Atom,
    Lin,
    OutOfRange,
    combine,
    constant,
    scale,
    shift,
)
from tilewright.arith.simplifier.engine import Engine
from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.ir.dtype import most_lanes
from tilewright.node import Node, any_node
from tilewright.tir.expr import Broadcast, Call, Div, IterVar, Mod, Ramp, Select, Var

_POS_INF = Var("pos_inf", "handle")
_NEG_INF = Var("neg_inf", "handle")


def pos_inf() -> Var:
    """The upper end of an interval that is unbounded above."""
    return _POS_INF


def neg_inf() -> Var:
    """The lower end of an interval that is unbounded below."""
    return _NEG_INF


class IntSet(Node):
    """A set of integers."""

    def is_nothing(self) -> bool:
        """Whether the set is empty."""
        return False

    def is_everything(self) -> bool:
        """Whether the set contains all integers."""
        return False

    @staticmethod
    def vector(vec: PrimExpr) -> IntervalSet:
        """The set of a vector's lanes."""
        return eval_set(vec, {})

    @staticmethod
    def single_point(point: PrimExpr | int) -> IntervalSet:
        """The set {point}."""
        value = as_prim_expr(point)
        return IntervalSet(value, value)

    @staticmethod
    def interval(min_value: PrimExpr | int, max_value: PrimExpr | int) -> IntervalSet:
        """The set [min_value, max_value], with both ends."""
        return IntervalSet(as_prim_expr(min_value), as_prim_expr(max_value))

    @staticmethod
    def from_min_extent(min_value: PrimExpr | int, extent: PrimExpr | int) -> IntervalSet:
        """The set [min_value, min_value + extent - 1]."""
        return interval_of_range(Range.from_min_extent(min_value, extent))

    @staticmethod
    def everything() -> IntervalSet:
        """All integers."""
        return IntervalSet(_NEG_INF, _POS_INF)

    @staticmethod
    def nothing() -> IntervalSet:
        """No integer."""
        return IntervalSet(_POS_INF, _NEG_INF)


class IntervalSet(IntSet, key="arith.IntervalSet"):
    """[min_value, max_value], with both ends; `neg_inf()` and `pos_inf()` stand for no end."""

    min_value: PrimExpr
    max_value: PrimExpr

    NOTHING: ClassVar[str] = "nothing"

    def is_nothing(self) -> bool:
        return self.min_value is _POS_INF or self.max_value is _NEG_INF

    def is_everything(self) -> bool:
        return self.min_value is _NEG_INF and self.max_value is _POS_INF

    def is_single_point(self) -> bool:
        """Whether the set has exactly one value."""
        if self.min_value is self.max_value:
            return True
        low, high = self.min_value, self.max_value
        return isinstance(low, IntImm) and isinstance(high, IntImm) and low.value == high.value

    def point_value(self) -> PrimExpr:
        """The value of a single point."""
        return self.min_value

    def has_lower_bound(self) -> bool:
        return self.min_value is not _NEG_INF and not self.is_nothing()

    def has_upper_bound(self) -> bool:
        return self.max_value is not _POS_INF and not self.is_nothing()

    def cover_range(self, default: Range) -> Range:
        """The set as a range; `default` if an end is open."""
        if not (self.has_lower_bound() and self.has_upper_bound()):
            return default
        return Range.from_min_extent(self.min_value, self.max_value - self.min_value + 1)


def interval_of_range(domain: Range) -> IntervalSet:
    """[min, min + extent - 1]."""
    return IntervalSet(domain.min, domain.min + domain.extent - 1)


Interval = tuple["Lin | None", "Lin | None"]


class Evaluator:
    """Intervals of expressions over a domain map."""

    def __init__(self, domains: Mapping[Var, IntervalSet | Range], engine: Engine) -> None:
        self.engine = engine
        self.domains: dict[int, Any] = {}
        for var, domain in domains.items():
            self.domains[id(var.var if isinstance(var, IterVar) else var)] = domain
        self._touch: dict[Atom, bool] = {}
        self._memo: dict[Atom, Interval] = {}
        self._active: set[int] = set()

    def expr(self, node: PrimExpr) -> Interval:
        if node is _POS_INF or node is _NEG_INF:
            return None, None
        return self.form(self.engine.lin(node))

    def form(self, a: Lin) -> Interval:
        """The interval of a form. The sign of each coefficient selects the end of its atom."""
        low: Lin | None = constant(a.const)
        high: Lin | None = low
        whole = True
        for t, k in a.terms.items():
            if not self.touched(t):
                whole = whole and True
                term = Lin({t: k}, 0)
                low = None if low is None else combine(low, term)
                high = None if high is None else combine(high, term)
                continue
            whole = False
            first, second = self.atom(t)
            if k < 0:
                first, second = second, first
            low = None if low is None or first is None else combine(low, first, k)
            high = None if high is None or second is None else combine(high, second, k)
        if whole:
            return a, a
        merge = self.engine.merge
        return None if low is None else merge(low), None if high is None else merge(high)

    def touched(self, t: Atom) -> bool:
        """Whether the atom depends on a variable of the domain map."""
        found = self._touch.get(t)
        if found is None:
            if t.kind == LEAF:
                found = self._node_touched(t.leaf)
            else:
                found = any([self.touched(s) for a in t.args if isinstance(a, Lin) for s in a.terms])
            self._touch[t] = found
        return found

    def form_touched(self, a: Lin) -> bool:
        """Whether the form depends on a variable of the domain map."""
        return any([self.touched(t) for t in a.terms])

    def _node_touched(self, node: Any) -> bool:
        if isinstance(node, Var):
            return id(node) in self.domains
        return any_node(node, lambda x: id(x) in self.domains)

    def atom(self, t: Atom) -> Interval:
        found = self._memo.get(t)
        if found is None:
            found = self._memo[t] = self._atom(t)
        return found

    def _atom(self, t: Atom) -> Interval:
        kind, args, engine = t.kind, t.args, self.engine
        if kind == LEAF:
            return self._leaf(t)
        if kind == PRODUCT:
            return self._product(args)
        low, high = self.form(args[0])
        if kind in (MINIMUM, MAXIMUM):
            pick = engine.minimum if kind == MINIMUM else engine.maximum
            for x in args[1:]:
                first, second = self.form(x)
                if kind == MINIMUM:
                    low = None if low is None or first is None else pick(low, first)
                    high = second if high is None else high if second is None else pick(high, second)
                else:
                    low = first if low is None else low if first is None else pick(low, first)
                    high = None if high is None or second is None else pick(high, second)
            return low, high
        if kind == SPLIT:
            return self._split(low, high, args[1], args[2])
        if kind == QUOTIENT and not any([self.touched(s) for s in args[1].terms]) and engine.bound(args[1])[0] > 0:
            return None if low is None else engine.quotient(low, args[1]), None if high is None else engine.quotient(
                high, args[1]
            )
        if kind == REMAINDER:
            sign = engine.bound(args[1])
            if sign[0] > 0:
                top = self.form(args[1])[1]
                return ZERO, None if top is None else shift(top, -1)
            if sign[1] < 0:
                bottom = self.form(args[1])[0]
                return None if bottom is None else shift(bottom, 1), ZERO
        return self._constant_ends(t)

    def _split(self, low: Lin | None, high: Lin | None, lower: int, upper: int) -> Interval:
        engine = self.engine
        if upper:
            if low is not None and high is not None:
                # Both ends have the same quotient, so the remainder follows the source.
                q = engine.merge(combine(engine.floordiv(high, upper), engine.floordiv(low, upper), -1))
                if not q.terms and q.const == 0:
                    return engine.split(low, lower, upper), engine.split(high, lower, upper)
            return ZERO, constant((upper - 1) // lower)
        return None if low is None else engine.floordiv(low, lower), None if high is None else engine.floordiv(
            high, lower
        )

    def _product(self, args: tuple[Lin, ...]) -> Interval:
        fixed = [x for x in args if not any([self.touched(s) for s in x.terms])]
        moving = [x for x in args if any([self.touched(s) for s in x.terms])]
        engine = self.engine
        ends = [self.form(x) for x in moving]
        if len(moving) == 1 or all([low is not None and engine.bound(low)[0] >= 0 for low, _ in ends]):
            low, high = ends[0]
            for first, second in ends[1:]:
                low = None if low is None or first is None else engine.multiply(low, first)
                high = None if high is None or second is None else engine.multiply(high, second)
            factor = constant(1)
            for x in fixed:
                factor = engine.multiply(factor, x)
            bound = engine.bound(factor)
            if low is None or high is None:
                if bound[0] < 0 < bound[1]:
                    return None, None
                if bound[0] < 0:
                    low, high = high, low
                return None if low is None else engine.multiply(low, factor), None if high is None else engine.multiply(
                    high, factor
                )
            first, second = engine.merge(engine.multiply(low, factor)), engine.merge(engine.multiply(high, factor))
            if bound[0] >= 0:
                return first, second
            return (second, first) if bound[1] <= 0 else (engine.minimum(first, second), engine.maximum(first, second))
        return None, None

    def _leaf(self, t: Atom) -> Interval:
        node: Any = t.leaf
        if isinstance(node, Var):
            if id(node) in self._active:
                return Lin({t: 1}, 0), Lin({t: 1}, 0)
            domain = self.domains[id(node)]
            if isinstance(domain, Range):
                domain = interval_of_range(domain)
            self._active.add(id(node))
            # The set of a variable may contain other variables of the map.
            low = None if domain.min_value is _NEG_INF else self.expr(domain.min_value)[0]
            high = None if domain.max_value is _POS_INF else self.expr(domain.max_value)[1]
            self._active.discard(id(node))
            return low, high
        if isinstance(node, Select):
            return self._union(node.true_value, node.false_value)
        if isinstance(node, (Div, Mod)) and isinstance(node.b, IntImm) and node.b.value > 0:
            return self._truncated(type(node), *self.expr(node.a), node.b.value, t)
        if isinstance(node, Call) and getattr(node.op, "name", "") == "tir.if_then_else":
            return self._union(node.args[1], node.args[2])
        return self._constant_ends(t)

    def _truncated(self, kind: type, low: Lin | None, high: Lin | None, divisor: int, t: Atom) -> Interval:
        engine = self.engine
        if kind is Div:
            # Rounding towards zero is monotonic.
            try:
                first, second = (
                    None if e is None else engine.truncated(Div, e, constant(divisor), t.leaf.dtype)  # type: ignore[union-attr]
                    for e in (low, high)
                )
            except OutOfRange:
                return self._constant_ends(t)
            return first, second
        least = low is not None and engine.prove_nonpositive(scale(low, -1))
        most = high is not None and engine.prove_nonpositive(high)
        return ZERO if least else constant(1 - divisor), ZERO if most else constant(divisor - 1)

    def _union(self, a: PrimExpr, b: PrimExpr) -> Interval:
        (low, high), (first, second) = self.expr(a), self.expr(b)
        engine = self.engine
        return (
            None if low is None or first is None else engine.minimum(low, first),
            None if high is None or second is None else engine.maximum(high, second),
        )

    def _constant_ends(self, t: Atom) -> Interval:
        low, high = self.engine.atom_bound(t)
        return None if low == -inf else constant(int(low)), None if high == inf else constant(int(high))


def as_set(found: Interval, dtype: str, engine: Engine) -> IntervalSet:
    def end(form: Lin | None, otherwise: Var) -> PrimExpr:
        """The end as an expression, or no end if its type cannot hold it."""
        try:
            return otherwise if form is None else engine.emit(form, dtype)
        except OutOfRange:
            return otherwise

    return IntervalSet(end(found[0], _NEG_INF), end(found[1], _POS_INF))


class HasEngine(Protocol):
    """An Analyzer, or another object with an engine that holds the facts about variables."""

    engine: Engine


def _engine(analyzer: HasEngine | None) -> Engine:
    return Engine() if analyzer is None else analyzer.engine


def eval_set(
    expr: PrimExpr | int, dom_map: Mapping[Var, IntervalSet | Range], analyzer: HasEngine | None = None
) -> IntervalSet:
    """The interval of `expr` while each variable (Var or IterVar) of `dom_map` runs over its Range or IntSet."""
    return _evaluated(as_prim_expr(expr), dom_map, _engine(analyzer))


def _evaluated(expr: PrimExpr, dom_map: Mapping[Var, IntervalSet | Range], engine: Engine) -> IntervalSet:
    if isinstance(expr, Broadcast):
        return _evaluated(expr.value, dom_map, engine)
    if isinstance(expr, Ramp):
        first = _evaluated(expr.base, dom_map, engine)
        last = _evaluated(expr.base + expr.stride * (most_lanes(expr.lanes) - 1), dom_map, engine)
        return _united([first, last], engine)
    if not engine.is_index(expr):
        simple = engine.simp(expr)
        low, high = engine.node_bound(simple)
        if Evaluator(dom_map, engine)._node_touched(simple) and not isinstance(simple, Var):
            return IntervalSet(
                _NEG_INF if low == -inf else IntImm(expr.dtype, int(low)),
                _POS_INF if high == inf else IntImm(expr.dtype, int(high)),
            )
        return IntervalSet(simple, simple)
    return as_set(Evaluator(dom_map, engine).expr(expr), expr.dtype, engine)


def _ends(sets: Sequence[Any], engine: Engine) -> list[tuple[Interval, str]]:
    out = []
    for s in sets:
        s = interval_of_range(s) if isinstance(s, Range) else s
        low = None if s.min_value is _NEG_INF else engine.lin(s.min_value)
        high = None if s.max_value is _POS_INF else engine.lin(s.max_value)
        dtype = s.min_value.dtype if low is not None else s.max_value.dtype if high is not None else "int32"
        out.append(((low, high), dtype))
    return out


def union(sets: Sequence[IntSet | Range], analyzer: HasEngine | None = None) -> IntervalSet:
    """The smallest interval around all sets."""
    return _united(sets, _engine(analyzer))


def _united(sets: Sequence[IntSet | Range], engine: Engine) -> IntervalSet:
    ends = _ends([s for s in sets if isinstance(s, Range) or not s.is_nothing()], engine)
    if not ends:
        return IntSet.nothing()
    (low, high), dtype = ends[0]
    for (first, second), _ in ends[1:]:
        low = None if low is None or first is None else engine.minimum(low, first)
        high = None if high is None or second is None else engine.maximum(high, second)
    return as_set((low, high), dtype, engine)


def union_lower_bound(sets: Sequence[IntSet | Range]) -> IntervalSet:
    """An interval with all its values in the sets: the union of sets that touch each other, starting from the first."""
    engine = Engine()
    ends = _ends([s for s in sets if isinstance(s, Range) or not s.is_nothing()], engine)
    if not ends:
        return IntSet.nothing()
    left = [e for (e, _) in ends]
    dtype = ends[0][1]

    def reaches(a: Lin | None, b: Lin | None, gap: int) -> bool:
        """Whether b <= a + gap is certain, for an upper end a and a lower end b."""
        return a is None or b is None or engine.prove_nonpositive(shift(combine(b, a, -1), -gap))

    low, high = left.pop(0)
    grown = True
    while grown:
        grown = False
        for other in left:
            if reaches(high, other[0], 1) and reaches(other[1], low, 1):
                low = None if low is None or other[0] is None else engine.minimum(low, other[0])
                high = None if high is None or other[1] is None else engine.maximum(high, other[1])
                left.remove(other)
                grown = True
                break
    return as_set((low, high), dtype, engine)


def intersect(sets: Sequence[IntSet | Range], analyzer: HasEngine | None = None) -> IntervalSet:
    """The values in all sets; `nothing` if there certainly are none."""
    engine = _engine(analyzer)
    if any([not isinstance(s, Range) and s.is_nothing() for s in sets]):
        return IntSet.nothing()
    (low, high), dtype = _ends(sets[:1], engine)[0]
    for (first, second), _ in _ends(sets[1:], engine):
        low = first if low is None else low if first is None else engine.maximum(low, first)
        high = second if high is None else high if second is None else engine.minimum(high, second)
    if low is not None and high is not None and engine.prove_nonpositive(combine(shift(high, 1), low, -1)):
        return IntSet.nothing()
    return as_set((low, high), dtype, engine)
